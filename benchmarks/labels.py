"""What a few labelled field rows are worth: ``python benchmarks/labels.py FOLDER… [--replicas 20] [--only one]``

Folders hold parquet files as for ``benchmarks/truth.py``: ``split`` ("dev" is the lab, the rest the field), ``group``,
``y`` (class index), ``p_<class>``; names that start with ``SYN`` or ``letter`` obey label shift by construction
(*consistent*), of the others those with ``random`` have lab and field rows drawn alike, and the rest *moved*. Of the
field's labels a few are given away, drawn anew in every replica; all of them say afterwards what came of it.

one      one population, 30 / 100 / 300 random labels: error, intervals, log loss, beside the labels alone and PPI++
designs  labels chosen by class, and rows picked by the plan
groups   300 labels over the groups of a field
verdict  100 labels on the questions of ``benchmarks/truth.py``
speed    1,000 groups with 10,000 labels, over the same without labels

Every section ends with its bars, met or MISSED. PPI++ is that of the package ppi-python, in its own environment:
``pip install -r benchmarks/peers/requirements.txt -e .``
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    # One core for each process, set before numpy is loaded; modules come from the root, not from this folder.
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(name, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])
    from benchmarks.few_labels.command import main

    main(description=__doc__)
