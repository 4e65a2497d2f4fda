"""The table behind each plot: plain lists that JSON can hold, in drawing order.

Each function of `fieldcal.plots` has one of the same name here. A table has one entry per position on an axis; numbers
are Python floats or None; names are short and on one line. A table that omits groups states how many.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.core.hypotheses import KINDS
from fieldcal.core.reweight import BinStep, Step, taken
from fieldcal.errors import InputError, option
from fieldcal.objects import Lab, Prevalence, break_even
from fieldcal.objects.outcome import place_of_class
from fieldcal.objects.prevalence_parts import HYPOTHESES
from fieldcal.objects.prevalence_table import shown_class
from fieldcal.options import as_number, check_kind
from fieldcal.plots.draw_over_time import over_time_table as over_time
from fieldcal.plots.evaluation_tables import coverage, pit, reliability, reliability_of
from fieldcal.plots.style import Table, bin_labels, class_labels, number, numbers, short_names
from fieldcal.types import Floats, Ints

__all__ = [
    "bin_labels",
    "bins",
    "breakdown",
    "changes",
    "coverage",
    "curve",
    "distribution",
    "explanations",
    "focus",
    "forest",
    "over_time",
    "pit",
    "reliability",
    "reliability_of",
    "response",
    "trust",
]

_DISTRIBUTION = ("mean_prediction", "estimate", "lower", "upper")
_POINTS = 51  # of a curve
_BARS = 30  # of changes, at most
_NARROW = 0.005  # smallest half-width of the axis of changes
_SAME = 1e-9  # smaller changes are rounding errors
_FLOOR = 1e-12  # smallest prediction whose odds are drawn
_CHANGED = 0.3  # most rows that are scored differently, and the steps to there
_STEPS = 25


def focus(prev: Prevalence, of: Hashable = None) -> int:
    """Position of the class to show: the requested one, the second of two, or the one with the largest correction."""
    check_kind("prev", prev, Prevalence)
    return shown_class(prev) if of is None else place_of_class(prev.classes, of)


def trust(lab: Lab, *, used: float | None = None) -> Table:
    """Change of log loss by trust, from cross-validation over the lab's groups."""
    check_kind("lab", lab, Lab)
    rehearsal = lab.rehearsal
    if rehearsal is None:
        raise InputError(
            "This lab has no cross-validation over groups to draw: it has no groups, or too few. Learn it with "
            f"groups: fieldcal.learn(proba, y, {option('groups')})."
        )
    return {
        "trust": numbers(rehearsal.grid),
        "change": numbers(rehearsal.change_by_trust),
        "se": numbers(rehearsal.change_by_trust_se),
        "chosen": float(rehearsal.trust),
        "used": None if used is None else as_number("used", used),
        "groups": int(rehearsal.n_groups),
        "rows": int(rehearsal.n_rows),
    }


def explanations(prev: Prevalence) -> Table:
    """Probability of each hypothesis, before and after the field's labels."""
    check_kind("prev", prev, Prevalence)
    model, labels = prev.by_model, prev.labels
    if model is None or labels is None:
        raise InputError(
            "This estimate has no labels that could decide between hypotheses. Count some rows of the field with "
            f"their labels: fieldcal.count(lab, predictions, {option('y')})."
        )
    meanings = {
        "label_shift": f"only the {prev.lab.outcome.noun} shares changed",
        "unchanged": "class probabilities given a prediction are those of the lab",
        "other": "neither",
    }
    return {
        "names": [HYPOTHESES[kind] for kind in KINDS],
        "meanings": [meanings[kind] for kind in KINDS],
        "before": numbers(labels.prior),
        "after": numbers(model.weights),
        "rows": labels.n,
    }


def forest(prev: Prevalence, *, of: Hashable = None, limit: int = 30, truth: Floats | None = None) -> Table:
    """Share of one class per group and in the whole field; without groups, one line per class.

    ``truth`` are shares among labelled rows, (G, K), NaN without labels; by default those of the estimate.
    """
    k = focus(prev, of)
    grouped = prev.field.grouped
    lines = _group_lines(prev, k) if grouped else _class_lines(prev)
    chosen = np.array(select_lines(lines, limit), dtype=np.intp)
    by_place = prev.lab.ordered and not grouped
    chosen = chosen[np.argsort(chosen if by_place else -lines.estimate[chosen], kind="stable")]
    at = (chosen, k) if grouped else (0, chosen)
    groups = chosen.tolist() if grouped else [0] * len(chosen)
    return {
        "class": short_names(prev.classes)[k] if grouped else None,
        "level": prev.level,
        "groups": short_names([(prev.groups if grouped else prev.classes)[i] for i in chosen]),
        "n": np.asarray(prev.n)[groups].tolist(),
        **{
            name: _cells(getattr(prev, name), at)
            for name in ("mean_prediction", "estimate", "lower", "upper", "urc")
        },
        "labelled": _cells(_labelled_share(prev) if truth is None else truth, at),
        "status": [prev.status[g] for g in groups],
        "shown": len(chosen),
        "total": len(lines.estimate),
        "whole": _whole_line(prev, k) if grouped else None,
        # Labelled rows of categories are a selection, or rows of the field: not a population to compare with.
        "lab": float(prev.lab.p_lab[k]) if grouped and prev.words.lab else None,
        "lab_each": None if grouped or not prev.words.lab else numbers(prev.lab.p_lab[chosen]),
        "judged": not prev.words.lab,
    }


def _group_lines(prev: Prevalence, k: int) -> Lines:
    odd = np.fromiter(("inconsistent" in s for s in prev.status), dtype=bool, count=len(prev.status))
    rows = np.asarray(prev.n, dtype=np.float64)
    lower, upper = (None if a is None else a[:, k] for a in (prev.lower, prev.upper))
    misfit = np.where(odd, prev.fit.effect, 0.0)
    return Lines(rows, rows, prev.mean_prediction[:, k], prev.estimate[:, k], lower, upper, misfit)


def _class_lines(prev: Prevalence) -> Lines:
    rows = np.full(len(prev.classes), float(prev.n[0]))
    lower, upper = (None if a is None else a[0] for a in (prev.lower, prev.upper))
    return Lines(
        prev.estimate[0], rows, prev.mean_prediction[0], prev.estimate[0], lower, upper, np.zeros(len(rows))
    )


def _labelled_share(prev: Prevalence) -> Floats | None:
    labelled = prev.field.labelled.get("random")
    if labelled is None:
        return None
    table = np.full(prev.estimate.shape, np.nan)
    rows = np.asarray(labelled.counts, dtype=np.float64).sum(axis=2)
    table[labelled.at] = rows / rows.sum(axis=1, keepdims=True)
    return table


def _whole_line(prev: Prevalence, k: int) -> Table:
    columns = ("mean_prediction", "estimate", "lower", "upper", "urc")
    shares = {name: getattr(prev.whole, name) for name in columns}
    labelled = prev.field.labelled.get("random")
    rows = None if labelled is None else labelled.counts.sum(axis=(0, 2))
    share = None if rows is None else rows / rows.sum()
    return {
        "n": np.sum(prev.n).item(),
        **{name: None if p is None else number(p[k]) for name, p in {**shares, "labelled": share}.items()},
    }


def _cells(table: Floats | None, at: Any) -> list[float | None]:
    """Cells of a table (G, K); None for each without a table."""
    if table is None:
        return [None] * int(np.size(at[0] if np.ndim(at[0]) else at[1]))
    return numbers(np.asarray(table)[at])


def bins(prev: Prevalence, *, group: Hashable = ...) -> Table:
    """Rows per bin: observed, expected under label shift, and in the lab. By default of the whole field."""
    check_kind("prev", prev, Prevalence)
    lab, field = prev.lab, prev.field
    fit = prev.fit
    if group is ...:
        name, V, p = None, field.V.sum(axis=0), prev.whole.urc
        effect, p_value = fit.whole_effect, fit.whole_p_value
    else:
        at = prev.row_of(group)
        effect, p_value = fit.effect[at], fit.p_value[at]
        name, V, p = short_names([prev.groups[at]])[0], field.V[at], prev.urc[at]
    n = V.sum()
    expected = p @ lab.M
    # The standard error of the expected share; it is not zero for an empty bin.
    noise = 2.0 * np.sqrt(expected * (1.0 - expected) / n) if n > 0 else np.full(len(V), np.nan)
    return {
        "group": name,
        "labels": bin_labels(lab),
        "observed": numbers(V / n if n > 0 else np.full(len(V), np.nan)),
        "expected": numbers(expected),
        "lab": numbers(lab.F.sum(axis=0) / lab.F.sum()),
        "noise": numbers(noise),
        "n": n.item(),
        "effect": number(effect),
        "p_value": number(p_value),
        "df": int(fit.df),
    }


def breakdown(prev: Prevalence, *, of: Hashable = None, group: Hashable = ...) -> Table:
    """Possible shares of a class by rows scored differently than in the lab. By default in the whole field."""
    k = focus(prev, of)
    held, at = (prev.whole, k) if group is ... else (prev, (prev.row_of(group), k))
    changes = np.linspace(0.0, _CHANGED, _STEPS)
    bounds = break_even.breakdown(prev, group, k, np.append(changes, break_even.CHANGES))
    reference = break_even.reference_of(prev.lab)
    margin = break_even.against_lab_of(prev, group, k)
    return {
        "class": short_names(prev.classes)[k],
        "group": None if group is ... else short_names([group])[0],
        "level": prev.level,
        "estimate": number(held.estimate[at]),
        "interval": [None if end is None else number(end[at]) for end in (held.lower, held.upper)],
        "lab": None if prev.is_judged else float(prev.lab.p_lab[k]),
        "changes": numbers(changes),
        "lower": numbers(bounds[:_STEPS, 0]),
        "upper": numbers(bounds[:_STEPS, 1]),
        "breakdown": [
            {"change": change, "lower": number(low), "upper": number(high)}
            for change, (low, high) in zip(break_even.CHANGES, bounds[_STEPS:], strict=True)
        ],
        "break_even": None if margin is None else float(margin.rows[0]),
        "words": None if margin is None else margin.text(),
        "reference": reference.quantiles(),
        "reference_names": ["1 in 10", "half", "9 in 10"],
        "reference_groups": reference.groups,
    }


def curve(prev: Prevalence, *, of: Hashable = None, limit: int = 8) -> Table:
    """Recalibrated against raw predictions of one class, for selected groups and for the whole field."""
    k = focus(prev, of)
    old = np.linspace(0.0, 1.0, _POINTS)
    rows = np.asarray(prev.n, dtype=np.float64)
    mean = np.where(rows[:, None] > 0, prev.mean_prediction, prev.whole.mean_prediction)
    shown: list[int] = []
    if prev.field.grouped:
        shift = _shift(prev.steps, mean, k)
        shown = sorted(select_groups(shift, rows, limit), key=lambda g: -shift[g])
    return {
        "class": short_names(prev.classes)[k],
        "old": numbers(old),
        "curves": [
            {
                "name": name,
                "n": prev.n[g].item(),
                "new": numbers(_moved(prev, old, mean[g], k, g)),
            }
            for g, name in zip(shown, short_names([prev.groups[g] for g in shown]), strict=True)
        ],
        # The curve of an unknown group; without groups, that of the whole field.
        "whole": numbers(_moved(prev, old, prev.whole.mean_prediction, k, None)),
        "total": len(prev.groups) if prev.field.grouped else 0,
    }


def _shift(steps: tuple[Step, ...], mean_prediction: Floats, k: int) -> Floats:
    """Change of the log-odds of class k, at the mean prediction of each group, (G,)."""
    old, new = (
        np.clip(p[:, k], _FLOOR, 1 - _FLOOR) for p in (mean_prediction, taken(steps, mean_prediction))
    )
    return np.asarray(np.log(new / (1.0 - new)) - np.log(old / (1.0 - old)))


def _moved(prev: Prevalence, old: Floats, mean_prediction: Floats, k: int, g: int | None) -> Floats:
    """New predictions of class k in a group (None: unknown), with other classes as in its mean prediction (K,)."""
    others = np.delete(mean_prediction, k)
    share = others / others.sum() if others.sum() > 0 else np.full(len(others), 1.0 / len(others))
    rows = np.insert((1.0 - old)[:, None] * share, k, old, axis=1)
    correction, calibration = prev.correction(), prev.lab.calibration_map
    new = rows if calibration is None else calibration.read(rows)
    for step in correction.steps_unseen if g is None else correction.steps:
        if isinstance(step, BinStep):
            new = step.at(step.assign(rows[:, 1] if rows.shape[1] == 2 else rows)).apply(new)
        else:
            new = (step if g is None else step.of(slice(g, g + 1))).apply(new)
    return np.asarray(new[:, k])


def changes(prev: Prevalence, *, of: Hashable = None) -> Table:
    """Share of rows by the difference between estimate and mean prediction; one bar is centred on zero."""
    k = focus(prev, of)
    rows = np.asarray(prev.n, dtype=np.float64)
    used = rows > 0
    change, rows = (prev.estimate[:, k] - prev.mean_prediction[:, k])[used], rows[used]
    edges = _edges_around_zero(change)
    share = np.histogram(change.clip(edges[0], edges[-1]), edges, weights=rows)[0] / max(rows.sum(), 1e-300)
    return {
        "class": short_names(prev.classes)[k],
        "edges": numbers(edges),
        "rows_share": numbers(share),
        "groups": len(change),
        "up": int((change > _SAME).sum()),
        "down": int((change < -_SAME).sum()),
    }


def _edges_around_zero(change: Floats) -> Floats:
    """Edges of at most 30 bars of a round width, one of them centred on zero."""
    low, high = float(change.min(initial=-_NARROW)), float(change.max(initial=_NARROW))
    least = (high - low) / (_BARS - 2)
    power = 10.0 ** np.floor(np.log10(least))
    step = next(power * s for s in (1.0, 2.0, 5.0, 10.0) if power * s >= least * (1 - 1e-9))
    return np.asarray((np.arange(np.round(low / step), np.round(high / step) + 2) - 0.5) * step)


def distribution(prev: Prevalence, *, group: Hashable = ...) -> Table:
    """Share of each ordered class: mean prediction, estimate with interval, lab. By default of the whole field."""
    check_kind("prev", prev, Prevalence)
    if not prev.lab.ordered:
        raise InputError(
            "The classes of this lab have no order, which this plot needs. Learn it with "
            f"{option('ordered', True)} if they have one, or draw plots.forest."
        )
    at = None if group is ... else prev.row_of(group)
    held = {name: getattr(prev.whole if at is None else prev, name) for name in _DISTRIBUTION}
    return {
        "group": None if at is None else short_names([prev.groups[at]])[0],
        "labels": class_labels(prev.lab),
        **{
            name: [None] * len(prev.classes) if table is None else numbers(table if at is None else table[at])
            for name, table in held.items()
        },
        "lab": numbers(prev.lab.p_lab),
        "level": prev.level,
        "n": (np.sum(prev.n) if at is None else prev.n[at]).item(),
    }


def response(lab: Lab) -> Table:
    """The response matrix: distribution of predictions within each class."""
    check_kind("lab", lab, Lab)
    return {
        "classes": short_names(lab.classes),
        "labels": bin_labels(lab),
        "M": lab.M.tolist(),
        "rows": lab.F.sum(axis=1).tolist(),
    }


# -- selection of groups, where there are more than there is room for -------------------------------------------


_HALF_OF_90 = 1.645  # half-width of a 90 % interval, in standard errors


@dataclass(frozen=True)
class Lines:
    """Candidate lines of a forest plot: groups, or classes."""

    size: Floats  # rows; larger lines come first
    rows: Floats
    mean_prediction: Floats
    estimate: Floats
    lower: Floats | None
    upper: Floats | None
    misfit: Floats  # effect size of groups that fit no mixture of the classes, else 0


def select_lines(lines: Lines, limit: int) -> list[int]:
    """Selected lines: half for the largest, a quarter for the worst fits, the rest for reliable differences."""
    check_limit(limit)
    if len(lines.size) <= limit:
        return list(range(len(lines.size)))
    largest = np.argsort(-lines.size, kind="stable")
    bad = np.argsort(-lines.misfit, kind="stable")[: np.count_nonzero(lines.misfit > 0)]
    half = (limit + 1) // 2
    return take([(largest, half), (bad, (limit - half) // 2), (by_certain_change(lines), limit)], limit)


def by_certain_change(lines: Lines) -> Ints:
    """Positions by the distance from the mean prediction to the interval, then by the difference in interval widths.

    Differs from a plain ratio, which is huge for a class with a share near zero and a tiny interval.
    """
    change = np.abs(lines.estimate - lines.mean_prediction)
    half = _half_width(lines)
    beyond = np.where(lines.rows > 0, np.maximum(change - half, 0.0), -1.0)
    return np.lexsort((-change / np.maximum(half, 1e-12), -beyond))


def _half_width(lines: Lines) -> Floats:
    """Half-width of the interval; without intervals, of the sampling noise."""
    if lines.lower is None or lines.upper is None:
        noise = np.sqrt(lines.estimate * (1.0 - lines.estimate) / np.maximum(lines.rows, 1.0))
        return np.asarray(_HALF_OF_90 * noise)
    # On the side of the interval on which the mean prediction lies.
    return np.where(
        lines.mean_prediction < lines.estimate, lines.estimate - lines.lower, lines.upper - lines.estimate
    )


def select_groups(shift: Floats, rows: Floats, limit: int) -> list[int]:
    """The lowest, the highest and the largest groups; groups without rows only if there is room for all."""
    check_limit(limit)
    if len(shift) <= limit:
        return list(range(len(shift)))
    counted = np.flatnonzero(rows > 0)
    by_shift = counted[np.argsort(shift[counted], kind="stable")]
    largest = np.argsort(-rows, kind="stable")
    third = limit // 3
    return take([(by_shift, third), (by_shift[::-1], third), (largest, limit)], limit)


def take(orders: Sequence[tuple[Ints, int]], limit: int) -> list[int]:
    """Up to the given number from each order, without repeats, at most ``limit`` in total."""
    taken: dict[int, None] = {}
    for order, places in orders:
        goal = min(len(taken) + places, limit)
        for i in order[: 2 * limit].tolist():
            if len(taken) >= goal:
                break
            taken.setdefault(i)
    return list(taken)


def check_limit(limit: int) -> None:
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise InputError(f"limit must be a whole number of at least 1, but got {limit!r:.60}.")
