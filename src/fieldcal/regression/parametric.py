"""Predictions that come as objects with a distribution and a quantile function: scipy's, or such as skpro's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fieldcal.errors import InputError, InputTypeError
from fieldcal.regression import checks
from fieldcal.regression.predictions import Predictions
from fieldcal.storage import did_you_mean
from fieldcal.types import Floats, Ints

#: Whole numbers that are told apart in integrals; of more, that many are picked.
_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class Distribution(Predictions):
    """One frozen scipy distribution whose parameters are (n,)."""

    frozen: Any
    n: int

    def __len__(self) -> int:
        return self.n

    # scipy broadcasts parameters (n,) along the last axis, so points go in with rows last.
    def _cdf(self, x: Floats, before: bool) -> Floats:
        return _cdf(self.frozen, x.T, before).T

    def _pdf(self, x: Floats) -> Floats:
        return _pdf(self.frozen, x.T).T

    def _ppf(self, u: Floats) -> Floats:
        return np.asarray(self.frozen.ppf(u.T), dtype=np.float64).T

    def _breaks(self) -> Floats:
        return _steps(self) if _is_discrete(self.frozen) else super()._breaks()

    def _take(self, rows: Ints) -> Distribution:
        return Distribution(_refrozen(self.frozen, self.n, rows), len(rows))

    def mean(self) -> Floats:
        """The means, (n,), from scipy."""
        return np.array(np.broadcast_to(self.frozen.mean(), (self.n,)), dtype=np.float64)

    def var(self) -> Floats:
        """The variances, (n,), from scipy."""
        return np.array(np.broadcast_to(self.frozen.var(), (self.n,)), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Distributions(Predictions):
    """n frozen distributions, one per row, that need not be of one family."""

    each: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.each)

    def _cdf(self, x: Floats, before: bool) -> Floats:
        return np.array([_cdf(d, row, before) for d, row in zip(self.each, x, strict=True)]).reshape(x.shape)

    def _pdf(self, x: Floats) -> Floats:
        return np.array([_pdf(d, row) for d, row in zip(self.each, x, strict=True)]).reshape(x.shape)

    def _ppf(self, u: Floats) -> Floats:
        rows = [np.asarray(d.ppf(row), dtype=np.float64) for d, row in zip(self.each, u, strict=True)]
        return np.array(rows).reshape(u.shape)

    def _breaks(self) -> Floats:
        return _steps(self) if any(_is_discrete(d) for d in self.each) else super()._breaks()

    def _take(self, rows: Ints) -> Distributions:
        return Distributions(tuple(self.each[i] for i in rows))


@dataclass(frozen=True, eq=False)
class FrameDistribution(Predictions):
    """An object such as skpro's, which takes and gives frames of n rows.

    If it has a ``shape``, points go in as arrays of that shape, (n, 1), one column after the other, as skpro wants
    it. Otherwise all columns go in at once.
    """

    given: Any

    def __len__(self) -> int:
        return len(self.given)

    def _call(self, name: str, at: Floats) -> Floats:
        method = getattr(self.given, name)
        if hasattr(self.given, "shape"):
            parts = [checks.numbers(method(at[:, [j]]), name).reshape(-1, 1) for j in range(at.shape[1])]
            answer = np.hstack([np.empty((len(self), 0)), *parts])
        else:
            answer = checks.numbers(method(at), name)
        if answer.shape != at.shape:
            raise InputError(
                f"{type(self.given).__name__}.{name} was asked at points of shape {at.shape} but gave "
                f"{answer.shape}. Wrap it so that it gives one row per prediction and one column per point."
            )
        return answer

    def _cdf(self, x: Floats, before: bool) -> Floats:
        c = self._call("cdf", x)
        return np.maximum(c - self._call("pmf", x), 0.0) if before and _discrete(self.given) else c

    def _pdf(self, x: Floats) -> Floats:
        if _discrete(self.given):
            return np.zeros(x.shape)
        if not hasattr(self.given, "pdf"):
            raise InputError(f"{type(self.given).__name__} has no pdf. Add one, or score with crps(y).")
        return self._call("pdf", x)

    def _ppf(self, u: Floats) -> Floats:
        return self._call("ppf", u)

    @property
    def _divisible(self) -> bool:
        return hasattr(self.given, "iloc")

    def _breaks(self) -> Floats:
        return _steps(self) if _discrete(self.given) else super()._breaks()

    def _take(self, rows: Ints) -> FrameDistribution:
        if not hasattr(self.given, "iloc"):
            raise InputTypeError(
                f"{type(self.given).__name__} has no iloc, so its rows cannot be taken one by one. Pass a list with "
                "one distribution per row instead."
            )
        return FrameDistribution(self.given.iloc[rows])


def from_distribution(dist: Any) -> Predictions:
    """Predictive distributions from objects with ``cdf`` and ``ppf``.

    Parameters
    ----------
    dist : a frozen scipy distribution with parameters (n,) (numbers: one row), a sequence of n frozen ones, or an
        object such as skpro's distributions, whose ``cdf`` and ``ppf`` take and give arrays or frames of n rows

    Examples
    --------
    >>> from scipy import stats
    >>> from fieldcal.regression import from_distribution
    >>> from_distribution(stats.norm([0.0, 1.0], 1.0)).cdf([0.0]).round(3).tolist()
    [[0.5], [0.159]]
    >>> from_distribution([stats.norm(), stats.expon()]).ppf([0.5]).round(3).tolist()
    [[0.0], [0.693]]
    """
    if is_frozen(dist):
        n = _rows(dist)
        known: Predictions = Distribution(_refrozen(dist, n, np.arange(n, dtype=np.intp)), n)
    elif has_functions(dist):
        known = FrameDistribution(dist)
        shape = getattr(dist, "shape", (len(dist), 1))
        if tuple(shape) != (len(dist), 1):
            raise InputError(
                f"{type(dist).__name__} has shape {tuple(shape)}, but a prediction of one number has (n, 1). Give it "
                "an index with a row per prediction, and one column."
            )
    elif isinstance(dist, Sequence) and len(dist) and all(has_functions(d, rows=False) for d in dist):
        known = Distributions(tuple(dist))
    else:
        raise InputTypeError(
            f"A {type(dist).__name__} is no distribution of numbers. Pass a frozen scipy distribution, a list of "
            "them with one per row, or an object of n rows with the methods cdf and ppf."
        )
    _check_parameters(known)
    return known


def is_frozen(dist: Any) -> bool:
    """Whether this is a frozen distribution of scipy."""
    return all(hasattr(dist, name) for name in ("dist", "args", "kwds", "cdf", "ppf"))


def has_functions(dist: Any, *, rows: bool = True) -> bool:
    """Whether this has a distribution and a quantile function, and a length if it shall have rows."""
    methods = callable(getattr(dist, "cdf", None)) and callable(getattr(dist, "ppf", None))
    return methods and (not rows or hasattr(dist, "__len__"))


def _discrete(dist: Any) -> bool:
    # skpro's continuous distributions have a pmf too, which is 0; they are told by their kind of measure.
    if hasattr(dist, "get_tag"):
        return bool(dist.get_tag("distr:measuretype", "mixed", raise_error=False) == "discrete")
    return hasattr(dist, "pmf") and not hasattr(dist, "pdf")


def _cdf(dist: Any, x: Floats, before: bool) -> Floats:
    c = np.asarray(dist.cdf(x), dtype=np.float64)
    return np.maximum(c - dist.pmf(x), 0.0) if before and _is_discrete(dist) else c


def _pdf(dist: Any, x: Floats) -> Floats:
    return np.zeros(x.shape) if _is_discrete(dist) else np.asarray(dist.pdf(x), dtype=np.float64)


def _is_discrete(dist: Any) -> bool:
    # scipy's frozen continuous distributions have no pmf in some versions, and one that fails in others.
    family = getattr(dist, "dist", dist)
    return hasattr(family, "pmf") and not hasattr(family, "pdf")


def _steps(known: Predictions) -> Floats:
    """The levels between which the quantiles of a whole number stay the same; some of them if there are many."""
    first, last = np.hsplit(known._ppf(np.tile([1e-9, 1.0 - 1e-9], (len(known), 1))), 2)
    count = int(min(np.max(last - first, initial=0.0) + 1.0, _MOST_STEPS))
    return known._cdf(first + np.round((last - first) * np.linspace(0.0, 1.0, count)), False)


def _rows(dist: Any) -> int:
    shape = np.broadcast_shapes(*(np.shape(v) for v in (*dist.args, *dist.kwds.values())))
    if len(shape) > 1:
        raise InputError(
            f"The parameters of the distribution have shape {shape}, but must be one number per row. Use ravel()."
        )
    return int(shape[0]) if shape else 1


def _refrozen(dist: Any, n: int, rows: Ints) -> Any:
    """The same family with the parameters of some rows."""
    args = [np.broadcast_to(v, (n,))[rows] for v in dist.args]
    return dist.dist(*args, **{k: np.broadcast_to(v, (n,))[rows] for k, v in dist.kwds.items()})


def _check_parameters(known: Predictions) -> None:
    bad = ~np.isfinite(known._ppf(np.full((len(known), 1), 0.5))[:, 0])
    if bad.any():
        raise InputError(
            f"{int(bad.sum()):,} of {len(bad):,} distributions have no finite median, the first is row "
            f"{int(bad.argmax())}. Are their parameters NaN, or a scale of 0? Drop those rows."
        )


Family = Literal["normal", "lognormal", "gamma", "laplace", "logistic", "student"]

#: Degrees of freedom of the family "student": heavy tails, with a variance and a kurtosis.
STUDENT_DF = 5.0


def _lognormal(mean: Floats, sd: Floats) -> Any:
    spread = np.log1p((sd / mean) ** 2)
    return stats.lognorm(s=np.sqrt(spread), scale=mean / np.exp(spread / 2.0))


def _student(mean: Floats, sd: Floats) -> Any:
    return stats.t(STUDENT_DF, loc=mean, scale=sd * np.sqrt((STUDENT_DF - 2.0) / STUDENT_DF))


_FAMILIES: dict[str, Callable[[Floats, Floats], Any]] = {
    "normal": lambda mean, sd: stats.norm(mean, sd),
    "lognormal": _lognormal,
    "gamma": lambda mean, sd: stats.gamma((mean / sd) ** 2, scale=sd**2 / mean),
    "laplace": lambda mean, sd: stats.laplace(mean, sd / np.sqrt(2.0)),
    "logistic": lambda mean, sd: stats.logistic(mean, sd * np.sqrt(3.0) / np.pi),
    "student": _student,
}
_POSITIVE = ("lognormal", "gamma")


@dataclass(frozen=True, eq=False)
class Moments(Distribution):
    """A family with a mean and a standard deviation per row, both (n,)."""

    centre: Floats
    spread: Floats
    family: str

    def _take(self, rows: Ints) -> Moments:
        return from_moments(self.centre[rows], self.spread[rows], family=self.family)

    def mean(self) -> Floats:
        """The means that were given."""
        return self.centre.copy()

    def var(self) -> Floats:
        """The squares of the standard deviations that were given."""
        return np.asarray(self.spread**2)


def from_moments(mean: ArrayLike, sd: ArrayLike, *, family: Family | str = "normal") -> Moments:
    """Predictive distributions of a family, from their means and standard deviations.

    After reshaping they are no longer of the family; ``moments()`` gives the new means and standard deviations.

    Parameters
    ----------
    mean, sd : (n,); a single standard deviation holds for all rows
    family : "normal", "lognormal", "gamma", "laplace", "logistic", or "student" (with 5 degrees of freedom)

    Examples
    --------
    >>> from fieldcal.objects import Intervals
    >>> from fieldcal.regression import from_moments
    >>> three = from_moments([1.0, 2.0, 3.0], 0.5, family="gamma")
    >>> three.cdf([2.0]).round(3).tolist()
    [[0.958], [0.533], [0.013]]
    >>> mean, sd = three.reshaped(Intervals.of([2.0]), [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]).moments()
    >>> mean.round(3).tolist(), sd.round(3).tolist()
    ([1.081, 2.027, 2.901], [0.587, 0.503, 0.575])
    """
    build = _FAMILIES.get(family)
    if build is None:
        raise InputError(
            f"There is no family {family!r}.{did_you_mean(family, list(_FAMILIES))} Choose one of "
            f"{', '.join(_FAMILIES)}, or pass any scipy distribution to from_distribution."
        )
    centre = checks.vector(mean, "means")
    n = len(centre)
    spread = checks.numbers(sd, "standard deviations")
    spread = checks.vector(np.full(n, spread) if spread.ndim == 0 else spread, "standard deviations", n=n)
    _refuse(
        spread <= 0.0, spread, "standard deviations", "Give certain predictions as from_samples, one each."
    )
    if family in _POSITIVE:
        _refuse(
            centre <= 0.0, centre, f"means of the family {family!r}", "Use family='normal' for such rows."
        )
    return Moments(build(centre, spread), n, centre, spread, family)


def _refuse(bad: Any, values: Floats, what: str, next_step: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"The {what} must be positive, but {int(bad.sum()):,} of {len(values):,} are not, the first is row {row} "
            f"with {values[row]:.4g}. {next_step}"
        )


def as_predictions(thing: Any) -> Predictions:
    """Predictions as they are; distributions of scipy and skpro wrapped; anything else refused with the way out.

    Examples
    --------
    >>> from scipy import stats
    >>> from fieldcal.regression import as_predictions
    >>> len(as_predictions(stats.norm([0.0, 1.0, 2.0])))
    3
    """
    if isinstance(thing, Predictions):
        return thing
    objects = isinstance(thing, (list, tuple)) and len(thing) and has_functions(thing[0], rows=False)
    if is_frozen(thing) or has_functions(thing) or objects:
        return from_distribution(thing)
    raise InputTypeError(
        f"A {type(thing).__name__} does not say which predictive distributions it stands for. Use "
        "from_quantiles(values, levels), from_cdf(values, grid), from_samples(samples), from_masses(masses, support), "
        "from_moments(mean, sd) or from_distribution(dist)."
    )
