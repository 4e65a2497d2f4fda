"""estimate: from a Lab and a Field to prevalences per group; check: the verdict alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from fieldcal.core import likelihood
from fieldcal.core.goodness_of_fit import common_movement, misfit
from fieldcal.core.priors import Flat, Prior, PriorLike, as_prior
from fieldcal.core.reweight import Parts, beta_interval, class_weights, learn_from_labels, safe_log
from fieldcal.core.solve import Solution
from fieldcal.core.trust import Rehearsal, Trust, decide_trust, mean_recalibrated
from fieldcal.errors import (
    ConvergenceWarning,
    InputError,
    InputTypeError,
    Option,
    PoolingWarning,
    TrustWarning,
)
from fieldcal.objects import Field, Fit, Lab, Prevalence, group_keys
from fieldcal.objects.verdict import Verdict
from fieldcal.types import Floats, Keys, Point
from fieldcal.verbs.findings import Findings, group_status, is_foreign, judge, whole_misfit
from fieldcal.verbs.solving import DEFAULT_LEVEL, Answer, Task, solve_task, whole_field

_TINY = 1e-300


def estimate(
    lab: Lab,
    field: Field,
    *,
    prior: PriorLike = "auto",
    trust: float | Literal["auto"] = "auto",
    point: Point = "mean",
    level: float | None = 0.9,
    labelled: Any = None,
    protected: bool = False,
    random_state: int = 0,
    max_iter: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> Prevalence:
    """Work backwards from histograms of predictions to class prevalences, with intervals and a verdict.

    Parameters
    ----------
    lab, field : Lab, Field
    prior : "auto", "flat", "kl", "dirichlet", "pooled", "smooth", "continuity", or KL(strength=10) …
        What is believed before the field is seen. "auto" is "pooled": groups inform each other through
        ``p_g ~ Dirichlet(κ·μ)``, with ``κ`` and ``μ`` learnt from all of them; one population alone is expected to have
        moved, and drawn to the lab as far as its rows say that it has not. Where the classes have an order
        (``learn(…, ordered=True)``) it is "smooth": neighbours inform each other too.
    trust : "auto" or float in [0, 1]
        How far predictions follow the estimate: 1 is the paper, 0 leaves them alone. "auto" uses the rehearsal
        stored in the lab, and what the field's histograms say.
    point : "mean" or "mode"
        Posterior mean (never exactly 0 or 1), or the maximum a posteriori estimate.
    level : float or None
        Probability content of the intervals; None for no intervals, with ``point="mode"`` only.
    labelled : (K,) or (G, K) counts, or a mapping from group to (K,) counts, optional
        Labels from the field, where a few have come in: rows per class, of rows that are *not* counted in ``field``.
        They enter the same likelihood exactly.
    protected : bool
        Declare that the groups must not influence decisions. They are estimated; `recalibrate` refuses to apply them
        unless told ``acknowledge=True``.
    random_state : int
        Seed of the draws of M.
    max_iter : int
        Iteration limit of the solver.
    progress : callable, optional
        Called now and then with the number of groups that have their interval, and of all groups.

    Returns
    -------
    Prevalence

    Notes
    -----
    What the interval of ``estimate`` means. With trust 1 and no lab groups it is the posterior interval of the group's
    prevalence, with the noise of the field and of M, if the assumption holds. With a rehearsal it is widened by how
    far the lab's own groups missed beyond that noise, so that it is meant for real groups. Where trust was earned
    without a rehearsal, or is lower than what a rehearsal earned, it covers the doubt about the trust as well. With the
    smooth prior of ordered classes it also assumes what that prior does: that neighbours move together. Where a single
    class moves alone, and predictions are too blurred to show it, the interval is too narrow; ``prior="pooled"`` does
    not assume it, and is wider.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=4000, n_field=4000, n_groups=12, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> prev = fieldcal.estimate(lab, field)
    >>> prev.estimate.shape
    (12, 2)
    >>> bool(abs(prev.urc - data.prevalence).mean() < abs(prev.mean_prediction - data.prevalence).mean())
    True
    """
    chosen = as_prior(prior, ordered=lab.ordered and len(lab.classes) > 2)
    _check(lab, field, chosen, level=level, point=point)
    labels = _labels(labelled, lab, field)
    task = Task(lab, field, chosen, point, level, labels, random_state, max_iter, progress)
    answer = solve_task(task)
    common = whole_field(task, answer)
    decided = _trust(trust, task, answer, common)
    findings = _findings(task, answer, common, decided, asked=trust != "auto")
    _warn(task, answer, findings)
    parts = _parts(field, answer.urc, common)
    value = parts.value(decided.common, decided.groups)
    value, lower, upper = _interval(task, answer, parts, value, decided, asked=trust != "auto")
    return Prevalence(
        lab=lab,
        field=field,
        prior=answer.prior,
        point=point,
        level=level,
        seed=random_state,
        alpha=answer.alpha,
        labelled=task.labelled,
        urc=answer.urc,
        common=common,
        estimate=value,
        lower=lower,
        upper=upper,
        trust_between=decided.groups,
        trust_overall=decided.common,
        movement=decided.movement,
        weights=parts.weights(lab.p_lab, decided.common, decided.groups),
        overall_weights=class_weights(common, lab.p_lab, trust=decided.common),
        status=group_status(lab, field, findings, answer.mode.converged),
        verdict=judge(lab, field, findings),
        protected=protected,
        fit=_fit(answer.mode, findings),
    )


def check(lab: Lab, field: Field, **options: Any) -> Verdict:
    """May the predictions be recalibrated? The verdict alone.

    Parameters
    ----------
    lab, field : Lab, Field
    **options : as for `estimate`

    Returns
    -------
    Verdict
        ``level`` is ``"ok"``, ``"care"`` or ``"do_not_use"``; ``reasons`` say why, the weightiest first.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=4000, n_field=4000, n_groups=12, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> fieldcal.check(lab, field).level in ("ok", "care")
    True
    """
    return estimate(lab, field, **options).verdict


def _check(lab: Lab, field: Field, prior: Prior, *, level: float | None, point: str) -> None:
    if not isinstance(lab, Lab) or not isinstance(field, Field):
        raise InputTypeError(
            f"estimate takes a Lab and a Field, in this order, but got {type(lab).__name__} and {type(field).__name__}."
        )
    if field.lab != lab.digest:
        raise InputError(
            f"This field was counted with another lab ({field.lab[:8]}…, not {lab.digest[:8]}…). Count it again "
            "with this lab."
        )
    if point not in ("mean", "mode"):
        raise InputError(f"point must be 'mean' or 'mode', but got {point!r}.")
    if level is None:
        if point == "mean":
            raise InputError(
                "Without a level there is no posterior to average. Use ",
                Option("point", "mode"),
                ", or give a level.",
            )
    elif not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, for instance 0.9, but got {level!r}.")
    if lab.n_bins == 1 and isinstance(prior, Flat):
        raise InputError(
            "The prevalences cannot be identified: all lab predictions fall into one bin, so that every field "
            "looks the same. Use a classifier that varies, or a prior other than 'flat'."
        )


def _labels(labelled: Any, lab: Lab, field: Field) -> Floats | None:
    """Labelled field rows as (G, K) counts."""
    if labelled is None:
        return None
    G, K = len(field.groups), len(lab.classes)
    if isinstance(labelled, Mapping):
        table = np.zeros((G, K))
        where = group_keys.positions(field.groups, tuple(group_keys.normalize(k) for k in labelled))
        for at, (key, counts) in zip(where, labelled.items(), strict=True):
            if at < 0:
                raise InputError(
                    f"There are labels of group {group_keys.show(key)!r}, but the field has no such group."
                )
            table[at] = _label_row(counts, lab.classes)
    else:
        table = np.asarray(labelled, dtype=np.float64)
        table = table[None] if table.ndim == 1 and G == 1 else table
    if table.shape != (G, K) or not np.isfinite(table).all() or table.min(initial=0.0) < 0:
        raise InputError(
            f"labelled must be counts of shape ({G}, {K}), groups by classes, finite and not negative, but has shape "
            f"{table.shape}."
        )
    return table


def _label_row(counts: Any, classes: Keys) -> Floats:
    if not isinstance(counts, Mapping):
        given = np.asarray(counts)
        if given.shape != (len(classes),) or given.dtype.kind not in "biuf":
            raise InputError(
                f"labelled counts of a group must be {len(classes)} numbers, but got {counts!r:.80}."
            )
        return given.astype(np.float64)
    where = group_keys.positions(classes, tuple(group_keys.normalize(k) for k in counts))
    if (where < 0).any():
        raise InputError(f"labelled counts name a class that is not among {classes!r:.200}.")
    row = np.zeros(len(classes))
    row[where] = list(counts.values())
    return row


def _trust(trust: Any, task: Task, answer: Answer, common: Floats) -> Trust:
    lab, V = task.lab, task.V
    F = np.asarray(lab.F, dtype=np.float64)
    if trust == "auto" and (lab.n_bins == 1 or is_foreign(whole_misfit(lab, task.field, common))):
        return Trust(0.0, 0.0, common_movement(F, V.sum(axis=0), smoothing=lab.smoothing), None)
    if trust == "auto":
        return decide_trust(
            F,
            V,
            p_lab=lab.p_lab,
            common=np.maximum(common, _TINY),
            each=np.maximum(answer.urc, _TINY),
            centres=lab.bin_means,
            offset=lab.offset,
            rehearsal=lab.rehearsal,
            grouped=task.field.grouped,
            smoothing=lab.smoothing,
        )
    if isinstance(trust, bool) or not isinstance(trust, (int, float, np.number)) or not 0 <= trust <= 1:
        raise InputError(
            f"trust must be 'auto' or a number from 0 (leave alone) to 1 (URC), but got {trust!r}."
        )
    movement = common_movement(F, V.sum(axis=0), smoothing=lab.smoothing)
    return Trust(float(trust), float(trust), movement, None)


def _parts(field: Field, urc: Floats, common: Floats) -> Parts:
    """What the values are made of; a group without rows predicts what the whole field does."""
    n = np.asarray(field.n, dtype=np.float64)
    sums = field.score_sums.sum(axis=0, dtype=np.float64)  # over all groups the units can pass 64 bits
    everywhere = sums / max(float(sums.sum()), 1e-300)
    return Parts(np.where(n[:, None] > 0, field.mean_prediction, everywhere), urc, common, n)


def _interval(
    task: Task, answer: Answer, parts: Parts, value: Floats, trust: Trust, *, asked: bool
) -> tuple[Floats, Floats | None, Floats | None]:
    """The interval of ``estimate``, see the notes of `estimate` for what it means; and the value after field labels."""
    sigma, tau = trust.common, trust.groups
    rehearsal = task.lab.rehearsal if task.field.grouped else None
    if answer.sd is None or (sigma == tau == 1.0 and rehearsal is None):
        return value, answer.lower, answer.upper
    logs = safe_log(parts.weights(task.lab.p_lab, sigma, tau))
    _, labels = mean_recalibrated(task.lab.bin_means, task.V, logs)
    on_logit = _excess_variance(rehearsal, tau) + np.zeros(value.shape)
    if not asked:
        unrehearsed = task.field.grouped and rehearsal is None
        on_logit += parts.doubt(sigma, tau, about_common=trust.movement.moved, about_groups=unrehearsed)
        if rehearsal is not None:
            on_logit += parts.held_back(sigma, tau, rehearsal.tau)
    # The value moves along odds, so the posterior's spread enters on that scale too.
    on_logit += (max(sigma, tau) * answer.sd / np.maximum(answer.urc * (1 - answer.urc), 1e-9)) ** 2
    variance = labels + (value * (1 - value)) ** 2 * on_logit
    if task.labelled is not None and not sigma == tau == 1.0:
        value, variance = learn_from_labels(value, variance, task.labelled)
    return value, *beta_interval(value, variance, task.level or DEFAULT_LEVEL, n=parts.n)


def _excess_variance(rehearsal: Rehearsal | None, tau: float) -> Floats | float:
    """How far lab groups missed beyond noise at this trust, as a variance on the logit scale."""
    if rehearsal is None or rehearsal.excess is None:
        return 0.0
    return np.array([np.interp(tau, rehearsal.exponents, column) for column in rehearsal.excess.T])


def _findings(task: Task, answer: Answer, common: Floats, trust: Trust, *, asked: bool) -> Findings:
    lab, V = task.lab, task.V
    return Findings(
        whole=whole_misfit(lab, task.field, common),
        misfit=misfit(lab.M, V, answer.urc, rows=lab.A.sum(axis=1)),
        novel=likelihood.novel(np.asarray(lab.F, dtype=np.float64), V),
        trust=trust,
        asked=asked,
        edge=answer.edge,
    )


def _fit(mode: Solution, findings: Findings) -> Fit:
    misfit = findings.misfit
    return Fit(
        gap=mode.gap,
        n_iter=mode.n_iter,
        converged=mode.converged,
        novel=findings.novel,
        statistic=misfit.statistic,
        df=misfit.df,
        p_value=misfit.p_value,
        adjusted=misfit.adjusted,
        effect=misfit.effect,
    )


def _warn(task: Task, answer: Answer, findings: Findings) -> None:
    mode = answer.mode
    if not mode.converged.all():
        warnings.warn(
            f"{int((~mode.converged).sum())} of {len(mode.gap)} groups stopped at the iteration limit, the worst "
            f"with an optimality gap of {mode.gap.max():.2g} per row. Raise max_iter.",
            ConvergenceWarning,
            stacklevel=3,
        )
    if answer.edge == "low":
        warnings.warn(
            "The groups differ more than prevalences can (κ at the low edge of its range): misfit that looks like "
            "variance. Read the verdict before you use the estimates.",
            PoolingWarning,
            stacklevel=3,
        )
    trust = findings.trust
    unrehearsed = task.lab.rehearsal is None or not task.field.grouped
    if not findings.asked and unrehearsed and trust.movement.moved and trust.common > 0:
        warnings.warn(
            TrustWarning(
                "The field has moved, and whether by label shift was not rehearsed: give ",
                Option("groups", verb="learn"),
                " the grouping that the field has, or set trust yourself. The verdict says more.",
            ),
            stacklevel=3,
        )
