"""The table behind each plot: plain lists that JSON can hold, in drawing order.

Each function of `fieldcal.plots` has one of the same name here. A table has one entry per position on an axis; numbers
are Python floats or None; names are short and on one line. A table that omits groups states how many.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.alignment import check_alignment
from fieldcal.core.hypotheses import KINDS
from fieldcal.core.partition import as_columns, cut, quantile_cuts
from fieldcal.core.reweight import BinStep, Step, taken
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Lab, Prevalence, group_keys
from fieldcal.objects.from_model import HYPOTHESES
from fieldcal.objects.outcome import place_of_class
from fieldcal.options import as_array, as_number, check_kind
from fieldcal.plots import style
from fieldcal.types import Floats, Ints

Table = dict[str, Any]

__all__ = [
    "bin_labels",
    "bins",
    "changes",
    "coverage",
    "curve",
    "distribution",
    "explanations",
    "focus",
    "forest",
    "pit",
    "reliability",
    "reliability_of",
    "response",
    "trust",
]

#: Central intervals whose coverage is drawn.
NOMINAL = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
#: Letters of a name from the data.
NAME_WIDTH = 28
_LONGEST_NAME = 200  # letters compared to keep names distinct

_DISTRIBUTION = ("mean_prediction", "estimate", "lower", "upper")
_POINTS = 51  # of a curve
_BARS = 30  # of changes, at most
_PIT_BARS = 10
_NARROW = 0.005  # smallest half-width of the axis of changes
_SAME = 1e-9  # smaller changes are rounding errors
_HALF_OF_90 = 1.645  # half-width of a 90 % interval, in standard errors
_FLOOR = 1e-12  # smallest prediction whose odds are drawn
_IN_BIN = 12  # letters of a class in the label of a bin


def focus(prev: Prevalence, of: Hashable = None) -> int:
    """Position of the class to show: the requested one, the second of two, or the one with the largest correction."""
    check_kind("prev", prev, Prevalence)
    return prev.shown_class() if of is None else place_of_class(prev.classes, of)


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
        "trust": plain(rehearsal.grid),
        "change": plain(rehearsal.change_by_trust),
        "se": plain(rehearsal.change_by_trust_se),
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
        "before": plain(labels.prior),
        "after": plain(model.weights),
        "rows": labels.n,
    }


def forest(prev: Prevalence, *, of: Hashable = None, limit: int = 30, truth: Floats | None = None) -> Table:
    """Share of one class per group and in the whole field; without groups, one line per class.

    ``truth`` are shares among labelled rows, (G, K), NaN without labels; by default those of the estimate.
    """
    k = focus(prev, of)
    grouped = prev.field.grouped
    lines = _group_lines(prev, k) if grouped else _class_lines(prev)
    chosen = np.array(worth_showing(lines, limit), dtype=np.intp)
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
        "lab": float(prev.lab.p_lab[k]) if grouped and not prev.is_judged else None,
        "lab_each": None if grouped or prev.is_judged else plain(prev.lab.p_lab[chosen]),
        "judged": prev.is_judged,
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
    found = prev.field.labelled.get("random")
    if found is None:
        return None
    table = np.full(prev.estimate.shape, np.nan)
    rows = np.asarray(found.counts, dtype=np.float64).sum(axis=2)
    table[found.at] = rows / rows.sum(axis=1, keepdims=True)
    return table


def _whole_line(prev: Prevalence, k: int) -> Table:
    columns = ("mean_prediction", "estimate", "lower", "upper", "urc")
    shares = {name: getattr(prev.whole, name) for name in columns}
    found = prev.field.labelled.get("random")
    labelled = None if found is None else found.counts.sum(axis=(0, 2))
    share = None if labelled is None else labelled / labelled.sum()
    return {
        "n": np.sum(prev.n).item(),
        **{name: None if p is None else number(p[k]) for name, p in {**shares, "labelled": share}.items()},
    }


def _cells(table: Floats | None, at: Any) -> list[float | None]:
    """Cells of a table (G, K); None for each without a table."""
    if table is None:
        return [None] * int(np.size(at[0] if np.ndim(at[0]) else at[1]))
    return plain(np.asarray(table)[at])


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
        "observed": plain(V / n if n > 0 else np.full(len(V), np.nan)),
        "expected": plain(expected),
        "lab": plain(lab.F.sum(axis=0) / lab.F.sum()),
        "noise": plain(noise),
        "n": n.item(),
        "effect": number(effect),
        "p_value": number(p_value),
        "df": int(fit.df),
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
        shown = sorted(spread_of(shift, rows, limit), key=lambda g: -shift[g])
    return {
        "class": short_names(prev.classes)[k],
        "old": plain(old),
        "curves": [
            {
                "name": name,
                "n": prev.n[g].item(),
                "new": plain(_moved(prev, old, mean[g], k, g)),
            }
            for g, name in zip(shown, short_names([prev.groups[g] for g in shown]), strict=True)
        ],
        # The curve of an unknown group; without groups, that of the whole field.
        "whole": plain(_moved(prev, old, prev.whole.mean_prediction, k, None)),
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
    """Histogram of the difference between estimate and mean prediction: share of rows per bar, one bar centred on
    zero.
    """
    k = focus(prev, of)
    rows = np.asarray(prev.n, dtype=np.float64)
    used = rows > 0
    change, rows = (prev.estimate[:, k] - prev.mean_prediction[:, k])[used], rows[used]
    edges = _edges_around_zero(change)
    share = np.histogram(change.clip(edges[0], edges[-1]), edges, weights=rows)[0] / max(rows.sum(), 1e-300)
    return {
        "class": short_names(prev.classes)[k],
        "edges": plain(edges),
        "rows_share": plain(share),
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
            name: [None] * len(prev.classes) if table is None else plain(table if at is None else table[at])
            for name, table in held.items()
        },
        "lab": plain(prev.lab.p_lab),
        "level": prev.level,
        "n": (np.sum(prev.n) if at is None else prev.n[at]).item(),
    }


def reliability(lab: Lab, *, of: Hashable = None) -> Table:
    """Mean prediction and share of a class per bin of the lab; by default the second of two, or the largest."""
    check_kind("lab", lab, Lab)
    if not lab.partition.takes_probabilities:
        given = "values" if lab.of_values else "bin ids"
        raise InputError(
            f"This lab was learnt from {given}, so there are no predictions to compare with the labels. "
            "Learn it from probabilities to see how reliable they are."
        )
    k = _class_at(lab.classes, of, lab.p_lab)
    n = lab.F.sum(axis=0).astype(np.float64)
    series = _series("lab", lab.bin_means[:, k] * n, lab.F[k].astype(np.float64), n)
    return {"class": short_names(lab.classes)[k], "series": [series]}


def reliability_of(
    before: ArrayLike,
    after: ArrayLike,
    y: ArrayLike,
    *,
    classes: Sequence[Hashable],
    of: Hashable = None,
    bins: int = 10,
) -> Table:
    """Mean prediction and share of a class among labelled rows, before and after, in bins of equal size.

    By default for the second of two classes, or the one whose predictions changed most.
    """
    check_alignment(before=before, after=after, y=y)
    if not isinstance(classes, (list, tuple, np.ndarray)):
        raise InputTypeError(f"classes must be a list of the classes in order, but got {classes!r:.60}.")
    old, new = (as_columns(as_array(name, p)) for name, p in {"before": before, "after": after}.items())
    codes = _codes(y)
    _check_labelled(old, new, codes, len(classes))
    k = _class_at(tuple(classes), of, np.abs(new.sum(axis=0) - old.sum(axis=0)))
    hit = (codes == k).astype(np.float64)
    series = [_binned(name, p[:, k], hit, bins) for name, p in (("before", old), ("after", new))]
    return {"class": short_names(tuple(classes))[k], "series": series}


def _binned(name: str, score: Floats, hit: Floats, bins: int) -> Table:
    """Series in bins of equal size; equal scores share a bin, so the order of the rows does not matter."""
    at = cut(score, quantile_cuts(score, bins))
    scores, hits = (np.bincount(at, column).astype(np.float64) for column in (score, hit))
    return _series(name, scores, hits, np.bincount(at).astype(np.float64))


def _series(name: str, scores: Floats, hits: Floats, n: Floats) -> Table:
    """Points from sums per bin, by increasing mean prediction; empty bins are skipped."""
    used = np.flatnonzero(n > 0)
    used = used[np.argsort(scores[used] / n[used], kind="stable")]
    scores, hits, n = scores[used], hits[used], n[used]
    # Two pseudo-rows of each kind for the standard error, which must not vanish at a share of 0 or 1.
    near = (hits + 2.0) / (n + 4.0)
    return {
        "name": name,
        "mean": plain(scores / n),
        "share": plain(hits / n),
        "se": plain(np.sqrt(near * (1.0 - near) / (n + 4.0))),
        "n": plain(n),
    }


def _class_at(classes: tuple[Hashable, ...], of: Hashable, weight: Floats) -> int:
    """Position of the requested class; else of the second of two, or of the one with the largest weight."""
    if of is None:
        return 1 if len(classes) == 2 else int(np.argmax(weight))
    at = int(group_keys.positions(classes, (group_keys.normalize(of),))[0])
    if at < 0:
        raise InputError(f"There is no class {of!r:.60}. The classes are {classes!r:.200}.")
    return at


def _codes(y: Any) -> NDArray[Any]:
    try:
        codes = np.asarray(y)
    except ValueError:
        codes = np.empty(())
    if codes.ndim != 1:
        raise InputTypeError(f"y must be the position of a class for every row, but got {y!r:.60}.")
    return codes


def _check_labelled(old: Floats, new: Floats, codes: NDArray[Any], n_classes: int) -> None:
    shape = (len(codes), n_classes)
    if old.shape != shape or new.shape != shape:
        raise InputError(
            f"before and after must be probabilities of the same {len(codes):,} labelled rows and {n_classes} classes, "
            f"but have the shapes {old.shape} and {new.shape}."
        )
    if not len(codes):
        raise InputError("There are no labelled rows to draw. Give at least one.")
    if codes.dtype.kind not in "iub" or codes.min() < 0 or codes.max() >= n_classes:
        raise InputError(
            f"y must be the positions of the classes, 0 to {n_classes - 1}, but holds {codes.tolist()!r:.60}. "
            "Look each label up in classes first."
        )


def response(lab: Lab) -> Table:
    """The response matrix: distribution of predictions within each class."""
    check_kind("lab", lab, Lab)
    return {
        "classes": short_names(lab.classes),
        "labels": bin_labels(lab),
        "M": lab.M.tolist(),
        "rows": lab.F.sum(axis=1).tolist(),
    }


def pit(before: Any, after: Any, y: ArrayLike) -> Table:
    """Histogram of the probability integral transform before and after, with the standard error of uniform draws."""
    truth = _numbers_of(before, after, y)
    edges = np.linspace(0.0, 1.0, _PIT_BARS + 1)
    n = len(truth)
    shares = [np.histogram(_transform(p, truth), edges)[0] / n for p in (before, after)]
    even = 1.0 / _PIT_BARS
    return {
        "edges": plain(edges),
        "before": plain(shares[0]),
        "after": plain(shares[1]),
        "noise": float(2.0 * np.sqrt(even * (1.0 - even) / n)),
        "n": n,
    }


def coverage(before: Any, after: Any, y: ArrayLike) -> Table:
    """Coverage of central intervals before and after, with the standard error ``se`` of calibrated predictions."""
    truth = _numbers_of(before, after, y)
    nominal = np.array(NOMINAL)
    return {
        "nominal": plain(nominal),
        "before": plain(_held(before, truth)),
        "after": plain(_held(after, truth)),
        "se": plain(np.sqrt(nominal * (1.0 - nominal) / len(truth))),
        "n": len(truth),
    }


def _transform(predicted: Any, y: Floats) -> Floats:
    """The probability integral transform; at an atom the middle of the jump."""
    at = y[:, None]
    middle = (predicted.cdf(at, before=True) + predicted.cdf(at))[:, 0] / 2.0
    return np.asarray(np.clip(middle, 0.0, 1.0))


def _held(predicted: Any, y: Floats) -> Floats:
    share = np.array(NOMINAL)
    ends = predicted.ppf(np.concatenate([1.0 - share, 1.0 + share]) / 2.0)
    lower, upper = np.hsplit(ends, 2)
    inside = (lower <= y[:, None]) & (y[:, None] <= upper)
    return np.asarray(inside.mean(axis=0))


def _numbers_of(before: Any, after: Any, y: ArrayLike) -> Floats:
    for predicted in (before, after):
        if not all(hasattr(predicted, name) for name in ("cdf", "ppf", "__len__")):
            raise InputTypeError(
                f"before and after must be predictive distributions, but got {type(predicted).__name__}. "
                "Make them with fieldcal.regression.from_quantiles, from_moments and so on."
            )
    try:
        truth = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(f"y must be numbers, but holds {str(y)[:60]!r}.") from None
    if truth.ndim != 1 or not len(before) == len(after) == len(truth):
        raise InputError(
            f"before, after and y must be of the same rows, but there are {len(before):,} and {len(after):,} "
            f"predictions and y has shape {truth.shape}."
        )
    if not len(truth):
        raise InputError("There are no numbers to draw. Give at least one.")
    if not np.isfinite(truth).all():
        raise InputError(
            f"{int((~np.isfinite(truth)).sum()):,} of the numbers y are missing or infinite. Drop those rows."
        )
    return truth


# -- selection of groups, where there are more than there is room for -------------------------------------------


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


def worth_showing(lines: Lines, limit: int) -> list[int]:
    """Selected lines: half for the largest, a quarter for the worst fits, the rest for reliable differences."""
    check_limit(limit)
    if len(lines.size) <= limit:
        return list(range(len(lines.size)))
    largest = np.argsort(-lines.size, kind="stable")
    bad = np.argsort(-lines.misfit, kind="stable")[: np.count_nonzero(lines.misfit > 0)]
    half = (limit + 1) // 2
    return take([(largest, half), (bad, (limit - half) // 2), (moved_for_sure(lines), limit)], limit)


def moved_for_sure(lines: Lines) -> Ints:
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


def spread_of(shift: Floats, rows: Floats, limit: int) -> list[int]:
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
    """Refuse limits below one."""
    if isinstance(limit, bool) or not isinstance(limit, (int, np.integer)) or limit < 1:
        raise InputError(f"limit must be a whole number of at least 1, but got {limit!r:.60}.")


# -- names and numbers -----------------------------------------------------------------------------------------


def short_names(given: Sequence[Hashable]) -> list[str]:
    """Keys of groups or classes as short text on one line."""
    whole = [group_keys.show(key, width=_LONGEST_NAME).strip() or '""' for key in given]
    return style.all_shortened(whole, NAME_WIDTH)


def class_labels(lab: Lab) -> list[str]:
    """Classes under an axis; intervals with the fewest digits (at least three) that keep their ends distinct."""
    return list(lab.outcome.short_labels)


def bin_labels(lab: Lab) -> list[str]:
    """One short label per bin of the lab's partition."""
    return lab.partition.labels([group_keys.show(name, width=_IN_BIN) for name in lab.classes])


def plain(values: ArrayLike) -> list[float | None]:
    """A list of Python floats; None for values that are not finite."""
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def number(value: Any) -> float | None:
    """A Python float, or None."""
    return float(value) if math.isfinite(value) else None
