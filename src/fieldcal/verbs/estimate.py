"""estimate: from a Lab and a Field to prevalences per group; check: the verdict alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fieldcal.core.categories import Judge
from fieldcal.core.intervals import Shares
from fieldcal.core.methods import MethodName, as_method
from fieldcal.core.priors import Flat, Prior, PriorLike, as_prior
from fieldcal.core.problem import Problem
from fieldcal.core.reweight import Step
from fieldcal.core.solve import Solution
from fieldcal.core.trust import Evidence, Trust, decide_trust, measure
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Field, Fit, Lab, Prevalence, Verdict, WholeField
from fieldcal.objects.artefact import check_call
from fieldcal.objects.judged import Judged
from fieldcal.objects.prevalence import JUDGE
from fieldcal.objects.prevalence_parts import FromModel
from fieldcal.objects.problem import as_problem
from fieldcal.options import as_number, check_level, check_options, is_auto
from fieldcal.types import Floats, Point, PointLike
from fieldcal.verbs.findings import Context, findings, group_status, warn_about_field
from fieldcal.verbs.model_of import PersistenceLike, knows_groups, model_of
from fieldcal.verbs.posteriors import DEFAULT_LEVEL as DEFAULT_LEVEL
from fieldcal.verbs.posteriors import (
    LabelShift,
    field_labels,
    mean_of_field,
    reweighting,
    under_label_shift,
    with_labels,
    without_labels,
)


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
        counts and need not be given.
    persistence : "auto" or float in [0, 1]
        How far groups of the same name in lab and field are the same: the correlation of the model's error for a group,
        and of the group's place among the others, between lab and field. 0: the lab's groups say nothing about field
        groups of the same name. "auto" estimates it from how well the groups' histograms in the field resemble those in
        the lab.
    protected : bool
        Declare that the groups must not influence decisions. They are estimated; `recalibrate` refuses to apply them
        without ``acknowledge=True``.
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
    defaults = is_auto(prior) and method == "default" and is_auto(trust)
    chosen, trust, shown = _chosen(lab, method, prior, trust, point)
    _check(lab, field, chosen, level=level, point=shown)
    words = "a number, 1 + (m - 1)·r for clusters of m rows with correlation r"
    design_effect = as_number("design_effect", design_effect, least=1, words=words)
    judged = None
    if lab.of_values:
        trust = 1.0 if is_auto(trust) else trust  # categories have no probabilities that could be left alone
        judged = _judged(lab, field, design_effect, random_state, defaults=defaults and point != "mode")
    asked = _Asked(
        lab,
        field,
        as_problem(lab, field, design_effect=design_effect) if judged is None else judged.problem,
        chosen if judged is None else Judge(),
        trust,
        shown,
        level,
        as_persistence(persistence),
        random_state,
        design_effect,
        protected,
        judged,
    )
    if judged is not None and judged.by_labels:
        return _prevalence(asked, _from_labels(asked, judged))
    default = method == "default" and is_auto(trust) and shown == "mean" and level is not None
    solved = _under_hypotheses(asked, default=default, max_iter=max_iter, progress=progress)
    return _prevalence(asked, solved).remembering(asked.prior)


@dataclass(frozen=True)
class _Asked:
    """What is estimated, and with what."""

    lab: Lab
    field: Field
    problem: Problem
    prior: Prior
    trust: Any
    point: Point
    level: float | None
    persistence: float | None
    seed: int
    design_effect: float
    protected: bool
    judged: Judged | None


@dataclass(frozen=True)
class _Solved:
    """Shares of the groups and of the whole field, and what they rest on."""

    each: Shares
    whole: Shares
    rows: Floats  # (1,) of the whole field
    urc: Floats  # (G, K)
    whole_urc: Floats  # (K,)
    evidence: Evidence
    trust: Trust
    prior: dict[str, Any]
    learnt: dict[str, Any] = dataclasses.field(default_factory=dict)
    mode: Solution | None = None
    steps: tuple[Step, ...] = ()
    by_model: FromModel | None = None


def _judged(lab: Lab, field: Field, design_effect: float, seed: int, *, defaults: bool) -> Judged | None:
    """What labelled rows say of a judge, if they decide alone: a caller's own prior or mode is URC's."""
    if defaults:
        return Judged.of(lab, field, design_effect=design_effect, seed=seed)
    if field.labelled:
        raise InputError(
            "With labelled field rows, categories support only the default prior and point estimate. Leave "
            f"{option('prior')}, {option('trust')}, {option('method')} and {option('point')} out, or count without "
            "labels."
        )
    return None


def _from_labels(asked: _Asked, judged: Judged) -> _Solved:
    """From labelled field rows and all others, each counted once: nothing is assumed of the judge over all rows."""
    each, whole = judged.posterior.shares(), judged.posterior.whole()
    evidence = measure(asked.problem, urc=each.estimate, whole=whole.estimate[0])
    rows = np.array([asked.problem.V.sum()])
    return _Solved(
        each, whole, rows, each.estimate, whole.estimate[0], evidence, Trust(1.0, 1.0), {"name": JUDGE}
    )


def _under_hypotheses(
    asked: _Asked, *, default: bool, max_iter: int, progress: Callable[[int, int], None] | None
) -> _Solved:
    """From histograms, under each hypothesis, and from labels of lab groups or of the field."""
    lab, field, problem, level = asked.lab, asked.field, asked.problem, asked.level
    posterior = asked.prior.posterior(problem, random_state=asked.seed)
    # Labels are weighed against the spread under label shift, also where no interval is asked for.
    spread = level or DEFAULT_LEVEL if field.labelled else level
    shift = under_label_shift(
        asked.prior, posterior, asked.point, spread, seed=asked.seed, max_iter=max_iter, progress=progress
    )
    urc, whole_urc = shift.each.p, shift.whole.p[0]
    evidence = measure(
        problem, urc=urc, whole=whole_urc, rehearsal=lab.rehearsal, edge=posterior.edge, mode=shift.each.mode
    )
    before, shifted = _trust(asked.trust, lab, problem, evidence, shift), evidence.overall.shifted
    found, by_model = without_labels(lab, field, problem, shift, before, shifted=shifted), None
    known = default and knows_groups(lab, field) and not evidence.unlike_any_mixture
    if known or (field.labelled and asked.judged is None):
        moments, given = shift.moments, asked.persistence
        model = model_of(lab, field, problem, shift=moments, trust=before, shifted=shifted, given=given)
        found = with_labels(found, model, field, asked.seed)
        by_model = reweighting(lab, found, moments, field_labels(lab, field, found, before), given)
    return _Solved(
        found.shares(),
        found.whole(),
        problem.total.sum(keepdims=True),
        urc,
        whole_urc,
        evidence,
        before if by_model is None else by_model.trust_after(before, grouped=field.grouped),
        asked.prior.spec(),
        posterior.learnt,
        shift.each.mode,
        found.histograms.histograms.steps if by_model is None else by_model.steps(unseen=not field.grouped),
        by_model,
    )


def _prevalence(asked: _Asked, solved: _Solved) -> Prevalence:
    """The estimate with its intervals and verdict."""
    lab, field, V = asked.lab, asked.field, asked.problem.V
    lower, upper = _ends(solved.each, V.sum(axis=1), asked.level)
    whole_lower, whole_upper = _ends(solved.whole, solved.rows, asked.level)
    whole = WholeField(
        n=float(np.sum(field.n)),
        mean_prediction=mean_of_field(lab, field),
        urc=solved.whole_urc,
        estimate=solved.whole.estimate[0],
        lower=None if whole_lower is None else whole_lower[0],
        upper=None if whole_upper is None else whole_upper[0],
    )
    context = Context(
        lab,
        field,
        solved.evidence,
        solved.trust,
        asked.protected,
        whole=whole,
        width=None if lower is None or upper is None else upper - lower,
        V=V,
        steps=solved.steps,
        shares=solved.each.estimate,
        design_effect=asked.design_effect,
        by_model=solved.by_model,
        judged=asked.judged,
    )
    verdict = Verdict(findings=findings(context))
    warn_about_field(verdict.findings)
    return Prevalence(
        lab=lab,
        field=field,
        prior=solved.prior,
        learnt=solved.learnt,
        point=asked.point,
        level=asked.level,
        seed=asked.seed,
        by_model=solved.by_model,
        design_effect=asked.design_effect,
        urc=solved.urc,
        estimate=solved.each.estimate,
        lower=lower,
        upper=upper,
        whole=whole,
        trust=solved.trust,
        overall_shift=solved.evidence.overall,
        status=group_status(context, verdict),
        verdict=verdict,
        protected=asked.protected,
        fit=Fit.of(solved.mode, solved.evidence),
    )


def _ends(shares: Shares, rows: Floats, level: float | None) -> tuple[Floats | None, Floats | None]:
    return (None, None) if level is None else shares.interval(level, rows)


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


def as_persistence(given: Any) -> float | None:
    if is_auto(given):
        return None
    if isinstance(given, bool) or not isinstance(given, (int, float, np.number)) or not 0 <= given <= 1:
        raise InputError(
            "persistence must be 'auto' or a number from 0 (lab groups say nothing about field groups of the same "
            f"name) to 1, but got {given!r:.60}."
        )
    return float(given)
