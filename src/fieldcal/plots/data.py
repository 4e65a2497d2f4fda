"""The table under each picture: plain lists, numbers and texts, ready for JSON.

Functions have the names of the pictures. None stands for what there is no number for.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.checks import Misfit
from fieldcal.errors import InputError
from fieldcal.objects import Fit, Lab, Prevalence
from fieldcal.plots.agreement import reliability, reliability_of
from fieldcal.plots.choosing import Lines, spread_of, worth_showing
from fieldcal.plots.distributions import coverage, distribution, mean_over_rows, pit
from fieldcal.plots.labels import bin_labels, names
from fieldcal.plots.numbers import Table, number, plain
from fieldcal.verbs.judging import whole_misfit

__all__ = [
    "bin_labels",
    "bins",
    "changes",
    "coverage",
    "curve",
    "distribution",
    "focus",
    "forest",
    "pit",
    "reliability",
    "reliability_of",
    "response",
    "trust",
]

Floats = NDArray[np.float64]

_POINTS = 51
_BARS = 30
_NARROW = 0.005  # changes are never drawn as if less than this were far
_SAME = 1e-9  # changes smaller than this are rounding


def focus(prev: Prevalence, of: Hashable = None) -> int:
    """The position of the class to look at: the one asked for, the second of two, or the one that is corrected most."""
    return prev.shown_class() if of is None else prev._class(of)


def trust(lab: Lab, *, used: float | None = None) -> Table:
    """Change of log loss against the exponent, as rehearsed."""
    rehearsal = lab.rehearsal
    if rehearsal is None:
        raise InputError(
            "This lab has no rehearsal to draw: it was learnt without groups, or with too few of them. "
            "Learn it with groups: fieldcal.learn(proba, y, groups=…)."
        )
    return {
        "exponents": plain(rehearsal.exponents),
        "change": plain(rehearsal.curve),
        "se": plain(rehearsal.curve_se),
        "chosen": float(rehearsal.tau),
        "used": None if used is None else float(used),
        "groups": int(rehearsal.n_groups),
        "rows": int(rehearsal.n_rows),
    }


def forest(prev: Prevalence, *, of: Hashable = None, limit: int = 30, truth: Floats | None = None) -> Table:
    """Prevalence per group of one class; of one population, one line per class.

    ``truth`` are shares among labelled rows, (G, K), NaN where there are none; by default those of the estimate.
    """
    k = focus(prev, of)
    grouped = prev.field.grouped
    lines = _group_lines(prev, k) if grouped else _class_lines(prev)
    chosen = np.array(worth_showing(lines, limit), dtype=np.intp)
    by_place = prev.lab.ordered and not grouped
    chosen = chosen[np.argsort(chosen if by_place else -lines.value[chosen], kind="stable")]
    at = (chosen, k) if grouped else (0, chosen)
    groups = chosen.tolist() if grouped else [0] * len(chosen)
    return {
        "class": names(prev.classes)[k] if grouped else None,
        "level": prev.level,
        "groups": names([(prev.groups if grouped else prev.classes)[i] for i in chosen]),
        "n": np.asarray(prev.n)[groups].tolist(),
        **{name: _cells(getattr(prev, name), at) for name in ("naive", "value", "lower", "upper", "urc")},
        "labelled": _cells(_labelled_share(prev) if truth is None else truth, at),
        "status": [prev.status[g] for g in groups],
        "shown": len(chosen),
        "total": len(lines.value),
        "common": _whole(prev, lines.value) if grouped else None,
        "lab": float(prev.lab.p_lab[k]) if grouped else None,
        "lab_each": None if grouped else plain(prev.lab.p_lab[chosen]),
    }


def bins(prev: Prevalence, *, group: Hashable = ...) -> Table:
    """Rows per bin: observed, expected under the estimate, and in the lab. The default is the whole field."""
    lab, field = prev.lab, prev.field
    misfit: Misfit | Fit = prev.fit
    if group is ...:
        misfit = whole_misfit(lab, field, prev.common)
        name, V, p, at = None, field.V.sum(axis=0), prev.common, 0
    else:
        at = prev._row(group)
        name, V, p = names([prev.groups[at]])[0], field.V[at], prev.urc[at]
    n = V.sum()
    expected = p @ lab.M
    # The noise of the expected share: an empty bin is not free of noise.
    noise = 2.0 * np.sqrt(expected * (1.0 - expected) / n) if n > 0 else np.full(len(V), np.nan)
    return {
        "group": name,
        "labels": bin_labels(lab),
        "observed": plain(V / n if n > 0 else np.full(len(V), np.nan)),
        "expected": plain(expected),
        "lab": plain(lab.F.sum(axis=0) / lab.F.sum()),
        "noise": plain(noise),
        "n": n.item(),
        "effect": number(misfit.effect[at]),
        "p_value": number(misfit.p_value[at]),
        "df": int(misfit.df),
    }


def curve(prev: Prevalence, *, of: Hashable = None, limit: int = 8) -> Table:
    """Old against new predictions of one class, for groups that differ, and for the whole field."""
    k = focus(prev, of)
    old = np.linspace(0.0, 1.0, _POINTS)
    rows = np.asarray(prev.n, dtype=np.float64)
    shown: list[int] = []
    if prev.field.grouped:
        shift = _shift(prev.weights, prev.naive, k)
        shown = sorted(spread_of(shift, rows, limit), key=lambda g: -shift[g])
    # One population is its only group; otherwise what a group gets that was never seen.
    weights = prev.overall_weights if prev.field.grouped else prev.weights[0]
    whole = _shift(weights[None], mean_over_rows(prev, prev.naive)[None], k)[0]
    return {
        "class": names(prev.classes)[k],
        "old": plain(old),
        "curves": [
            {
                "name": names([prev.groups[g]])[0],
                "n": prev.n[g].item(),
                "new": plain(_shifted(old, shift[g])),
            }
            for g in shown
        ],
        "whole": plain(_shifted(old, whole)),
        "total": len(prev.groups) if prev.field.grouped else 0,
    }


def response(lab: Lab) -> Table:
    """The response matrix: where the predictions of each class fall."""
    return {
        "classes": names(lab.classes),
        "labels": bin_labels(lab),
        "M": lab.M.tolist(),
        "rows": lab.F.sum(axis=1).tolist(),
    }


def changes(prev: Prevalence, *, of: Hashable = None) -> Table:
    """How far the prevalence of a class moves, over all groups: the share of rows per bar, one bar around zero."""
    k = focus(prev, of)
    rows = np.asarray(prev.n, dtype=np.float64)
    used = rows > 0
    change, rows = (prev.value[:, k] - prev.naive[:, k])[used], rows[used]
    edges = _edges_around_zero(change)
    share = np.histogram(change.clip(edges[0], edges[-1]), edges, weights=rows)[0] / max(rows.sum(), 1e-300)
    return {
        "class": names(prev.classes)[k],
        "edges": plain(edges),
        "rows_share": plain(share),
        "groups": len(change),
        "up": int((change > _SAME).sum()),
        "down": int((change < -_SAME).sum()),
    }


def _group_lines(prev: Prevalence, k: int) -> Lines:
    odd = np.fromiter(("inconsistent" in s for s in prev.status), dtype=bool, count=len(prev.status))
    rows = np.asarray(prev.n, dtype=np.float64)
    lower, upper = (None if a is None else a[:, k] for a in (prev.lower, prev.upper))
    misfit = np.where(odd, prev.fit.effect, 0.0)
    return Lines(rows, rows, prev.naive[:, k], prev.value[:, k], lower, upper, misfit)


def _class_lines(prev: Prevalence) -> Lines:
    rows = np.full(len(prev.classes), float(prev.n[0]))
    lower, upper = (None if a is None else a[0] for a in (prev.lower, prev.upper))
    return Lines(prev.value[0], rows, prev.naive[0], prev.value[0], lower, upper, np.zeros(len(rows)))


def _labelled_share(prev: Prevalence) -> Floats | None:
    if prev.labelled is None:
        return None
    total = prev.labelled.sum(axis=1, keepdims=True)
    nothing = np.full(prev.labelled.shape, np.nan)
    return np.asarray(np.divide(prev.labelled, total, out=nothing, where=total > 0))


def _whole(prev: Prevalence, value: Floats) -> float | None:
    """The mean over all rows of the field."""
    rows = np.asarray(prev.n, dtype=np.float64)
    return float(np.average(value, weights=rows)) if rows.sum() > 0 else None


def _shift(weights: Floats, naive: Floats, k: int) -> Floats:
    """What the log odds of class k are moved by, (G,).

    The other classes count as one, mixed as in the mean prediction. Exact for two classes.
    """
    others = np.delete(naive, k, axis=1)
    total = others.sum(axis=1, keepdims=True)
    share = np.divide(others, total, out=np.full(others.shape, 1.0 / others.shape[1]), where=total > 0)
    rest = (share * np.delete(weights, k, axis=1)).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = np.log(weights[:, k]) - np.log(rest)
    return np.where(np.isnan(shift), 0.0, shift)


def _shifted(old: Floats, shift: float) -> Floats:
    """New predictions; 0 and 1 stay what they are, as in `recalibrate`."""
    up, down = np.exp(min(shift, 0.0)), np.exp(min(-shift, 0.0))
    total = old * up + (1.0 - old) * down
    return np.asarray(np.divide(old * up, total, out=old.copy(), where=total > 0))


def _edges_around_zero(change: Floats) -> Floats:
    """At most 30 bars of a round width, one of them with zero in its middle."""
    low, high = float(change.min(initial=-_NARROW)), float(change.max(initial=_NARROW))
    least = (high - low) / (_BARS - 2)
    power = 10.0 ** np.floor(np.log10(least))
    step = next(power * s for s in (1.0, 2.0, 5.0, 10.0) if power * s >= least * (1 - 1e-9))
    return np.asarray((np.arange(np.round(low / step), np.round(high / step) + 2) - 0.5) * step)


def _cells(table: Floats | None, at: Any) -> list[float | None]:
    """Some cells of a table (G, K); None for each where there is no table."""
    if table is None:
        return [None] * int(np.size(at[0] if np.ndim(at[0]) else at[1]))
    return plain(np.asarray(table)[at])
