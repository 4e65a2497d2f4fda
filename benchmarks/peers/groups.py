"""Table 3: many groups at once, and groups so small that their own rows say little."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from benchmarks.many_groups import GROUPS, SETTINGS, scores
from benchmarks.peers.data import Column, Table, attempt, progress, short
from benchmarks.peers.methods import DEFAULT, DEFAULT_ESTIMATE, FLAT, QUAPY, Floats, Method, naive
from numpy.typing import NDArray

import fieldcal
from fieldcal.core.posterior import summarise
from fieldcal.core.response import response_draws

KNOWN = "true prior known"
POOLED = "fieldcal, pooled (default)"
LAB = 2000
#: groups, rows of each, Beta mean and concentration of their prevalences
TINY = ((300, 30, 0.1, 20.0), (300, 30, 0.5, 20.0), (1000, 5, 0.1, 20.0), (1000, 5, 0.5, 20.0))

MANY_TEXT = f"""\
{GROUPS:,} groups of 10 to 2,000 rows (log-uniform), Beta-distributed prevalence, the binary scores of the first table,
a lab of {LAB:,} rows, about balanced; fieldcal with 8 bins. Mean absolute error over the groups against the prevalence
that their labels are drawn from."""
TINY_TEXT = """\
As above, but every group is tiny: 300 groups of 30 rows and 1,000 of 5, prevalences Beta with mean .1 or .5 and
concentration 20. The mean of the predictions hardly varies from group to group, so it is hard to beat
where the prevalences are close to the lab's, and far off where they are not."""

Calls = dict[str, Callable[[], Floats]]


@dataclass(frozen=True)
class Groups:
    """A lab, and groups of a field whose prevalences are known."""

    proba_lab: Floats  # (n, 2)
    y_lab: NDArray[np.intp]
    proba: Floats  # (N, 2), group after group
    size: NDArray[np.intp]
    truth: Floats

    @property
    def keys(self) -> NDArray[np.intp]:
        return np.repeat(np.arange(len(self.size)), self.size)

    def samples(self) -> list[Floats]:
        return np.split(self.proba, np.cumsum(self.size)[:-1])


def draw(*, mean: float, concentration: float, size: NDArray[np.intp], seed: int) -> Groups:
    """Rows of one pool, with replacement, by the prevalence of their group; none of them in the lab."""
    rng = np.random.default_rng([seed, int(1000 * mean), len(size)])
    score, y = scores(seed)
    order = rng.permutation(len(y))
    lab, rest = order[:LAB], order[LAB:]
    truth = rng.beta(mean * concentration, (1 - mean) * concentration, len(size))
    labels = rng.random(size.sum()) < np.repeat(truth, size)
    rows = np.empty(len(labels), dtype=np.intp)
    for k in (0, 1):
        rows[labels == k] = rng.choice(rest[y[rest] == k], size=int((labels == k).sum()))
    columns = np.column_stack([1 - score, score])
    return Groups(columns[lab], y[lab], columns[rows], size, truth)


def log_uniform(seed: int, n_groups: int) -> NDArray[np.intp]:
    rng = np.random.default_rng([seed, n_groups, 1])
    return np.exp(rng.uniform(np.log(10), np.log(2000), n_groups)).astype(np.intp)


def one_by_one(method: Method, data: Groups) -> Floats:
    ask = method(data.proba_lab, data.y_lab)
    return np.array([ask(sample)[1] for sample in data.samples()])


def known_prior(lab: fieldcal.Lab, counted: fieldcal.Field, mean: float, concentration: float) -> Floats:
    rng = np.random.default_rng(0)
    alpha = concentration * np.array([1 - mean, mean])
    M = response_draws(lab.A, 64, rng)
    return summarise(M, np.asarray(counted.V, dtype=float), alpha, level=0.9, rng=rng).mean[:, 1]


def per_group(data: Groups) -> Calls:
    """What the peers do: one group at a time."""
    return {
        "naive mean": lambda: one_by_one(naive, data),
        "QuaPy EMQ": lambda: one_by_one(QUAPY["QuaPy EMQ"], data),
        "QuaPy PACC": lambda: one_by_one(QUAPY["QuaPy PACC"], data),
    }


def many_calls(data: Groups, mean: float, concentration: float) -> Calls:
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=8)
    counted = fieldcal.count(lab, data.proba, groups=data.keys)
    return per_group(data) | {
        "fieldcal, maximum likelihood": lambda: fieldcal.estimate(lab, counted, **FLAT).urc[:, 1],
        POOLED: lambda: fieldcal.estimate(lab, counted).urc[:, 1],
        KNOWN: lambda: known_prior(lab, counted, mean, concentration),
    }


def tiny_calls(data: Groups) -> Calls:
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba, groups=data.keys))
    return per_group(data) | {DEFAULT: lambda: prev.urc[:, 1], DEFAULT_ESTIMATE: lambda: prev.estimate[:, 1]}


def add_errors(table: Table, column: Column, data: Groups, calls: Calls) -> None:
    for name, call in calls.items():
        found = attempt(table, name, call)
        column.add(name, None if found is None else np.abs(found - data.truth).mean())


def many(replicas: int, *, n_groups: int = GROUPS) -> Table:
    table = Table(
        "many_groups", "Many groups", f"{MANY_TEXT} {replicas} replicas.", ours=(POOLED,), oracles=(KNOWN,)
    )
    for mean, concentration in SETTINGS:
        column = Column(f"Beta mean {short(mean)}, concentration {concentration:g}")
        table.columns.append(column)
        for seed in progress(range(replicas), title=f"many groups, {column.title}", total=replicas):
            size = log_uniform(seed, n_groups)
            data = draw(mean=mean, concentration=concentration, size=size, seed=seed)
            add_errors(table, column, data, many_calls(data, mean, concentration))
    return table


def tiny(replicas: int) -> Table:
    table = Table(
        "tiny_groups", "Tiny groups", f"{TINY_TEXT} {replicas} replicas.", ours=(DEFAULT, DEFAULT_ESTIMATE)
    )
    for n_groups, rows, mean, concentration in TINY:
        column = Column(f"{n_groups:,} × {rows} rows, mean {short(mean)}")
        table.columns.append(column)
        for seed in progress(range(replicas), title=f"tiny groups, {column.title}", total=replicas):
            size = np.full(n_groups, rows, dtype=np.intp)
            data = draw(mean=mean, concentration=concentration, size=size, seed=seed)
            add_errors(table, column, data, tiny_calls(data))
    table.notes[DEFAULT_ESTIMATE] = (
        "`estimate` follows `urc` as far as it is trusted; where it is not, it is the naive mean."
    )
    return table
