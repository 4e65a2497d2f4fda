"""`count`: from field predictions to a Field."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.alignment import check_alignment
from fieldcal.core.response import count_cells, whole
from fieldcal.core.values import Values
from fieldcal.errors import GroupWarning, InputError, InputTypeError, Word, option
from fieldcal.objects import SCORE_UNIT, UNNAMED, Batch, Field, Lab, Outcome, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.objects.batches import ByDesign, count_labels
from fieldcal.objects.windows import cut
from fieldcal.options import check_choice, check_goes_with, check_options
from fieldcal.types import Design, Floats, Ints, Keys, Missing
from fieldcal.validation import (
    CheckedScores,
    as_read,
    as_weights,
    bin_ids,
    field_scores,
    order_of_rows,
    without_zeros,
)
from fieldcal.verbs.categories import value_bins
from fieldcal.verbs.field_labels import UNKNOWN, check_label_options, field_labels, no_labels

if TYPE_CHECKING:
    from fieldcal.regression import Predictions

#: With fewer rows, about as many groups as rows are plausible.
_MANY_ROWS = 100


def count(
    lab: Lab,
    predictions: Any,
    *,
    groups: Any = None,
    sample_weight: Any = None,
    y: Any = None,
    design: Design | None = None,
    only_labels: bool = False,
    missing: Missing = "error",
    normalize: bool = False,
    batch: str | None = None,
    time: Any = None,
    every: str | None = None,
) -> Field:
    """Histograms of field predictions per group. The estimate needs nothing else from the field.

    Parameters
    ----------
    lab : Lab
    predictions : array-like (n,) or (n, K), a table of columns named after the classes, or predictive distributions
        Predictions in the field, of the kind that was given to `learn`. With ``kind="values"``, rows with a category
        that is not in the lab are counted in ``Field.unseen``, with a warning: numbers go to the nearest bin, other
        categories to the bin of rare ones, if the lab has one, else to none.
    groups : array-like (n,), optional
        The subpopulation of each row: text, whole numbers, true or false, dates, times, or tuples of them; null is a
        group of its own.
    sample_weight : array-like (n,), optional
        Sampling weights, as in `learn`; unequal ones widen the intervals (`Field.n_effective`).
    y : array-like (n,), optional
        The true class of labelled rows, missing (None, NaN, null) elsewhere; for distributions, the true number.
        Labelled rows enter the histogram like all others; their labels are counted in ``Field.labelled``.
    design : "random", "by_score" or "by_class", optional
        How the labelled rows were chosen: as a random sample of the field, or of a group; by their predictions or
        groups; or by their class, such as half of each. By default the design of a lab of categories, else "random".
    only_labels : bool
        Count the labels only, because the rows themselves were counted before; rows without a label are skipped.
        ``field + fieldcal.count(lab, labelled, y=y, only_labels=True)`` combines both.
    missing : "error" or "drop"
        What to do with rows whose prediction is NaN or null. Dropped rows are counted in ``Field.dropped``, and
        their labels are dropped too.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one.
    batch : str, optional
        A name for these rows, by which `Field.retract` removes them. Two fields that share a batch cannot be merged.
    time, every : array-like (n,) of dates or times, and str, optional
        Count in windows of time of a length such as ``"1d"``, ``"1w"``, ``"1mo"`` or ``"6h"``: every window is a batch
        named after its start (``"2026-03-04"``; with ``batch="late"``, ``"2026-03-04/late"``), and `estimate` follows
        shares over them. Rows without a time are in no window.

    Returns
    -------
    Field
        ``field += fieldcal.count(lab, more, groups=…)`` merges exactly.

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, *_ = fieldcal.datasets.example()
    >>> fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    Field: 4,000 rows, 2 groups, 8 bins
    >>> fieldcal.count(lab, [0.2, 0.7], time=["2026-03-04", "2026-03-11"], every="1w").batch_ids
    ('2026-03-02', '2026-03-09')
    """
    check_call("fieldcal.count(lab, predictions)", (lab, Lab), (predictions, "predictions"))
    check_choice("missing", missing, ("error", "drop"))
    check_options(normalize=normalize)
    check_batch(batch)
    check_label_options("y", y, design=design, only_labels=only_labels)
    check_alignment(predictions=predictions, groups=groups, sample_weight=sample_weight, y=y, time=time)
    scores = scores_of(lab, predictions, normalize=normalize, missing=missing)
    n = len(scores.values)
    weight = as_weights(sample_weight, n=n)
    names, codes = (
        ((None,), np.zeros(n, dtype=np.intp)) if groups is None else group_keys.factorize(groups, n=n)
    )
    windows = None if time is None and every is None else cut(time, every, n=n)
    rows = _FieldRows(scores, codes, weight, None if y is None else field_labels(lab.outcome, y, n=n))
    chosen = design or lab.design or "random"

    def counted(rows: _FieldRows, names: Keys) -> Batch:
        if only_labels:
            names, rows = rows.with_labels(names)
        return _counted(lab, names, rows.in_one_order(), design=chosen, only_labels=only_labels)

    if windows is None:
        rows = rows.with_predictions()
        if groups is None and not only_labels and not len(rows.groups):
            raise empty_field(len(scores.values), scores.left_out)
        batches = {UNNAMED: counted(rows, names)}
    else:
        parts = _by_window(rows, names, *windows, only_labels=only_labels)
        batches = {start: counted(part, present) for start, (part, present) in parts.items()}
    field = Field(
        lab=lab.digest,
        classes=lab.classes,
        n_bins=lab.n_bins,
        grouped=groups is not None,
        every=every,
        batches=batches,
    )
    return field if batch is None else field.named(batch)


def _by_window(
    rows: _FieldRows, names: Keys, starts: list[str | None], at: Ints, *, only_labels: bool
) -> dict[str, tuple[_FieldRows, Keys]]:
    """The rows of each window, and their groups; what is left out, and rows without a time, have no name."""
    missing, scores = rows.scores.missing, rows.scores
    if missing is not None:
        rows, at = rows.take(np.flatnonzero(~missing)), at[~missing]
    if only_labels:
        rows, at = rows.take(rows.labelled), at[rows.labelled]
        if not len(at):
            raise no_labels()
    usable = replace(rows, scores=CheckedScores(rows.scores.values, None, 0, scores.columns))
    order = np.argsort(at, kind="stable")
    ends = np.searchsorted(at[order], np.arange(len(starts) + 1))
    parts: dict[str, tuple[_FieldRows, Keys]] = {}
    for i, start in enumerate(starts):
        part = usable.take(order[ends[i] : ends[i + 1]])
        seen, codes = np.unique(part.groups, return_inverse=True)
        parts[start or UNNAMED] = replace(part, groups=codes), tuple(names[g] for g in seen)
    if (scores.n_missing or scores.clipped or scores.unseen) and not only_labels:
        part, present = parts.get(
            UNNAMED, (usable.take(order[:0]), () if len(names) > 1 or names[0] else names)
        )
        absent = np.ones(scores.n_missing, dtype=bool)
        parts[UNNAMED] = (
            replace(part, scores=replace(scores, values=part.scores.values, missing=absent)),
            present,
        )
    return {start: part for start, part in parts.items() if part[1] or start == UNNAMED}


def scores_of(lab: Lab, predictions: Any, *, normalize: bool, missing: Missing) -> CheckedScores:
    """Checked field predictions, in the form that is binned."""
    masses = masses_of(lab, predictions, normalize=normalize, missing=missing)
    if isinstance(lab.partition, Values):
        return value_bins(lab.partition, masses, missing=missing)
    if not lab.partition.takes_probabilities:
        scores = bin_ids(masses, lab.partition)
    else:
        scores = field_scores(lab, masses, normalize=normalize, missing=missing)
    return scores if lab.partition.counts_zeros else without_zeros(scores, missing=missing)


@dataclass(frozen=True)
class _FieldRows:
    scores: CheckedScores
    groups: Ints  # positions among the groups
    weight: Floats | None
    y: Ints | None  # positions of the classes; `UNKNOWN` without a label

    def take(self, rows: Ints) -> _FieldRows:
        """The given rows, in the given order."""
        weight = None if self.weight is None else self.weight[rows]
        y = None if self.y is None else self.y[rows]
        return _FieldRows(self.scores.take(rows), self.groups[rows], weight, y)

    @property
    def labelled(self) -> Ints:
        """Indices of the rows with a label."""
        return np.empty(0, np.intp) if self.y is None else np.flatnonzero(self.y != UNKNOWN)

    def with_predictions(self) -> _FieldRows:
        """The rows with a prediction; a group without any stays among the names, with zero rows."""
        missing = self.scores.missing
        return self if missing is None else self.take(np.flatnonzero(~missing))

    def with_labels(self, names: Keys) -> tuple[Keys, _FieldRows]:
        """The labelled rows, and the names of their groups."""
        rows = self.take(self.labelled)
        if not len(rows.groups):
            raise no_labels()
        present, codes = np.unique(rows.groups, return_inverse=True)
        return tuple(names[g] for g in present), replace(rows, groups=codes)

    def in_one_order(self) -> _FieldRows:
        """Sorted by content, as floating-point sums depend on the order of addition."""
        if self.weight is None:
            return self
        return self.take(order_of_rows(self.scores.values, self.groups, weight=self.weight))


def _counted(lab: Lab, names: Keys, rows: _FieldRows, *, design: Design, only_labels: bool) -> Batch:
    bins = lab.partition.assign(rows.scores.values)
    known = rows.labelled
    labelled = (
        ByDesign()
        if rows.y is None
        else count_labels(
            rows.groups[known],
            rows.y[known],
            bins[known],
            design=design,
            shape=lab.F.shape,
            weight=None if rows.weight is None else rows.weight[known],
        )
    )
    if only_labels:
        bins_of, classes_of = (np.zeros((len(names), width), np.int64) for width in (lab.n_bins, len(lab.F)))
        return Batch(
            groups=names, V=bins_of, score_sums=classes_of, weight_squares=bins_of, labelled=labelled
        )
    weight = rows.weight
    V = count_cells(rows.groups, bins, shape=(len(names), lab.n_bins), weight=weight)
    shares = None if lab.partition.takes_probabilities else lab.bin_predictions
    return Batch(
        groups=names,
        V=V,
        score_sums=score_sums(
            rows.groups, len(names), as_read(lab, rows.scores), weight, shares=shares, bins=bins
        ),
        weight_squares=V
        if weight is None
        else count_cells(rows.groups, bins, shape=V.shape, weight=weight**2),
        dropped=rows.scores.n_missing - rows.scores.left_out,
        unseen=rows.scores.unseen,
        clipped=rows.scores.clipped,
        labelled=labelled,
    )


def empty_field(rows: int, left_out: int = 0) -> InputError:
    """The error for a field without usable rows."""
    if left_out:
        return InputError(
            f"None of the {rows:,} rows has a category of the lab, so there is nothing to count. Are these the "
            "same judge's?"
        )
    return InputError("The field is empty: it has no rows to count. Check the filter before this.")


def check_batch(batch: object) -> None:
    """Refuse batch names that are not text."""
    if batch is not None and not isinstance(batch, str):
        raise InputTypeError(
            f"batch must be a name, a string, but got {batch!r:.60}. Use {option('batch', Word('str(…)'))}."
        )


def warn_if_ids(n_groups: int, n_rows: int) -> None:
    """Warn if groups have about one row each, as an id column gives."""
    if n_rows >= _MANY_ROWS and n_groups > 0.9 * n_rows:
        warnings.warn(
            f"The {n_rows:,} rows fall into {n_groups:,} groups, about one row each: every estimate will be close to "
            "that of the whole field. Is this an id? Use a coarser grouping.",
            GroupWarning,
            stacklevel=3,
        )


def understood(outcome: Outcome, predictions: Any) -> Any:
    """Predictions in the form that the outcome expects: probabilities unchanged, distributions as `Predictions`."""
    return predictions if outcome.kind == "classes" else as_distributions(predictions)


def masses_of(lab: Lab, predictions: Any, *, normalize: bool, missing: Missing) -> Any:
    """Masses of predictions; they must be of the kind that the lab was learnt from."""
    check_goes_with(lab.predicted, normalize=normalize, missing=missing)
    return lab.outcome.masses(understood(lab.outcome, predictions))


def as_distributions(predictions: Any) -> Predictions:
    """Predictive distributions from any supported object."""
    from fieldcal.regression import as_predictions  # loads scipy.stats, which classes do not need

    return as_predictions(predictions)


#: bincount adds in float64, which is exact up to 2**53: this many rows of at most 2**30 units each.
_EXACT_ROWS = 2**22


def score_sums(
    codes: Ints,
    n_rows: int,
    scores: CheckedScores,
    weight: Floats | None,
    *,
    shares: NDArray[Any] | None = None,
    bins: Ints | None = None,
) -> NDArray[Any]:
    """Sums of predictions per group in whole units, the same integers for any order of rows.

    Without predictions (bin ids or categories), ``shares`` of each row's bin are summed.

    Parameters
    ----------
    shares : (m, K) class probabilities of each bin, in place of predictions
    """
    if shares is not None:
        columns = [shares[scores.values if bins is None else bins, k] for k in range(shares.shape[1])]
    elif scores.values.ndim == 1:
        columns = [scores.values]
    elif scores.values.shape[1] == 2:  # the same sums as from the second class alone
        columns = [scores.values[:, 1]]
    else:
        columns = list(scores.values.T)
    sums = [_unit_sum(codes, n_rows, column, weight) for column in columns]
    if len(sums) == 1:
        rows = np.bincount(codes, weights=weight, minlength=n_rows)
        sums = [rows * int(1 / SCORE_UNIT) - sums[0], sums[0]]
    return whole(np.column_stack(sums))


def _unit_sum(codes: Ints, n_rows: int, column: Floats, weight: Floats | None) -> NDArray[Any]:
    """Sums per group in whole units; integers unless weighted."""
    # Half up, not half to even: every SQL engine can write it with floor.
    units = np.floor(column / SCORE_UNIT + 0.5)
    if weight is not None:
        return np.bincount(codes, weights=units * weight, minlength=n_rows)
    total = np.zeros(n_rows, dtype=np.int64)
    for start in range(0, len(units), _EXACT_ROWS):
        part = slice(start, start + _EXACT_ROWS)
        total += np.bincount(codes[part], weights=units[part], minlength=n_rows).astype(np.int64)
    return total
