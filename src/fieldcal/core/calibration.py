"""Calibration: what a model's predictions are read as, a piecewise linear function of each.

Lines ask for nothing but comparisons, differences, products and one quotient, which every engine and warehouse computes
alike to the last bit; powers and logarithms they do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from fieldcal.core.backend import Backend, Expr, value_between
from fieldcal.types import Floats, Keys

CalibrationName = Literal["sigmoid", "isotonic", "temperature"]
CALIBRATIONS: tuple[CalibrationName, ...] = get_args(CalibrationName)
#: No knot but the first is closer to 0: what warehouses take for 0 lies far below.
_LEAST = 1e-12
#: A nudge of a slope takes off one unit in its last place; more are never needed.
_NUDGES = 64


@dataclass(frozen=True)
class Line:
    """The lines of one class, as every engine computes them: ``y[j] + slope[j] * (p - x[j])``.

    Attributes
    ----------
    cuts : (pieces − 1,) where one ends and the next begins, which takes what is strictly above
    x, y, slope : (pieces,)
    """

    cuts: Floats
    x: Floats
    y: Floats
    slope: Floats

    @classmethod
    def through(cls, x: Floats, y: Floats) -> Line:
        """Of knots. Rounding takes no piece beyond its ends, so that what increases does so to the last bit."""
        width = np.diff(x)
        slope, low = np.diff(y) / width, y[:-1]
        for _ in range(_NUDGES):
            over = low + slope * width > y[1:]
            if not over.any():
                break
            slope = np.where(over, np.nextafter(slope, 0.0), slope)
        return cls(x[1:-1], x[:-1], low, slope)

    def at(self, p: Floats) -> Floats:
        """Of predictions."""
        piece = np.searchsorted(self.cuts, p)
        return np.asarray(self.y[piece] + self.slope[piece] * (p - self.x[piece]))

    def expression(self, backend: Backend, p: Expr) -> Expr:
        """The same of an engine's column."""
        number = backend.number
        pieces = [
            number(y) + number(slope) * (p - number(x))
            for x, y, slope in zip(self.x, self.y, self.slope, strict=True)
        ]
        return value_between(backend, p, [number(cut) for cut in self.cuts], pieces)

    def piece(self, backend: Backend, p: Expr) -> Expr:
        """Which piece, counted from 0."""
        pieces = [backend.integer(j) for j in range(len(self.x))]
        return value_between(backend, p, [backend.number(cut) for cut in self.cuts], pieces)


@dataclass(frozen=True)
class CalibrationMap:
    """What predictions are read as: knots of one line for each class, or of one for all.

    Of two classes there is one line, of the second's prediction, and the first gets the rest. Of more, what the lines
    say is divided by its sum over the classes. For other classes, or the same in another order, a map says nothing.

    Attributes
    ----------
    method : how it was fitted
    of : (knots,) the place of the line, from 0
    raw, calibrated : (knots,) a prediction, and what it is read as
    classes : whose predictions these are, in the order of the columns

    Examples
    --------
    >>> import numpy as np
    >>> knots = np.array([0.0, 0.5, 1.0]), np.array([0.1, 0.2, 0.8])
    >>> lines = CalibrationMap("isotonic", np.zeros(3), *knots, classes=("no", "yes"))
    >>> lines.read(np.array([0.0, 0.25, 0.75])).round(3).tolist()
    [0.1, 0.15, 0.5]
    """

    method: str
    of: Floats
    raw: Floats
    calibrated: Floats
    classes: Keys

    @classmethod
    def of_knots(cls, method: str, knots: Sequence[tuple[Floats, Floats]], classes: Keys) -> CalibrationMap:
        """From the knots of each line."""
        of = np.concatenate([np.full(len(x), float(k)) for k, (x, _) in enumerate(knots)])
        raw, calibrated = (np.concatenate(part) for part in zip(*knots, strict=True))
        return cls(method, of, raw, calibrated, classes)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """One of each class, or one for all."""
        at = [self.of == k for k in range(int(self.of.max()) + 1)]
        return tuple(Line.through(self.raw[k], self.calibrated[k]) for k in at)

    def line(self, k: int) -> Line:
        """Of the column at place k."""
        return self.lines[k if len(self.lines) > 1 else 0]

    def fault(self, classes: Keys) -> str | None:
        """Why these are no knots for predictions of these classes; None where they are."""
        if list(map(repr, self.classes)) != list(map(repr, classes)):  # 1 and True are not the same
            return f"it was fitted to predictions of the classes {self.classes!r:.80}, and these are {classes!r:.80}"
        if self.method not in CALIBRATIONS:
            return f"method must be one of {', '.join(CALIBRATIONS)}"
        if not self.of.ndim == self.raw.ndim == self.calibrated.ndim == 1 or not (
            len(self.of) == len(self.raw) == len(self.calibrated) > 0
        ):
            return "of, raw and calibrated must be lists of one length"
        places = np.unique(self.of)
        if not np.array_equal(places, np.arange(len(places))) or np.any(np.diff(self.of) < 0):
            return "of must count the lines from 0, in their order"
        if len(places) != self._n_lines:
            return f"there are {len(places)} lines for {len(classes)} classes, where {self.method} has {self._n_lines}"
        return next(filter(None, (self._fault_of(k) for k in range(len(places)))), None)

    @property
    def _n_lines(self) -> int:
        return 1 if len(self.classes) == 2 or self.method == "temperature" else len(self.classes)

    def _fault_of(self, k: int) -> str | None:
        x, y = self.raw[self.of == k], self.calibrated[self.of == k]
        if len(x) < 2 or x[0] != 0 or x[-1] != 1 or np.any(np.diff(x) <= 0):
            return "raw predictions must increase from 0 to 1"
        if x[1] < _LEAST:
            return f"raw predictions above 0 must be at least {_LEAST:g}"
        if np.any(np.diff(y) < 0):
            return "calibrated predictions must not decrease"
        if not (y[0] > 0 and y[-1] <= 1):
            return "calibrated predictions must be above 0 and at most 1"
        return None

    def read(self, values: Floats) -> Floats:
        """Calibrated predictions, (n,) of the second of two classes or (n, K); NaN in rows that have any."""
        if values.ndim == 1:
            return self.line(0).at(values)
        if values.shape[1] == 2:
            second = self.line(0).at(values[:, 1]) + 0.0 * values[:, 0]  # missing where either is
            return np.column_stack([1.0 - second, second])
        columns = [self.line(k).at(column) for k, column in enumerate(values.T)]
        total = columns[0].copy()
        for column in columns[1:]:  # from left to right, as every engine adds
            total += column
        return np.column_stack([column / total for column in columns])

    def expressions(self, backend: Backend, columns: Sequence[Expr]) -> list[Expr]:
        """The same of an engine's columns, before those of more than two classes are divided by their sum."""
        if len(columns) > 2:
            return [self.line(k).expression(backend, x) for k, x in enumerate(columns)]
        second = self.line(0).expression(backend, columns[-1])
        return [second] if len(columns) == 1 else [backend.number(1.0) - second, second]
