"""Predictions that come as mean and standard deviation of a named family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from fieldcal.errors import InputError
from fieldcal.names import did_you_mean
from fieldcal.regression import checks
from fieldcal.regression.checks import Floats, Ints
from fieldcal.regression.distributions import Distribution

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
    >>> from fieldcal.objects import Support
    >>> from fieldcal.regression import from_moments
    >>> three = from_moments([1.0, 2.0, 3.0], 0.5, family="gamma")
    >>> three.cdf([2.0]).round(3).tolist()
    [[0.958], [0.533], [0.013]]
    >>> mean, sd = three.reshaped(Support.of([2.0]), [[0.9, 0.1], [0.5, 0.5], [0.1, 0.9]]).moments()
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
