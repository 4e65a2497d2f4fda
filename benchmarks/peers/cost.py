"""Table 6: what a prevalence costs, 1,000 groups of 500 rows and one population of ten million."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
from benchmarks.peers.data import Column, Table, attempt
from benchmarks.peers.methods import FLAT, OTHERS, QUAPY, Floats, Method
from benchmarks.speed import weak_scores
from numpy.typing import NDArray

import fieldcal

FLAT_ROW = "fieldcal, flat prior, mode"
GROUPS_TEXT = """\
The weak classifier of the first table, lab 50 %, prevalences of the groups Beta(2, 18). Posteriors are given;
everything that depends on the lab alone is done before the clock starts, and so is the splitting of the rows for the
peers, while counting is part of fieldcal's figure. The fastest of several runs on one core. Ratio: to the first row of
fieldcal, in this run; what another machine would give differs, the ratios less so."""
#: Rows that a method is timed on, where ten million would take minutes.
PART = 1_000_000
SLOW = ("QuaPy KDEy-ML", "QuaPy EDy")


@dataclass(frozen=True)
class Groups:
    """Lab and field, as they lie in a log: rows of all groups mixed."""

    proba_lab: Floats
    y_lab: NDArray[np.intp]
    proba_field: Floats
    groups_field: NDArray[np.intp]


def weak_classifier(n_groups: int, n_rows: int) -> Groups:
    """Rows of one pool, with replacement, by the prevalence of their group."""
    proba_lab, y_lab, scores, groups = weak_scores(n_groups, n_rows)
    order = np.random.default_rng(0).permutation(len(groups))
    return Groups(proba_lab, y_lab, scores[order], groups[order])


def fastest(call: Callable[[], object], runs: int) -> float:
    """Seconds of the fastest run, after one that is not counted."""

    def once() -> float:
        start = time.perf_counter()
        call()
        return time.perf_counter() - start

    once()
    return min(once() for _ in range(runs))


def posteriors(data: Groups) -> tuple[Floats, Floats]:
    """Lab and field with a column per class."""
    lab, field = (np.column_stack([1 - p, p]) for p in (data.proba_lab, data.proba_field))
    return lab, field


def ratios(table: Table, times: Column) -> None:
    base = times.values[FLAT_ROW][0]
    column = Column("ratio", kind="ratio")
    for name, (spent,) in times.values.items():
        column.add(name, None if spent is None or base is None else spent / base)
    table.columns.append(column)


def per_group(table: Table, *, n_groups: int, n_rows: int, runs: int) -> None:
    data = weak_classifier(n_groups, n_rows)
    lab, field = posteriors(data)
    samples = [field[data.groups_field == g] for g in range(n_groups)]
    peers = {
        name: QUAPY[name] for name in ("QuaPy ACC", "QuaPy PACC", "QuaPy EMQ", "QuaPy EDy", "QuaPy KDEy-ML")
    }
    peers["mlquantify EMQ"] = OTHERS["mlquantify EMQ"]
    learnt = fieldcal.learn(data.proba_lab, data.y_lab)

    def urc(**options: object) -> object:
        counted = fieldcal.count(learnt, data.proba_field, groups=data.groups_field)
        return fieldcal.estimate(learnt, counted, **options)

    times = Column("µs per group", kind="time")
    times.add(FLAT_ROW, 1e6 * fastest(lambda: urc(**FLAT), runs) / n_groups)
    times.add("fieldcal, defaults with intervals", 1e6 * fastest(urc, runs) / n_groups)

    def spend(method: Method, some: list[Floats]) -> float:
        ask = method(lab, data.y_lab)
        return 1e6 * fastest(lambda: [ask(sample) for sample in some], runs) / len(some)

    for name, method in peers.items():
        some = samples[:: max(1, n_groups // 50)] if name in SLOW else samples
        times.add(name, attempt(table, name, partial(spend, method, some)))
        if some is not samples:
            table.notes[name] = f"timed on {len(some)} of the groups."
    table.columns.append(times)
    ratios(table, times)


def one_population(table: Table, *, n_rows: int, runs: int) -> None:
    data = weak_classifier(1, n_rows)
    lab, field = posteriors(data)
    learnt = fieldcal.learn(data.proba_lab, data.y_lab)
    part = min(PART, n_rows)
    times = Column(f"seconds for {n_rows:,} rows", kind="time")

    def ours(**options: object) -> Callable[[], object]:
        return lambda: fieldcal.estimate(learnt, fieldcal.count(learnt, data.proba_field), **options)

    times.add(FLAT_ROW, fastest(ours(**FLAT), runs))
    times.add("fieldcal, defaults with intervals", fastest(ours(), runs))

    def spend(method: Method, rows: Floats) -> float:
        ask = method(lab, data.y_lab)
        return fastest(lambda: ask(rows), runs) * n_rows / len(rows)

    for name in ("QuaPy ACC", "QuaPy PACC", "QuaPy EMQ", "mlquantify EMQ"):
        scaled = name.endswith("EMQ")
        rows = field[:part] if scaled else field
        times.add(name, attempt(table, name, partial(spend, (QUAPY | OTHERS)[name], rows)))
        if scaled and part < n_rows:
            table.notes[name] = f"timed on {part:,} rows and scaled."
    table.columns.append(times)
    ratios(table, times)


def groups_cost(runs: int, *, n_groups: int = 1000, n_rows: int = 500) -> Table:
    table = Table("cost_groups", f"Cost: {n_groups:,} groups of {n_rows} rows", GROUPS_TEXT, ours=(FLAT_ROW,))
    per_group(table, n_groups=n_groups, n_rows=n_rows, runs=runs)
    return table


def rows_cost(runs: int, *, n_rows: int = 10_000_000) -> Table:
    text = "The same scores as one field; prevalence drawn once from the same Beta. One core."
    table = Table("cost_rows", f"Cost: {n_rows:,} rows, one population", text, ours=(FLAT_ROW,))
    one_population(table, n_rows=n_rows, runs=runs)
    return table
