"""Distribution: predictive distributions from objects with ``cdf`` and ``ppf``, such as scipy's and skpro's.

`from_moments` makes scipy distributions from means and standard deviations. `as_predictions` accepts all forms.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fieldcal.alignment import check_alignment
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.regression.predictions import Predictions, numbers, vector
from fieldcal.storage import did_you_mean
from fieldcal.types import Floats, Ints

#: Whole numbers evaluated one by one in integrals; of more, this many are selected.
_MOST_STEPS = 200


@dataclass(frozen=True, eq=False)
class Distribution(Predictions):
    """n distributions with functions ``cdf`` and ``ppf`` of their own. Build it with `from_distribution`.

    ``given`` is a frozen distribution of scipy with parameters (n,); or a tuple of n distributions, possibly of
    different families; or an object such as skpro's, which takes and returns arrays or frames of n rows. If it has a
    ``shape``, points are passed as arrays of that shape, (n, 1), one column after the other, as skpro requires.
    Otherwise all columns are passed at once.
    """

    given: Any
    n: int

    def __len__(self) -> int:
        return self.n

    def _ask(self, name: str, at: Floats) -> Floats:
        if isinstance(self.given, tuple):
            rows = [_evaluate(d, name, row) for d, row in zip(self.given, at, strict=True)]
            return np.array(rows).reshape(at.shape)
        if is_frozen(self.given):
            # scipy broadcasts parameters (n,) along the last axis, so points are passed with rows last.
            return _evaluate(self.given, name, at.T).T
        if hasattr(self.given, "shape"):
            columns = [_evaluate(self.given, name, at[:, [j]]).reshape(-1, 1) for j in range(at.shape[1])]
            answer = np.hstack([np.empty((self.n, 0)), *columns])
        else:
            answer = _evaluate(self.given, name, at)
        if answer.shape != at.shape:
            raise InputError(
                f"{type(self.given).__name__}.{name} was called with points of shape {at.shape} but returned "
                f"{answer.shape}. Wrap it so that it returns one row per prediction and one column per point."
            )
        return answer

    def _cdf(self, x: Floats, before: bool) -> Floats:
        c = self._ask("cdf", x)
        return np.maximum(c - self._ask("pmf", x), 0.0) if before and self._has_atoms else c

    def _pdf(self, x: Floats) -> Floats:
        return self._ask("pdf", x)

    def _ppf(self, u: Floats) -> Floats:
        return self._ask("ppf", u)

    @property
    def _has_atoms(self) -> bool:
        return any(_is_discrete(d) for d in (self.given if isinstance(self.given, tuple) else (self.given,)))

    def _breaks(self) -> Floats:
        """Levels between which a discrete quantile function is constant; a selection if there are many."""
        if not self._has_atoms:
            return super()._breaks()
        first, last = np.hsplit(self._ppf(np.tile([1e-9, 1.0 - 1e-9], (self.n, 1))), 2)
        count = int(min(np.max(last - first, initial=0.0) + 1.0, _MOST_STEPS))
        return self._cdf(first + np.round((last - first) * np.linspace(0.0, 1.0, count)), False)

    @property
    def _divisible(self) -> bool:
        return isinstance(self.given, tuple) or is_frozen(self.given) or hasattr(self.given, "iloc")

    def _take(self, rows: Ints) -> Distribution:
        if isinstance(self.given, tuple):
            return Distribution(tuple(self.given[i] for i in rows), len(rows))
        if is_frozen(self.given):
            return Distribution(_refrozen(self.given, self.n, rows), len(rows))
        if not hasattr(self.given, "iloc"):
            raise InputTypeError(
                f"{type(self.given).__name__} has no iloc, so its rows cannot be selected. Pass a list with "
                "one distribution per row instead."
            )
        return Distribution(self.given.iloc[rows], len(rows))

    def mean(self) -> Floats:
        """The means, (n,), by scipy for its own families."""
        if not is_frozen(self.given):
            return super().mean()
        return np.array(np.broadcast_to(self.given.mean(), (self.n,)), dtype=np.float64)

    def var(self) -> Floats:
        """The variances, (n,), by scipy for its own families."""
        if not is_frozen(self.given):
            return super().var()
        return np.array(np.broadcast_to(self.given.var(), (self.n,)), dtype=np.float64)


def from_distribution(dist: Any) -> Distribution:
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
        known = Distribution(_refrozen(dist, n, np.arange(n, dtype=np.intp)), n)
    elif has_functions(dist):
        known = Distribution(dist, len(dist))
        shape = getattr(dist, "shape", (len(dist), 1))
        if tuple(shape) != (len(dist), 1):
            raise InputError(
                f"{type(dist).__name__} has shape {tuple(shape)}, but a prediction of one number has (n, 1). Give it "
                "an index with a row per prediction, and one column."
            )
    elif isinstance(dist, Sequence) and len(dist) and all(has_functions(d, rows=False) for d in dist):
        known = Distribution(tuple(dist), len(dist))
    else:
        raise InputTypeError(
            f"A {type(dist).__name__} is not a distribution of numbers. Pass a frozen scipy distribution, a list of "
            "them with one per row, or an object of n rows with the methods cdf and ppf."
        )
    _check_parameters(known)
    return known


def is_frozen(dist: Any) -> bool:
    """Whether this is a frozen scipy distribution."""
    return all(hasattr(dist, name) for name in ("dist", "args", "kwds", "cdf", "ppf"))


def has_functions(dist: Any, *, rows: bool = True) -> bool:
    """Whether an object has ``cdf`` and ``ppf``, and a length if it must have rows."""
    methods = callable(getattr(dist, "cdf", None)) and callable(getattr(dist, "ppf", None))
    return methods and (not rows or hasattr(dist, "__len__"))


def _is_discrete(dist: Any) -> bool:
    # skpro's continuous distributions have a pmf too, which is 0; their kind of measure distinguishes them.
    if hasattr(dist, "get_tag"):
        return bool(dist.get_tag("distr:measuretype", "mixed", raise_error=False) == "discrete")
    # scipy's frozen continuous distributions have no pmf in some versions, and a failing one in others.
    family = getattr(dist, "dist", dist)
    return hasattr(family, "pmf") and not hasattr(family, "pdf")


def _evaluate(dist: Any, name: str, at: Floats) -> Floats:
    """The named function; continuous distributions have no pmf, discrete ones no pdf."""
    if name == ("pdf" if _is_discrete(dist) else "pmf"):
        return np.zeros(at.shape)
    if not hasattr(dist, name):
        raise InputError(f"{type(dist).__name__} has no {name}. Add one, or score with crps(y).")
    return numbers(getattr(dist, name)(at), name)


def _rows(dist: Any) -> int:
    shape = np.broadcast_shapes(*(np.shape(v) for v in (*dist.args, *dist.kwds.values())))
    if len(shape) > 1:
        raise InputError(
            f"The parameters of the distribution have shape {shape}, but must be one number per row. Use ravel()."
        )
    return int(shape[0]) if shape else 1


def _refrozen(dist: Any, n: int, rows: Ints) -> Any:
    args = [np.broadcast_to(v, (n,))[rows] for v in dist.args]
    return dist.dist(*args, **{k: np.broadcast_to(v, (n,))[rows] for k, v in dist.kwds.items()})


def _check_parameters(known: Distribution) -> None:
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


def from_moments(mean: ArrayLike, sd: ArrayLike, *, family: Family | str = "normal") -> Distribution:
    """Predictive distributions of a family, from their means and standard deviations.

    Reweighted distributions leave the family; ``moments()`` returns their means and standard deviations.

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
    build = _FAMILIES.get(family) if isinstance(family, str) else None
    if build is None:
        raise InputError(
            f"There is no family {family!r}.{did_you_mean(family, list(_FAMILIES))} Choose one of "
            f"{', '.join(_FAMILIES)}, or pass any scipy distribution to from_distribution."
        )
    check_alignment(mean=mean, sd=sd)
    centre = vector(mean, "means")
    n = len(centre)
    spread = numbers(sd, "standard deviations")
    spread = vector(np.full(n, spread) if spread.ndim == 0 else spread, "standard deviations", n=n)
    _refuse(
        spread <= 0.0,
        spread,
        "standard deviations",
        "Pass certain predictions as from_samples, one sample each.",
    )
    if family in _POSITIVE:
        _refuse(
            centre <= 0.0,
            centre,
            f"means of the family {family!r}",
            f"Use {option('family', 'normal')} for such rows.",
        )
    return Distribution(build(centre, spread), n)


def _refuse(bad: Any, values: Floats, what: str, next_step: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise InputError(
            f"The {what} must be positive, but {int(bad.sum()):,} of {len(values):,} are not, the first is row {row} "
            f"with {values[row]:.4g}. {next_step}"
        )


def as_predictions(thing: Any) -> Predictions:
    """Predictions from any supported object: unchanged, or wrapped if they are distributions of scipy or skpro.

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
        f"A {type(thing).__name__} cannot be read as predictive distributions. Use "
        "from_quantiles(values, levels), from_cdf(values, grid), from_samples(samples), from_masses(masses, support), "
        "from_moments(mean, sd) or from_distribution(dist)."
    )
