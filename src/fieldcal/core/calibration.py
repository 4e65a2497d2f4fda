"""Calibration: what a model's predictions are read as, a piecewise linear function of each.

Lines ask for nothing but comparisons, differences, products and one quotient, which every engine and warehouse computes
alike to the last bit; powers and logarithms they do not.

A map is fitted one-against-rest on the logit or by isotonic regression, or as one temperature for all classes. Differs
from scikit-learn's `CalibratedClassifierCV`, which fits the sigmoid to the probability itself where a model has no
decision function: here it is fitted to the logit, so that a calibrated model stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, Protocol, get_args

import numpy as np
from scipy.special import expit, log_softmax, logit

from fieldcal.core.backend import Backend, Expr, value_between
from fieldcal.types import Floats, Ints, Keys

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
        piece = np.searchsorted(self.cuts, p)
        return np.asarray(self.y[piece] + self.slope[piece] * (p - self.x[piece]))

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
        of = np.concatenate([np.full(len(x), float(k)) for k, (x, _) in enumerate(knots)])
        raw, calibrated = (np.concatenate(part) for part in zip(*knots, strict=True))
        return cls(method, of, raw, calibrated, classes)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """One of each class, or one for all."""
        at = [self.of == k for k in range(int(self.of.max()) + 1)]
        return tuple(Line.through(self.raw[k], self.calibrated[k]) for k in at)

    def line(self, k: int) -> Line:
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


#: Predictions closer to 0 or 1 than this are not distinguished, and no calibrated one is closer than `_CLOSEST`.
_SURE, _CLOSEST = 1e-9, 1e-12
#: How far lines may be from the curve, and as a share of it. Where it is divided by a sum of such, a prediction p is
#: off by ``p · (1 − p)`` times that share at most, so that four times as much is as good.
_OFF, _OFF_SHARE = 9e-5, 0.05
#: Points of the curve, evenly spaced on the logit, among which knots are chosen.
_POINTS = 4001
#: Temperatures from e⁻⁴ to e⁴.
_LOG_TEMPERATURE = 4.0


class Curve(Protocol):
    """What a prediction is read as, exactly."""

    def at(self, p: Floats) -> Floats:
        """Of predictions."""

    def knots(self) -> tuple[Floats, Floats]:
        """Of lines that are as good as the curve."""

    @property
    def rises(self) -> bool:
        """Whether a higher prediction is read as a higher one."""


@dataclass(frozen=True)
class Sigmoid:
    """``expit(slope · logit(p) + shift)`` between ``low`` and ``high``, and what it is there beyond them."""

    slope: float
    shift: float
    low: float
    high: float

    @classmethod
    def fit(cls, p: Floats, hit: Floats, weight: Floats, *, shifted: bool = True) -> Sigmoid:
        """Platt's: the targets of a class with n rows are drawn to one half as by two more.

        Parameters
        ----------
        shifted : whether there is a shift; without one this is a temperature

        References
        ----------
        Platt, J. (1999). Probabilistic outputs for support vector machines and comparisons to regularized likelihood
        methods. Advances in Large Margin Classifiers.
        """
        low, high = _ends(p)
        x, ones = logit(np.clip(p, low, high)), float((weight * hit).sum())
        zeros = float(weight.sum()) - ones
        target = np.where(hit > 0, (ones + 1) / (ones + 2), 1 / (zeros + 2))
        share = weight / weight.sum()

        from scipy.optimize import minimize

        def loss(parameters: Floats) -> tuple[float, Floats]:
            z = parameters[0] * x + parameters[1]
            off = share * (expit(z) - target)
            return float(share @ (np.logaddexp(0.0, z) - target * z)), np.array([off @ x, off.sum()])

        bounds = [(0.0, None), (None, None) if shifted else (0.0, 0.0)]
        found = minimize(
            loss,
            [1.0, 0.0],
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"ftol": 1e-15, "gtol": 1e-9},
        )
        return cls(float(found.x[0]), float(found.x[1]), low, high)

    @property
    def rises(self) -> bool:
        """Not where the model is no better than chance."""
        return self.slope > 0

    def at(self, p: Floats) -> Floats:
        z = self.slope * logit(np.clip(p, self.low, self.high)) + self.shift
        return np.clip(expit(z), _CLOSEST, 1 - _CLOSEST)

    def knots(self) -> tuple[Floats, Floats]:
        x = expit(np.linspace(logit(self.low), logit(self.high), _POINTS))
        y = self.at(x)
        return _whole(*thinned(x, y, np.minimum(_OFF, _OFF_SHARE * np.minimum(y, 1 - y))))


@dataclass(frozen=True)
class Power:
    """``p ** exponent`` above ``low``: with more than two classes a temperature, once it is divided by its sum."""

    exponent: float
    low: float
    n_classes: int

    @classmethod
    def fit(cls, p: Floats, y: Ints, weight: Floats) -> Power:
        """The temperature with the best log loss.

        References
        ----------
        Guo, C., Pleiss, G., Sun, Y. and Weinberger, K. (2017). On calibration of modern neural networks. ICML.
        """
        low, _ = _ends(p)
        logs, share = np.log(np.maximum(p, low)), weight / weight.sum()

        from scipy.optimize import minimize_scalar

        def loss(log_exponent: float) -> float:
            return -float(share @ log_softmax(np.exp(log_exponent) * logs, axis=1)[np.arange(len(y)), y])

        bounds = (-_LOG_TEMPERATURE, _LOG_TEMPERATURE)
        found = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-9})
        return cls(float(np.exp(found.x)), low, p.shape[1])

    @property
    def rises(self) -> bool:
        """Not where every temperature is too low: the model is no better than chance."""
        return bool(np.log(self.exponent) > -_LOG_TEMPERATURE + 1e-3)

    def at(self, p: Floats) -> Floats:
        return np.maximum(np.maximum(p, self.low) ** self.exponent, _CLOSEST)

    def knots(self) -> tuple[Floats, Floats]:
        x = np.exp(np.linspace(np.log(self.low), 0.0, _POINTS))
        y = self.at(x)
        # The sum over the classes is at least that of equal predictions, or 1 where these have the largest.
        divided = y * self.n_classes ** max(self.exponent - 1, 0.0)
        return _whole(*thinned(x, y, y * np.clip(_OFF / divided, 4 * _OFF, _OFF_SHARE)))


@dataclass(frozen=True)
class Steps:
    """Isotonic regression: lines between the steps, and no share closer to 0 or 1 than half a row of the lab.

    Predictions closer to 0 or 1 than `_SURE` are one step.
    """

    x: Floats
    y: Floats

    @classmethod
    def fit(cls, p: Floats, hit: Floats, weight: Floats) -> Steps:
        from scipy.optimize import isotonic_regression

        x, place = np.unique(np.clip(p, _SURE, 1 - _SURE), return_inverse=True)
        rows = np.bincount(place, weights=weight)
        used = rows > 0
        mean = np.bincount(place, weights=weight * hit)[used] / rows[used]
        y = isotonic_regression(mean, weights=rows[used]).x
        least = 0.5 / (float(weight.sum()) + 1)
        return cls(x[used], np.clip(y, least, 1 - least))

    @property
    def rises(self) -> bool:
        """Not where the model is no better than chance."""
        return bool(self.y[-1] > self.y[0])

    def at(self, p: Floats) -> Floats:
        """Of predictions; of such as the lab has not seen, that of the next, or between two."""
        return np.interp(p, self.x, self.y)

    def knots(self) -> tuple[Floats, Floats]:
        return _whole(*thinned(self.x, self.y, np.full(len(self.x), 1e-9)))


def fit_curves(
    method: CalibrationName, values: Floats, y: Ints, n_classes: int, weight: Floats
) -> tuple[Curve, ...]:
    """One curve per class, or one for all.

    Parameters
    ----------
    values : (n,) predictions of the second of two classes, or (n, K)
    y : (n,) places of the true classes
    weight : (n,) as rows of equal weight would count, none of them zero
    """
    if n_classes == 2:
        p, hit = values if values.ndim == 1 else values[:, 1], (y == 1).astype(np.float64)
        if method == "isotonic":
            return (Steps.fit(p, hit, weight),)
        return (Sigmoid.fit(p, hit, weight, shifted=method == "sigmoid"),)
    if method == "temperature":
        return (Power.fit(values, y, weight),)
    fit = Steps.fit if method == "isotonic" else Sigmoid.fit
    return tuple(fit(values[:, k], (y == k).astype(np.float64), weight) for k in range(n_classes))


def read_by(curves: Sequence[Curve], values: Floats) -> Floats:
    """Predictions as the curves read them, exactly; of the shape that they have."""
    if values.ndim == 1:
        return curves[0].at(values)
    if values.shape[1] == 2:
        second = curves[0].at(values[:, 1])
        return np.column_stack([1.0 - second, second])
    each = curves if len(curves) > 1 else [*curves] * values.shape[1]
    read = np.column_stack([curve.at(column) for curve, column in zip(each, values.T, strict=True)])
    return np.asarray(read / read.sum(axis=1, keepdims=True))


def tabulated(method: CalibrationName, curves: Sequence[Curve], classes: Keys) -> CalibrationMap:
    return CalibrationMap.of_knots(method, [curve.knots() for curve in curves], classes)


def thinned(x: Floats, y: Floats, off: Floats) -> tuple[Floats, Floats]:
    """Few of the points, such that lines between them pass the others by no more than ``off``.

    From every knot the line goes as far as it can; which directions pass all points on the way is known from one pass.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(0, 1, 101)
    >>> len(thinned(x, x**2, np.full(101, 1e-3))[0]), len(thinned(x, x, np.full(101, 1e-3))[0])
    (18, 2)
    """
    kept = [0]
    while kept[-1] < len(x) - 1:
        i = kept[-1]
        run, rise = x[i + 1 :] - x[i], y[i + 1 :] - y[i]
        lowest = np.maximum.accumulate((rise - off[i + 1 :]) / run)
        highest = np.minimum.accumulate((rise + off[i + 1 :]) / run)
        direct = rise / run
        passes = (direct >= lowest) & (direct <= highest)
        # Beyond the point where no direction is left, none comes again.
        blocked = np.flatnonzero(lowest > highest)
        reach = passes[: blocked[0]] if len(blocked) else passes
        kept.append(i + 1 + int(np.flatnonzero(reach)[-1]))
    return x[kept], y[kept]


def _ends(p: Floats) -> tuple[float, float]:
    """Half way to 0 from the smallest prediction above it, and to 1 from the largest below: exact ones stand there."""
    above, below = p[p > 0], p[p < 1]
    low = above.min() / 2 if len(above) else 0.5
    high = (1 - below.max()) / 2 if len(below) else 0.5
    return float(np.clip(low, _SURE, 0.25)), float(1 - np.clip(high, _SURE, 0.25))


def _whole(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Knots from 0 to 1: level beyond the first and the last."""
    inside = (x > 0) & (x < 1)
    return np.concatenate([[0.0], x[inside], [1.0]]), np.concatenate([[y[0]], y[inside], [y[-1]]])
