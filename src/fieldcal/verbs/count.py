"""count: from field predictions to a Field."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.alignment import check_alignment
from fieldcal.core.response import count_cells
from fieldcal.errors import GroupWarning, InputError, InputTypeError, Option, Word
from fieldcal.objects import UNNAMED, Batch, Field, Lab, Outcome, group_keys
from fieldcal.options import check_choice, check_flags
from fieldcal.types import Missing
from fieldcal.validation import (
    Scores,
    as_weights,
    bin_ids,
    field_scores,
    order_of_rows,
    score_sums,
    without_zeros,
)

if TYPE_CHECKING:
    from fieldcal.regression import Predictions

#: Fewer rows may well be as many groups.
_MANY_ROWS = 100


def count(
    lab: Lab,
    predictions: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    missing: Missing = "error",
    normalize: bool = False,
    batch: str | None = None,
) -> Field:
    """Count field predictions per group and bin. Only this table is needed from the field.

    Parameters
    ----------
    lab : Lab
    predictions : array-like (n,) or (n, K), a table of columns named after the classes, or predictive distributions
        Predictions in the field, of the kind that was given to `learn`.
    groups : array-like (n,), optional
        The subpopulation of each row: text, whole numbers, true or false, dates, times, or tuples of them; null is a
        group of its own.
    sample_weight : array-like (n,), optional
        Sampling weights: how many rows of the population each row stands for. Only their ratios count: equal weights
        say the same as none, and unequal ones widen the intervals (`Field.n_effective`). A row that was seen twice is
        given twice.
    missing : "error" or "drop"
        What to do with rows whose prediction is NaN or null. Dropped rows are counted in ``Field.dropped``.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one.
    batch : str, optional
        A name for these rows, by which `Field.retract` takes them out again. Two fields that share a batch refuse
        to merge.

    Returns
    -------
    Field
        ``field += fieldcal.count(lab, more, groups=…)`` merges exactly.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    Field: 1,000 rows, 4 groups, 8 bins
    """
    if not isinstance(lab, Lab):
        raise InputTypeError(
            f"count takes a Lab first and then the predictions, but got {type(lab).__name__} and "
            f"{type(predictions).__name__}: fieldcal.count(lab, predictions)."
        )
    check_choice("missing", missing, ("error", "drop"))
    check_flags(normalize=normalize)
    check_batch(batch)
    check_alignment(predictions=predictions, groups=groups, sample_weight=sample_weight)
    masses = masses_of(lab, predictions, normalize=normalize, missing=missing)
    given_ids = lab.partition.takes == "ids"
    scores = (
        bin_ids(masses, lab.partition)
        if given_ids
        else field_scores(lab, masses, normalize=normalize, missing=missing)
    )
    if not lab.partition.counts_zeros:
        scores = without_zeros(scores, missing=missing)
    n = len(scores.values)
    weight = as_weights(sample_weight, n=n)
    names, codes = (
        ((None,), np.zeros(n, dtype=np.intp)) if groups is None else group_keys.factorize(groups, n=n)
    )
    if scores.missing is not None:
        present = ~scores.missing
        codes = codes[present]  # a group that loses all its rows stays, with none
        weight = None if weight is None else weight[present]
        scores = Scores(scores.values[present], scores.missing, scores.clipped, scores.columns)
    if groups is None and not len(scores.values):
        raise InputError(
            "The field is empty: it has no rows, so nothing to count. Check the filter before this."
        )
    if weight is not None:  # sums of fractions depend on the order in which they are added
        order = order_of_rows(scores.values, codes, weight=weight)
        scores, codes, weight = scores.take(order), codes[order], weight[order]
    bins = lab.partition.assign(scores.values)
    V = count_cells(codes, bins, shape=(len(names), lab.n_bins), weight=weight)
    shares = lab.F if given_ids else None
    counted = Batch(
        groups=names,
        V=V,
        score_sums=score_sums(codes, len(names), scores, weight, shares=shares, bins=bins),
        weight_squares=V if weight is None else count_cells(codes, bins, shape=V.shape, weight=weight**2),
        dropped=scores.n_missing,
        clipped=scores.clipped,
    )
    field = Field(
        lab=lab.digest,
        classes=lab.classes,
        n_bins=lab.n_bins,
        grouped=groups is not None,
        batches={UNNAMED: counted},
    )
    return field if batch is None else field.named(batch)


def check_batch(batch: object) -> None:
    """Batches are named by text."""
    if batch is not None and not isinstance(batch, str):
        raise InputTypeError(
            f"batch must be a name, a string, but got {batch!r:.60}. Use ",
            Option("batch", Word("str(…)")),
            ".",
        )


def warn_if_ids(n_groups: int, n_rows: int) -> None:
    """Groups of one row each say nothing about themselves: the column is an id, probably."""
    if n_rows >= _MANY_ROWS and n_groups > 0.9 * n_rows:
        warnings.warn(
            f"The {n_rows:,} rows fall into {n_groups:,} groups, hardly one row each: every estimate will be that of "
            "the whole field. Is this an id? Use a coarser grouping.",
            GroupWarning,
            stacklevel=3,
        )


def understood(outcome: Outcome, predictions: Any) -> Any:
    """Predictions as the outcome takes them: probabilities as they are, distributions in a form that we know."""
    return predictions if outcome.kind == "classes" else as_distributions(predictions)


def masses_of(lab: Lab, predictions: Any, *, normalize: bool, missing: Missing) -> Any:
    """The masses of predictions of the kind that the lab was learnt from; the options must go with that kind."""
    lab.outcome.refuse(normalize=normalize, missing=missing)
    return lab.outcome.masses(understood(lab.outcome, predictions))


def as_distributions(predictions: Any) -> Predictions:
    """Anything that stands for predictive distributions."""
    from fieldcal.regression import as_predictions  # loads scipy.stats, which classes do not need

    return as_predictions(predictions)
