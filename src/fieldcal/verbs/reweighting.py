"""Class weights of groups and bins from a posterior, and summaries of field labels."""

from __future__ import annotations

import numpy as np

from fieldcal.core.field_posterior import FieldPosterior, Posterior, Predicted, prior_predictive
from fieldcal.core.hypotheses import KINDS
from fieldcal.core.policy import POLICY
from fieldcal.core.reweight import matched_tilt
from fieldcal.core.trust import Trust
from fieldcal.objects import Field, Lab, Prevalence
from fieldcal.objects.from_model import FieldLabels, FromModel, PriorPredictive
from fieldcal.objects.problem import label_rows, looks_random
from fieldcal.types import Floats
from fieldcal.verbs.model_of import UnderLabelShift, centres_of
from fieldcal.verbs.posteriors import beside_histograms


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


def reweighting_with(prev: Prevalence, posterior: Posterior) -> FromModel:
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
