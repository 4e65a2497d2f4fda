"""recalibrate: from prevalences to new predictions, and decide: to hard decisions."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from fieldcal.alignment import check_alignment
from fieldcal.core.decision import Goal, divisors, largest
from fieldcal.core.partition import as_columns
from fieldcal.core.reweight import BinStep, Step
from fieldcal.core.values import Values
from fieldcal.errors import InputError, UnseenGroupWarning, VerdictWarning, option
from fieldcal.objects import Correction, Prevalence, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.options import check_choice, check_kind, check_options
from fieldcal.types import DistributionLike, Floats, Ints, Keys, Missing, Shape, Unseen
from fieldcal.validation import as_read, field_scores, given_ids
from fieldcal.verbs.count import masses_of, understood
from fieldcal.verbs.values import value_bins

if TYPE_CHECKING:
    from fieldcal.regression import Predictions


@overload
def recalibrate(
    prev: Prevalence,
    predictions: DistributionLike,
    *,
    groups: Any = ...,
    unseen: Unseen = ...,
    acknowledge: bool = ...,
    shape: Shape = ...,
) -> Predictions: ...


@overload
def recalibrate(
    prev: Prevalence,
    predictions: Any,
    *,
    groups: Any = ...,
    unseen: Unseen = ...,
    normalize: bool = ...,
    missing: Missing = ...,
    acknowledge: bool = ...,
    shape: Shape = ...,
) -> Floats: ...


def recalibrate(
    prev: Prevalence,
    predictions: Any,
    *,
    groups: Any = None,
    unseen: Unseen = "global",
    normalize: bool = False,
    missing: Missing = "error",
    acknowledge: bool = False,
    shape: Shape = "auto",
) -> Any:
    """New predictions for the same rows, in the same order, of the kind that was given.

    Parameters
    ----------
    prev : Prevalence
    predictions : array-like (n,) or (n, K), a table of columns named after the classes, or predictive distributions
        Predictions to recalibrate, of the kind that was given to `learn`.
    groups : array-like (n,), optional
        The group of each row; needed if and only if the prevalence has groups.
    unseen : "global", "raw" or "error"
        Rows of a group that `estimate` never saw: use the estimate of the whole field (with a warning), do not
        correct them, or refuse. What is not corrected is as the model said, or as calibrated where the lab is.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one first.
    missing : "error" or "keep"
        Whether rows with a NaN are refused or stay NaN.
    acknowledge : bool
        Apply an estimate over groups that were declared ``protected``, and apply one whose verdict is "do not use"
        without a warning.
    shape : "auto", "tilt" or "bins"
        Of an estimate that rests on labels: whether predictions are multiplied with class weights of the row's group
        alone ("tilt"), or with those of the bin that its scores fall into, too ("bins"). Bins correct scores that are
        themselves miscalibrated, such as overconfident ones, which no tilt does; new predictions then jump where a bin
        ends. "auto" is "bins" where the estimate rests on the labels of the lab's groups, and "tilt" elsewhere.

    Returns
    -------
    ndarray of the shape of the predictions, columns in their order; or distributions
        Of bin ids (`fieldcal.partitions.Bins`), the probability of every class given the bin, (n, K). Where bins were
        counted, the model's probabilities may be given all the same. Of values, the probability of every class given
        the value, (n, K); NaN, with a warning, for a value that the lab has never seen and no bin takes in.
        Distributions have other masses of the intervals and the same shape inside each. They come in the form that was
        given where that form can hold it (quantiles, a CDF, samples, masses); else as an object with ``cdf``, ``ppf``,
        ``mean`` and so on.

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, field, prev = fieldcal.datasets.example()
    >>> fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field).shape
    (4000,)
    """
    check_call("fieldcal.recalibrate(prev, predictions)", (prev, Prevalence), (predictions, "predictions"))
    check_choice("missing", missing, ("error", "keep"))
    check_options(unseen=unseen, normalize=normalize)
    check_applicable(prev, acknowledge=acknowledge, shape=shape)
    check_alignment(predictions=predictions, groups=groups)
    outcome = prev.lab.outcome
    given = understood(outcome, predictions)
    new = recalibrated_masses(
        prev, given, groups=groups, unseen=unseen, normalize=normalize, missing=missing, shape=shape
    )
    return new if prev.lab.of_values else outcome.rebuild(given, new)


def recalibrated_masses(
    prev: Prevalence,
    predictions: Any,
    *,
    groups: Any,
    unseen: Unseen = "global",
    normalize: bool = False,
    missing: Missing = "error",
    shape: Shape = "auto",
) -> Floats:
    """New masses in the order of the classes, (n, K); (n,), of the second of two, if predictions are one column.

    Of bin ids and values there are always K.
    """
    masses = masses_of(prev.lab, predictions, normalize=normalize, missing=missing)
    partition, ids = prev.lab.partition, None
    if isinstance(partition, Values):
        ids = np.maximum(value_bins(partition, masses, missing=missing).values.astype(np.intp), -1)
    elif not partition.takes_probabilities:
        ids = given_ids(masses, partition, missing=missing)
    shape = prev.shape_of(shape)
    correction = prev.correction(shape)
    if ids is not None:  # of a bin the lab knows the shares of the classes
        classes = prev.lab.bin_classes if prev.lab.of_values else prev.lab.bin_means
        known = np.vstack([classes, np.full(len(prev.classes), np.nan)])  # the last for no bin
        return apply(correction, groups, RowScores(known[ids], binary=False, bins=ids), unseen=unseen)
    if shape == "bins" and not partition.takes_probabilities:
        raise InputError(
            f"These are probabilities, but bins were counted by their ids, and {option('shape', 'bins')} needs to "
            "know the bin of each row. Give the ids as integers, or leave it out."
        )
    scores = field_scores(prev.lab, masses, normalize=normalize, missing=missing)
    bins = partition.assign(scores.values) if shape == "bins" else None
    read = as_read(prev.lab, scores).values
    return apply(correction, groups, RowScores(read, binary=not scores.columns, bins=bins), unseen=unseen)


def decide(
    prev: Prevalence,
    predictions: Any,
    *,
    groups: Any = None,
    goal: Literal["accuracy", "balanced"] | Any = "accuracy",
    unseen: Unseen = "global",
    acknowledge: bool = False,
    shape: Shape = "auto",
) -> NDArray[Any]:
    """Hard decisions from recalibrated probabilities (the paper's section on contraindications).

    Parameters
    ----------
    prev, predictions, groups, unseen, acknowledge, shape : as in `recalibrate`; of classes, not of a number
    goal : "accuracy", "balanced" or (K, K) costs
        Decide for the most probable class; for the class that is most over-represented relative to its
        prevalence, which serves all classes equally (the best mean recall); or for the lowest expected cost,
        where ``costs[i, d]`` is what deciding ``d`` costs when the class is ``i``.

    Returns
    -------
    ndarray (n,) of classes; of those that are equally good, but for rounding, the first
        None, with a warning, for a value that the lab has never seen and no bin takes in.

    Examples
    --------
    >>> import fieldcal
    >>> prev = fieldcal.datasets.example().prev
    >>> fieldcal.decide(prev, [0.01, 0.95], groups=[0, 1], goal=[[0, 1], [20, 0]])
    array([0, 1])
    """
    check_call("fieldcal.decide(prev, predictions)", (prev, Prevalence), (predictions, "predictions"))
    check_options(unseen=unseen)
    check_decidable(prev, acknowledge=acknowledge, shape=shape)
    wanted = Goal.of(goal, len(prev.classes))
    check_alignment(predictions=predictions, groups=groups)
    new = as_columns(recalibrated_masses(prev, predictions, groups=groups, unseen=unseen, shape=shape))
    assumed: Floats | float = 1.0
    if wanted.costs is None:
        assumed = divisors(_row_prevalence(prev, groups, n=len(new), unseen=unseen))
    decided = _as_array(prev.classes)[largest(wanted.gains(new, assumed))]
    unknown = np.isnan(new).any(axis=1)
    return np.where(unknown, None, decided) if unknown.any() else np.asarray(decided)  # type: ignore[call-overload]


def check_applicable(prev: Prevalence, *, acknowledge: bool, shape: Shape = "auto") -> None:
    """Refuse protected groups and a verdict "do not use" (a warning) unless acknowledged, and an impossible shape."""
    check_kind("prev", prev, Prevalence)
    check_options(acknowledge=acknowledge)
    if prev.protected and not acknowledge:
        raise InputError(
            "These groups were declared protected: their prevalences are estimated but not applied, because "
            f"predictions would depend on the group. Pass {option('acknowledge', True)} if that is meant."
        )
    prev.correction(shape)
    if prev.verdict.level == "do_not_use" and prev.steps and not acknowledge:
        warnings.warn(
            VerdictWarning(
                f"The verdict on this estimate is not to use it: {prev.verdict.reasons[0]} The original predictions "
                f"are the safer choice. Pass {option('acknowledge', True)} to apply it without this warning."
            ),
            stacklevel=3,
        )


def check_decidable(prev: Prevalence, *, acknowledge: bool, shape: Shape = "auto") -> None:
    """The same for decisions, which are for one of several classes."""
    check_applicable(prev, acknowledge=acknowledge, shape=shape)
    if prev.lab.outcome.kind == "intervals":
        raise InputError(
            "decide chooses one of several classes, but this estimate is of a number. Take a number from the "
            "recalibrated distributions: fieldcal.recalibrate(prev, predictions).mean(), or .ppf([0.5])."
        )


@dataclass(frozen=True)
class RowScores:
    """Predictions of rows that take steps."""

    values: Floats  # (n, K), or (n,) of the second class
    binary: bool  # whether they are the latter, and stay so
    bins: Ints | None = None  # (n,) the bin of each, where the caller worked it out

    def of(self, chosen: NDArray[Any]) -> RowScores:
        """Some of them."""
        return RowScores(self.values[chosen], self.binary, None if self.bins is None else self.bins[chosen])

    def after(self, steps: Sequence[Step | BinStep]) -> Floats:
        """New predictions, one step inside the other."""
        values = self.values
        if not steps:
            return _copied(values)
        for each in steps:
            step = each if isinstance(each, Step) else each.at(self._bins(each))
            values = step.apply_binary(values) if self.binary else step.apply(values)
        return values

    def _bins(self, step: BinStep) -> Ints:
        return step.assign(self.values) if self.bins is None else self.bins


def apply(correction: Correction, groups: Any, given: RowScores, *, unseen: Unseen) -> Floats:
    """The steps of each row's group, one after the other."""
    rows = row_groups(correction, groups, n=len(given.values))
    if rows is None:
        return given.after(correction.steps)
    names, codes, where = rows
    lost = where < 0
    place = where[codes]
    if not lost.any():
        return given.after([step.of(place) for step in correction.steps])
    sizes = np.bincount(codes, minlength=len(names))[lost]
    first = group_keys.show(names[int(lost.argmax())])
    what = f"{lost.sum():,} groups ({sizes.sum():,} rows, the first is {first!r})"
    if unseen == "error":
        raise InputError(unseen_words(what, unseen, known=correction.known))
    if unseen == "global":
        warnings.warn(UnseenGroupWarning(unseen_words(what, unseen)), stacklevel=5)
    seen, new = place >= 0, np.empty(given.values.shape)
    new[seen] = given.of(seen).after([step.of(place[seen]) for step in correction.steps])
    new[~seen] = given.of(~seen).after(correction.steps_unseen if unseen == "global" else ())
    return new


def _copied(values: Floats) -> Floats:
    """Rows that take no step; those with a gap are missing as a whole, as after a step."""
    return np.array(values) if values.ndim == 1 else values + 0.0 * values.sum(axis=1, keepdims=True)


def unseen_words(what: str, unseen: Unseen, *, known: bool = False) -> str:
    """What is said of groups whose prevalences nobody knows, and what can be done."""
    raw = option("unseen", "raw")
    if known:
        return f"Of {what} no prevalence was given. Add them to {option('new')}, or pass {raw}."
    words = f"{what[0].upper()}{what[1:]} were not in the field"
    if unseen == "error":
        return f"{words}. Count and estimate them too, or pass {option('unseen', 'global')} or {raw}."
    return f"{words}: they get the estimate of the whole field. Pass {raw} not to correct them."


def _row_prevalence(prev: Prevalence, groups: Any, *, n: int, unseen: Unseen) -> Floats:
    """The prevalences that the recalibrated predictions of each row assume; raw ones assume the lab's."""
    rows = row_groups(prev.correction(), groups, n=n)
    if rows is None:
        return np.asarray(prev.estimate[0])
    _, codes, where = rows
    substitute = prev.whole.estimate if unseen == "global" else prev.lab.p_lab
    return np.asarray(np.vstack([prev.estimate, substitute[None]])[where][codes])


def row_groups(correction: Correction, groups: Any, *, n: int) -> tuple[Keys, Ints, Ints] | None:
    """The groups of rows, the place of each row's among them, and theirs in the estimate; None without groups."""
    if not correction.grouped:
        if groups is not None:
            raise InputError(
                f"This prevalence is of one population, but groups were given. Count with {option('groups')} first, "
                "or leave groups out here."
            )
        return None
    if groups is None:
        raise InputError(
            f"This prevalence is per group ({len(correction.groups):,} of them): pass {option('groups')}, one per row."
        )
    names, codes = group_keys.factorize(groups, n=n)
    return names, codes, group_keys.positions(correction.groups, names)


def _as_array(classes: Keys) -> NDArray[Any]:
    """Of numpy's type where all are of one that it has; else objects, so that none is changed."""
    if {type(c) for c in classes} in ({bool}, {int}, {float}, {str}):
        return np.array(classes)
    array = np.empty(len(classes), dtype=object)
    for k, name in enumerate(classes):  # one by one: numpy would take tuples apart
        array[k] = name
    return array
