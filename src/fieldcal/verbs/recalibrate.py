"""`recalibrate`: new predictions from estimated prevalences. `decide`: classes from new predictions."""

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
from fieldcal.verbs.categories import value_bins
from fieldcal.verbs.count import masses_of, understood

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
    """Recalibrated predictions of the same rows, in the same order and of the same kind.

    Parameters
    ----------
    prev : Prevalence
    predictions : array-like (n,) or (n, K), a table of columns named after the classes, or predictive distributions
        Predictions to recalibrate, of the kind that was given to `learn`.
    groups : array-like (n,), optional
        The group of each row; needed if and only if the prevalence has groups.
    unseen : "global", "raw" or "error"
        Rows of a group that is not in the estimate: use the estimate of the whole field (with a warning), leave their
        predictions uncorrected, or refuse. Uncorrected predictions are still calibrated if the lab is.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one first.
    missing : "error" or "keep"
        Whether rows with a NaN are refused or stay NaN.
    acknowledge : bool
        Apply an estimate over groups that were declared ``protected``, and apply one whose verdict is "do not use"
        without a warning.
    shape : "auto", "tilt" or "bins"
        For an estimate from labels: multiply predictions by class weights of the row's group ("tilt"), or also by those
        of the bin of its score ("bins"). Bins also correct miscalibrated scores, such as overconfident ones, which no
        class weights can; new predictions then jump at the edges of bins. "auto" is "bins" if the estimate rests on
        labels of the lab's groups, else "tilt".

    Returns
    -------
    ndarray of the shape of the predictions, columns in their order; or distributions
        For bin ids (`fieldcal.partitions.Bins`), the probability of every class given the bin, (n, K); the model's
        probabilities are accepted too. For categories, the probability of every class given the category, (n, K); NaN,
        with a warning, for one that has no bin.
        Distributions get new masses of the intervals and keep their shape inside each. They are returned in the given
        form if it can hold the result (quantiles, a CDF, samples, masses); else as an object with ``cdf``, ``ppf``,
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
    """Recalibrated masses in the order of the classes: (n, K), or (n,) for one column of predictions.

    Bin ids and categories always give (n, K).
    """
    masses = masses_of(prev.lab, predictions, normalize=normalize, missing=missing)
    partition, ids = prev.lab.partition, None
    if isinstance(partition, Values):
        ids = np.maximum(value_bins(partition, masses, missing=missing).values.astype(np.intp), -1)
    elif not partition.takes_probabilities:
        ids = given_ids(masses, partition, missing=missing)
    shape = prev.shape_of(shape)
    correction = prev.correction(shape)
    if ids is not None:  # the lab's class shares of the bin
        classes = prev.lab.bin_classes if prev.lab.of_values else prev.lab.bin_means
        known = np.vstack([classes, np.full(len(prev.classes), np.nan)])  # the last row stands for no bin
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
    """Decided classes from recalibrated probabilities (the paper's section on contraindications).

    Parameters
    ----------
    prev, predictions, groups, unseen, acknowledge, shape : as in `recalibrate`; for classes, not for a number
    goal : "accuracy", "balanced" or (K, K) costs
        Choose the most probable class; or the class that is most over-represented relative to its prevalence, which
        maximises the mean recall; or the class of the lowest expected cost, where ``costs[i, d]`` is the cost of
        deciding ``d`` when the class is ``i``.

    Returns
    -------
    ndarray (n,) of classes; the first of several that are equally good up to rounding
        None, with a warning, for a category that has no bin.

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
    """Refuse protected groups and impossible shapes; warn of a verdict "do not use"; ``acknowledge`` allows both."""
    check_kind("prev", prev, Prevalence)
    check_options(acknowledge=acknowledge)
    if prev.protected and not acknowledge:
        raise InputError(
            "These groups were declared protected: their prevalences are estimated but not applied, because "
            f"predictions would depend on the group. Pass {option('acknowledge', True)} if this is intended."
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
    """As `check_applicable`; also refuse estimates of a number, as decisions are for classes."""
    check_applicable(prev, acknowledge=acknowledge, shape=shape)
    if prev.lab.outcome.kind == "intervals":
        raise InputError(
            "decide chooses one of several classes, but this estimate is of a number. Take a number from the "
            "recalibrated distributions: fieldcal.recalibrate(prev, predictions).mean(), or .ppf([0.5])."
        )


@dataclass(frozen=True)
class RowScores:
    """Predictions of rows to be recalibrated."""

    values: Floats  # (n, K), or (n,) probability of the second class
    binary: bool  # whether there is one column
    bins: Ints | None = None  # (n,) the bin of each, if already computed

    def of(self, chosen: NDArray[Any]) -> RowScores:
        return RowScores(self.values[chosen], self.binary, None if self.bins is None else self.bins[chosen])

    def after(self, steps: Sequence[Step | BinStep]) -> Floats:
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
    """New predictions: each row takes the steps of its group in turn."""
    rows = row_groups(correction, groups, n=len(given.values))
    if rows is None:
        return given.after(correction.steps)
    names, codes, where = rows
    unknown = where < 0
    place = where[codes]
    if not unknown.any():
        return given.after([step.of(place) for step in correction.steps])
    sizes = np.bincount(codes, minlength=len(names))[unknown]
    first = group_keys.show(names[int(unknown.argmax())])
    what = f"{unknown.sum():,} groups ({sizes.sum():,} rows, the first is {first!r})"
    if unseen == "error":
        raise InputError(unseen_words(what, unseen, known=correction.known))
    if unseen == "global":
        warnings.warn(UnseenGroupWarning(unseen_words(what, unseen)), stacklevel=5)
    seen, new = place >= 0, np.empty(given.values.shape)
    new[seen] = given.of(seen).after([step.of(place[seen]) for step in correction.steps])
    new[~seen] = given.of(~seen).after(correction.steps_unseen if unseen == "global" else ())
    return new


def _copied(values: Floats) -> Floats:
    """The values, with every row that has a gap missing as a whole, as after a step."""
    return np.array(values) if values.ndim == 1 else values + 0.0 * values.sum(axis=1, keepdims=True)


def unseen_words(what: str, unseen: Unseen, *, known: bool = False) -> str:
    """The message about rows whose group has no prevalence, and how to handle them."""
    raw = option("unseen", "raw")
    if known:
        return f"No prevalence was given for {what}. Add them to {option('new')}, or pass {raw}."
    words = f"{what[0].upper()}{what[1:]} were not in the field"
    if unseen == "error":
        return f"{words}. Count and estimate them too, or pass {option('unseen', 'global')} or {raw}."
    return f"{words}: they get the estimate of the whole field. Pass {raw} to leave them uncorrected."


def _row_prevalence(prev: Prevalence, groups: Any, *, n: int, unseen: Unseen) -> Floats:
    rows = row_groups(prev.correction(), groups, n=n)
    if rows is None:
        return np.asarray(prev.estimate[0])
    _, codes, where = rows
    substitute = prev.whole.estimate if unseen == "global" else prev.lab.p_lab
    return np.asarray(np.vstack([prev.estimate, substitute[None]])[where][codes])


def row_groups(correction: Correction, groups: Any, *, n: int) -> tuple[Keys, Ints, Ints] | None:
    """The groups of the rows, each row's position among them, and the groups' positions in the estimate."""
    if not correction.grouped:
        if groups is not None:
            raise InputError(
                f"This prevalence is for one population, but groups were given. Count with {option('groups')} first, "
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
    """An array of a native numpy type if all classes share one, else of objects."""
    if {type(c) for c in classes} in ({bool}, {int}, {float}, {str}):
        return np.array(classes)
    array = np.empty(len(classes), dtype=object)
    for k, name in enumerate(classes):  # one by one: numpy would split tuples
        array[k] = name
    return array
