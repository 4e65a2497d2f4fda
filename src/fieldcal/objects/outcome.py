"""Outcome: the classes of a lab, or the intervals of a number; and the names of the columns.

The verbs work on masses, one number per row and class or interval. An outcome turns predictions into masses, and new
masses into predictions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BeforeValidator, model_validator
from pydantic import Field as Slot

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import group_keys
from fieldcal.objects.artefact import Flags, Frozen, KeyTuple, Numbers, Texts, sealed
from fieldcal.options import Predicted
from fieldcal.storage import did_you_mean
from fieldcal.types import Floats, Ints, Keys

Levels = Annotated[tuple[float, ...], BeforeValidator(lambda v: tuple(v) if isinstance(v, list) else v)]
MOST_DIGITS = 17  # enough to tell any two floats apart


class Columns(Frozen):
    """Names of the columns that a lab was learnt from, so that later steps need not be given them.

    ``scores`` holds one name per class in the order of the classes, or the single name of the second of two. In a
    regression it holds the names of the quantile columns, and ``levels`` their ascending levels; for categories, one
    name per judge.
    """

    scores: Texts = Slot(min_length=1)
    label: str
    by: Texts = ()
    levels: Levels | None = None

    @model_validator(mode="after")
    def _one_level_each(self) -> Self:
        if self.levels is not None and len(self.levels) != len(self.scores):
            raise ValueError(f"{len(self.levels)} levels for {len(self.scores)} columns of quantiles")
        return self


class Classes(Frozen):
    """Classes, predicted by their probabilities: the masses are the predictions themselves."""

    noun: ClassVar[str] = "class"
    plural: ClassVar[str] = "classes"
    predicted: ClassVar[Predicted] = "probabilities"

    kind: Literal["classes"] = "classes"
    labels: KeyTuple
    ordered: bool = False  # whether their order is meaningful

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(self.labels) < 2 or len(set(map(repr, self.labels))) < len(self.labels) or None in self.labels:
            raise ValueError("classes must be at least two, distinct, and none of them null")
        return self

    @property
    def size(self) -> int:
        return len(self.labels)

    @property
    def short_labels(self) -> tuple[str, ...]:
        """The classes as short text on one line."""
        return tuple(map(group_keys.short, self.labels))

    def codes(self, y: Any) -> Ints:
        """The class of each label, as its position; not every class need appear."""
        present, codes = factorize_labels(y)
        return np.asarray(places_of(present, self.labels)[codes])

    def masses(self, predictions: Any) -> Any:
        """The probabilities unchanged; distributions of a number are refused."""
        if are_distributions(predictions):
            raise InputTypeError(
                f"This lab was learnt from class probabilities, but a {type(predictions).__name__} holds predictive "
                f"distributions of a number. Pass probabilities of {listed(self.labels)}, or learn a lab from "
                "distributions: fieldcal.learn(distributions, numbers)."
            )
        return predictions

    def rebuild(self, predictions: Any, masses: Floats) -> Floats:
        """New probabilities, (n,) or (n, K), with the shape and column order of the given ones."""
        if masses.ndim == 1:  # given as (n,) or (n, 1)
            return masses.reshape(tuple(getattr(predictions, "shape", None) or np.shape(predictions)))
        order = column_order(predictions, self.labels)
        if order is None:
            return masses
        new = np.empty_like(masses)
        new[:, order] = masses
        return new

    def check_columns(self, columns: Columns) -> None:
        """Refuse column names that do not fit the classes."""
        if columns.levels is not None:
            raise ValueError("levels of quantiles, but the outcome is classes and has no intervals")
        if len(columns.scores) not in (1, self.size):
            raise ValueError(f"{len(columns.scores)} columns of scores for {self.size} classes")


class Intervals(Frozen):
    """Intervals of a number, predicted by distributions.

    Boundary ``i`` lies just after ``points[i]``, or just before it if ``before[i]``. So intervals are right-closed,
    and a value with an atom, which has a boundary on either side, is an interval of its own. The first and the last
    interval are unbounded.
    """

    noun: ClassVar[str] = "interval"
    plural: ClassVar[str] = "intervals"
    predicted: ClassVar[Predicted] = "distributions"
    ordered: ClassVar[bool] = True

    kind: Literal["intervals"] = "intervals"
    points: Numbers
    before: Flags

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        if self.points.ndim != 1 or self.before.shape != self.points.shape or not len(self.points):
            raise ValueError("intervals need one flag for each boundary, and at least one boundary")
        return self

    @classmethod
    def of(cls, edges: ArrayLike, *, atoms: ArrayLike = ()) -> Intervals:
        """Intervals with a boundary after each edge, and around each atom."""
        cuts, own = (np.asarray(x, dtype=np.float64).ravel() for x in (edges, atoms))
        if not (np.isfinite(cuts).all() and np.isfinite(own).all()):
            raise InputError(
                "Edges and atoms must be finite: the first and the last interval are open anyway."
            )
        after = np.unique(np.concatenate([cuts, own]))
        points = np.concatenate([np.unique(own), after])
        before = np.repeat([True, False], [len(np.unique(own)), len(after)])
        if not len(points):
            raise InputError("Intervals need at least one edge, else there is only one interval.")
        order = np.lexsort((~before, points))
        return cls(points=sealed(points[order]), before=sealed(before[order]))

    @property
    def size(self) -> int:
        return len(self.points) + 1

    @property
    def labels(self) -> tuple[str, ...]:
        ends = [f"{x:.10g}" for x in self.points]
        if len(set(ends)) < len(set(self.points.tolist())):
            ends = [repr(float(x)) for x in self.points]
        first = f"{'<' if self.before[0] else '≤'} {ends[0]}"
        last = f"{'≥' if self.before[-1] else '>'} {ends[-1]}"
        inner = [self._inner(i, ends) for i in range(1, len(ends))]
        return (first, *inner, last)

    def _inner(self, i: int, ends: list[str]) -> str:
        if self.points[i - 1] == self.points[i]:
            return ends[i]
        opening, closing = "[" if self.before[i - 1] else "(", ")" if self.before[i] else "]"
        return f"{opening}{ends[i - 1]}, {ends[i]}{closing}"

    @property
    def short_labels(self) -> tuple[str, ...]:
        """The intervals as text, with the fewest digits (at least three) that keep their ends distinct."""
        short = self.points
        for digits in range(3, MOST_DIGITS + 1):
            short = np.array([float(f"{x:.{digits}g}") for x in self.points])
            if len(np.unique(short)) == len(np.unique(self.points)):
                break
        return Intervals(points=sealed(short), before=self.before).labels

    def codes(self, y: ArrayLike) -> Ints:
        """The interval of each number; NaN is refused."""
        values = np.asarray(y, dtype=np.float64)
        if np.isnan(values).any():
            raise InputError(f"{int(np.isnan(values).sum()):,} of the numbers are missing. Drop those rows.")
        before, after = self.points[self.before], self.points[~self.before]
        passed = np.searchsorted(before, values, side="right") + np.searchsorted(after, values, side="left")
        return np.asarray(passed, dtype=np.intp)

    def masses(self, predictions: Any) -> Floats:
        """The probability of each interval, (n, K), from distributions such as those of `fieldcal.regression`."""
        return np.asarray(predictions.masses(self))

    def rebuild(self, predictions: Any, masses: Floats) -> Any:
        """The distributions with new masses, in the given form; the shape inside each interval is kept."""
        return predictions.reshaped(self, masses)

    def check_columns(self, columns: Columns) -> None:
        """Refuse column names that do not fit distributions."""
        if columns.levels is None:
            raise ValueError("columns of quantiles without their levels")


Outcome = Annotated[Classes | Intervals, Slot(discriminator="kind")]


def are_distributions(predictions: Any) -> bool:
    """Whether predictions are predictive distributions, judged by their methods, without importing scipy or skpro."""
    one = predictions[0] if isinstance(predictions, (list, tuple)) and len(predictions) else predictions
    return callable(getattr(one, "cdf", None)) and callable(getattr(one, "ppf", None))


def as_numbers(y: Any) -> Floats:
    """The true numbers as float64, in one column, none missing."""
    try:
        numbers = np.asarray(y, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(
            f"The numbers y must be numbers, but hold {str(y)[:60]!r}. Convert them with np.asarray(y, dtype=float)."
        ) from None
    if numbers.ndim != 1:
        raise InputError(f"The numbers y must be one column, but have shape {numbers.shape}.")
    bad = ~np.isfinite(numbers)
    if bad.any():
        raise InputError(
            f"{int(bad.sum()):,} of the numbers y are missing (NaN or infinity), the first in row {int(bad.argmax())}. "
            "Drop those rows."
        )
    return numbers


def factorize_labels(y: Any) -> tuple[Keys, Ints]:
    """The distinct labels, sorted, and each row's position among them."""
    refuse_several_columns(y)
    present, codes = group_keys.factorize(y, n=n_labels(y), name="labels")
    if None in present:
        raise InputError(f"{int((codes == present.index(None)).sum())} labels are missing. Drop those rows.")
    return present, codes


def refuse_several_columns(y: Any) -> None:
    """Refuse labels in several columns."""
    shape = tuple(getattr(y, "shape", ()))
    if len(shape) > 1 and shape[1:] != (1,):
        raise InputError(
            f"The labels must be one column, but have shape {shape}. Are they one-hot? Take the argmax."
        )


def places_among(labels: Keys, classes: Keys) -> Ints:
    """Position of each label among the classes; −1 if it is not a class."""
    where = group_keys.positions(classes, labels)
    for i in np.flatnonzero(where < 0):  # 1.0 or True may mean the class 1: equal, but of another type
        where[i] = next((k for k, c in enumerate(classes) if c == labels[i]), -1)
    return where


def places_of(labels: Keys, classes: Keys) -> Ints:
    """Position of each label among the classes; refuses other labels."""
    where = places_among(labels, classes)
    if (where < 0).any():
        stray = labels[int(np.argmax(where < 0))]
        raise InputError(
            f"The label {stray!r} is not among the classes {listed(classes)}.{did_you_mean(stray, classes)}"
        )
    return where


def place_of_class(classes: Keys, of: Hashable) -> int:
    """Position of a class; the last class by default."""
    at = -1 if of is None else int(group_keys.positions(classes, (group_keys.normalize(of),))[0])
    if of is not None and at < 0:
        raise InputError(f"There is no class {of!r}. The classes are {classes!r:.200}.")
    return at % len(classes)


def n_labels(y: Any) -> int:
    try:
        return len(y)
    except TypeError:
        raise InputTypeError(f"Expected one label per row, but got {str(y)[:60]!r}.") from None


def column_order(proba: Any, classes: Sequence[Hashable]) -> list[int] | None:
    """Column positions of the classes in a table; None without columns named after the classes."""
    names = getattr(proba, "columns", None) if not isinstance(proba, np.ndarray) else None
    if names is None or not hasattr(proba, "shape"):
        return None
    names = list(getattr(proba, "column_names", names))
    return None if names == list(range(len(names))) or len(names) == 1 else _places(names, classes)


def _places(names: list[Any], classes: Sequence[Hashable]) -> list[int]:
    order = {str(n): i for i, n in enumerate(names)} | {(type(n), n): i for i, n in enumerate(names)}
    positions = [order.get((type(c), c), order.get(str(c))) for c in classes]
    if len(names) != len(classes) or any(i is None for i in positions):
        absent = next((c for c, i in zip(classes, positions, strict=True) if i is None), None)
        raise InputError(
            f"The columns {listed(names)} do not match the classes {listed(classes)}"
            + (
                f": none is named {str(absent)!r}.{did_you_mean(absent, names)}"
                if absent is not None
                else "."
            )
            + " Name the columns after the classes, or pass an array with the columns in that order."
        )
    return [i for i in positions if i is not None]


def listed(values: Sequence[Any]) -> str:
    """The first values as text, for a message."""
    shown = ", ".join(repr(v)[:40] for v in values[:8])
    return f"[{shown}{', …' if len(values) > 8 else ''}]"
