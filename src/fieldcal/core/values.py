"""Values: what a judge or a test says of a row, such as "pass", 4 or true; each is a bin, rare ones share one.

Values are compared by a canonical text, so that ``4``, ``4.0`` and ``"4"``, or ``"Pass "`` and ``"PASS"``, meet.
Several judges together say one value: a tuple of their texts.
"""

from __future__ import annotations

import decimal
import math
import numbers
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.backend import Backend, Expr
from fieldcal.core.partition import Bins, Partition, most_bins, register_partition
from fieldcal.core.policy import POLICY
from fieldcal.errors import InputError, InputTypeError
from fieldcal.types import Floats, Ints


def is_null(value: Any) -> bool:
    """None, NaN, NaT, NA: the nulls of Python, numpy, pandas and polars."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


#: In place of a bin: the value is missing; or the lab has never seen it, and no bin takes it in.
MISSING, LEFT_OUT = -1, -2
Value = tuple[str, ...]
_PLAIN = frozenset((str, int, float, bool, np.int64, np.int32, np.float64, np.bool_))  # exact types
_EXACT = 2.0**53  # from here on floats leave out whole numbers
_DECIMAL = re.compile(r"[+-]?[0-9]+\.[0-9]*")
#: In a label: the values of a bin, and characters of each.
#: So many values of a single judge keep a bin each, also where the lab has fewer rows than bins of scores need: no one
#: chose where to cut, and their noise is in the interval.
_OF_A_JUDGE = 12
_SHOWN, _WIDTH = 3, 24


def canonical(value: Any) -> str | None:
    """The text by which a value is known; None where it is missing, as null, NaN and blank text are.

    Examples
    --------
    >>> from fieldcal.core.values import canonical
    >>> [canonical(v) for v in (" Pass", "PASS", 4, 4.0, "4.0", 0.25, True, "  ", float("nan"))]
    ['pass', 'pass', '4', '4', '4', '0.25', 'true', None, None]
    """
    if is_null(value):
        return None
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    if isinstance(value, (float, np.floating)):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < _EXACT else f"{number:.12g}"
    text = str(value).strip().casefold()
    if _DECIMAL.fullmatch(text):  # a column of whole numbers with gaps is written so: 4.0
        return canonical(float(text))
    return text or None


def canonical_texts(column: Iterable[Any]) -> list[str | None]:
    """The same of a column; of plain values of one type each only once."""
    listed = list(column)
    kinds = set(map(type, listed))
    if len(kinds) == 1 and kinds <= _PLAIN:
        texts = {value: canonical(value) for value in set(listed)}
        return list(map(texts.__getitem__, listed))
    known: dict[str, str | None] = {}
    return [_canonical(v, known) if type(v) is str else canonical(v) for v in listed]


def _canonical(text: str, known: dict[str, str | None]) -> str | None:
    if text not in known:
        known[text] = canonical(text)
    return known[text]


def rows_of_values(columns: Sequence[Iterable[Any]]) -> list[Value | None]:
    """The value of each row, of one column per judge; None where any of them says nothing."""
    rows = zip(*map(canonical_texts, columns), strict=True)
    return [None if None in row else row for row in rows]


@dataclass(frozen=True)
class Placed:
    """Where rows belong.

    Attributes
    ----------
    ids : (n,) bins, `MISSING` or `LEFT_OUT`
    unseen : (n,) whether the partition does not know the value, whatever becomes of the row
    """

    ids: Ints
    unseen: NDArray[np.bool_]


@register_partition
@dataclass(frozen=True)
class Values(Partition):
    """Each value that a judge or a test gives is a bin, or several together are.

    Parameters
    ----------
    bins : sequence
        For each bin its value, or a list of values. What several judges say together is a tuple.
    other : bool
        Whether the last bin also takes in values that are in none.

    Notes
    -----
    Where all values are numbers, one that is in no bin belongs to that of the nearest number.

    Examples
    --------
    >>> from fieldcal.partitions import Values
    >>> ratings = Values([[1, 2], 3, [4, 5]])
    >>> ratings.m, ratings.labels(())
    (3, ['1–2', '3', '4–5'])
    >>> ratings.place([[5, "3", None, 7]]).ids.tolist()
    [2, 1, -1, 2]
    >>> Values(["pass", "fail"]).place([["PASS ", "unsure"]]).ids.tolist()
    [0, -2]
    """

    bins: tuple[tuple[Value, ...], ...]
    other: bool
    kind: ClassVar[str] = "values"
    takes: ClassVar[Literal["probabilities", "ids", "values"]] = "values"
    noun: ClassVar[str] = "values"

    def __init__(self, bins: Iterable[Any], other: bool = False) -> None:
        if isinstance(bins, (str, bytes, Mapping)) or not isinstance(bins, Iterable):
            raise InputTypeError(f"The bins of Values must be a list of values, but got {bins!r:.60}.")
        if not isinstance(other, bool):
            raise InputTypeError(f"The flag other of Values must be True or False, but got {other!r:.60}.")
        listed = bins.tolist() if isinstance(bins, np.ndarray) and bins.ndim else bins
        made = tuple(tuple(map(_as_value, _as_bin(given))) for given in listed)
        _check_bins(made)
        object.__setattr__(self, "bins", made)
        object.__setattr__(self, "other", other)

    @property
    def m(self) -> int:
        return len(self.bins)

    @property
    def judges(self) -> int:
        """How many say one value together."""
        return len(self.bins[0][0])

    @property
    def known(self) -> dict[Value, int]:
        return {value: j for j, values in enumerate(self.bins) for value in values}

    @property
    def numbers(self) -> dict[Value, float] | None:
        """The values as numbers, from the lowest; None where some are none."""
        return _numbers(self.known)

    def most_bins(self, class_rows: Floats, *, ordered: bool) -> int:
        return most_values(class_rows, judges=self.judges, ordered=ordered)

    @property
    def takes_in_all(self) -> bool:
        """Whether there is a bin for values that were never seen: for numbers, if these have them."""
        return self.other or self.numbers is not None

    def place(self, columns: Sequence[Iterable[Any]]) -> Placed:
        """Where rows belong, of one column of raw values per judge."""
        if len(columns) != self.judges:
            raise InputError(
                f"There {_are(len(columns), 'column')} of values, but there {_are(self.judges, 'judge')} in the lab. "
                "Give one column per judge, in the lab's order."
            )
        rows = rows_of_values(columns)
        known, numbers = self.known, self.numbers
        where = {value: self._bin(value, known, numbers) for value in set(rows)}
        unseen = {value: value is not None and value not in known for value in where}
        return Placed(
            np.fromiter(map(where.__getitem__, rows), dtype=np.intp, count=len(rows)),
            np.fromiter(map(unseen.__getitem__, rows), dtype=np.bool_, count=len(rows)),
        )

    def _bin(
        self, value: Value | None, known: Mapping[Value, int], numbers: Mapping[Value, float] | None
    ) -> int:
        if value is None:
            return MISSING
        if value in known:
            return known[value]
        number = None if numbers is None else _number(value[0])
        if numbers is not None and number is not None:
            return known[min(numbers, key=lambda v: (abs(numbers[v] - number), numbers[v]))]
        return self.m - 1 if self.other else LEFT_OUT

    def says(self, classes: Sequence[Any]) -> dict[int, int]:
        """The bins that hold one value alone which is the name of a class, and its place among the classes."""
        names = {canonical(name): k for k, name in enumerate(classes)}
        if self.judges > 1 or len(names) < len(classes):
            return {}
        alone = {j: values[0][0] for j, values in enumerate(self.bins) if len(values) == 1}
        return {j: names[text] for j, text in alone.items() if text in names}

    def assign(self, scores: Floats | Ints) -> Ints:
        return Bins(self.m).assign(scores)

    def expression(self, backend: Backend, columns: Sequence[Expr]) -> Expr:
        return columns[0]

    def labels(self, classes: Sequence[str]) -> list[str]:
        """The value, or the values, of each bin."""
        order = list(self.numbers or ())
        labels = [_label(values, order) for values in self.bins]
        return [*labels[:-1], f"other ({labels[-1]})"] if self.other else labels

    @classmethod
    def from_spec(cls, values: Mapping[str, Any]) -> Self:
        """Of a file: values in another spelling than ours were not written by us."""
        partition = super().from_spec(values)
        if partition.spec() != {"kind": cls.kind, **values}:
            raise ValueError("values in another spelling than ours")
        return partition


def fit_values(rows: Mapping[Value, int], *, most: int) -> Values:
    """Each value a bin, rare ones merged: numbers with the nearest, others together.

    Parameters
    ----------
    rows : labelled lab rows of every value that was seen, with a label or without
    most : bins at most; two at least where values vary at all

    Examples
    --------
    >>> from fieldcal.core.values import fit_values
    >>> fit_values({("1",): 30, ("2",): 3, ("5",): 40}, most=8).labels(())
    ['1–2', '5']
    >>> fit_values({("a",): 30, ("b",): 3, ("c",): 40, ("d",): 1}, most=8).labels(())
    ['a', 'c', 'other (b, d)']
    """
    numbers = _numbers(rows)
    if numbers is not None:
        return Values(_neighbours_merged(rows, numbers, max(most, 2)))
    by_size = sorted(rows, key=lambda value: (-rows[value], value))
    alone = sum(n >= POLICY.rows_of_a_value for n in rows.values())
    alone = alone if len(rows) - alone > 1 else len(rows)  # one rare value has none to be merged with
    if alone + (alone < len(rows)) > max(most, 2):
        alone = max(most, 2) - 1
    alone = max(alone, 1)
    if len(rows) - alone == 1:
        alone += 1
    rest = sorted(by_size[alone:])
    return Values(
        [*([value] for value in sorted(by_size[:alone])), *([rest] if rest else [])], other=bool(rest)
    )


def most_values(class_rows: Floats, *, judges: int, ordered: bool = False) -> int:
    """The most bins of values: as many as these lab rows can fill; of a single judge some at least."""
    most = most_bins(class_rows, ordered=ordered)
    return most if judges > 1 else max(most, _OF_A_JUDGE)


def _neighbours_merged(
    rows: Mapping[Value, int], numbers: Mapping[Value, float], most: int
) -> list[list[Value]]:
    """Numbers in their order, the rarest bin merged with its nearest neighbour until all have rows enough."""
    bins, sizes = [[value] for value in numbers], [rows[value] for value in numbers]
    while len(bins) > 2:
        i = sizes.index(min(sizes))
        if sizes[i] >= POLICY.rows_of_a_value and len(bins) <= most:
            break
        gaps = {
            j: abs(_gap(bins[min(i, j)], bins[max(i, j)], numbers))
            for j in (i - 1, i + 1)
            if 0 <= j < len(bins)
        }
        first = min(i, min(gaps, key=lambda j: (gaps[j], sizes[j], j)))
        bins[first : first + 2] = [bins[first] + bins[first + 1]]
        sizes[first : first + 2] = [sizes[first] + sizes[first + 1]]
    return bins


def _gap(lower: list[Value], upper: list[Value], numbers: Mapping[Value, float]) -> float:
    return numbers[upper[0]] - numbers[lower[-1]]


def _numbers(values: Iterable[Value]) -> dict[Value, float] | None:
    """Values of a single judge as numbers, from the lowest; None where some are none."""
    found = {value: _number(value[0]) if len(value) == 1 else None for value in values}
    if None in found.values():
        return None
    return dict(sorted(found.items(), key=lambda pair: (pair[1], pair[0])))  # type: ignore[arg-type]


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _as_bin(given: Any) -> Sequence[Any]:
    """The values of a bin; a tuple is one value, of several judges, unless it holds tuples itself."""
    several = isinstance(given, list) or (
        isinstance(given, tuple) and len(given) > 0 and all(isinstance(part, tuple) for part in given)
    )
    return given if several else (given,)


def _as_value(given: Any) -> Value:
    texts = canonical_texts(given if isinstance(given, (tuple, list)) else (given,))
    if not texts or None in texts:
        raise InputError(
            f"The bins of Values have a value that is missing or blank, {given!r:.60}. Leave it out."
        )
    return tuple(text for text in texts if text is not None)


def _check_bins(bins: tuple[tuple[Value, ...], ...]) -> None:
    every = [value for values in bins for value in values]
    if not all(bins) or not bins:
        raise InputError("The bins of Values must be one at least, each with at least one value.")
    if len({len(value) for value in every}) > 1:
        raise InputError(
            "The bins of Values have values of different numbers of judges. Give each a tuple of the same length."
        )
    if len(set(every)) < len(every):
        twice = next(value for value in every if every.count(value) > 1)
        raise InputError(
            f"The bins of Values have the value {_text(twice)!r} twice. Case and blanks do not tell apart."
        )


def _label(values: Sequence[Value], order: Sequence[Value]) -> str:
    """One value as it is, neighbouring numbers by their ends, others one after the other."""
    if len(values) > 1 and values[0] in order:
        first = order.index(values[0])
        if tuple(order[first : first + len(values)]) == tuple(values):
            return f"{_text(values[0])}–{_text(values[-1])}"
    return ", ".join([*map(_text, values[:_SHOWN]), *(["…"] if len(values) > _SHOWN else [])])


def _text(value: Value) -> str:
    return " · ".join(text if len(text) <= _WIDTH else text[: _WIDTH - 1] + "…" for text in value)


def _are(n: int, noun: str) -> str:
    return f"is 1 {noun}" if n == 1 else f"are {n} {noun}s"
