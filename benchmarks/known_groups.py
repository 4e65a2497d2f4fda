"""Groups that lab and field share, without field labels: ``python benchmarks/known_groups.py FOLDER… [--peers]``

Folders hold score files (see ``benchmarks/score_files.py``). The lab is learned with its groups, the field is counted
with its groups, and the field's labels are used for measuring only. Kinds of files, by name:

synthetic  ``SYN_*`` and ``letter_*``: label shift holds by construction
later      ``*__later*``: the groups of the lab at a later time
moved      ``*__lab_*``: lab and field are different populations, most groups of the field are new
random     all others: lab and field rows drawn alike

Per file and method: change of log loss by recalibration (predictions clipped at 1e-6; negative is better); over groups
with at least 50 field rows the mean absolute error of the estimated share, and the mean width and the coverage of the
90 % intervals; seconds of processor time from learning to the estimate. Of two classes only the second is measured.

``--peers`` adds, on binary files, what a user could do instead: a multilevel model of the lab labels by group without
label shift, MCGrad with the group as a feature (``pip install mcgrad``; left out where it is not installed), and the
logistic calibration of the lab without groups.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core, set before numpy is loaded; modules come from the root, not from this folder.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from benchmarks.field_model.group_peers import PEERS, has_mcgrad
from benchmarks.field_model.output import save, show
from benchmarks.score_files import Data, log_loss, read

import fieldcal

KINDS = ("random", "later", "moved", "synthetic")
SMALLEST = 50  # field rows of a group whose share is measured
CLIP = 1e-6
Record = dict[str, Any]


def kind_of(name: str) -> str:
    if name.startswith(("SYN_", "letter_")):
        return "synthetic"
    if "__later" in name:
        return "later"
    return "moved" if "__lab_" in name else "random"


def clipped(proba: np.ndarray) -> np.ndarray:
    proba = np.clip(proba, CLIP, 1 - CLIP)
    return proba / proba.sum(axis=1, keepdims=True)


def loaded(path: Path) -> Data:
    """The file with predictions inside (0, 1) and groups as text."""
    data = read(path)
    names = (data.groups_lab.astype(str), data.groups.astype(str))
    return Data(clipped(data.proba_lab), data.y_lab, names[0], clipped(data.proba), data.y, names[1])


def asked(values: np.ndarray) -> np.ndarray:
    """Of two classes the second alone."""
    return values[..., 1:] if values.shape[-1] == 2 else values


class Question:
    """A file, the true shares of its groups, and what all methods have in common."""

    def __init__(self, path: Path) -> None:
        self.data = loaded(path)
        self.n_classes = self.data.proba.shape[1]
        self.names, self.place = np.unique(self.data.groups, return_inverse=True)
        self.truth = self.by_group(np.eye(self.n_classes)[self.data.y])
        self.large = np.bincount(self.place) >= SMALLEST
        self.raw = log_loss(self.data.proba, self.data.y, CLIP)
        known = np.isin(self.names, self.data.groups_lab)
        self.about: Record = {
            "file": path.stem,
            "kind": kind_of(path.stem),
            "classes": self.n_classes,
            "lab_rows": len(self.data.y_lab),
            "field_rows": len(self.data.y),
            "groups": len(self.names),
            "known": int(known.sum()),
            "measured": int(self.large.sum()),
            "raw": self.raw,
        }

    def by_group(self, rows: np.ndarray) -> np.ndarray:
        """Mean of the rows of each group."""
        total = np.zeros((len(self.names), rows.shape[1]))
        np.add.at(total, self.place, rows)
        return total / np.bincount(self.place)[:, None]

    def change(self, new: np.ndarray) -> float:
        return log_loss(new, self.data.y, CLIP) - self.raw

    def error(self, estimate: np.ndarray) -> float:
        return float(asked(np.abs(estimate - self.truth))[self.large].mean())


def ours(question: Question) -> Record:
    """fieldcal with its defaults."""
    data, start = question.data, time.process_time()
    lab = fieldcal.learn(
        data.proba_lab, data.y_lab, groups=data.groups_lab, classes=range(question.n_classes)
    )
    field = fieldcal.count(lab, data.proba, groups=data.groups)
    counted = time.process_time()
    prev = fieldcal.estimate(lab, field)
    end = time.process_time()
    new = np.asarray(fieldcal.recalibrate(prev, data.proba, groups=data.groups))
    order = [prev.groups.index(name) for name in question.names]
    estimate, lower, upper = (np.asarray(part)[order] for part in (prev.estimate, prev.lower, prev.upper))
    held = (lower <= question.truth + 1e-12) & (question.truth <= upper + 1e-12)
    return {
        "change": question.change(new),
        "error": question.error(estimate),
        "width": float(asked(upper - lower)[question.large].mean()),
        "covered": float(asked(held)[question.large].mean()),
        "seconds": end - start,
        "estimate_seconds": end - counted,
        "trust_between": prev.trust_between,
        "trust_overall": prev.trust_overall,
        "verdict": prev.verdict.level,
    }


def peer(question: Question, method: Callable[..., np.ndarray]) -> Record:
    """A method that returns new predictions of two classes; its share of a group is their mean."""
    data, start = question.data, time.process_time()
    one = method(data.proba_lab[:, 1], data.y_lab, data.groups_lab, data.proba[:, 1], data.groups)
    seconds, new = time.process_time() - start, np.column_stack([1 - one, one])
    return {
        "change": question.change(new),
        "error": question.error(question.by_group(new)),
        "seconds": seconds,
    }


def measure(path: Path, methods: Iterable[str]) -> Iterator[Record]:
    """A record for each method; nothing for a file in which no group is large enough."""
    question = Question(path)
    if not question.large.any():
        return
    yield question.about | {"method": "fieldcal"} | ours(question)
    raw = {"change": 0.0, "error": question.error(question.by_group(question.data.proba))}
    yield question.about | {"method": "model as it is"} | raw
    for name in methods if question.n_classes == 2 else ():
        yield question.about | {"method": name} | peer(question, PEERS[name])


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """A row for each kind and method; sums and means over files."""
    kinds = pd.Categorical(frame.kind, KINDS)
    by = frame.assign(kind=kinds).groupby(["kind", "method"], observed=True, sort=True)
    return by.agg(
        files=("file", "size"),
        change=("change", "sum"),
        worst=("change", "max"),
        error=("error", "mean"),
        width=("width", "mean"),
        covered=("covered", "mean"),
        seconds=("seconds", "mean"),
        slowest=("seconds", "max"),
        trust=("trust_between", "mean"),
    ).reset_index()


def report(frame: pd.DataFrame) -> None:
    columns = ["file", "kind", "classes", "known", "change", "error", "width", "covered", "seconds"]
    each = frame[frame.method == "fieldcal"].assign(trust=frame.trust_between)
    show("fieldcal, each file", each[[*columns, "trust"]], {"change": 4})
    digits = {"change": 4, "worst": 4, "seconds": 1, "slowest": 1}
    show("All files", summary(frame), digits)
    show("Files of two classes", summary(frame[frame.classes == 2]), digits)


def main(argv: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--peers", action="store_true", help="other methods beside it, on binary files")
    parser.add_argument("--csv", type=Path, help="write a row for each file and method here")
    options = parser.parse_args(None if argv is None else list(argv))
    warnings.simplefilter("ignore")
    methods = [name for name in PEERS if options.peers and (name != "MCGrad" or has_mcgrad())]
    if options.peers and not has_mcgrad():
        print("MCGrad is not installed, and left out: pip install mcgrad")
    records: list[Record] = []
    for path in sorted(path for folder in options.folders for path in folder.glob("*.parquet")):
        found = list(measure(path, methods))
        for record in found:
            print(
                f"{record['file'][:44]:44} {record['method']:20} {record['change']:+.4f} {record['error']:.3f}",
                flush=True,
            )
        records += found
    report(save(records, options.csv))


if __name__ == "__main__":
    main()
