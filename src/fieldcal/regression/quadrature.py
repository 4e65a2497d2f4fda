"""Integrals over quantile levels, piece by piece between the levels where a quantile function bends or jumps."""

from __future__ import annotations

import numpy as np

from fieldcal.types import Floats

_ORDER = 24
#: The first and the last level inside (0, 1).
FIRST, LAST = 1e-300, 1.0 - 2.0**-53


def _rule() -> tuple[Floats, Floats]:
    """Gauss–Legendre after a substitution that crowds the nodes at both ends, where quantiles run to infinity."""
    t, w = np.polynomial.legendre.leggauss(_ORDER)
    t, w = (t + 1.0) / 2.0, w / 2.0
    return t**3 * (10.0 - 15.0 * t + 6.0 * t**2), w * 30.0 * t**2 * (1.0 - t) ** 2


_NODES, _WEIGHTS = _rule()


def width(n_breaks: int) -> int:
    """How many levels a row needs with that many breaks."""
    return (n_breaks + 1) * _ORDER


def panels(breaks: Floats) -> tuple[Floats, Floats]:
    """Levels and weights, (n, P), for integrals over (0, 1) of functions that are smooth between the breaks.

    Exact where the function is a polynomial of degree 8 between breaks. With a logarithmic or square-root infinity
    at 0 or 1, as quantile functions of the usual families have it, the error is about 1e-7.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal.regression.quadrature import panels
    >>> u, w = panels(np.array([[0.25]]))
    >>> round(float((w * np.abs(u - 0.25)).sum()), 12)
    0.3125
    """
    zero, one = np.zeros((len(breaks), 1)), np.ones((len(breaks), 1))
    edges = np.hstack([zero, np.sort(breaks, axis=1), one])
    gaps = np.diff(edges, axis=1)[:, :, None]
    u = edges[:, :-1, None] + gaps * _NODES
    shape = (len(breaks), width(breaks.shape[1]))
    return np.clip(u.reshape(shape), FIRST, LAST), (gaps * _WEIGHTS).reshape(shape)
