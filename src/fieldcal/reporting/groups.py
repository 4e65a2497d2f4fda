"""The table of groups: one line per group, for one class or for all of them."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal import keys
from fieldcal.objects import Prevalence

Floats = NDArray[np.float64]

#: Groups times classes beyond which only one class is told on the page.
MOST_CELLS = 200_000
NAME_WIDTH = 72


def rows(prev: Prevalence, k: int, truth: Floats | None = None) -> dict[str, Any]:
    """Plain columns, the lines that most rows depend on first.

    A line is a group, or a class where there is one population. ``order`` of the lines: how many rows of the class the
    estimate adds or takes away, which is large where a group is large or far off.
    """
    if not prev.field.grouped:
        return _classes(prev, truth)
    G, K = prev.value.shape
    shown = [k] if K == 2 or G * K > MOST_CELLS else [k, *(j for j in range(K) if j != k)]
    change = np.abs(prev.value - prev.naive)
    # Of a regression one interval says little: all of them together.
    moved = np.asarray(prev.n, dtype=np.float64) * (
        change[:, k] if prev.lab.support is None else change.sum(axis=1) / 2
    )
    order = np.lexsort((np.arange(G), -np.asarray(prev.n), -moved))
    return {
        "unit": "group",
        "names": _distinct([name(prev.groups[g]) for g in order]),
        "n": _plain(prev.n[order]),
        "effect": _plain(prev.fit.effect[order]),
        "status": [prev.status[g] for g in order],
        "classes": [{"class": name(prev.classes[j]), **_numbers(prev, truth, (order, j))} for j in shown],
        "left_out": K - len(shown) if K > 2 else 0,
    }


def name(key: Any) -> str:
    """A name from the data: one line, without control or direction characters, not endless."""
    return keys.show(key, width=NAME_WIDTH) or '""'


def mean(prev: Prevalence, table: Floats) -> Floats:
    """The mean over all rows of the field, (K,)."""
    n = np.maximum(np.asarray(prev.n, dtype=np.float64), 1e-300)
    return np.asarray(np.average(table, axis=0, weights=n)) if len(table) else np.asarray(prev.lab.p_lab)


def variation(prev: Prevalence) -> tuple[float, Floats]:
    """The total variation between mean prediction and estimate: of the whole field, and of each group, (G,).

    It is the share of rows that the estimate puts into another class than the predictions do. Groups without rows
    have 0.
    """
    each = np.abs(prev.value - prev.naive).sum(axis=1) / 2.0
    whole = np.abs(mean(prev, prev.value) - mean(prev, prev.naive)).sum() / 2.0
    return float(whole), np.where(np.asarray(prev.n) > 0, each, 0.0)


def _classes(prev: Prevalence, truth: Floats | None) -> dict[str, Any]:
    order = np.argsort(-np.abs(prev.value[0] - prev.naive[0]), kind="stable")
    K = len(order)
    return {
        "unit": "class" if prev.lab.support is None else "interval",
        "names": _distinct([name(prev.classes[j]) for j in order]),
        "n": _plain(np.repeat(prev.n, K)),
        "effect": _plain(np.repeat(prev.fit.effect, K)),
        "status": [prev.status[0]] * K,
        "classes": [{"class": "", **_numbers(prev, truth, (0, order))}],
        "left_out": 0,
    }


def _numbers(prev: Prevalence, truth: Floats | None, at: Any) -> dict[str, list[float | None] | None]:
    """The columns of one class; ``at`` says which cells of the (G, K) tables."""
    tables = {"naive": prev.naive, "value": prev.value, "lower": prev.lower, "upper": prev.upper}
    return {
        column: None if table is None else _nullable(table[at])
        for column, table in {**tables, "truth": truth}.items()
    }


def _distinct(names: list[str]) -> list[str]:
    """Long names that became equal when they were cut get a number."""
    if len(set(names)) == len(names):
        return names
    total, seen, found = Counter(names), Counter[str](), []
    for text in names:
        seen[text] += 1
        found.append(text if total[text] == 1 else f"{text} #{seen[text]}")
    return found


def _plain(values: Any) -> list[Any]:
    return np.asarray(values).tolist()  # type: ignore[no-any-return]


def _nullable(values: Floats) -> list[float | None]:
    """JSON has no NaN."""
    return [None if v != v else v for v in values.tolist()]
