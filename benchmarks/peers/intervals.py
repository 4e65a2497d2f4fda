"""Table 4: do nominal 90 % intervals cover 90 %, how many of them have no width, and what does one cost?"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from benchmarks.coverage import FIELD, PREVALENCES, draw, field_prevalence, pool
from benchmarks.peers.data import NOMINAL, Column, Table, attempt, progress, short
from benchmarks.peers.methods import Codes, Floats, as_array, given, mlquantify_class

import fieldcal

LABS = (200, 2000)
RESAMPLES = 200
#: mlquantify resamples the lab as well, and every lab with every field.
LAB_RESAMPLES = FIELD_RESAMPLES = 14
OURS = "fieldcal, defaults, trust 1"
TEXT = f"""\
Fields of {FIELD} rows whose labels are drawn with a prevalence of {short(*PREVALENCES)}, a balanced lab, the draws of
`benchmarks/coverage.py`. Share of intervals that hold the prevalence, over the three prevalences."""

#: posteriors and labels of the lab, posteriors of the field, seed → lower and upper end for the second class
Interval = Callable[[Floats, Codes, Floats, int], tuple[float, float]]


def quapy_bootstrap(name: str) -> Interval:
    """Of the field alone: in this version the resampling of the lab fails on arrays."""

    def interval(lab: Floats, y: Codes, field: Floats, seed: int) -> tuple[float, float]:
        from joblib import parallel_config
        from quapy.method import aggregative
        from quapy.method.confidence import AggregativeBootstrap

        options = {} if name == "EMQ" else {"val_split": None}
        quantifier = getattr(aggregative, name)(given(lab), fit_classifier=False, **options)
        bootstrap = AggregativeBootstrap(
            quantifier, n_test_samples=RESAMPLES, confidence_level=NOMINAL, random_state=seed
        )
        # In this process: its workers would cost more than they save, and would not know the seed.
        with parallel_config(backend="sequential"):
            _, region = bootstrap.fit(lab, y).predict_conf(field)
        lower, upper = region.I_low[1], region.I_high[1]
        return float(lower), float(upper)

    return interval


class Recorder:
    """A quantifier of mlquantify that remembers its answers: the bootstrap makes a region of them and drops it.

    Every answer is that of a new quantifier, since some keep to the first lab that they are given.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make
        self.found: list[Floats] = []

    def __mlquantify_tags__(self) -> Any:
        return self.make().__mlquantify_tags__()

    def aggregate(self, *args: Any) -> Floats:
        self.found.append(np.asarray(self.make().aggregate(*args)))
        return self.found[-1]


def mlquantify_bootstrap(module: str, name: str) -> Interval:
    def interval(lab: Floats, y: Codes, field: Floats, seed: int) -> tuple[float, float]:
        from mlquantify.confidence import construct_confidence_region
        from mlquantify.meta import AggregativeBootstrap

        recorder = Recorder(mlquantify_class(module, name))
        bootstrap = AggregativeBootstrap(
            recorder,
            n_train_bootstraps=LAB_RESAMPLES,
            n_test_bootstraps=FIELD_RESAMPLES,
            # With a number for a seed every lab would meet the same resampled fields.
            random_state=np.random.RandomState(seed),
            confidence_level=NOMINAL,
        )
        as_array(lambda: bootstrap.aggregate(field, lab, y))
        lower, upper = construct_confidence_region(np.array(recorder.found), NOMINAL).get_region()
        return float(lower[1]), float(upper[1])

    return interval


def ours(lab: Floats, y: Codes, field: Floats, seed: int) -> tuple[float, float]:
    learnt = fieldcal.learn(lab, y)
    prev = fieldcal.estimate(learnt, fieldcal.count(learnt, field), trust=1, random_state=seed)
    assert prev.lower is not None
    assert prev.upper is not None
    return float(prev.lower[0, 1]), float(prev.upper[0, 1])


METHODS: dict[str, Interval] = {
    **{f"QuaPy bootstrap of {name}": quapy_bootstrap(name) for name in ("ACC", "PACC", "EMQ")},
    "mlquantify bootstrap of EMQ": mlquantify_bootstrap("likelihood", "EMQ"),
    "mlquantify bootstrap of DyS": mlquantify_bootstrap("matching", "DyS"),
    OURS: ours,
}


NOTES = {
    "QuaPy": "resamples the field only; `n_train_samples > 1`, which would resample the lab, raises on arrays in this "
    "version.",
    "mlquantify": "its bootstrap returns the point alone, and some quantifiers keep to the first resampled lab; so "
    "every resample gets a new quantifier, and the interval is the library's own percentile region of their answers.",
}


def add_intervals(
    table: Table,
    columns: list[Column],
    methods: dict[str, Interval],
    prevalence: float,
    lab_rows: int,
    seed: int,
) -> None:
    lab, y, field = one_draw(lab_rows, prevalence, seed)
    for name, method in methods.items():
        start = time.perf_counter()
        ends = attempt(table, name, partial(method, lab, y, field, seed))
        spent = 1e3 * (time.perf_counter() - start)
        found: list[float | None] = [None] * 4
        if ends is not None:
            lower, upper = ends
            found = [lower <= prevalence <= upper, upper - lower < 1e-9, upper - lower, spent]
        for column, value in zip(columns, found, strict=True):
            column.add(name, value)


def coverage(replicas: int, *, methods: dict[str, Interval] = METHODS) -> Table:
    table = Table(
        "coverage",
        "Coverage of nominal 90 % intervals",
        f"{TEXT} {replicas} replicas of each; a bootstrap of QuaPy takes {RESAMPLES} resamples, one of mlquantify "
        f"{LAB_RESAMPLES} labs × {FIELD_RESAMPLES} fields. Cost: posteriors given, lab included, one core.",
        ours=(OURS,),
    )
    for lab_rows in LABS:
        here = f"lab {lab_rows:,}"
        columns = [
            Column(f"{here}: coverage", kind="coverage"),
            Column(f"{here}: zero width", kind="share"),
            Column(f"{here}: mean width", kind="width"),
            Column(f"{here}: ms per interval", kind="time"),
        ]
        table.columns += columns
        cells = [(p, seed) for p in PREVALENCES for seed in range(replicas)]
        for prevalence, seed in progress(cells, title=f"coverage, {here}", total=len(cells)):
            add_intervals(table, columns, methods, prevalence, lab_rows, seed)
    table.notes |= {name: NOTES[name.split()[0]] for name in methods if name.split()[0] in NOTES}
    return table


def one_draw(lab_rows: int, prevalence: float, seed: int) -> tuple[Floats, Codes, Floats]:
    """The draws of benchmarks/coverage.py."""
    rng = np.random.default_rng([seed, 2, lab_rows])
    _, proba, y = pool(2, seed)
    used = np.zeros(len(y), dtype=bool)
    lab_at = draw(rng, y, np.full(2, 0.5), lab_rows, used)
    field_at = draw(rng, y, field_prevalence(2, prevalence), FIELD, used)
    return proba[lab_at], y[lab_at], proba[field_at]
