"""Tables 1 and 2: the error of the prevalence, two classes (the paper's experiment) and five."""

from __future__ import annotations

from functools import partial

import numpy as np
from benchmarks.peers.data import Column, Table, attempt, progress
from benchmarks.peers.methods import (
    DEFAULT,
    DEFAULT_ESTIMATE,
    DEFAULTS,
    FLAT,
    OTHERS,
    QUAPY,
    QUAPY_BINARY,
    Method,
    naive,
    urc,
)
from benchmarks.quantification import SCENARIOS, draw
from experiments.quantification_data import QuantificationData, quantification

import fieldcal

N_BINS = (2, 4, 8, 16, 32)
K = 5
FIELD = 500

BINARY = """\
The paper's quantification experiment: `make_classification(n_features=4, n_informative=2, n_redundant=0, class_sep=.4,
flip_y=.1)`, a pool of 12,000 rows per replica; 2,000 rows to train on, a lab of 2,000 and the fields are disjoint and
of exact prevalence; one logistic regression per replica and scenario. Mean absolute error over fields of 50, 100, 500,
1,000 and 3,000 rows. A: lab 50 %, field 5 %. B: lab 5 %, field 50 %."""
FIVE = """\
`make_classification(n_features=6, n_informative=4, n_redundant=0, class_sep=1, flip_y=.05)`, five classes, a balanced
lab of 2,000 rows, fields of 500 rows with Dirichlet(1) prevalence. Mean absolute error over the classes."""


def flat_rows() -> dict[str, Method]:
    return {f"fieldcal, flat prior, mode, {m} bins": urc(m, **FLAT) for m in N_BINS}


def collect(table: Table, column: Column, methods: dict[str, Method], task: QuantificationData) -> None:
    """One value per method: its mean absolute error over the fields and classes of the replica."""

    def error(method: Method) -> float:
        ask = method(task.proba_lab, task.y_lab)
        found = np.array([ask(field) for field in task.proba_fields])
        return float(np.abs(found - task.prevalence).mean())

    for name, method in methods.items():
        column.add(name, attempt(table, name, partial(error, method)))


def binary(replicas: int) -> Table:
    methods = {"naive mean": naive} | QUAPY | QUAPY_BINARY | OTHERS | flat_rows() | DEFAULTS
    table = Table(
        "prevalence",
        "Prevalence error, two classes",
        f"{BINARY} {replicas} replicas.",
        ours=(DEFAULT, "fieldcal, flat prior, mode, 8 bins"),
    )
    for scenario in SCENARIOS:
        column = Column(scenario)
        table.columns.append(column)
        for replica in progress(range(replicas), title=f"prevalence, {scenario}", total=replicas):
            collect(table, column, methods, draw(scenario, replica))
    table.notes[DEFAULT_ESTIMATE] = (
        "`estimate` is the mean of the recalibrated predictions; the row above is `urc`."
    )
    return table


def draw_five(replica: int) -> QuantificationData:
    return quantification(
        p_lab=np.full(K, 1 / K),
        p_fields=[np.random.default_rng(replica).dirichlet(np.ones(K))],
        sizes=(FIELD,),
        n_features=6,
        n_informative=4,
        class_sep=1.0,
        flip_y=0.05,
        random_state=replica,
    )


def five_rows() -> dict[str, Method]:
    partitions = {
        "argmax": fieldcal.partitions.Simplex(K),
        f"{4 * K} cells": fieldcal.partitions.Simplex(4 * K),
    }
    rows = {f"fieldcal, {name}": urc(partition) for name, partition in partitions.items()}
    rows |= {
        f"fieldcal, {name}, flat prior, mode": urc(partition, **FLAT)
        for name, partition in partitions.items()
    }
    return rows


def five_classes(replicas: int) -> Table:
    methods = {"naive mean": naive} | QUAPY | OTHERS | five_rows() | DEFAULTS
    table = Table(
        "five_classes", "Prevalence error, five classes", f"{FIVE} {replicas} replicas.", ours=(DEFAULT,)
    )
    column = Column("MAE")
    table.columns.append(column)
    for replica in progress(range(replicas), title="five classes", total=replicas):
        collect(table, column, methods, draw_five(replica))
    return table
