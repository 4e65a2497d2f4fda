"""recalibrate: from prevalences to new predictions, and decide: to hard decisions."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from fieldcal.alignment import check_alignment
from fieldcal.core.decision import Goal, divisors, largest
from fieldcal.core.partition import as_columns
from fieldcal.core.reweight import Step, taken
from fieldcal.errors import InputError, InputTypeError, Option, UnseenGroupWarning
from fieldcal.objects import Correction, Prevalence, group_keys
from fieldcal.options import check_choice, check_flags
from fieldcal.types import DistributionLike, Floats, Ints, Keys, Missing, Unseen
from fieldcal.validation import field_scores, given_ids
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
        Rows of a group that `estimate` never saw: use the estimate of the whole field (with a warning), leave
        them alone, or refuse.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one first.
    missing : "error" or "keep"
        Whether rows with a NaN are refused or stay NaN.
    acknowledge : bool
        Apply an estimate over groups that were declared ``protected``, knowing what that means.

    Returns
    -------
    ndarray of the shape of the predictions, columns in their order; or distributions
        Of bin ids (`fieldcal.Bins`), the probability of every class given the bin, (n, K). Where bins were counted, the
        model's probabilities may be given all the same.
        Distributions have other masses of the intervals and the same shape inside each. They come in the form that was
        given where that form can hold it (quantiles, a CDF, samples, masses); else as an object with ``cdf``, ``ppf``,
        ``mean`` and so on.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> prev = fieldcal.estimate(lab, field, trust=1)
    >>> fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field).shape
    (1000,)
    """
    check_options(unseen, missing)
    check_flags(normalize=normalize)
    check_applicable(prev, acknowledge=acknowledge)
    check_alignment(predictions=predictions, groups=groups)
    outcome = prev.lab.outcome
    given = understood(outcome, predictions)
    new = recalibrated_masses(prev, given, groups=groups, unseen=unseen, normalize=normalize, missing=missing)
    return outcome.rebuild(given, new)


def recalibrated_masses(
    prev: Prevalence,
    predictions: Any,
    *,
    groups: Any,
    unseen: Unseen = "global",
    normalize: bool = False,
    missing: Missing = "error",
) -> Floats:
    """New masses in the order of the classes, (n, K); (n,), of the second of two, if predictions are one column.

    Of bin ids there are always K.
    """
    masses = masses_of(prev.lab, predictions, normalize=normalize, missing=missing)
    ids = (
        given_ids(masses, prev.lab.partition, missing=missing) if prev.lab.partition.takes == "ids" else None
    )
    if ids is not None:  # of a bin the lab knows the shares of the classes
        known = np.vstack([prev.lab.bin_means, np.full(len(prev.classes), np.nan)])  # the last for no bin
        return apply(prev.correction, groups, known[ids], binary=False, unseen=unseen)
    scores = field_scores(prev.lab, masses, normalize=normalize, missing=missing)
    return apply(prev.correction, groups, scores.values, binary=not scores.columns, unseen=unseen)


def decide(
    prev: Prevalence,
    predictions: Any,
    *,
    groups: Any = None,
    goal: Literal["accuracy", "balanced"] | Any = "accuracy",
    unseen: Unseen = "global",
    acknowledge: bool = False,
) -> NDArray[Any]:
    """Hard decisions from recalibrated probabilities (the paper's section on contraindications).

    Parameters
    ----------
    prev, predictions, groups, unseen, acknowledge : as in `recalibrate`; of classes, not of a number
    goal : "accuracy", "balanced" or (K, K) costs
        Decide for the most probable class; for the class that is most over-represented relative to its
        prevalence, which serves all classes equally (the best mean recall); or for the lowest expected cost,
        where ``costs[i, d]`` is what deciding ``d`` costs when the class is ``i``.

    Returns
    -------
    ndarray (n,) of classes; of those that are equally good, but for rounding, the first

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> fieldcal.decide(prev, [0.01, 0.95], goal=[[0, 1], [20, 0]])
    array([0, 1])
    """
    check_options(unseen)
    check_decidable(prev, acknowledge=acknowledge)
    wanted = Goal.of(goal, len(prev.classes))
    check_alignment(predictions=predictions, groups=groups)
    new = as_columns(recalibrated_masses(prev, predictions, groups=groups, unseen=unseen))
    assumed: Floats | float = 1.0
    if wanted.costs is None:
        assumed = divisors(_row_prevalence(prev, groups, n=len(new), unseen=unseen))
    return np.asarray(_as_array(prev.classes)[largest(wanted.gains(new, assumed))])


def check_options(unseen: object, missing: object = "error") -> None:
    """Refuse words that are none of the choices."""
    check_choice("unseen", unseen, ("global", "raw", "error"))
    check_choice("missing", missing, ("error", "keep"))


def check_applicable(prev: Prevalence, *, acknowledge: bool) -> None:
    """Refuse what is no estimate, and one over protected groups unless that is acknowledged."""
    if not isinstance(prev, Prevalence):
        raise InputTypeError(f"This takes a Prevalence first, but got {type(prev).__name__}. Estimate first.")
    check_flags(acknowledge=acknowledge)
    if prev.protected and not acknowledge:
        raise InputError(
            "These groups were declared protected: their prevalences are estimated but not applied, because "
            "predictions would depend on the group. Pass ",
            Option("acknowledge", True),
            " if that is meant.",
        )


def check_decidable(prev: Prevalence, *, acknowledge: bool) -> None:
    """The same for decisions, which are for one of several classes."""
    check_applicable(prev, acknowledge=acknowledge)
    if prev.lab.outcome.kind == "intervals":
        raise InputError(
            "decide chooses one of several classes, but this estimate is of a number. Take a number from the "
            "recalibrated distributions: fieldcal.recalibrate(prev, predictions).mean(), or .ppf([0.5])."
        )


def apply(correction: Correction, groups: Any, values: Floats, *, binary: bool, unseen: Unseen) -> Floats:
    """The steps of each row's group, one after the other."""
    rows = _row_groups(correction, groups, n=len(values))
    if rows is None:
        return _stepped(correction.steps, values, binary=binary)
    names, codes, where = rows
    lost = where < 0
    place = where[codes]
    if not lost.any():
        return _stepped(tuple(step.of(place) for step in correction.steps), values, binary=binary)
    sizes = np.bincount(codes, minlength=len(names))[lost]
    first = group_keys.show(names[int(lost.argmax())])
    what = f"{lost.sum():,} groups ({sizes.sum():,} rows, the first is {first!r})"
    if unseen == "error":
        raise InputError(*unseen_words(what, unseen, known=correction.known))
    if unseen == "global":
        warnings.warn(UnseenGroupWarning(*unseen_words(what, unseen)), stacklevel=5)
    seen, new = place >= 0, np.empty(values.shape)
    new[seen] = _stepped(
        tuple(step.of(place[seen]) for step in correction.steps), values[seen], binary=binary
    )
    others = correction.steps_unseen if unseen == "global" else ()
    new[~seen] = _stepped(others, values[~seen], binary=binary)
    return new


def _stepped(steps: tuple[Step, ...], values: Floats, *, binary: bool) -> Floats:
    if not steps:
        return _copied(values)
    if not binary:
        return taken(steps, values)
    for step in steps:  # without a second column
        values = step.apply_binary(values)
    return values


def _copied(values: Floats) -> Floats:
    """Rows that take no step; those with a gap are missing as a whole, as after a step."""
    return np.array(values) if values.ndim == 1 else values + 0.0 * values.sum(axis=1, keepdims=True)


def unseen_words(what: str, unseen: Unseen, *, known: bool = False) -> tuple[str | Option, ...]:
    """What is said of groups whose prevalences nobody knows, and what can be done."""
    raw = Option("unseen", "raw")
    if known:
        return (f"Of {what} no prevalence was given. Add them to ", Option("new"), ", or pass ", raw, ".")
    words = f"{what[0].upper()}{what[1:]} were not in the field"
    if unseen == "error":
        ways = Option("unseen", "global"), " or ", raw
        return (f"{words}. Count and estimate them too, or pass ", *ways, ".")
    return (f"{words}: they get the estimate of the whole field. Pass ", raw, " to leave them alone.")


def _row_prevalence(prev: Prevalence, groups: Any, *, n: int, unseen: Unseen) -> Floats:
    """The prevalences that the recalibrated predictions of each row assume; raw ones assume the lab's."""
    rows = _row_groups(prev.correction, groups, n=n)
    if rows is None:
        return np.asarray(prev.estimate[0])
    _, codes, where = rows
    substitute = prev.whole.estimate if unseen == "global" else prev.lab.p_lab
    return np.asarray(np.vstack([prev.estimate, substitute[None]])[where][codes])


def _row_groups(correction: Correction, groups: Any, *, n: int) -> tuple[Keys, Ints, Ints] | None:
    if not correction.grouped:
        if groups is not None:
            raise InputError(
                "This prevalence is of one population, but groups were given. Count with ",
                Option("groups"),
                " first, or leave groups out here.",
            )
        return None
    if groups is None:
        raise InputError(
            f"This prevalence is per group ({len(correction.groups):,} of them): pass ",
            Option("groups"),
            ", one per row.",
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
