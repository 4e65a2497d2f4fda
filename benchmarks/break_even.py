"""Break-even of conclusions about shares, on real files: ``python benchmarks/break_even.py FOLDER…``

Folders hold score files (see ``benchmarks/score_files.py``); kinds of files are those of
``benchmarks/known_groups.py``. The lab is learned with its groups, the field is counted with its groups, and labels of
the field are used for measuring only. Conclusions are those of the estimate: the share of a class in a group of at
least 200 field rows, or in the whole field, is above or below that of the lab, and in one group above that in another.
Of two classes only the second is measured, of more each.

Per conclusion: its break-even, whether it is right, and the violation, the share of rows that are scored differently
than in the lab, measured with the labels: as it is in these rows (*realised*: no wrong conclusion can have a break-even
above it) and less what noise makes of it. The same for the other hypothesis: the share of rows whose class differs from
that of such predictions.

``--table`` prints the reference table that fieldcal ships (``core/break_even.py``). In the table by reference, the
violations that a break-even is compared with are those of files from other sources (the part of a file's name before
the first ``-`` or ``_``, without the number of classes).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core, set before numpy is loaded; modules come from the root, not from this folder.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from benchmarks.field_model.output import save, show
from benchmarks.known_groups import kind_of, loaded

import fieldcal
from fieldcal.core import break_even as core
from fieldcal.objects.prevalence_table import shown_class

SMALLEST = 200  # field rows of a group
CLEAR = 0.03  # true difference from which a conclusion is clearly right or wrong
MOST_COMPARED = 10  # groups of a file that are compared with each other: the largest
BANDS = (-1.0, 0.0, 0.02, 0.05, 0.1, 0.2, 1.0)
NAMES = ("0", "to .02", ".02 to .05", ".05 to .1", ".1 to .2", "above .2")
Record = dict[str, Any]


def source_of(name: str) -> str:
    """The table that a file is from: files of fewer classes have a number behind its name."""
    return name.removeprefix("SYN_").replace("_", "-").split("-")[0].lower().rstrip("0123456789")


class Case:
    """A file with its estimate, and what its labels show."""

    def __init__(self, path: Path) -> None:
        data = loaded(path)
        K = data.proba.shape[1]
        lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab, classes=range(K))
        self.prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba, groups=data.groups))
        places = {g: i for i, g in enumerate(self.prev.groups)}
        at, bins = np.array([places[g] for g in data.groups]), lab.partition.assign(data.proba)
        H = np.zeros((len(places), K, lab.n_bins))
        np.add.at(H, (at, data.y, bins), 1)
        S = np.zeros((len(places), lab.n_bins, K))  # labels less predictions
        np.add.at(S, (at, bins), np.eye(K)[data.y] - data.proba)
        # The last is the whole field.
        self.H, self.S = np.concatenate([H, H.sum(0)[None]]), np.concatenate([S, S.sum(0)[None]])
        self.n = self.H.sum(axis=(1, 2))
        self.truth = self.H.sum(axis=2) / self.n[:, None]
        self.classes = [1] if K == 2 else list(range(K))
        self.beyond_noise = core.violations(self.H, lab.A)
        within = self.H / np.maximum(self.H.sum(axis=2, keepdims=True), 1)
        self.realised = (self.truth * 0.5 * np.abs(within - lab.M).sum(axis=2)).sum(axis=1)
        self.of_classes = 0.5 * np.abs(self.S).sum(axis=(1, 2)) / self.n
        self.large = np.flatnonzero(self.n[:-1] >= SMALLEST)
        self.about: Record = {
            "file": path.stem,
            "source": source_of(path.stem),
            "kind": kind_of(path.stem),
            "classes": K,
        }

    def against_lab(self) -> Iterator[Record]:
        used = {*self.large.tolist(), len(self.n) - 1}
        for k in self.classes:
            found = self.prev.break_even(of=self.prev.classes[k])
            for g in sorted(used):
                c, above = float(found.threshold[g]), bool(found.above[g])
                true = self.truth[g, k] - c
                yield {
                    **self._numbers(found, g, np.array([g])),
                    "scope": "whole field" if g == len(self.n) - 1 else "group",
                    "class": k,
                    "right": above == (true > 0),
                    "right_mean": (self._mean(g, k) > c) == (true > 0),
                    "by_mean": abs(self._mean(g, k) - c),
                    "clear": abs(true) > CLEAR,
                }

    def contrasts(self) -> Iterator[Record]:
        largest = self.large[np.argsort(-self.n[self.large], kind="stable")[:MOST_COMPARED]]
        for k in self.classes if len(self.classes) == 1 else [shown_class(self.prev)]:
            for a, b in combinations(sorted(largest.tolist()), 2):
                named = (self.prev.groups[a], self.prev.groups[b])
                found = self.prev.break_even(contrast=named, of=self.prev.classes[k])
                true = self.truth[a, k] - self.truth[b, k]
                mean = self._mean(a, k) - self._mean(b, k)
                yield {
                    **self._numbers(found, 0, np.array([a, b])),
                    "scope": "contrast",
                    "class": k,
                    "right": bool(found.above[0]) == (true > 0),
                    "right_mean": (mean > 0) == (true > 0),
                    "by_mean": abs(mean) / 2,
                    "clear": abs(true) > CLEAR,
                }

    def _mean(self, g: int, k: int) -> float:
        whole = g == len(self.n) - 1
        return float((self.prev.whole.mean_prediction if whole else self.prev.mean_prediction[g])[k])

    def _numbers(self, found: Any, i: int, at: np.ndarray) -> Record:
        return {
            **self.about,
            "group": "" if len(at) > 1 else int(at[0]),
            "n": float(self.n[at].min()),
            "break_even": float(found.rows[i]),
            "lower": float(found.lower[i]),
            "misfit": float(found.misfit[i]),
            "violation": float(self.beyond_noise[at].max()),
            "realised": float(self.realised[at].max()),
            "of_classes": float(self.of_classes[at].max()),
        }


def by_band(frame: pd.DataFrame, column: str, right: str, violation: str) -> pd.DataFrame:
    """Conclusions, how many are right, and wrong ones above the violation, by band of the break-even."""
    band = pd.cut(frame[column], BANDS, labels=NAMES)
    wrong = ~frame[right].astype(bool)
    made = frame.assign(
        band=band,
        wrong=wrong,
        above_realised=wrong & (frame[column] > frame[violation] + 1e-9),
        above_violation=wrong & (frame[column] > frame["violation"]),
        lower_above=wrong & (frame["lower"] > frame["violation"]),
    )
    columns = {name: (name, "sum") for name in ("wrong", "above_realised", "above_violation", "lower_above")}
    if column != "break_even":
        columns = {name: columns[name] for name in ("wrong", "above_realised")}
    table = made.groupby("band", observed=False).agg(
        conclusions=("wrong", "size"), right=(right, "mean"), **columns
    )
    total = {"conclusions": len(made), "right": made[right].mean(), **{n: made[n].sum() for n in columns}}
    return pd.concat([table, pd.DataFrame(total, index=["all"])]).rename_axis("break-even").reset_index()


def by_reference(frame: pd.DataFrame) -> pd.DataFrame:
    """How many conclusions are right, by the share of groups of other sources with a smaller violation."""
    groups = frame[(frame.scope == "group") & (frame.kind != "synthetic")].drop_duplicates(["file", "group"])
    below = np.zeros(len(frame))
    for source in frame.source.unique():
        others = np.sort(groups.violation[groups.source != source].to_numpy())
        own = (frame.source == source).to_numpy()
        below[own] = np.searchsorted(others, frame.break_even[own]) / len(others)
    band = pd.cut(below, (-1, 0.2, 0.5, 0.8, 0.9, 1.0), labels=("to .2", "to .5", "to .8", "to .9", "to 1"))
    made = frame.assign(band=band)
    return (
        made.groupby("band", observed=False)
        .agg(conclusions=("right", "size"), right=("right", "mean"))
        .reset_index()
    )


def reference(frame: pd.DataFrame) -> str:
    """The table that is shipped."""
    groups = frame[(frame.scope == "group") & (frame.kind != "synthetic")].drop_duplicates(["file", "group"])
    counts = np.histogram(groups.violation, (-1.0, *core.REFERENCE_EDGES))[0]
    head = f"{len(groups)} groups, {groups.file.nunique()} files, {groups.source.nunique()} sources"
    return f"{head}\nREFERENCE_GROUPS = {tuple(counts.tolist())}"


def report(frame: pd.DataFrame) -> None:
    digits = {"right": 3}
    for scope in ("group", "whole field", "contrast"):
        part = frame[frame.scope == scope]
        for kind, rows in {
            "two classes": part[part.classes == 2],
            "more classes": part[part.classes > 2],
        }.items():
            show(f"{scope}, {kind}", by_band(rows, "break_even", "right", "realised"), digits)
            clear = by_band(rows[rows.clear], "break_even", "right", "realised")
            show(f"{scope}, {kind}, true difference above {CLEAR}", clear, digits)
    groups = frame[frame.scope != "contrast"]
    show("Mean predictions", by_band(groups, "by_mean", "right_mean", "of_classes"), digits)
    show("By violations in files of other sources", by_reference(frame), digits)
    each = frame[frame.scope != "contrast"].drop_duplicates(["file", "group", "scope"])
    quantiles = each.groupby(["kind", "scope"]).violation.describe(percentiles=[0.1, 0.5, 0.9]).reset_index()
    show("Measured violations", quantiles, {})


def speed() -> None:
    """Seconds for 100,000 groups of two classes, and for 1,000 groups and each of ten classes, best of three."""
    rng = np.random.default_rng(0)
    for G, K, m in ((100_000, 2, 8), (1_000, 10, 28)):
        M = 0.8 * rng.dirichlet(np.ones(m), K) + 0.2 / m
        V, c = rng.multinomial(500, rng.dirichlet(np.ones(K), G) @ M) / 500, np.full(G, 1 / K)
        seconds = []
        for _ in range(3):
            start, best = time.process_time(), core.closest(V, M)
            for k in [1] if K == 2 else range(K):
                found = core.flip(V, M, k, c, best.p[:, k] > c, best)
                core.standard_error(found, V, np.full(G, 500.0), 1000 * M)
            seconds.append(time.process_time() - start)
        print(f"{G:,} groups, {K} classes, {m} bins: {min(seconds):.2f} s")


def main(argv: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--table", action="store_true", help="print the reference table")
    parser.add_argument("--csv", type=Path, help="write a row for each conclusion here")
    parser.add_argument("--speed", action="store_true", help="time it, too")
    options = parser.parse_args(None if argv is None else list(argv))
    warnings.simplefilter("ignore")
    records: list[Record] = []
    for path in sorted(path for folder in options.folders for path in folder.glob("*.parquet")):
        case = Case(path)
        records += [*case.against_lab(), *case.contrasts()]
        print(f"{path.stem[:60]:60} {len(case.large):3} groups {len(records):6} conclusions", flush=True)
    frame = save(records, options.csv)
    report(frame)
    if options.speed:
        speed()
    if options.table:
        print(reference(frame))


if __name__ == "__main__":
    main()
