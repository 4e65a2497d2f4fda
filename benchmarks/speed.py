"""How long things take, as ratios to floors and peers in the same run.

    python benchmarks/speed.py [part …] [--small] [--runs 3] [--json FILE] [--write docs/evidence/benchmarks.md]

Parts: start, groups, classes, learn, rows, growth; all by default. Processor seconds, the fastest of several runs,
since noise only ever adds. A floor is the numpy without which the answer cannot be had; a peer is another way to it:
QuaPy's EMQ, one group at a time, if QuaPy is installed, and a loop over `scipy.optimize` that gives the point alone.
``--write`` puts the table into the section "Speed" of a page.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import subprocess
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize
from scipy.special import softmax
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import fieldcal

URC = {"prior": "flat", "point": "mode", "trust": 1, "level": None}  # the paper's estimator, no intervals


@dataclass(frozen=True)
class Row:
    """One measurement beside another."""

    part: str
    what: str
    seconds: float
    beside: str
    ratio: float  # how many times as long as what it stands beside
    bar: float  # that the ratio may reach

    @property
    def met(self) -> bool:
        """Whether the bar is reached."""
        return self.ratio <= self.bar


@dataclass(frozen=True)
class Bench:
    """Sizes and numbers of runs."""

    runs: int = 3
    small: bool = False

    def size(self, n: int) -> int:
        """This many rows or groups, a hundredth of them for a look at whether it runs."""
        return max(n // 100, 10) if self.small else n

    def seconds(self, call: Callable[[], object]) -> float:
        """Of the fastest run."""
        best = float("inf")
        for _ in range(self.runs):
            start = time.process_time()
            call()
            best = min(best, time.process_time() - start)
        return max(best, 1e-6)


def start(bench: Bench) -> list[Row]:
    """Fresh interpreters, beside `import numpy`."""

    def fresh(code: list[str]) -> float:
        best = float("inf")
        for _ in range(bench.runs + 1):  # the first one fills the caches of the file system
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            subprocess.run([sys.executable, *code], check=True, stdout=subprocess.DEVNULL)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        return best

    floor = fresh(["-c", "import numpy"])
    codes = {
        "import numpy, scipy.special": (["-c", "import numpy, scipy.special"], np.inf),
        "import fieldcal": (["-c", "import fieldcal"], 1.0),
        "import fieldcal; fieldcal.learn": (["-c", "import fieldcal; fieldcal.learn"], 3.0),
        "fieldcal --help": (["-m", "fieldcal", "--help"], 3.0),
    }
    cost = {name: (fresh(code), bar) for name, (code, bar) in codes.items()}
    return [
        Row("start", name, spent, "import numpy", spent / floor, bar) for name, (spent, bar) in cost.items()
    ]


def weak_scores(n_groups: int, n_rows: int) -> Any:
    """The weak classifier of the quantification experiment: scores of lab and field, labels, groups."""
    X, y = make_classification(
        n_samples=12_000,
        n_features=4,
        n_informative=2,
        n_redundant=0,
        class_sep=0.4,
        flip_y=0.1,
        random_state=0,
    )
    proba = LogisticRegression().fit(X[:2000], y[:2000]).predict_proba(X)[:, 1]
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(n_groups), n_rows)
    labels = rng.random(len(groups)) < rng.beta(2, 18, size=n_groups)[groups]
    pools = [4000 + np.flatnonzero(y[4000:] == k) for k in (0, 1)]
    rows = np.where(labels, rng.choice(pools[1], len(groups)), rng.choice(pools[0], len(groups)))
    return proba[2000:4000], y[2000:4000], proba[rows], groups


def groups(bench: Bench) -> list[Row]:
    """Two classes, 1,000 groups of 500 rows: the point beside QuaPy's EMQ, defaults beside `scipy.optimize`."""
    n = bench.size(1000)
    good = fieldcal.datasets.label_shift(n_lab=2000, n_field=n * 500, n_groups=n, random_state=0)
    data = {
        "weak classifier": weak_scores(n, 500),
        "good classifier": (good.proba_lab, good.y_lab, good.proba_field, good.groups_field),
    }
    return [row for name, one in data.items() for row in _two_classes(name, *one, bench)]


def _two_classes(name: str, proba: Any, y: Any, scores: Any, group: Any, bench: Bench) -> list[Row]:
    lab = fieldcal.learn(proba, y)
    field = fieldcal.count(lab, scores, groups=group)
    found = [_beside_optimize("groups", f"{name}: defaults, intervals", lab, field, bench)]
    if (peer := _quapy(proba, y, scores, group, bench)) is not None:
        point = bench.seconds(
            lambda: fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=group), **URC)
        )
        found.append(Row("groups", f"{name}: count and point", point, "QuaPy EMQ", point / peer, 1 / 100))
    return found


def _quapy(proba: Any, y: Any, scores: Any, group: Any, bench: Bench) -> float | None:
    try:
        from quapy.method.aggregative import EMQ
    except ImportError:
        return None
    columns = np.column_stack([1 - scores, scores])
    samples = [columns[group == g] for g in range(group.max() + 1)]
    return bench.seconds(lambda: [EMQ.EM(np.bincount(y) / len(y), sample) for sample in samples])


def _beside_optimize(part: str, what: str, lab: Any, field: Any, bench: Bench) -> Row:
    """Defaults with intervals beside a loop that gives the point alone, of a few of the groups."""
    V, M = np.asarray(field.V, dtype=np.float64), lab.M

    def loss(x: Any, v: Any) -> tuple[float, Any]:
        p = softmax(x)
        q = p @ M
        return -float(v @ np.log(q)), p * (v.sum() - M @ (v / q))

    few, start = V[: max(2, min(20, 200 // len(M)))], np.zeros(len(M))
    peer = bench.seconds(lambda: [minimize(loss, start, args=(v,), jac=True, method="BFGS") for v in few])
    spent = bench.seconds(lambda: fieldcal.estimate(lab, field))
    return Row(part, what, spent, "scipy.optimize, point alone", spent / (peer * len(V) / len(few)), 1 / 20)


def many(n_classes: int, n_groups: int, n_rows: int, lab_rows: int = 5000) -> Any:
    """A lab and a field of so many classes."""
    p_lab = tuple(np.full(n_classes, 1 / n_classes))
    return fieldcal.datasets.label_shift(
        n_lab=lab_rows, n_field=n_groups * n_rows, n_groups=n_groups, p_lab=p_lab, random_state=0
    )


def classes(bench: Bench) -> list[Row]:
    """Defaults with intervals, 1,000 groups of 500 rows, and of 100 classes 20 groups."""
    found = []
    sizes = (
        ((3, 1000), (5, 1000), (10, 1000)) if bench.small else ((3, 1000), (5, 1000), (10, 1000), (100, 20))
    )
    for K, G in sizes:
        data = many(K, bench.size(G) if K < 20 else G, 500)
        lab = fieldcal.learn(data.proba_lab, data.y_lab)
        field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
        found.append(_beside_optimize("classes", f"{K} classes, {len(field.V):,} groups", lab, field, bench))
    return found


def learn(bench: Bench) -> list[Row]:
    """A lab with groups, beside a histogram of its rows by group, class and bin."""
    found, cuts = [], np.linspace(0.1, 0.9, 7)
    for K, G, n in ((2, 1000, 1_000_000), (3 if bench.small else 100, 40, 20_000)):
        n = bench.size(n)
        data = many(K, 1, 10, lab_rows=n)
        group = np.random.default_rng(0).integers(min(G, n // 20), size=n)
        score = data.proba_lab if data.proba_lab.ndim == 1 else data.proba_lab.max(axis=1)
        code = group * K + data.y_lab
        floor = bench.seconds(lambda c=code, s=score: np.bincount(c * 8 + np.searchsorted(cuts, s)))
        spent = bench.seconds(lambda d=data, g=group: fieldcal.learn(d.proba_lab, d.y_lab, groups=g))
        bar = 10.0 if K == 2 else np.inf
        found.append(
            Row(
                "learn",
                f"{n:,} rows, {K} classes, {group.max() + 1:,} groups",
                spent,
                "histogram",
                spent / floor,
                bar,
            )
        )
    return found


def rows(bench: Bench) -> list[Row]:
    """`count` and `recalibrate` of 10,000,000 rows beside the numpy that they need."""
    data = fieldcal.datasets.label_shift(n_lab=5000, n_field=10, n_groups=1, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    rng, n = np.random.default_rng(0), bench.size(10_000_000)
    scores, group = rng.random(n), rng.integers(min(1000, n // 10), size=n)
    edges = np.asarray(lab.partition.edges)
    floor = bench.seconds(lambda: np.bincount(np.searchsorted(edges, scores)))
    spent = bench.seconds(lambda: fieldcal.count(lab, scores))
    found = [Row("rows", f"count {n:,} rows", spent, "bincount(searchsorted)", spent / floor, 1.2)]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, scores, groups=group), **URC)
    odds = rng.random(group.max() + 1)

    def plain() -> Any:
        w = odds[group] * scores
        return w / (w + 1 - scores)

    floor = bench.seconds(plain)
    spent = bench.seconds(lambda: fieldcal.recalibrate(prev, scores, groups=group))
    found.append(Row("rows", f"recalibrate {n:,} rows", spent, "numpy expression", spent / floor, 1.2))
    tracemalloc.start()
    new = fieldcal.recalibrate(prev, scores, groups=group)
    peak = tracemalloc.get_traced_memory()[1] / new.nbytes
    tracemalloc.stop()
    return [*found, Row("rows", "memory of recalibrate", 0.0, "its output", peak, 3.0)]


def growth(bench: Bench) -> list[Row]:
    """Exponents of rows, groups and classes; the "ratio" is the exponent."""

    def exponent(sizes: list[int], calls: list[Callable[[], object]]) -> tuple[float, float]:
        spent = [bench.seconds(call) for call in calls]
        return float(np.polyfit(np.log(sizes), np.log(spent), 1)[0]), spent[-1]

    found = []
    sizes = [bench.size(n) for n in (1_000_000, 4_000_000, 16_000_000)]
    data = fieldcal.datasets.label_shift(n_lab=5000, n_field=10, n_groups=1, random_state=0)
    lab, scores = fieldcal.learn(data.proba_lab, data.y_lab), np.random.default_rng(0).random(sizes[-1])
    slope, spent = exponent(sizes, [lambda n=n: fieldcal.count(lab, scores[:n]) for n in sizes])
    found.append(Row("growth", "count by rows", spent, "exponent", slope, 1.05))
    sizes = [bench.size(n) for n in (1000, 4000, 16_000)]
    data = many(3, sizes[-1], 100)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    fields = [
        fieldcal.count(lab, data.proba_field[at], groups=data.groups_field[at])
        for at in (data.groups_field < n for n in sizes)
    ]
    slope, spent = exponent(sizes, [lambda f=f: fieldcal.estimate(lab, f) for f in fields])
    found.append(Row("growth", "estimate by groups, 3 classes", spent, "exponent", slope, 1.1))
    sizes = [5, 10, 20] if bench.small else [25, 50, 100, 200]
    calls = []
    for K in sizes:
        data = many(K, 5, 1000, lab_rows=40 * K if bench.small else 20_000)
        lab = fieldcal.learn(data.proba_lab, data.y_lab)
        field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
        calls.append(lambda lab=lab, field=field: fieldcal.estimate(lab, field))
    slope, spent = exponent(sizes, calls)
    return [*found, Row("growth", f"estimate by classes, up to {sizes[-1]}", spent, "exponent", slope, 2.2)]


PARTS = {part.__name__: part for part in (start, groups, classes, learn, rows, growth)}


def table(found: list[Row]) -> str:
    """As Markdown."""
    lines = ["| | seconds | beside | ratio | at most | |", "|---|---|---|---|---|---|"]
    for row in found:
        bar = "–" if np.isinf(row.bar) else f"{row.bar:.3g}"
        verdict = "" if np.isinf(row.bar) else "met" if row.met else "**missed**"
        lines.append(
            f"| {row.what} | {row.seconds:.3g} | {row.beside} | {row.ratio:.3g} | {bar} | {verdict} |"
        )
    return "\n".join(lines)


def written(page: str, found: list[Row]) -> str:
    """The page with the table in its section "Speed"."""
    section = "## Speed (`benchmarks/speed.py`)\n\nProcessor seconds, fastest of several runs, two shared cores.\n\n"
    return re.sub(r"## Speed \(.*?(?=\n## )", lambda _: section + table(found) + "\n", page, flags=re.DOTALL)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--small", action="store_true", help="a hundredth of the sizes, to see that it runs")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--write", type=Path)
    options = parser.parse_args(arguments)
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"no part {sorted(unknown)[0]!r}: the parts are {', '.join(PARTS)}")
    warnings.simplefilter("ignore")
    bench, found = Bench(options.runs, options.small), []
    for name in options.parts or PARTS:
        found += PARTS[name](bench)
        print(table([row for row in found if row.part == name]), end="\n\n", flush=True)
    if options.json:
        options.json.write_text(
            json.dumps([asdict(row) | {"met": row.met} for row in found], indent=1) + "\n"
        )
    if options.write:
        options.write.write_text(written(options.write.read_text(), found))


if __name__ == "__main__":
    main()
