"""estimate: from a Lab and a Field to prevalences per group; check: the verdict alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fieldcal.core.categories import Judge
from fieldcal.core.intervals import Shares
from fieldcal.core.methods import MethodName, as_method
from fieldcal.core.priors import Flat, Prior, PriorLike, as_prior
from fieldcal.core.problem import Problem
from fieldcal.core.trust import Evidence, Trust, decide_trust, measure
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Field, Fit, Lab, Prevalence, Verdict, WholeField
from fieldcal.objects.artefact import check_call
from fieldcal.objects.judged import Judged
from fieldcal.objects.problem import as_problem
from fieldcal.options import as_number, check_level, check_options, is_auto
from fieldcal.types import Floats, Point, PointLike
from fieldcal.verbs.estimate_values import from_labels, is_judged, judged_by, trust_in_values
from fieldcal.verbs.findings import Context
from fieldcal.verbs.model_of import PersistenceLike, knows_groups, model_of
from fieldcal.verbs.posteriors import DEFAULT_LEVEL as DEFAULT_LEVEL
from fieldcal.verbs.posteriors import (
    LabelShift,
    mean_of_field,
    under_label_shift,
    with_labels,
    without_labels,
)
from fieldcal.verbs.reweighting import field_labels, reweighting


def estimate(
    lab: Lab,
    field: Field,
    *,
    method: MethodName = "default",
    prior: PriorLike = "auto",
    trust: float | Literal["auto"] = "auto",
    point: PointLike = "auto",
    level: float | None = 0.9,
    design_effect: float = 1.0,
    persistence: PersistenceLike = "auto",
    protected: bool = False,
    random_state: int = 0,
    max_iter: int = 200,
    progress: Callable[[int, int], None] | None = None,
) -> Prevalence:
    """Work backwards from histograms of predictions to class prevalences, with intervals and a verdict.

    Parameters
    ----------
    lab, field : Lab, Field
        Where some rows of the field were counted with their labels (``count(…, y=…)``), these decide between the
        explanations of how the field moved: see the notes.
    method : "default", "paper" or "reference"
        What "auto" means. "paper" is the paper's: the ``prior`` is "flat" (Definition 8, L_nll alone; pass ``KL(…)``
        for the regularisation of Theorem 10 and Remark 11), of ordered classes and numbers the continuity term of
        Section 5; ``trust=1`` (Lemma 3 as it stands) and ``point="mode"`` (Theorem 10, 3). "reference" is the same as
        the authors' R code has it; its KL loss is ``KLBins(…)``. Learn with the same method.
    prior : "auto", "flat", "kl", "dirichlet", "pooled", "smooth", "continuity", "kl_bins", or KL(strength=10) …
        What is believed before the field is seen. "auto" is "pooled": groups inform each other through
        ``p_g ~ Dirichlet(κ·μ)``, with ``κ`` and ``μ`` learnt from all of them; one population alone is expected to have
        moved, and drawn to the lab as far as its rows say that it has not. Where the classes have an order
        (``learn(…, ordered=True)``) it is "smooth": neighbours inform each other too.
    trust : "auto" or float in [0, 1]
        The probability that label shift holds: 1 is the paper's method, 0 leaves predictions alone. "auto" estimates
        it: from labels of the field, from those of the lab's groups, else from the histograms (at most .59).
    point : "auto", "mean" or "mode"
        Posterior mean, never exactly 0 or 1 (the default), or the maximum a posteriori estimate.
    level : float or None
        Probability content of the intervals; None for no intervals, with ``point="mode"`` only.
    design_effect : float
        How many times larger the variance of the field's histograms is than if its rows were independent: for m rows
        per cluster (of one patient, one camera, one day) whose correlation is ρ, ``1 + (m − 1)·ρ``. By default rows are
        taken to be independent, and where they are not, intervals are too narrow. Unequal weights are known from the
        counts and need not be told.
    persistence : "auto" or float in [0, 1]
        How far groups of the same name in lab and field are the same: the correlation of the model's error for a group,
        and of the group's place among the others, between lab and field. 0: the lab's groups say nothing about field
        groups of the same name. "auto" estimates it from how well the groups' histograms in the field resemble those in
        the lab.
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
    What the interval of ``estimate`` means. With ``trust=1`` it is the posterior interval of the group's prevalence if
    label shift holds, with the noise of the field and of M. Otherwise it is for the share of the rows themselves, over
    all hypotheses that labels have not ruled out: predictions mean what they meant in the lab, label shift, or neither.
    The smooth prior of ordered classes also assumes that neighbours move together. Where a single class moves alone,
    and predictions are too blurred to show it, the interval is too narrow; ``prior="pooled"`` is wider.

    Groups that the lab knows. A multilevel model has the model's error for each group, learned from the group's lab
    labels, and how much of the differences between groups is label shift. From lab to field a group keeps its error as
    far as ``persistence`` says. It is used where lab and field have the same group columns, the classes have no order
    and ``trust``, ``method`` and ``point`` are left at their defaults. See `docs/explanation/model.md`.

    Labels of the field weigh the hypotheses by how well each predicts the labels, and move the estimate itself, bin by
    bin where there are enough. With many labels it is the share of the labels, poststratified by score. Groups share
    what they have in common. With ``trust=1`` labels can only make the estimate under label shift more precise.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=4000, n_field=4000, n_groups=12, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> prev = fieldcal.estimate(lab, field)
    >>> prev.estimate.shape
    (12, 2)
    """
    check_call("fieldcal.estimate(lab, field)", (lab, Lab), (field, Field))
    _check_options(point, protected, random_state, max_iter, progress)
    chosen, trust, shown = _chosen(lab, method, prior, trust, point)
    _check(lab, field, chosen, level=level, point=shown)
    words = "a number, 1 + (m - 1)·r for clusters of m rows with correlation r"
    design_effect = as_number("design_effect", design_effect, least=1, words=words)
    judged = None
    if is_judged(lab, prior=prior, method=method, trust=trust, point=point):
        judged = Judged.of(lab, field, design_effect=design_effect, seed=random_state)
        options = {"design_effect": design_effect, "protected": protected}
        if judged.by_labels:
            return from_labels(lab, field, judged, level=level or DEFAULT_LEVEL, **options)
        chosen, trust = Judge(), 1.0
    elif lab.of_values:
        trust = trust_in_values(field, trust)
    given = as_persistence(persistence)
    problem = as_problem(lab, field, design_effect=design_effect) if judged is None else judged.problem
    urc = chosen.posterior(problem, random_state=random_state)
    # Labels are weighed against the spread under label shift, also where no interval is asked for.
    spread = level or DEFAULT_LEVEL if field.labelled else level
    shift = under_label_shift(
        chosen, urc, shown, spread, seed=random_state, max_iter=max_iter, progress=progress
    )
    evidence = measure(
        problem,
        urc=shift.each.p,
        whole=shift.whole.p[0],
        rehearsal=lab.rehearsal,
        edge=urc.edge,
        mode=shift.each.mode,
    )
    before, shifted = _trust(trust, lab, problem, evidence, shift), evidence.overall.shifted
    found, by_model = without_labels(lab, field, problem, shift, before, shifted=shifted), None
    default = method == "default" and is_auto(trust) and shown == "mean" and level is not None
    known = default and knows_groups(lab, field) and not evidence.unlike_any_mixture
    if known or (field.labelled and judged is None):
        moments = shift.moments
        model = model_of(lab, field, problem, shift=moments, trust=before, shifted=shifted, given=given)
        found = with_labels(found, model, field, random_state)
        by_model = reweighting(lab, found, moments, field_labels(lab, field, found, before), given)
    each, whole = (
        _Answer.of(found.shares(), problem.V, level),
        _Answer.of(found.whole(), problem.total[None], level),
    )
    context = Context(
        lab,
        field,
        evidence,
        before if by_model is None else by_model.trust_after(before, grouped=field.grouped),
        protected,
        whole=whole.row(lab, field, shift.whole.p[0]),
        width=each.width,
        V=problem.V,
        steps=found.histograms.histograms.steps
        if by_model is None
        else by_model.steps(unseen=not field.grouped),
        shares=each.estimate,
        design_effect=design_effect,
        by_model=by_model,
        judged=judged,
    )
    prev = judged_by(
        context,
        prior=chosen.spec(),
        learnt=urc.learnt,
        point=shown,
        level=level,
        seed=random_state,
        urc=shift.each.p,
        whole=context.whole,
        estimate=each.estimate,
        lower=each.lower,
        upper=each.upper,
        fit=Fit.of(shift.each.mode, evidence),
    )
    return prev.remembering(chosen)


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
    >>> _, lab, field, _ = fieldcal.datasets.example()
    >>> fieldcal.check(lab, field).level
    'care'
    """
    check_call("fieldcal.check(lab, field)", (lab, Lab), (field, Field))
    return estimate(lab, field, **options).verdict


def _chosen(
    lab: Lab, method: MethodName, prior: PriorLike, trust: Any, point: PointLike
) -> tuple[Prior, Any, Point]:
    preset = as_method(method)
    preset.check(len(lab.classes))
    if is_auto(prior):
        prior = preset.prior(len(lab.classes), lab.ordered)
    return (
        as_prior(prior, ordered=lab.ordered and len(lab.classes) > 2),
        preset.trust if is_auto(trust) else trust,
        preset.point if point == "auto" else point,
    )


def check_progress(progress: Any) -> None:
    """Refuse what cannot be called."""
    if progress is not None and not callable(progress):
        raise InputTypeError(f"progress must be a function of two numbers, but got {progress!r:.60}.")


def _check_options(point: Any, protected: Any, random_state: Any, max_iter: Any, progress: Any) -> None:
    check_options(point=point, protected=protected, random_state=random_state, max_iter=max_iter)
    check_progress(progress)


def _check(lab: Lab, field: Field, prior: Prior, *, level: float | None, point: str) -> None:
    if not field.is_of(lab):
        raise InputError(
            f"This field was counted with another lab ({field.lab[:8]}…, not {lab.digest[:8]}…). Count it again "
            "with this lab."
        )
    if not np.sum(field.n) > 0:
        raise InputError("The field is empty: it has no rows, so nothing to estimate from. Count some first.")
    if level is None:
        if point == "mean":
            raise InputError(
                f"Without a level there is no posterior to average. Use {option('point', 'mode')}, or give a level."
            )
    else:
        check_level(level)
    if lab.n_bins == 1 and isinstance(prior, Flat):
        raise InputError(
            "The prevalences cannot be identified: all lab predictions fall into one bin, so that every field "
            "looks the same. Use a classifier that varies, or a prior other than 'flat'."
        )


def _trust(trust: Any, lab: Lab, problem: Problem, evidence: Evidence, shift: LabelShift) -> Trust:
    if is_auto(trust):
        return decide_trust(
            problem, evidence, urc=shift.each.p, whole=shift.whole.p[0], centres=lab.bin_means
        )
    if isinstance(trust, bool) or not isinstance(trust, (int, float, np.number)) or not 0 <= trust <= 1:
        raise InputError(
            f"trust must be 'auto' or a probability from 0 (leave alone) to 1 (label shift holds), but got {trust!r}."
        )
    return Trust(float(trust), float(trust), set_by_caller=True)


@dataclass(frozen=True)
class _Answer:
    """Estimates with their intervals, of groups or of one population."""

    estimate: Floats  # (G, K)
    lower: Floats | None
    upper: Floats | None

    @classmethod
    def of(cls, shares: Shares, V: Floats, level: float | None) -> _Answer:
        lower, upper = (None, None) if level is None else shares.interval(level, V.sum(axis=1))
        return cls(shares.estimate, lower, upper)

    @property
    def width(self) -> Floats | None:
        return None if self.lower is None or self.upper is None else self.upper - self.lower

    def row(self, lab: Lab, field: Field, urc: Floats) -> WholeField:
        """Of the whole field, whose shares under label shift are urc (K,)."""
        lower, upper = (None if end is None else end[0] for end in (self.lower, self.upper))
        return WholeField(
            n=float(np.sum(field.n)),
            mean_prediction=mean_of_field(lab, field),
            urc=urc,
            estimate=self.estimate[0],
            lower=lower,
            upper=upper,
        )


def as_persistence(given: Any) -> float | None:
    """None for "auto"."""
    if is_auto(given):
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float, np.number)) or not 0 <= given <= 1:
        raise InputError(
            "persistence must be 'auto' or a number from 0 (lab groups say nothing about field groups of the same "
            f"name) to 1, but got {given!r:.60}."
        )
    return float(given)
