"""The posteriors behind an estimate: under label shift, from histograms, and with labels; their class weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fieldcal.core.categories import Judge
from fieldcal.core.field_model import Model
from fieldcal.core.field_posterior import (
    FieldPosterior,
    ModelPosterior,
    Predicted,
    posterior_of,
    prior_predictive,
)
from fieldcal.core.histogram_posterior import HistogramPosterior, Histograms
from fieldcal.core.hypotheses import KINDS
from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Posterior, Summary
from fieldcal.core.priors import N_DRAWS, Prior, prior_from
from fieldcal.core.problem import Problem
from fieldcal.core.reweight import matched_tilt, steps_of
from fieldcal.core.solve import Solution
from fieldcal.core.trust import Trust, excess_variance, mean_recalibrated
from fieldcal.objects import Field, Lab, Prevalence
from fieldcal.objects.derived import Assume
from fieldcal.objects.judged import reordered, root_of
from fieldcal.objects.prevalence_parts import FieldLabels, FromModel, PriorPredictive, weight_without_labels
from fieldcal.objects.problem import as_problem, label_rows, looks_random
from fieldcal.types import Floats, Ints, Point
from fieldcal.verbs.model_of import UnderLabelShift, centres_of, model_of

DEFAULT_LEVEL = 0.9
# Draws for each draw of M: many where that costs little memory.
_FEW, _DRAWS_OF_FEW, _DRAWS_OF_MANY = 1_000, 16, 4
# Of fields with so many groups at most, from labels of categories.
_DRAWS_OF_JUDGES = ((100, 2_048), (2_000, 512), (np.inf, 256))


@dataclass(frozen=True)
class Solved:
    """Shares under label shift, of groups or of one population."""

    p: Floats  # (G, K)
    summary: Summary | None  # None where no interval is asked for
    mode: Solution | None  # where the mode is the estimate

    @classmethod
    def of(
        cls,
        posterior: Posterior,
        point: Point,
        level: float | None,
        *,
        max_iter: int = 200,
        progress: Callable[[int, int], None] | None = None,
    ) -> Solved:
        """The mean, or the mode with the interval around it."""
        counting = _counting(progress, len(posterior.V))
        if point == "mean":
            summary = posterior.summary(level or DEFAULT_LEVEL, counting)
            return cls(summary.mean, summary, None)
        mode = posterior.mode(max_iter)
        if level is None:
            return cls(mode.p, None, mode)
        summary = posterior.summary(level, counting)
        lower, upper = np.minimum(summary.lower, mode.p), np.maximum(summary.upper, mode.p)
        return cls(mode.p, replace(summary, lower=lower, upper=upper), mode)


def _counting(progress: Callable[[int, int], None] | None, total: int) -> Callable[[int], None] | None:
    if progress is None:
        return None
    done = 0

    def more(finished: int) -> None:
        nonlocal done
        done += finished
        progress(done, total)

    return more


@dataclass(frozen=True)
class LabelShift:
    """What label shift implies for every group, and for the field as one population."""

    each: Solved
    whole: Solved

    @property
    def moments(self) -> UnderLabelShift:
        assert self.each.summary is not None
        assert self.whole.summary is not None
        sd = self.each.summary.sd, self.whole.summary.sd[0]
        return UnderLabelShift(self.each.p, sd[0], self.whole.p[0], sd[1])


def under_label_shift(
    prior: Prior,
    posterior: Posterior,
    point: Point,
    level: float | None,
    *,
    seed: int,
    max_iter: int,
    progress: Callable[[int, int], None] | None = None,
) -> LabelShift:
    """Of groups, and of the field as one population: the lab's prevalences where it has no effective rows."""
    problem = posterior.problem
    each = Solved.of(posterior, point, level, max_iter=max_iter, progress=progress)
    if len(each.p) == 1:
        return LabelShift(each, each)
    if not problem.V.sum():
        flat = (np.full((1, len(problem.p_lab)), x) for x in (0.5, 0.0, 1.0))
        return LabelShift(each, Solved(problem.p_lab[None], Summary(problem.p_lab[None], *flat), None))
    whole = prior.posterior(problem.whole(), random_state=seed)
    return LabelShift(each, Solved.of(whole, point, level or DEFAULT_LEVEL, max_iter=max_iter))


def histograms(
    lab: Lab,
    V: Floats,
    mean_prediction: Floats,
    average: Floats,
    urc: Floats,
    whole: Floats,
    trust: Trust,
    *,
    shifted: bool,
    grouped: bool,
    summary: Summary | None = None,
) -> HistogramPosterior:
    """Of groups with effective rows V (G, m)."""
    steps = steps_of(
        urc=urc,
        whole=whole,
        p_lab=lab.p_lab,
        overall=trust.overall,
        between=trust.between,
        grouped=grouped,
    )
    validated = lab.rehearsal if grouped else None
    found = Histograms(
        mean_prediction,
        urc,
        average,
        whole,
        V.sum(axis=1),
        summary,
        steps,
        mean_recalibrated(lab.bin_means, V, steps)[1],
        lab.miscalibration,
        None if validated is None else excess_variance(validated, trust.between),
    )
    return HistogramPosterior(found, trust, shifted, grouped)


def mean_of_field(lab: Lab, field: Field) -> Floats:
    """Mean prediction of the whole field, (K,)."""
    sums = field.score_sums.sum(axis=0, dtype=np.float64)  # over all groups the units can pass 64 bits
    return np.asarray(sums / sums.sum() if sums.sum() > 0 else lab.p_lab)


def _of_groups(
    lab: Lab,
    field: Field,
    problem: Problem,
    urc: Floats,
    whole: Floats,
    trust: Trust,
    *,
    shifted: bool,
    rows: Ints | slice = slice(None),
    summary: Summary | None = None,
) -> HistogramPosterior:
    """Of the groups that the problem is about; one without rows has the mean prediction of the whole field."""
    average = mean_of_field(lab, field)
    mean = np.where(np.asarray(field.n)[rows, None] > 0, field.mean_prediction[rows], average)
    options: dict[str, Any] = {"shifted": shifted, "grouped": field.grouped, "summary": summary}
    return histograms(lab, problem.V, mean, average, urc, whole, trust, **options)


def without_labels(
    lab: Lab, field: Field, problem: Problem, shift: LabelShift, trust: Trust, *, shifted: bool
) -> FieldPosterior:
    """From the histograms of the field alone."""
    each, whole = shift.each, shift.whole
    groups = _of_groups(lab, field, problem, each.p, whole.p[0], trust, shifted=shifted, summary=each.summary)
    if len(each.p) == 1:
        return FieldPosterior(groups, groups)
    average, V = mean_of_field(lab, field), problem.total[None]
    p = whole.p
    options: dict[str, Any] = {"shifted": shifted, "grouped": False, "summary": whole.summary}
    together = histograms(lab, V, average[None], average, p, p[0], trust, **options)
    return FieldPosterior(groups, together)


def with_labels(found: FieldPosterior, model: Model, field: Field, seed: int) -> FieldPosterior:
    """The posterior of the multilevel model; beside it that of histograms has weight if field labels are few."""
    left = 0.0
    if field.labelled and not model.lab_groups:
        left = weight_without_labels(sum(label_rows(field).values()))
    return replace(found, labelled=posterior_of(model, seed), left=left)


def of_estimate(prev: Prevalence, *, weighed: bool) -> ModelPosterior:
    """The posterior of the multilevel model, made anew.

    ``weighed``: whether labels of the field weigh the hypotheses, now or later, so that all of them are open.
    """
    model = model_of(
        prev.lab,
        prev.field,
        as_problem(prev.lab, prev.field, design_effect=prev.design_effect),
        shift=_label_shift(prev),
        trust=prev.trust_before,
        shifted=prev.overall_shift.shifted,
        given=None if prev.by_model is None else prev.by_model.given_persistence,
        weighed=weighed,
    )
    return posterior_of(model, prev.seed)


def _label_shift(prev: Prevalence) -> UnderLabelShift:
    found = prev.by_model
    if found is not None:
        return UnderLabelShift(prev.urc, found.urc_sd, prev.whole.urc, found.whole_sd)
    problem = as_problem(prev.lab, prev.field, design_effect=prev.design_effect)
    prior, level = _prior(prev), prev.level or DEFAULT_LEVEL
    sd = prior.posterior(problem, random_state=prev.seed, learnt=prev.learnt).summary(level).sd
    if len(prev.groups) == 1:
        return UnderLabelShift(prev.urc, sd, prev.whole.urc, sd[0])
    whole = prior.posterior(problem.whole(), random_state=prev.seed)
    return UnderLabelShift(prev.urc, sd, prev.whole.urc, whole.summary(level).sd[0])


def _prior(prev: Prevalence) -> Prior:
    if prev.is_judged:
        return Judge()
    return prior_from(prev.prior) if prev.own_prior is None else prev.own_prior


def histograms_of(prev: Prevalence, rows: Ints) -> tuple[Problem, HistogramPosterior]:
    """Of some groups of an estimate, as before labels were seen."""
    if prev.is_judged:
        problem = prev.judged.problem.take(rows)
    else:
        problem = as_problem(prev.lab, prev.field, design_effect=prev.design_effect, rows=rows)
    return problem, _of_groups(
        prev.lab,
        prev.field,
        problem,
        prev.urc[rows],
        prev.whole.urc,
        prev.trust_before,
        shifted=prev.overall_shift.shifted,
        rows=rows,
    )


def beside_histograms(prev: Prevalence, posterior: ModelPosterior, n: float) -> FieldPosterior:
    """A posterior of n field labels beside the one without them, which few labels leave some weight."""
    _, groups = histograms_of(prev, np.arange(len(prev.groups)))
    left = 0.0 if posterior.model.lab_groups else weight_without_labels(n)
    return FieldPosterior(groups, groups, posterior, left)


def draws(
    prev: Prevalence, rows: Ints, assume: Assume, together: Floats | None = None, of: int = 0
) -> Floats:
    """Joint draws (groups, n, K) of the shares of different groups, in ascending order.

    ``together``: of categories, correlations (groups, groups) of the noise of their rows in the share of class ``of``.
    """
    per_draw = _DRAWS_OF_FEW if len(rows) <= _FEW else _DRAWS_OF_MANY
    n = N_DRAWS * per_draw
    if prev.is_judged and prev.judged.by_labels:
        n = next(n for most, n in _DRAWS_OF_JUDGES if len(prev.groups) <= most)
        return prev.judged.posterior.draws(rows, n, None if together is None else root_of(together))
    found = np.zeros((len(rows), 0, len(prev.classes)))
    if prev.by_model is not None and assume == "trust":
        left = (
            0.0 if prev.labels is None or prev.rests_on_lab_groups else weight_without_labels(prev.labels.n)
        )
        found = prev.posterior.draws(rows, round((1 - left) * n))
    if found.shape[1] == n:
        return found
    problem, unlabelled = histograms_of(prev, rows)
    posterior = _prior(prev).posterior(problem, random_state=prev.seed, learnt=prev.learnt)
    urc = np.asarray(posterior.draws(per_draw=per_draw))
    if together is not None:
        urc = reordered(urc, together, of=of, per_draw=per_draw, seed=prev.seed)
    if assume == "label_shift":
        return urc
    rest = unlabelled.draws(urc, np.random.default_rng([prev.seed, 1]))[:, found.shape[1] :]
    return np.concatenate([found, rest], axis=1)


def field_labels(lab: Lab, field: Field, estimated: FieldPosterior, before: Trust) -> FieldLabels | None:
    """Summary of the labelled field rows; None without any."""
    posterior = estimated.labelled
    if not field.labelled or posterior is None:
        return None
    model, counts = posterior.model, posterior.model.counts
    given = counts.field[: len(counts.V)]
    n = given.sum(axis=(0, 2))
    weights = np.array([sum(h.weight for h in model.hypotheses if h.kind == kind) for kind in KINDS])
    beyond = (given.sum(axis=1) > counts.V * (1 + 1e-9) + 1e-9).any(axis=1)
    return FieldLabels(
        rows=label_rows(field),
        before=before,
        prior=weights / weights.sum(),
        unchanged=posterior.unchanged,
        change=posterior.change,
        changed=posterior.probability_of_change(POLICY.calibration_change[1]),
        observed=n / n.sum() if n.sum() else None,
        label_shift=_predictive(prior_predictive(posterior, "label_shift")),
        same=_predictive(prior_predictive(posterior, "unchanged")),
        looks_random=looks_random(lab, field),
        beyond=int(beyond.sum()),
    )


def _predictive(predicted: Predicted | None) -> PriorPredictive | None:
    return (
        None if predicted is None else PriorPredictive(expected=predicted.expected, p_value=predicted.p_value)
    )


def reweighting(
    lab: Lab,
    estimated: FieldPosterior,
    shift: UnderLabelShift,
    labels: FieldLabels | None,
    given: float | None,
) -> FromModel:
    """Class weights that tilt the mean prediction of each group to its estimated share.

    Parameters
    ----------
    shift : posterior under label shift
    given : the persistence set by the caller
    """
    posterior, rates = estimated.labelled, estimated.rates()
    assert posterior is not None
    counts, centres = posterior.model.counts, centres_of(lab, posterior.model)
    G, total, size = len(counts.V), counts.V.sum(axis=0), counts.V.sum(axis=1)
    V = np.where(size[:, None] > 0, counts.V, total)
    corrected = posterior.classes_by_bin()
    whole = np.average(rates, axis=0, weights=np.maximum(size, 1e-300))
    known = posterior.model.lab_groups
    # If labels support unchanged predictions, new predictions stay nearer to those of the model.
    left_alone = 0.0 if known or labels is None else POLICY.indifferent * labels.unchanged
    return FromModel(
        lab_rows=counts.lab[:G].sum(axis=(1, 2)) if known else None,
        labels=labels,
        persistence=posterior.model.persistence.mean,
        given_persistence=given,
        between=posterior.mean("beta"),
        group_sd=float(np.sqrt(posterior.mean("group"))),
        bin_sd=float(np.sqrt(posterior.mean("bins"))),
        weights=np.array([posterior.weight(kind) for kind in KINDS]),
        urc_sd=shift.sd,
        whole_sd=shift.whole_sd,
        trust=1 - left_alone,
        tilt=matched_tilt(centres, V, rates),
        whole_tilt=matched_tilt(centres, total[None], whole[None])[0],
        bins=_logs(corrected) - _logs(centres),
        bins_tilt=matched_tilt(corrected, V, rates),
        whole_bins_tilt=matched_tilt(corrected, total[None], whole[None])[0],
    )


def reweighting_with(prev: Prevalence, posterior: ModelPosterior) -> FromModel:
    """Class weights that follow from another posterior of the same estimate."""
    assert prev.by_model is not None
    counts, labels = posterior.model.counts, prev.by_model.labels
    n = float(counts.field.sum()) + (0.0 if counts.by_class is None else float(counts.by_class.sum()))
    if labels is not None and not posterior.model.lab_groups:
        labels = labels.model_copy(update={"unchanged": posterior.unchanged})
    shift = UnderLabelShift(prev.urc, prev.by_model.urc_sd, prev.whole.urc, prev.by_model.whole_sd)
    model = beside_histograms(prev, posterior, n)
    return reweighting(prev.lab, model, shift, labels, prev.by_model.given_persistence)


def _logs(p: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(p, 1e-9)))
