"""`rows_to_label`: the field rows to label next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.alignment import check_alignment
from fieldcal.core.planning import cells_to_label, spaced
from fieldcal.errors import InputError, option
from fieldcal.objects import Prevalence, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.options import check_choice, check_kind, check_options, check_whole
from fieldcal.types import Floats, Ints, Keys, Missing
from fieldcal.verbs.count import scores_of
from fieldcal.verbs.field_labels import UNKNOWN, field_labels
from fieldcal.verbs.recalibrate import row_groups


def rows_to_label(
    prev: Prevalence,
    predictions: Any,
    n: int,
    *,
    groups: Any = None,
    y: Any = None,
    missing: Missing = "error",
    normalize: bool = False,
    random_state: int = 0,
) -> Ints:
    """The field rows to label next, chosen to narrow the estimate most.

    Label them and count them with ``design="by_score"``, as they were chosen by their predictions and groups.

    Parameters
    ----------
    prev : Prevalence
        The estimate so far, with labels or without.
    predictions : of field rows, as given to `count`
    n : int
        How many rows to label.
    groups, normalize : as in `recalibrate`
    y : array-like (rows,), optional
        The true class of labelled rows, missing elsewhere: rows with a label are not chosen again.
    missing : "error" or "drop"
        Whether rows without a prediction are refused, or never chosen.
    random_state : int
        Another seed gives other rows of the same groups and bins.

    Returns
    -------
    array of n row indices, ascending

    Notes
    -----
    Labels are allocated to groups by the square root of their size, a compromise between the mean group and the
    whole field. Within a group they are allocated to bins by the expected reduction of the variance of the field's
    share, if the class probabilities of the bins are certain (the field is unchanged, or labels have decided), else
    in proportion to rows. Within a group and bin, rows are evenly spaced by their prediction. The choice does not
    depend on the order of the rows, except between equal predictions.

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, *_ = fieldcal.datasets.example()
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field))
    >>> rows = fieldcal.rows_to_label(prev, data.proba_field, 50)
    >>> rows.shape
    (50,)
    """
    check_call(
        "fieldcal.rows_to_label(prev, predictions, n)",
        (prev, Prevalence),
        (predictions, "predictions"),
        (n, "a number"),
    )
    check_choosable(prev)
    check_whole("n", n, least=1)
    check_choice("missing", missing, ("error", "drop"))
    check_options(normalize=normalize, random_state=random_state)
    check_alignment(predictions=predictions, groups=groups, y=y)
    lab = prev.lab
    scores = scores_of(lab, predictions, normalize=normalize, missing=missing)
    size = len(scores.values)
    known = row_groups(prev.correction(), groups, n=size)
    names, codes = ((None,), np.zeros(size, np.intp)) if known is None else known[:2]
    free = np.ones(size, bool) if y is None else field_labels(lab.outcome, y, n=size) == UNKNOWN
    if scores.missing is not None:
        free &= ~scores.missing
    rng = np.random.default_rng(random_state)
    rows = rng.permutation(np.flatnonzero(free))  # breaks ties between equal predictions at random
    values = scores.take(rows).values
    cells = codes[rows] * lab.n_bins + lab.partition.assign(values)
    room = np.bincount(cells, minlength=len(names) * lab.n_bins).reshape(len(names), lab.n_bins)
    allocation = LabelAllocation.of(prev, names, room, n, random_state)
    order = np.lexsort((values if values.ndim == 1 else values[:, ordering_class(prev)], cells))
    return np.sort(rows[order[allocation.among(cells[order])]])


def check_choosable(prev: Prevalence) -> None:
    """Refuse anything but an estimate from probabilities: categories have no order within a bin."""
    check_kind("prev", prev, Prevalence)
    if prev.lab.of_values:
        raise InputError(
            "Rows to label are chosen by probabilities, but these are values. With values, label "
            f"rows at random, as many as you can in every group, and pass {option('design', 'random')}."
        )


@dataclass(frozen=True)
class LabelAllocation:
    """Number of rows to choose in each cell (group and bin), and the position of the first."""

    size: Ints  # (G · m,) rows without a label
    take: Ints
    start: Ints

    @classmethod
    def of(cls, prev: Prevalence, names: Keys, room: Ints, n: int, seed: int) -> LabelAllocation:
        """Allocation of n rows over (G, m) unlabelled rows."""
        if n > room.sum():
            raise InputError(
                f"n is {n:,}, but there are {room.sum():,} rows with a prediction and without a label. Ask for fewer."
            )
        take = cells_to_label(
            prev.open_posterior, room.astype(np.float64), n, held=_held(prev, names)
        ).ravel()
        start = np.random.default_rng([seed, 1]).random(take.size) * room.ravel()
        return cls(room.ravel(), take, start.astype(np.int64))

    def among(self, cells: Ints) -> Ints:
        """Indices of the chosen rows, among rows ordered by cell and then by prediction."""
        rank = np.arange(len(cells)) - (np.cumsum(self.size) - self.size)[cells]
        chosen = spaced(rank, size=self.size[cells], take=self.take[cells], start=self.start[cells])
        return np.flatnonzero(chosen)


def ordering_class(prev: Prevalence) -> int:
    """The class that is most uncertain in the field: rows within a bin are ordered by its prediction."""
    posterior = prev.open_posterior
    P, v = posterior.classes_by_bin(), posterior.model.counts.V.sum(axis=0)
    return int((v @ (P * (1 - P))).argmax())


def _held(prev: Prevalence, names: Keys) -> Floats:
    held = np.append(prev.field.labelled_rows, 0.0)  # the last is for unknown groups
    return held[group_keys.positions(prev.groups, names)] if prev.field.grouped else held[:1]
