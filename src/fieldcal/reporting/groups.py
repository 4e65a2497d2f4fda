"""The table of groups: plain columns, a line for every group, or for every class of one population."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from fieldcal.objects import Prevalence
from fieldcal.reporting.evaluation import Evaluation
from fieldcal.reporting.names import shown_name
from fieldcal.types import Floats

#: Groups times classes beyond which the table of groups holds one class only.
MOST_CELLS = 200_000

_COLUMNS = ("mean_prediction", "estimate", "lower", "upper")


def table_of_groups(prev: Prevalence, k: int, found: Evaluation | None) -> dict[str, Any]:
    """Plain columns; a line is a group, or a class where there is one population. The whole field is by itself.

    First come the lines that most rows depend on: for which the estimate moves most rows from class to class, which is
    so where a group is large or far off. Of values, the highest shares come first.
    """
    truth = None if found is None else found.truth
    if not prev.field.grouped:
        return _table_of_classes(prev, truth)
    G, K = prev.estimate.shape
    shown = [k] if K == 2 or G * K > MOST_CELLS else [k, *(j for j in range(K) if j != k)]
    change = np.abs(prev.estimate - prev.mean_prediction)
    # Of a regression one interval says little: all of them together.
    share = change.sum(axis=1) / 2 if prev.lab.outcome.noun == "interval" else change[:, k]
    moved = np.asarray(prev.n, dtype=np.float64) * share
    first = prev.estimate[:, k] if prev.is_judged else moved
    order = np.lexsort((np.arange(G), -np.asarray(prev.n), -first))
    labelled = labelled_rows_of(prev)
    return {
        "unit": "group",
        "names": _distinct([shown_name(prev.groups[g]) for g in order]),
        "n": np.asarray(prev.n)[order].tolist(),
        "effect": np.asarray(prev.fit.effect)[order].tolist(),
        "labelled": None if labelled is None else labelled[order].sum(axis=1).tolist(),
        "status": [prev.status[g] for g in order],
        "classes": [
            {"class": shown_name(prev.classes[j]), **_columns_of_class(prev, truth, (order, j))}
            for j in shown
        ],
        "whole": _whole_line(prev, shown, None if found is None else found.share()),
        "left_out": K - len(shown) if K > 2 else 0,
    }


def _whole_line(prev: Prevalence, shown: list[int], truth: Floats | None) -> dict[str, Any]:
    """The whole field, in the columns that groups have: one cell for each."""
    columns = {name: getattr(prev.whole, name) for name in _COLUMNS}
    labelled = labelled_rows_of(prev)
    return {
        "name": "all rows" if prev.is_judged else "whole field",
        "n": np.sum(prev.n).item(),
        "effect": prev.fit.whole_effect,
        "labelled": None if labelled is None else float(labelled.sum()),
        "status": "",
        "classes": [
            {name: None if p is None else float(p[j]) for name, p in {**columns, "truth": truth}.items()}
            for j in shown
        ],
    }


def _table_of_classes(prev: Prevalence, truth: Floats | None) -> dict[str, Any]:
    order = np.argsort(-np.abs(prev.estimate[0] - prev.mean_prediction[0]), kind="stable")
    K, labelled = len(order), labelled_rows_of(prev)
    return {
        "unit": prev.lab.outcome.noun,
        "names": _distinct([shown_name(prev.classes[j]) for j in order]),
        "n": np.repeat(prev.n, K).tolist(),
        "effect": np.repeat(prev.fit.effect, K).tolist(),
        "labelled": None if labelled is None else labelled[0, order].tolist(),
        "status": [prev.status[0]] * K,
        "classes": [{"class": "", **_columns_of_class(prev, truth, (0, order))}],
        "whole": None,
        "left_out": 0,
    }


def labelled_rows_of(prev: Prevalence) -> Floats | None:
    """Of values: rows that have a label, by group and class, (G, K); None where none has."""
    if not prev.is_judged:
        return None
    if not prev.field.labelled:
        known = prev.judged.verdicts.known.sum(axis=2)
        return known if known.any() else None
    found = np.zeros(prev.estimate.shape)
    for labels in prev.field.labelled.values():
        found[labels.at] += labels.counts.sum(axis=2)
    return found


def _columns_of_class(prev: Prevalence, truth: Floats | None, at: Any) -> dict[str, Any]:
    """The numbers of one class; ``at`` says which cells of the (G, K) tables. JSON has no NaN."""
    columns = {name: getattr(prev, name) for name in _COLUMNS}
    return {
        name: None if table is None else [None if v != v else v for v in table[at].tolist()]
        for name, table in {**columns, "truth": truth}.items()
    }


def _distinct(names: list[str]) -> list[str]:
    if len(set(names)) == len(names):
        return names
    total, seen, found = Counter(names), Counter[str](), []
    for text in names:
        seen[text] += 1
        found.append(text if total[text] == 1 else f"{text} #{seen[text]}")
    return found
