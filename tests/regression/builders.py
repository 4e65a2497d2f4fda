"""Every form of predictive distributions, made from the same few rows."""

from __future__ import annotations

import numpy as np
from scipy import stats

from fieldcal.objects import Intervals
from fieldcal.regression import (
    from_cdf,
    from_distribution,
    from_masses,
    from_moments,
    from_quantiles,
    from_samples,
)

MEAN, SD = np.array([0.0, 1.0, -0.5]), np.array([1.0, 2.0, 0.7])
TRUTH = stats.norm(MEAN, SD)
LEVELS = np.linspace(0.01, 0.99, 99)
GRID = np.linspace(-15.0, 15.0, 1501)
SUPPORT = Intervals.of([-1.0, 0.0, 0.4, 2.0])
#: Masses that differ from those of every form, none of them 0.
MASSES = np.array([[0.1, 0.2, 0.3, 0.3, 0.1], [0.3, 0.1, 0.1, 0.2, 0.3], [0.2, 0.2, 0.2, 0.2, 0.2]])


class Frames:
    """Takes arrays and gives frames of n rows and one column, as skpro does; knows nothing else of skpro."""

    def __init__(self, mean, sd):
        self.mean_, self.sd_ = np.reshape(mean, (-1, 1)), np.reshape(sd, (-1, 1))

    shape = property(lambda self: self.mean_.shape)

    def __len__(self):
        return len(self.mean_)

    @property
    def iloc(self):
        frames = self

        class Rows:
            def __getitem__(self, rows):
                return Frames(frames.mean_[rows], frames.sd_[rows])

        return Rows()

    def _frame(self, name, at):
        import pandas as pd

        at = np.broadcast_to(np.asarray(at), self.shape)
        return pd.DataFrame(getattr(stats.norm(self.mean_, self.sd_), name)(at), columns=["y"])

    def cdf(self, x):
        return self._frame("cdf", x)

    def pdf(self, x):
        return self._frame("pdf", x)

    def ppf(self, p):
        return self._frame("ppf", p)


class Arrays:
    """The least that is needed: a length, and functions of (n, P) arrays."""

    def __len__(self):
        return len(MEAN)

    def cdf(self, x):
        return TRUTH.cdf(x.T).T

    def ppf(self, u):
        return TRUTH.ppf(u.T).T


def quantiles():
    return from_quantiles(TRUTH.ppf(LEVELS[:, None]).T, LEVELS)


def grid_cdf():
    return from_cdf(TRUTH.cdf(GRID[:, None]).T, GRID)


def samples(size=2000):
    return from_samples(TRUTH.ppf((np.arange(size)[:, None] + 0.5) / size).T)


def interval_masses():
    fine = Intervals.of(np.linspace(-8.0, 9.0, 171))
    return from_masses(from_moments(MEAN, SD).masses(fine), fine)


def gamma():
    return from_moments(MEAN + 2.0, SD, family="gamma")


def reshaped_twice():
    support = Intervals.of([-0.5, 1.0])
    once = from_moments(MEAN, SD).reshaped(support, [[0.2, 0.6, 0.2]] * 3)
    return once.reshaped(Intervals.of([0.2]), [[0.6, 0.4]] * 3)


#: Forms that keep masses and shapes exactly. All stand for (about) the normal truth, but the last two.
EXACT = {
    "quantiles": quantiles,
    "cdf": grid_cdf,
    "masses": interval_masses,
    "moments": lambda: from_moments(MEAN, SD),
    "scipy": lambda: from_distribution(stats.norm(MEAN, SD)),
    "list": lambda: from_distribution([stats.norm(m, s) for m, s in zip(MEAN, SD, strict=True)]),
    "skpro": lambda: from_distribution(Frames(MEAN, SD)),
    "arrays": lambda: from_distribution(Arrays()),
    "reshaped": reshaped_twice,
    "gamma": gamma,
}
FORMS = EXACT | {"samples": samples}
NORMAL = [name for name in FORMS if name not in ("reshaped", "gamma")]
