"""Arithmetic on one row of predictions, for engines that are not numpy, as SQL.

An expression supports ``<= < >= > == & | + - * /``; the rest is in `Backend`. Every comparison is made in float64 and
every sum runs from left to right, as on arrays, so that bins agree to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any, Protocol

#: An expression of sqlglot, of which the core knows nothing.
Expr = Any


class Backend(Protocol):
    """What engines spell differently."""

    def number(self, value: float) -> Expr:
        """A float64 constant."""

    def integer(self, value: int) -> Expr:
        """A whole constant."""

    def when(self, condition: Expr, then: Expr, otherwise: Expr) -> Expr:
        """Then, if the condition is true; otherwise, if it is false or null."""

    def floor(self, value: Expr) -> Expr:
        """The largest whole number not above, as int64."""

    def largest(self, values: Sequence[Expr]) -> Expr:
        """The largest of several, none of them null."""


def total(columns: Sequence[Expr]) -> Expr:
    """The sum from left to right: the order is part of the answer's last bit."""
    return reduce(lambda a, b: a + b, columns)


def clipped(backend: Backend, x: Expr) -> Expr:
    """Rounding beyond 0 and 1 taken off."""
    below = backend.when(x < backend.number(0.0), backend.number(0.0), x)
    return backend.when(x > backend.number(1.0), backend.number(1.0), below)


def every_class(backend: Backend, columns: Sequence[Expr]) -> Sequence[Expr]:
    """One column per class, also where the second of two classes stands alone."""
    return columns if len(columns) > 1 else [backend.number(1.0) - columns[0], columns[0]]


def bin_between(backend: Backend, x: Expr, cuts: Sequence[float], first: int = 0) -> Expr:
    """The number of cuts strictly below: right-closed bins, counted from ``first``."""
    bins = [backend.integer(first + j) for j in range(len(cuts) + 1)]
    return value_between(backend, x, [backend.number(c) for c in cuts], bins)


def value_between(backend: Backend, x: Expr, cuts: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """The value of the right-closed interval between two cuts, one more than there are cuts.

    The comparisons form a balanced tree: a chain of hundreds overflows the stack of some engines' parsers.
    """
    if not cuts:
        return values[0]
    middle = len(cuts) // 2
    low = value_between(backend, x, cuts[:middle], values[: middle + 1])
    high = value_between(backend, x, cuts[middle + 1 :], values[middle + 1 :])
    return backend.when(x <= cuts[middle], low, high)


def at_largest(backend: Backend, columns: Sequence[Expr], values: Sequence[Expr]) -> Expr:
    """The value that belongs to the first of the largest columns, which is found by halves."""
    if len(columns) == 1:
        return values[0]
    middle = len(columns) // 2
    left, right = backend.largest(columns[:middle]), backend.largest(columns[middle:])
    halves = [
        at_largest(backend, columns[part], values[part]) for part in (slice(middle), slice(middle, None))
    ]
    return backend.when(left >= right, *halves)
