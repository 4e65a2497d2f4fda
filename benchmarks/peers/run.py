"""Beside the peers: ``python benchmarks/peers/run.py [--quick] [--tables 1,2] [--write docs/evidence/peers.md]``

1 prevalence error, two classes; 2 five classes; 3 many and tiny groups; 4 coverage of intervals; 5 log loss of the
predictions; 6 cost. A table that is done is kept in build/peers/ and taken from there as long as the code of fieldcal
and of the table, the versions and the number of replicas are the same; so an interrupted run goes on where it was.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # One core for everybody, set before numpy is loaded; modules come from the root, not from the folder of this file.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[2])
    from benchmarks.peers.command import main

    main(description=__doc__)
