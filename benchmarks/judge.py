"""True shares from a judge's verdicts and a few human labels: ``python benchmarks/judge.py [FOLDER…] [--only pairs]``

simulated  1,000 rows, 100 labels at random or 50 of each class: judges of sensitivity and specificity .6 to .97, shares
           .05 to .9; verdicts, ratings 1 to 5, and ten slices in each of which the judge is another
real       the same with scores of real classifiers, cut into verdicts; the folders hold parquet files as for
           ``benchmarks/truth.py``
slices     thirty slices of sixty rows, 100 to 300 labels in all
pairs      two systems on the same items
rates      a test of published sensitivity and specificity

Labels by class are rows in question as far as there are enough of the class, then further rows of the same
population. The truth is the rate that the rows were drawn from. Beside fieldcal: every estimator of truescore, judgy,
ppi-python and GLIDE that takes such data, each as it documents itself; one that gives no answer does not cover. Every
part ends with its bars, met or MISSED. The peers are in ``pip install -r benchmarks/peers/requirements.txt -e .``;
GLIDE (glide-py) needs Python 3.12, and takes part where it is installed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # One core for each process, set before numpy is loaded; modules come from the root, not from this folder.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from benchmarks.judges.command import main

    main(description=__doc__)
