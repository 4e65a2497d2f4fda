"""Validators of predictions, labels and weights; each returns the validated value.

Errors name the problem, the offending value and the next step.
"""

from __future__ import annotations

import decimal
import numbers
import warnings
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import partition as parts
from fieldcal.core.response import row_per_weight
from fieldcal.errors import InputError, InputTypeError, LabelWarning, WeightWarning, option
from fieldcal.objects import Lab, group_keys
from fieldcal.objects.outcome import column_order, factorize_labels, listed, places_of
from fieldcal.options import AS_VALUES
from fieldcal.storage import refuse_repeats
from fieldcal.types import Floats, Ints, Keys, Missing

#: Scores this far outside [0, 1] are rounding errors and are clipped; further out is an error.
CLIP = 1e-6
#: Tolerance for the sum of a row of probabilities (half precision needs about 1e-2).
SUM_TOLERANCE = 1e-3
HALF_SUM_TOLERANCE = 1e-2
#: Name of the lab's predictions in messages, and the alternative to probabilities.
LAB = "lab predictions"
_OR_VALUES = f" If they are values, such as the verdicts or ratings of a judge, pass {AS_VALUES}."
#: Bounds of weights; their squares and the sums of those neither overflow nor underflow.
_MIN_WEIGHT, _MAX_WEIGHT = 1e-25, 1e25


@dataclass(frozen=True)
class CheckedScores:
    """Validated predictions: ``values`` of shape (n,) if binary, else (n, K); missing rows are marked."""

    values: Floats
    missing: NDArray[np.bool_] | None  # rows with a null or NaN, None if there are none
    clipped: int
    columns: bool  # whether there was one column per class
    unseen: int = 0  # rows with a category that is not in the lab
    left_out: int = 0  # those of them without a bin, which are marked as missing

    @property
    def n_missing(self) -> int:
        """Number of rows without a usable prediction."""
        return 0 if self.missing is None else int(self.missing.sum())

    def take(self, rows: Ints) -> CheckedScores:
        return replace(self, values=self.values[rows])


def as_scores(
    proba: Any,
    *,
    classes: Sequence[Hashable] | None,
    n_classes: int | None = None,
    normalize: bool = False,
    missing: Missing = "error",
    name: str = "predictions",
) -> CheckedScores:
    """Predictions as float64, checked to be probabilities.

    Parameters
    ----------
    proba : (n,) probability of the second class, or (n, K); columns of a table are matched by name
    classes : the classes in order, to match the columns of a table
    normalize : rescale rows of (n, K) to sum to one
    missing : raise an error on NaN, or mark the rows (to drop or keep them)
    """
    tolerance = HALF_SUM_TOLERANCE if str(getattr(proba, "dtype", "")) == "float16" else SUM_TOLERANCE
    _refuse_first_class(proba, classes, name)
    array = as_floats(_columns_by_name(proba, classes), name, otherwise=_OR_VALUES if name == LAB else "")
    if array.ndim == 2 and array.shape[1] == 1 and (n_classes is None or n_classes == 2):
        array = array[:, 0]
    if array.ndim not in (1, 2):
        raise InputError(f"The {name} must have shape (n,) or (n, K), but have shape {array.shape}.")
    width = 2 if array.ndim == 1 else array.shape[1]
    if n_classes is not None and width != n_classes:
        raise InputError(
            f"The {name} have {'one column' if array.ndim == 1 else f'{width} columns'}, which means {width} "
            f"classes, but there are {n_classes}. Give one column per class"
            + (", or shape (n,) for the second of two." if n_classes == 2 else ".")
        )
    absent = _missing_rows(array, missing, name)
    array, clipped = _clip(array, absent, name)
    if array.ndim == 2:
        array = _check_sums(array, absent, normalize=normalize, tolerance=tolerance, name=name)
    return CheckedScores(array, absent, clipped, columns=array.ndim == 2)


def order_of_rows(scores: NDArray[Any], *others: NDArray[Any], weight: Floats | None = None) -> Ints:
    """A permutation that depends on the content of the rows only, so that sums in this order are reproducible."""
    columns = scores[None] if scores.ndim == 1 else scores.T
    return np.lexsort((*(() if weight is None else (weight,)), *columns, *others))


def as_labels(y: Any, *, classes: Sequence[Hashable] | None = None) -> tuple[Keys, Ints]:
    """The classes in order and each row's class code.

    By default the classes are the sorted distinct labels, as in scikit-learn.
    """
    present, codes = factorize_labels(y)
    if not present:
        raise InputError(
            "The lab has no rows: there are no labels to learn from. Check how the table was filtered."
        )
    _warn_of_spellings(present)
    if classes is None:
        given = present
    else:
        if isinstance(classes, str) or not isinstance(classes, Iterable):
            raise InputTypeError(f"classes must be a list of the classes in order, but got {classes!r:.60}.")
        given = tuple(group_keys.normalize(c) for c in classes)
        where = places_of(present, given)
        unseen = [c for i, c in enumerate(given) if i not in set(where.tolist())]
        if unseen:
            raise InputError(
                f"The lab data have no row of class {unseen[0]!r}. Its predictions cannot be learnt. Add rows "
                "of it, or leave it out of the classes and the predictions."
            )
        codes = where[codes]
    if len(given) < 2:
        raise InputError(f"The labels hold a single class, {listed(given)}. At least two are needed.")
    return given, codes


def _warn_of_spellings(labels: Keys) -> None:
    """Warn of labels that differ by blanks or case only."""
    first: dict[str, str] = {}
    for label in labels:
        if isinstance(label, str):
            other = first.setdefault("".join(label.split()).casefold(), label)
            if other is not label:
                warnings.warn(
                    f"The labels {other!r:.60} and {label!r:.60} differ by blanks or case only. They are treated "
                    "as two classes. If they are one, spell them alike first.",
                    LabelWarning,
                    stacklevel=5,
                )
                return


def check_order(classes: Keys) -> None:
    """Refuse to sort text classes into an order: alphabetically, "high" comes before "low"."""
    if len(classes) > 2 and any(isinstance(c, str) for c in classes):
        raise InputError(
            f"{option('ordered', True)} needs the order of the classes, but they are text, {listed(classes)}, and "
            f"were not given. Pass {option('classes')} from the lowest to the highest, or use numbers."
        )


def as_weights(sample_weight: Any, *, n: int) -> Floats | None:
    """Validated weights; None if there are none."""
    if sample_weight is None:
        return None
    weight = as_floats(sample_weight, "sample_weight")
    if weight.shape != (n,):
        raise InputError(f"There are {n} rows but sample_weight has shape {weight.shape}. Give one per row.")
    if not np.isfinite(weight).all():
        raise InputError(
            f"{int((~np.isfinite(weight)).sum())} sample weights are NaN or infinite, the first in row "
            f"{int(np.argmax(~np.isfinite(weight)))}. Drop those rows or set their weight to 0."
        )
    if (weight < 0).any():
        raise InputError(
            f"Sample weights must not be negative, but row {int(weight.argmin())} has {weight.min():.4g}."
        )
    if n and not (weight > 0).any():
        raise InputError("All sample weights are zero, so no row counts. Leave sample_weight out to use all.")
    odd = (weight > _MAX_WEIGHT) | ((weight > 0) & (weight < _MIN_WEIGHT))
    if odd.any():
        raise InputError(
            f"Sample weights are numbers of rows, but row {int(odd.argmax())} has the implausible value "
            f"{weight[odd][0]:.4g}. Rescale them."
        )
    _warn_if_uneven(weight)
    return weight


def effective_size(weight: Floats) -> float:
    return float(weight.sum() * row_per_weight(weight.sum(), np.square(weight).sum()))


def _warn_if_uneven(weight: Floats) -> None:
    """Warn if one weight exceeds all others together."""
    used = weight[weight > 0]
    if len(used) > 2 and used.max() > 0.5 * used.sum():
        warnings.warn(
            f"One sample weight ({used.max():.4g}) exceeds the sum of all {len(used) - 1:,} others: the effective "
            f"sample size is {effective_size(weight):.1f} of {len(weight)} rows.",
            WeightWarning,
            stacklevel=4,
        )


def _columns_by_name(proba: Any, classes: Sequence[Hashable] | None) -> Any:
    """The columns of a table in the order of the classes; other objects unchanged."""
    names = getattr(proba, "columns", None) if not isinstance(proba, np.ndarray) else None
    if names is None or not hasattr(proba, "shape"):
        return proba
    names = list(getattr(proba, "column_names", names))
    refuse_repeats(names)
    order = None if classes is None else column_order(proba, classes)
    return _matrix(proba, list(range(len(names))) if order is None else order)


def _refuse_first_class(proba: Any, classes: Sequence[Hashable] | None, name: str) -> None:
    """Refuse a single column that is named after the first class."""
    columns = getattr(proba, "columns", None)
    label = columns[0] if columns is not None and len(columns) == 1 else getattr(proba, "name", None)
    if isinstance(label, str) and classes is not None and len(classes) == 2 and label == str(classes[0]):
        raise InputError(
            f"The {name} are one column named {label!r}, the first class, but one column means the probability of "
            f"the second, {classes[1]!r}. Pass that column, or both."
        )


def _matrix(frame: Any, order: list[int]) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, order].to_numpy()
    if hasattr(frame, "to_numpy"):
        return frame.to_numpy()[:, order]
    return np.column_stack([frame.column(i).to_numpy(zero_copy_only=False) for i in order])


def as_floats(values: Any, name: str, *, otherwise: str = "") -> Floats:
    """The values as float64; None and masked values become NaN, text is refused.

    Parameters
    ----------
    otherwise : alternative for values that are not numbers, for the message
    """
    if isinstance(values, np.ma.MaskedArray):
        values = np.ma.filled(values.astype(np.float64), np.nan)
    try:
        array = np.asarray(values)
    except ValueError:
        raise InputError(f"The {name} are rows of unequal length. Give every row the same columns.") from None
    if array.dtype.kind in "fiub":
        return array.astype(np.float64, copy=False)
    if array.dtype.kind == "O":
        bad = next((v for v in array.ravel() if not _is_number(v)), None)
        if bad is None:
            numbers_only = [np.nan if group_keys.is_null(v) else _float(v) for v in array.ravel()]
            return np.asarray(numbers_only, dtype=np.float64).reshape(array.shape)
    else:
        bad = array.ravel()[0] if array.size else array.dtype
    raise InputTypeError(
        f"The {name} must be numbers, but hold {str(bad)[:40]!r} of type {type(bad).__name__}. "
        f"Convert them with astype(float) first.{otherwise}"
    )


def _float(value: Any) -> float:
    """As float64; integers that are too large become infinite."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def _is_number(value: Any) -> bool:
    return group_keys.is_null(value) or isinstance(
        value, (numbers.Real, decimal.Decimal, np.number, np.bool_)
    )


#: Options for rows without a score.
_DROP, _KEEP = option("missing", "drop"), option("missing", "keep")
MISSING_OTHERWISE = f", or say what to do with {_DROP} (count) or {_KEEP} (recalibrate)"


def _missing_rows(array: Floats, missing: Missing, name: str) -> NDArray[np.bool_] | None:
    # A sum is NaN if any term is: the usual case of no NaN takes one pass and no mask.
    with np.errstate(over="ignore", invalid="ignore"):
        total = array.sum()
    if not np.isnan(total) or not np.isnan(array).any():
        return None
    absent = np.asarray(np.isnan(array) if array.ndim == 1 else np.isnan(array).any(axis=1))
    if missing == "error":
        otherwise = MISSING_OTHERWISE if name.startswith("field") else ""
        raise InputError(
            f"{int(absent.sum())} of {len(array)} {name} are missing (NaN or null), the first in row "
            f"{int(absent.argmax())}. Drop those rows{otherwise}."
        )
    return absent


def _clip(array: Floats, absent: NDArray[np.bool_] | None, name: str) -> tuple[Floats, int]:
    """Clips rounding errors beyond 0 and 1 and counts them; larger deviations are refused."""
    present = array if absent is None else array[~absent]
    if not present.size:
        return array, 0
    low, high = present.min(), present.max()
    if low >= 0.0 and high <= 1.0:
        return array, 0
    if low < -CLIP or high > 1.0 + CLIP:
        worst = high if high - 1.0 > -low else low
        rated = name == LAB and bool((present == np.floor(present)).all())
        raise InputError(
            f"The {name} must be probabilities, but reach {worst:.4g}. {likely_cause(low, high)}"
            f"{_OR_VALUES if rated else ''}"
        )
    outside = int(((present < 0.0) | (present > 1.0)).sum())
    return np.clip(array, 0.0, 1.0), outside


def likely_cause(low: float, high: float) -> str:
    """The probable cause of scores outside [0, 1], and the remedy."""
    if not (np.isfinite(low) and np.isfinite(high)):
        return "Infinite scores are often the logarithm of 0: apply exp or a sigmoid first."
    if low >= 0.0 and 1.0 < high <= 100.0 + 1e-6:
        return "Are these percentages? Divide by 100. Or margins? Apply a sigmoid first."
    if low < 0.0 and high <= 0.0:
        return "Are these log-probabilities? Apply exp first."
    return "Are these logits? Apply a sigmoid (or a softmax over the classes) first."


def _check_sums(
    array: Floats, absent: NDArray[np.bool_] | None, *, normalize: bool, tolerance: float, name: str
) -> Floats:
    # Added from left to right, not pairwise as numpy would, so that every engine gets the same last bits.
    total = array[:, 0].copy()
    for k in range(1, array.shape[1]):
        total += array[:, k]
    if absent is not None:
        total = np.where(absent, 1.0, total)
    if (total <= 0.0).any():
        raise InputError(
            f"Row {int(np.argmax(total <= 0.0))} of the {name} is all zeros: no class has any probability. "
            "Drop such rows."
        )
    if normalize:
        return np.asarray(array / total[:, None])
    worst = int(np.abs(total - 1.0).argmax()) if len(total) else 0
    if len(total) and abs(total[worst] - 1.0) > tolerance:
        raise InputError(
            f"Rows of the {name} must sum to one, but row {worst} sums to {total[worst]:.6g}. Are these "
            f"one-against-rest scores? Pass {option('normalize', True)} to rescale each row."
        )
    return array


def field_scores(lab: Lab, proba: Any, *, normalize: bool, missing: Missing) -> CheckedScores:
    """Field predictions, validated against the classes of the lab."""
    return as_scores(
        proba,
        classes=lab.classes,
        n_classes=len(lab.classes),
        normalize=normalize,
        missing=missing,
        name="field predictions",
    )


def as_read(lab: Lab, scores: CheckedScores) -> CheckedScores:
    """The predictions calibrated, if the lab is; bins always use the original predictions."""
    if lab.calibration_map is None:
        return scores
    return replace(scores, values=lab.calibration_map.read(scores.values))


def is_zero(values: Floats) -> NDArray[np.bool_]:
    """Whether the score of the second class is exactly 0."""
    return np.asarray((values if values.ndim == 1 else values[:, 1]) == 0.0)


def without_zeros(scores: CheckedScores, *, missing: Missing) -> CheckedScores:
    """Rows of score 0 marked as missing, as the lab has no bin for them."""
    zero = is_zero(scores.values)
    if not zero.any():
        return scores
    if missing == "error":
        raise InputError(
            f"{int(zero.sum()):,} of {len(zero):,} field predictions are exactly 0, {NO_BIN_FOR_ZERO}"
        )
    return replace(scores, missing=zero if scores.missing is None else zero | scores.missing)


#: Message about scores of 0 that have no bin.
NO_BIN_FOR_ZERO = (
    f"for which this lab, learnt with {option('method', 'reference')}, has no bin. Leave them out with "
    f"{_DROP}."
)


def bin_ids(ids: Any, partition: parts.Partition) -> CheckedScores:
    checked = partition.assign(np.asarray(ids))
    return CheckedScores(checked, None, 0, columns=False)  # type: ignore[arg-type]


def given_ids(predictions: Any, partition: parts.Partition, *, missing: Missing) -> Ints | None:
    """Bin ids from one column of whole numbers, −1 where missing; None if the predictions are probabilities."""
    values = as_floats(predictions, "field predictions")
    values = values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values
    absent = np.isnan(values)
    if values.ndim != 1 or not np.array_equal(values[~absent], np.floor(values[~absent])):
        return None
    typed = str(getattr(predictions, "dtype", np.asarray(predictions).dtype)).lower()
    if "int" not in typed and not absent.any():
        raise InputTypeError(
            f"With Bins({partition.m}) these could be bin ids or probabilities: {typed} of shape {values.shape}, all "
            "whole. Give ids as integers, or probabilities with one column per class."
        )
    _missing_rows(values, missing, "field predictions")
    ids = np.full(len(values), -1, dtype=np.intp)
    ids[~absent] = partition.assign(values[~absent].astype(np.intp))
    return ids
