"""The paper's comparison of quantifiers: a weak classifier, and fields whose class shares are exact."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.errors import InputError
from fieldcal.types import Floats

Codes = NDArray[np.intp]


@dataclass(frozen=True)
class QuantificationData:
    """What a classifier says of a lab and of several fields, every one with its own mix of classes."""

    proba_lab: Floats  # (n, K)
    y_lab: Codes
    proba_fields: tuple[Floats, ...]  # each (n, K)
    y_fields: tuple[Codes, ...]

    @property
    def prevalence(self) -> Floats:
        """The true class shares of the fields, (fields, K)."""
        K = self.proba_lab.shape[1]
        return np.array([np.bincount(y, minlength=K) / max(len(y), 1) for y in self.y_fields])


def quantification(
    *,
    p_lab: ArrayLike = (0.5, 0.5),
    p_fields: ArrayLike = ((0.95, 0.05),),
    sizes: Sequence[int] = (500,),
    n_lab: int = 2000,
    n_pool: int = 12_000,
    n_features: int = 4,
    n_informative: int = 2,
    class_sep: float = 0.4,
    flip_y: float = 0.1,
    random_state: int = 0,
) -> QuantificationData:
    """One replica of the experiment: a pool, a logistic regression, a lab, and a field of each size for each mix.

    Training set (as large as the lab) and lab are disjoint and have the shares ``p_lab``; no field has a row of either.
    Fields may share rows with each other. The classifier is poor by intention.

    Parameters
    ----------
    p_lab : (K,) class shares of training set and lab
    p_fields : (F, K) class shares of the fields; one row serves for every size
    sizes : rows of the fields
    n_lab, n_pool : rows of the lab, and of the pool that everything is drawn from
    n_features, n_informative, class_sep, flip_y : as in `sklearn.datasets.make_classification`
    random_state : seed
    """
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression

    shares = np.asarray(p_lab, dtype=np.float64)
    mixes = np.atleast_2d(np.asarray(p_fields, dtype=np.float64))
    mixes = np.repeat(mixes, len(sizes), axis=0) if len(mixes) == 1 else mixes
    X, y = make_classification(
        n_samples=n_pool,
        n_features=n_features,
        n_informative=n_informative,
        n_redundant=0,
        n_classes=len(shares),
        class_sep=class_sep,
        flip_y=flip_y,
        random_state=random_state,
    )
    rng = np.random.default_rng(random_state)
    pools = [rng.permutation(np.flatnonzero(y == k)) for k in range(len(shares))]
    train, lab = (_take(pools, n_lab, shares) for _ in range(2))
    proba = LogisticRegression(max_iter=1000).fit(X[train], y[train]).predict_proba(X)
    fields = [
        _take([rng.permutation(pool) for pool in pools], n, mix) for n, mix in zip(sizes, mixes, strict=True)
    ]
    return QuantificationData(
        proba[lab], y[lab], tuple(proba[rows] for rows in fields), tuple(y[rows] for rows in fields)
    )


def _take(pools: list[Codes], n: int, shares: Floats) -> Codes:
    """Rows of exact shares, rounded from the last class on; what is taken is gone from its pool."""
    rows = np.round(n * shares[::-1]).astype(int)
    rows[-1] = n - rows[:-1].sum()
    wanted = rows[::-1]
    for k, pool in enumerate(pools):
        if not 0 <= wanted[k] <= len(pool):
            raise InputError(
                f"{wanted[k]} rows of class {k} are wanted, but the pool has {len(pool)} left. Raise n_pool."
            )
    taken = [pool[:count] for pool, count in zip(pools, wanted, strict=True)]
    pools[:] = [pool[count:] for pool, count in zip(pools, wanted, strict=True)]
    return np.concatenate(taken)
