"""Group keys and classes: allowed types, canonical order, and their form in JSON.

A key is text, a whole number, true or false, a date, a time, null, or a tuple of these. ``1``, ``"1"`` and ``True``
are three groups. ``None``, NaN and every other null are one group, ``None``; ``""`` is not null. Several columns make
tuples, never joined strings. Floats that are whole numbers become whole numbers, because pandas stores 1, 2 and null
as 1.0, 2.0 and NaN. Other types are refused.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.values import is_null as is_null
from fieldcal.errors import ArtefactError, FieldcalError, InputError, InputTypeError
from fieldcal.types import Ints, Keys

#: Part of every refusal, here and in the engines.
KINDS = "Groups and classes are text, whole numbers, true or false, dates, times, null, or tuples of these"
_PLAIN = (str, int, bool)
_ONE_TYPE: tuple[set[type], ...] = (
    {int},
    {str},
    {dt.date},
    set(),
)  # types whose Python order is the canonical one
_MAX_DEPTH = 16  # of tuples in tuples, in a file
_EXACT = 2.0**53  # beyond this, floats skip whole numbers
_TAGS = {"date": dt.date, "datetime": dt.datetime}
_NEAR = ("ns", "ps", "fs", "as")  # numpy units whose times all lie within Python's range
_TOO_FAR = (
    "The time {} is outside the years 1 to 9999, which Python's times have. Format such times as text first."
)
_TOO_FINE = "The time {} is finer than a microsecond, and such keys would merge. Round or format them first."


def factorize(groups: Any, *, n: int, name: str = "groups") -> tuple[Keys, Ints]:
    """The distinct keys in canonical order, and each row's position among them.

    ``groups`` are n keys, or a table of n rows with one column per part of the key.
    """
    values = _unwrap(groups)
    if isinstance(values, np.ndarray) and values.ndim > 1:
        values = values[:, 0] if values.shape[1] == 1 else [tuple(row) for row in values.tolist()]
    if len(values) != n:
        raise InputError(f"There are {n} predictions but {len(values)} {name}. Give one group per row.")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iub":
        return _factorize_integers(values)
    return _factorize_objects(values.tolist() if isinstance(values, np.ndarray) else values)


def arrange(values: Any) -> tuple[Keys, Ints]:
    """As `factorize`, but faster if keys are plain and mostly distinct."""
    listed = values.tolist() if isinstance(values, np.ndarray) and values.dtype == object else values
    order = _plain_order(listed) if isinstance(listed, list) else None
    if order is not None:
        names = tuple(map(listed.__getitem__, order))
        if not any(map(operator.eq, names, islice(names, 1, None))):
            codes = np.empty(len(order), dtype=np.intp)
            codes[order] = np.arange(len(order))
            return names, codes
    return factorize(listed, n=len(listed))


def known(column: Any) -> tuple[Ints, Any]:
    """Indices and values of a column where it is not null."""
    values = _unwrap(column)
    if isinstance(values, np.ndarray):
        values = values.reshape(len(values))
        if values.dtype.kind in "fiub":
            rows = np.flatnonzero(values == values)
            return rows, values[rows]
        values = values.tolist()
    rows = np.array([i for i, v in enumerate(values) if type(v) in _PLAIN or not is_null(v)], dtype=np.intp)
    return rows, [values[i] for i in rows]


def is_key(value: Any) -> bool:
    """Whether the value is of an allowed type."""
    try:
        normalize(value)
    except FieldcalError:
        return False
    return True


def positions(keys: Keys, wanted: Keys) -> Ints:
    """Position of each wanted key among ``keys``; −1 if absent."""
    where = {identity(k): i for i, k in enumerate(keys)}
    return np.fromiter((where.get(identity(k), -1) for k in wanted), dtype=np.intp, count=len(wanted))


def union(*lists: Keys) -> Keys:
    """The distinct keys of lists in canonical order, in that order."""
    distinct_lists: list[Keys] = []
    for keys in lists:
        if keys and not (distinct_lists and same(distinct_lists[-1], keys)):
            distinct_lists.append(keys)
    if len(distinct_lists) < 2:
        return distinct_lists[0] if distinct_lists else ()
    return _ordered({identity(k): k for k in chain.from_iterable(distinct_lists)}.values())


def same(one: Keys, two: Keys) -> bool:
    """Whether the keys are equal in value and type, in the same order: 1 is not True."""
    if one is two:
        return True
    types = list(map(type, one))
    if one != two or types != list(map(type, two)):
        return False
    return tuple not in types or all(map(operator.eq, map(identity, one), map(identity, two)))


def in_order(keys: Keys) -> bool:
    """Whether keys are in canonical order."""
    known: tuple[Any, ...] = keys[:-1] if keys and keys[-1] is None else keys  # null sorts last
    columns: list[Any] = [known]
    if set(map(type, known)) == {tuple}:
        widths = set(map(len, known))
        columns = [map(operator.itemgetter(i), known) for i in range(max(widths))] if len(widths) == 1 else []
    plain = bool(columns) and all(set(map(type, column)) in _ONE_TYPE for column in columns)
    if plain and all(map(operator.lt, known, islice(known, 1, None))):
        return True
    return same(keys, _ordered(keys))


def distinct(keys: Keys) -> bool:
    """Whether no key appears twice."""
    plain = set(map(type, keys)) in ({int}, {str})
    return len(set(keys) if plain else set(map(identity, keys))) == len(keys)


def encode(key: Hashable, depth: int = 0) -> Any:
    """A key as JSON, with its type."""
    if type(key) is tuple and depth < _MAX_DEPTH:
        return [encode(part, depth + 1) for part in key]
    if type(key) is dt.datetime or type(key) is dt.date:
        return {type(key).__name__: key.isoformat()}
    if key is None or type(key) in _PLAIN:
        return key
    raise InputTypeError(f"The key {_short(key)} cannot be saved. {KINDS}.")


def decode(value: Any, depth: int = 0) -> Hashable:
    """The key from its JSON form."""
    if isinstance(value, list):
        if depth == _MAX_DEPTH:
            raise ArtefactError("A group key is a tuple nested too deep.")
        return tuple(decode(part, depth + 1) for part in value)
    if value is None or type(value) in _PLAIN:
        return value  # type: ignore[no-any-return]
    tag, text = next(iter(value.items())) if isinstance(value, dict) and len(value) == 1 else ("", "")
    try:
        key = _TAGS[tag].fromisoformat(text)
    except (KeyError, TypeError, ValueError):
        raise ArtefactError(f"A group key of unknown kind: {_short(value)}.") from None
    if encode(normalize(key)) != value:
        raise ArtefactError(f"A group key that fieldcal did not write: {_short(value)}.")
    return key


def show(key: Hashable, *, width: int = 40) -> str:
    """A key for people: short, on one line."""
    text = "(null)" if key is None else ", ".join(map(show, key)) if isinstance(key, tuple) else str(key)
    text = "".join(c if c.isprintable() else "·" for c in text[: 4 * width])
    return text if len(text) <= width else text[: width - 1] + "…"


def short(key: Hashable) -> str:
    """A key as an axis label; visible even if it is an empty text."""
    return show(key, width=28).strip() or '""'


def normalize(key: Any) -> Hashable:
    """The key as a plain Python value; nulls become None, other types are refused."""
    if key is None or type(key) in _PLAIN:
        return key  # type: ignore[no-any-return]
    if isinstance(key, tuple):
        return tuple(normalize(part) for part in key)
    if is_null(key):
        return None
    if isinstance(key, np.datetime64):
        return _datetimes(np.array([key]))[0]  # type: ignore[no-any-return]
    if isinstance(key, np.generic) and not isinstance(key, np.longdouble):  # whose .item() is a longdouble
        key = key.item()
    if isinstance(key, (float, np.longdouble)):
        return _whole(float(key))
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int):
        return key if isinstance(key, bool) else int(key)
    if isinstance(key, dt.date):
        return _moment(key)
    raise InputTypeError(f"The key {_short(key)} is of type {type(key).__name__}. {KINDS}: use str(…).")


def _whole(value: float) -> int:
    if not (value.is_integer() and abs(value) < _EXACT):
        raise InputTypeError(
            f"The key {value!r} is a float that is not a whole number. {KINDS}: use str(…), or round it. Whole "
            'numbers may be floats, as in a pandas column with gaps: 1.0 is the key 1, which is neither "1" nor True.'
        )
    return int(value)


def _moment(key: dt.date) -> dt.date:
    """A date or time; equal moments in two zones have one form."""
    if getattr(key, "nanosecond", 0):
        raise InputError(_TOO_FINE.format(key))
    try:
        if hasattr(key, "to_pydatetime"):
            key = key.to_pydatetime()
        return key.astimezone(dt.UTC) if isinstance(key, dt.datetime) and key.tzinfo is not None else key
    except (OverflowError, ValueError):
        raise InputError(_TOO_FAR.format(key)) from None


def _datetimes(values: NDArray[np.datetime64]) -> NDArray[Any]:
    if np.datetime_data(values.dtype)[0] not in _NEAR:
        years = values.astype("datetime64[Y]").astype(np.int64) + 1970
        outside = ((years < dt.MINYEAR) | (years > dt.MAXYEAR)) & ~np.isnat(values)
        if outside.any():
            raise InputError(_TOO_FAR.format(values[outside][0]))
    coarse = values.astype("datetime64[us]")
    finer = (coarse.astype(values.dtype) != values) & ~np.isnat(values)
    if finer.any():
        raise InputError(_TOO_FINE.format(values[finer][0]))
    return coarse.astype(object)


def _plain_order(values: list[Any]) -> list[int] | None:
    """Sorting permutation for text, or for tuples whose parts are each of one plain type; None otherwise."""
    kinds = set(map(type, values))
    if kinds == {str}:
        return sorted(range(len(values)), key=values.__getitem__)
    if kinds != {tuple} or len(widths := set(map(len, values))) > 1:
        return None
    parts = [set(map(type, map(operator.itemgetter(i), values))) for i in range(widths.pop())]
    nothing = {type(None)}
    if not all(len(part - nothing) <= 1 and part - nothing <= set(_PLAIN) for part in parts):
        return None
    if not any(part & nothing for part in parts):
        return sorted(range(len(values)), key=values.__getitem__)
    nulls_last = [tuple((p is None, p) for p in value) for value in values]
    return sorted(range(len(values)), key=nulls_last.__getitem__)


def _factorize_integers(values: NDArray[Any]) -> tuple[Keys, Ints]:
    """Distinct integers and codes: by a lookup table if their range allows, else by sorting."""
    boolean = values.dtype.kind == "b"
    low, high = (int(values.min()), int(values.max())) if len(values) else (0, 0)
    if len(values) and high - low < max(4 * len(values), 1024) and high < 2**62:
        shifted = values.astype(np.intp) - low
        present = np.bincount(shifted, minlength=high - low + 1) > 0
        code = np.cumsum(present) - 1
        keys, codes = (np.flatnonzero(present) + low), code[shifted]
    else:
        keys, codes = np.unique(values, return_inverse=True)
    listed = keys.astype(bool).tolist() if boolean else keys.tolist()
    return tuple(listed), codes.astype(np.intp, copy=False)


def _factorize_objects(values: Sequence[Any]) -> tuple[Keys, Ints]:
    """Distinct keys and codes of any type, by a dictionary keyed on type and value."""
    uniform = _uniform(values)
    values = values if uniform else list(map(normalize, values))
    identities = values if uniform else list(map(identity, values))
    keys = _ordered(dict(zip(identities, values, strict=True)).values())
    code = {identity(k) if not uniform else k: i for i, k in enumerate(keys)}
    return keys, np.fromiter(map(code.__getitem__, identities), dtype=np.intp, count=len(values))


def _uniform(values: Sequence[Any]) -> bool:
    """Whether all are text, or all whole numbers."""
    kinds = set(map(type, values))
    return kinds <= {str} or kinds <= {int}


def identity(key: Hashable) -> Hashable:
    """A hashable that differs between types: Python itself merges 1, 1.0 and True."""
    if type(key) is str:
        return key
    if isinstance(key, tuple):
        return (tuple, *map(identity, key))
    return (type(key), key)


def _ordered(keys: Iterable[Hashable]) -> Keys:
    listed = list(keys)
    return tuple(sorted(listed, key=None if _uniform(listed) else _sort_key))  # type: ignore[type-var, arg-type]


def _sort_key(key: Any) -> tuple[Any, ...]:
    """Sort key: null last; by type; tuples by part; naive times before aware ones, which are not comparable."""
    if key is None:
        return (1,)
    if isinstance(key, tuple):
        return (0, "tuple", tuple(map(_sort_key, key)))
    if isinstance(key, dt.datetime):
        return (0, "datetime", key.tzinfo is not None, key)
    return (0, type(key).__name__, key)


def _unwrap(groups: Any) -> NDArray[Any] | list[Any]:
    """A numpy array if its type is safe, else a list, as numpy would change values."""
    if isinstance(groups, np.ndarray) and groups.ndim and not isinstance(groups, np.ma.MaskedArray):
        return _datetimes(groups) if groups.dtype.kind == "M" else groups
    columns = table_columns(groups)
    if columns is not None:
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    if getattr(getattr(groups, "dtype", None), "kind", "") in ("i", "u", "b") and hasattr(groups, "to_numpy"):
        array: NDArray[Any] = groups.to_numpy()
        return array if array.dtype.kind in "iub" else as_list(groups)
    return as_list(groups)


def table_columns(frame: Any) -> list[list[Any]] | None:
    """The columns of a table; None for anything else."""
    if not (hasattr(frame, "columns") and hasattr(frame, "shape") and len(frame.shape) == 2):
        return None
    return [as_list(_column(frame, i)) for i in range(frame.shape[1])]


def _column(frame: Any, i: int) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, i]
    return frame[:, i] if not hasattr(frame, "column") else frame.column(i)


def as_list(values: Any, *, name: str = "groups", each: str = "key") -> list[Any]:
    """A list from any iterable column; refuses text and objects that are not iterable."""
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            values = getattr(values, method)()
            break
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputTypeError(
            f"{name} must be one {each} per row, but got {_short(values)}. Pass a list, an array or a column."
        )
    return list(values)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"
