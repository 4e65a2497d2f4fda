"""L_reg: what is believed about the prevalences before the field is seen.

Each prior adds at most three terms to ``L_nll``, and each term is convex in ``p``, so that the combined loss
is convex as well and has no local minima:

- ``−Σ_j E_j log (p @ M)_j`` with pseudo-rows ``E`` per bin: like the likelihood itself;
- ``−Σ_i D_i log p_i`` with pseudo-rows ``D`` per class (`Dirichlet`, and labels from the field): negative
  logarithms of coordinates;
- ``s Σ_i p_i log (p_i / c_i)`` (`KL`): negative entropy plus a linear function.

By the paper's combined-loss theorem the minimum is the maximum a posteriori estimate. Differs from the paper:
the prior is proportional to ``exp(−L_reg)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import rel_entr, xlogy

from fieldcal.errors import InputError
from fieldcal.types import Floats


def _check_strength(strength: float) -> None:
    if not (np.isfinite(strength) and strength >= 0):
        raise InputError(
            f"The strength of a prior counts pseudo-rows and must be finite and at least 0, but got "
            f"{strength!r}."
        )


@dataclass(frozen=True)
class Penalty:
    """L_reg in the form that the solver and the posterior read: see the module's three terms."""

    bins: Floats  # E, (m,)
    classes: Floats  # D, (K,) or (G, K)
    entropy: float  # s
    centre: Floats  # c, (K,)

    def value(self, p: Floats, M: Floats) -> Floats:
        """L_reg, one value per group (up to a constant)."""
        loss = -xlogy(self.bins, p @ M).sum(axis=-1) - xlogy(self.classes, p).sum(axis=-1)
        if self.entropy > 0:  # the divergence may be infinite, and zero times that is not a number
            loss = loss + self.entropy * rel_entr(p, self.centre).sum(axis=-1)
        return np.asarray(loss)


@dataclass(frozen=True)
class Flat:
    """No preference: maximum likelihood.

    L_reg is constant, hence convex.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_field=60, prevalence=[[0.9, 0.1]])
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> fieldcal.estimate(lab, field, prior=fieldcal.Flat(), trust=1).prior["name"]
    'flat'
    """

    name: Literal["flat"] = "flat"

    def penalty(self, M: Floats, p_lab: Floats) -> Penalty:
        """No term at all."""
        return Penalty(np.zeros(M.shape[1]), np.zeros(len(M)), 0.0, p_lab)


@dataclass(frozen=True)
class KL:
    """``strength × KL(p ‖ p_lab)``: the regularisation of the paper's text.

    Convex: negative entropy of ``p`` plus a linear function.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_field=60, prevalence=[[0.9, 0.1]])
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> fieldcal.estimate(lab, field, prior=fieldcal.KL(strength=10), trust=1).prior["name"]
    'kl'
    """

    strength: float = 1.0
    name: Literal["kl"] = "kl"

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def penalty(self, M: Floats, p_lab: Floats) -> Penalty:
        """The entropy term, centred on the lab."""
        return Penalty(np.zeros(M.shape[1]), np.zeros(len(M)), float(self.strength), p_lab)


@dataclass(frozen=True)
class Dirichlet:
    """``strength × KL(p_lab ‖ p)``: like ``strength`` labelled rows with the lab's prevalences.

    A Dirichlet prior, conjugate to labels. Convex: negative logarithms of the coordinates of ``p``.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_field=60, prevalence=[[0.9, 0.1]])
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> fieldcal.estimate(lab, field, prior=fieldcal.Dirichlet(strength=10), trust=1).prior["name"]
    'dirichlet'
    """

    strength: float = 1.0
    name: Literal["dirichlet"] = "dirichlet"

    def __post_init__(self) -> None:
        _check_strength(self.strength)

    def penalty(self, M: Floats, p_lab: Floats) -> Penalty:
        """Pseudo-rows per class."""
        return Penalty(np.zeros(M.shape[1]), self.strength * p_lab, 0.0, p_lab)


@dataclass(frozen=True)
class Pooled:
    """``p_g ~ Dirichlet(κ·μ)`` with ``κ`` and ``μ`` learnt from all groups: partial pooling.

    One population alone has nothing to pool with: it is expected to have moved, and its Dirichlet is centred on the lab
    with the strength that its rows speak for.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_field=60, prevalence=[[0.9, 0.1]])
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> fieldcal.estimate(lab, field, prior=fieldcal.Pooled(), trust=1).prior["name"]
    'pooled'
    """

    name: Literal["pooled"] = "pooled"


@dataclass(frozen=True)
class Smooth:
    """For classes with an order: the logarithm of ``p / p_lab`` walks at random along it.

    Its steps are learnt from the field; groups walk around the whole, in steps learnt from all of them. The default of
    labs learnt with ``ordered=True``.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(p_lab=[0.4, 0.3, 0.3], n_field=200, n_groups=1, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=True)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> fieldcal.estimate(lab, field, trust=1).prior["name"]
    'smooth'
    """

    name: Literal["smooth"] = "smooth"


@dataclass(frozen=True)
class Continuity:
    """``strength × Σ (p_{k+1} − p_k)²``: the paper's continuity term for classes with an order.

    Convex: a square of a linear function. It draws neighbours to each other, and so to equal prevalences whatever the
    lab was; `Smooth` is the better default.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(p_lab=[0.4, 0.3, 0.3], n_field=200, n_groups=1, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, ordered=True)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> fieldcal.estimate(lab, field, prior=fieldcal.Continuity(100), trust=1).prior["name"]
    'continuity'
    """

    strength: float = 1.0
    name: Literal["continuity"] = "continuity"

    def __post_init__(self) -> None:
        _check_strength(self.strength)


Prior = Flat | KL | Dirichlet | Pooled | Smooth | Continuity
PriorLike = Literal["auto", "flat", "kl", "dirichlet", "pooled", "smooth", "continuity"] | Prior

_BY_NAME: dict[str, Prior] = {
    "auto": Pooled(),
    "flat": Flat(),
    "kl": KL(),
    "dirichlet": Dirichlet(),
    "pooled": Pooled(),
    "smooth": Smooth(),
    "continuity": Continuity(),
}


def as_prior(prior: PriorLike, *, ordered: bool = False) -> Prior:
    """The prior that a name stands for; a prior stands for itself. ``ordered``: whether neighbours mean something."""
    if isinstance(prior, (Flat, KL, Dirichlet, Pooled, Smooth, Continuity)):
        return prior
    if ordered and isinstance(prior, str) and prior == "auto":
        return Smooth()
    if isinstance(prior, str) and prior in _BY_NAME:
        return _BY_NAME[prior]
    raise InputError(
        f"prior must be one of {sorted(_BY_NAME)} or an object such as KL(strength=10), but got {prior!r}."
    )
