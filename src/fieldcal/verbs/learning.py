"""learn: from labelled lab predictions to a Lab."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from typing import Any, Literal

import numpy as np

from fieldcal import metrics
from fieldcal.core import partition as parts
from fieldcal.core.response import AUTO_SMOOTHING, POOR_CONDITION, confusable_classes, response_counts
from fieldcal.errors import CalibrationWarning, IdentifiabilityWarning, InputError, SmallSampleWarning
from fieldcal.inputs import Floats, Ints, as_labels, as_weights
from fieldcal.objects import Lab
from fieldcal.verbs.scores import bin_ids, lab_scores, score_sums

_FEW_CLASS_ROWS = 5


def learn(
    proba: Any,
    y: Any,
    *,
    groups: Any = None,
    classes: Sequence[Hashable] | None = None,
    sample_weight: Any = None,
    partition: parts.PartitionLike = "auto",
    smoothing: float | Literal["auto"] = "auto",
    normalize: bool = False,
    random_state: int = 0,
) -> Lab:
    """Learn from labelled lab data how predictions are distributed given the class.

    Parameters
    ----------
    proba : array-like (n,) or (n, K), or a table of columns named after the classes
        Predictions of the model on rows it was not trained on. Shape (n,): the probability of the second class.
    y : array-like (n,)
        The true classes.
    groups : array-like (n,), optional
        Any grouping of the lab rows, best the one that the field will have.
    classes : sequence, optional
        The classes in the order of the columns. By default the sorted labels.
    sample_weight : array-like (n,), optional
        A weight of 2 is the row twice.
    partition : "auto", int, Quantiles, Edges, Argmax, Tree or Bins
        How predictions are sent to bins.
    smoothing : "auto" or float
        Pseudo-rows per class that keep every cell of M above zero; 0 for none.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one.
    random_state : int
        Seed of whatever is drawn.

    Returns
    -------
    Lab

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1000, random_state=0)
    >>> fieldcal.learn(data.proba_lab, data.y_lab)
    Lab: 2,000 rows, 2 classes (0 ...%, 1 ...%), 8 bins, condition number ...
    """
    names, y_codes = as_labels(y, classes=classes)
    weight = as_weights(sample_weight, n=len(y_codes))
    given_ids = isinstance(partition, parts.Bins)
    scores = (
        bin_ids(proba, partition)
        if isinstance(partition, parts.Bins)
        else lab_scores(proba, names, normalize)
    )
    if len(scores.values) != len(y_codes):
        raise InputError(
            f"There are {len(scores.values)} predictions but {len(y_codes)} labels. Give one label per row."
        )
    fitted = parts.fit_partition(partition, scores.values, y_codes, len(names), weight=weight)
    bins = fitted.assign(scores.values)
    F = response_counts(bins, y_codes, n_classes=len(names), n_bins=fitted.m, weight=weight)
    if not F.any(axis=1).all():
        raise InputError(
            f"All rows of class {names[int(F.any(axis=1).argmin())]!r} have weight zero, so that nothing can be "
            "learnt about it. Give them weight, or leave the class out."
        )
    lab = Lab(
        classes=names,
        partition=fitted,
        F=F,
        smoothing=AUTO_SMOOTHING if smoothing == "auto" else _smoothing(smoothing),
        bin_scores=score_sums(bins, fitted.m, scores, weight, shares=F if given_ids else None),
        n=len(y_codes),
        clipped=scores.clipped,
        **({} if given_ids else _quality(scores.values, y_codes, weight)),
    )
    _warn_about_lab(lab, scores.values, y_codes, given_ids=given_ids)
    return lab


def _smoothing(value: Any) -> float:
    if not isinstance(value, (int, float, np.number)) or not 0 <= value < np.inf:
        raise InputError(
            f"smoothing must be 'auto' or a number of pseudo-rows, at least 0, but got {value!r}."
        )
    return float(value)


def _quality(values: Floats, y: Ints, weight: Floats | None) -> dict[str, float]:
    # In the order of their values: a sum of floats, and with it the digest, must not depend on the rows' order.
    own = np.take_along_axis(parts.as_columns(values), y[:, None], axis=1)[:, 0]
    order = np.lexsort((own,) if weight is None else (weight, own))
    values, y, weight = values[order], y[order], None if weight is None else weight[order]
    loss = metrics.log_loss(values, y, sample_weight=weight)
    quality = {"accuracy": metrics.accuracy(values, y, sample_weight=weight)}
    return quality | ({"log_loss": loss} if np.isfinite(loss) else {})


def _warn_about_lab(lab: Lab, values: Floats, y: Ints, *, given_ids: bool) -> None:
    rows = lab.F.sum(axis=1)
    rarest = int(rows.argmin())
    if rows[rarest] <= _FEW_CLASS_ROWS:
        warnings.warn(
            f"Class {lab.classes[rarest]!r} has {rows[rarest]:g} lab rows: where its predictions fall is mostly "
            "a guess, and the intervals will be wide. Label more rows of it.",
            SmallSampleWarning,
            stacklevel=3,
        )
    if not given_ids and (worst := _backwards(parts.as_columns(values), y)) is not None:
        warnings.warn(
            f"Predictions for class {lab.classes[worst]!r} are lower on rows of that class than on others: "
            f"worse than chance. Are the columns in the order of the classes {lab.classes!r:.200}?",
            CalibrationWarning,
            stacklevel=3,
        )
    if lab.n_bins > 1 and not lab.conditioning.condition_number < POOR_CONDITION:
        pairs = confusable_classes(lab.M)
        which = f" (classes {lab.classes[pairs[0][0]]!r} and {lab.classes[pairs[0][1]]!r})" if pairs else ""
        warnings.warn(
            f"The bins hardly tell some classes apart{which}: condition number of M "
            f"{lab.conditioning.condition_number:.3g}. Estimates will lean on the prior. Use more bins, a better "
            "model, or merge classes.",
            IdentifiabilityWarning,
            stacklevel=3,
        )


def _backwards(proba: Floats, y: Ints) -> int | None:
    """A class whose predictions are clearly lower on its own rows than on the others; None if there is none."""
    for k in range(proba.shape[1]):
        own, other = proba[y == k, k], proba[y != k, k]
        noise = np.sqrt(own.var() / len(own) + other.var() / len(other))
        if own.mean() - other.mean() < -4 * noise - 1e-12:
            return k
    return None
