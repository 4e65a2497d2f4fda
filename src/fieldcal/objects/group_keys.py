"""Group keys: any hashable value, kept apart by type, in one canonical order, to JSON and back.

``1``, ``"1"``, ``1.0`` and ``True`` are four groups. ``None``, NaN and every other null are one group, ``None``;
``""`` is not null. Several columns make tuples, never joined strings.
"""

from __future__ import annotations

import datetime as dt
import decimal
import operator
import uuid
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.errors import ArtefactError, InputError, InputTypeError
from fieldcal.types import Ints, Keys

_PLAIN = (str, int, bool)
_MAX_DEPTH = 16  # of tuples in tuples, in a file
_EXACT = decimal.Context(prec=decimal.MAX_PREC, Emax=decimal.MAX_EMAX, Emin=decimal.MIN_EMIN)
_TOO_FINE = "The time {} is finer than a microsecond, and such keys would merge. Round or format them first."


def factorize(groups: Any, *, n: int, name: str = "groups") -> tuple[Keys, Ints]:
    """The distinct keys in canonical order, and each row's position among them.

    Parameters
    ----------
    groups : array-like of n keys, or a table of n rows with one column per part of the key
    n : how many rows there must be
    """
    values = _unwrap(groups)
    if isinstance(values, np.ndarray) and values.ndim > 1:
        values = values[:, 0] if values.shape[1] == 1 else [tuple(row) for row in values.tolist()]
    if len(values) != n:
        raise InputError(f"There are {n} predictions but {len(values)} {name}. Give one group per row.")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iub":
        return _factorize_integers(values)
    return _factorize_objects(values.tolist() if isinstance(values, np.ndarray) else values, name)


def arrange(values: Any) -> tuple[Keys, Ints]:
    """What `factorize` gives, sooner where keys are plain and hardly any of them repeats."""
    listed = values.tolist() if isinstance(values, np.ndarray) and values.dtype == object else values
    order = _plain_order(listed) if isinstance(listed, list) else None
    if order is not None:
        names = tuple(map(listed.__getitem__, order))
        if not any(map(operator.eq, names, islice(names, 1, None))):
            codes = np.empty(len(order), dtype=np.intp)
            codes[order] = np.arange(len(order))
            return names, codes
    return factorize(listed, n=len(listed))


def positions(keys: Keys, wanted: Keys) -> Ints:
    """Where each wanted key stands among ``keys``; −1 if it does not."""
    where = {_identity(k): i for i, k in enumerate(keys)}
    return np.fromiter((where.get(_identity(k), -1) for k in wanted), dtype=np.intp, count=len(wanted))


def union(first: Keys, second: Keys) -> Keys:
    """All keys of both, once, in canonical order."""
    return _ordered({_identity(k): k for k in (*first, *second)}.values())


def distinct(keys: Keys) -> bool:
    """Whether no key appears twice."""
    plain = set(map(type, keys)) in ({int}, {str})
    return len(set(keys) if plain else set(map(_identity, keys))) == len(keys)


def encode(key: Hashable, depth: int = 0) -> Any:
    """A key as JSON that remembers its type."""
    if key is None or type(key) in _PLAIN:
        return key
    if type(key) is float:
        if not np.isfinite(key):
            raise InputError(f"The group key {key!r} cannot be saved. Use a string instead.")
        return key
    if type(key) is tuple and depth < _MAX_DEPTH:
        return [encode(part, depth + 1) for part in key]
    for tag, (kind, write, _) in _TAGS.items():
        if type(key) is kind:
            return {tag: write(key)}
    raise InputTypeError(
        f"The key {_short(key)} of type {type(key).__name__} cannot be saved as JSON. "
        "Use strings, numbers, dates or tuples of them."
    )


def decode(value: Any, depth: int = 0) -> Hashable:
    """The key that `encode` wrote."""
    if isinstance(value, list):
        if depth == _MAX_DEPTH:
            raise ArtefactError("A group key is a tuple nested too deep.")
        return tuple(decode(part, depth + 1) for part in value)
    if isinstance(value, dict):
        tag, text = next(iter(value.items())) if len(value) == 1 else ("", "")
        try:
            key = _TAGS[tag][2](text)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            raise ArtefactError(f"A group key of unknown kind: {_short(value)}.") from None
        if encode(normalize(key)) != value:
            raise ArtefactError(f"A group key in another spelling than ours: {_short(value)}.")
        return key
    return value  # type: ignore[no-any-return]


def show(key: Hashable, *, width: int = 40) -> str:
    """A key for people: short, on one line."""
    text = "(null)" if key is None else ", ".join(map(show, key)) if isinstance(key, tuple) else str(key)
    text = "".join(c if c.isprintable() else "·" for c in text[: 4 * width])
    return text if len(text) <= width else text[: width - 1] + "…"


def short(key: Hashable) -> str:
    """A key under an axis; an empty text is seen as such."""
    return show(key, width=28).strip() or '""'


def normalize(key: Any) -> Hashable:
    """Nulls become None, numpy scalars and enums plain Python; equal keys of one type get one spelling."""
    if key is None or type(key) in _PLAIN:
        return key  # type: ignore[no-any-return]
    if isinstance(key, tuple):
        return tuple(normalize(part) for part in key)
    if is_null(key):
        return None
    if isinstance(key, (float, np.floating)):
        return float(key) + 0.0  # −0.0 is 0.0
    if isinstance(key, str):
        return str.__str__(key)
    if isinstance(key, int):
        return int(key)
    if isinstance(key, decimal.Decimal):
        return _one_spelling(key)
    if isinstance(key, dt.datetime) and key.tzinfo is not None and not hasattr(key, "to_pydatetime"):
        return key.astimezone(dt.UTC)  # equal moments get one spelling
    if isinstance(key, np.datetime64):
        return _datetimes(np.array([key]))[0]  # type: ignore[no-any-return]
    if isinstance(key, np.generic):
        return key.item()  # type: ignore[no-any-return]
    if hasattr(key, "to_pydatetime"):
        if getattr(key, "nanosecond", 0):
            raise InputError(_TOO_FINE.format(key))
        return normalize(key.to_pydatetime())
    return key  # type: ignore[no-any-return]


def is_null(value: Any) -> bool:
    """None, NaN, NaT, NA: the nulls of Python, numpy, pandas and polars."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    if isinstance(value, (np.datetime64, np.timedelta64)):
        return bool(np.isnat(value))
    return isinstance(value, (float, np.floating)) and bool(np.isnan(value))


def _one_spelling(value: decimal.Decimal) -> decimal.Decimal:
    """1.50 and 1.5, 1E+2 and 100: equal, hence one group, spelt alike whatever row comes first."""
    short = _EXACT.plus(value.normalize(_EXACT))
    return decimal.Decimal(f"{short:f}") if abs(short.adjusted()) < 28 else short


def _datetimes(values: NDArray[np.datetime64]) -> NDArray[Any]:
    """As Python's datetimes, which are as fine as microseconds; finer ones would merge."""
    coarse = values.astype("datetime64[us]")
    finer = (coarse.astype(values.dtype) != values) & ~np.isnat(values)
    if finer.any():
        raise InputError(_TOO_FINE.format(values[finer][0]))
    return coarse.astype(object)


def _plain_order(values: list[Any]) -> list[int] | None:
    """The canonical order of text, or of tuples whose parts are each of one plain type; None for anything else."""
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
    """Whole numbers: a lookup table where their range allows, a sort elsewhere."""
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


def _factorize_objects(values: Sequence[Any], name: str) -> tuple[Keys, Ints]:
    """Anything hashable, through a dictionary; the type is part of the key."""
    try:
        uniform = set(map(type, values)) <= {str}
        if not uniform:
            values = [normalize(v) for v in values]
            identities: Iterable[Hashable] = [_identity(v) for v in values]
        else:
            identities = values
        first = dict(zip(identities, values, strict=True))
    except TypeError as error:
        raise InputTypeError(
            f"{name} must be hashable (strings, numbers, dates, tuples), but {error}. Convert them first."
        ) from None
    keys = _ordered(first.values())
    code = {_identity(k) if not uniform else k: i for i, k in enumerate(keys)}
    return keys, np.fromiter(map(code.__getitem__, identities), dtype=np.intp, count=len(values))


def _identity(key: Hashable) -> Hashable:
    """Equal for keys of one type and value only: Python itself merges 1, 1.0 and True."""
    if type(key) is str:
        return key
    if isinstance(key, tuple):
        return (tuple, *map(_identity, key))
    return (type(key), key)


def _ordered(keys: Iterable[Hashable]) -> Keys:
    listed = list(keys)
    if all(type(k) is str for k in listed):
        return tuple(sorted(listed, key=str))
    try:
        return tuple(sorted(listed, key=_sort_key))
    except TypeError:
        return tuple(sorted(listed, key=lambda k: (type(k).__name__, repr(k))))


def _sort_key(key: Hashable) -> tuple[Any, ...]:
    """Null last; types apart; tuples part by part."""
    if key is None:
        return (1, "", 0)
    if isinstance(key, tuple):
        return (0, "tuple", tuple(map(_sort_key, key)))
    return (0, type(key).__name__, key)


def _unwrap(groups: Any) -> NDArray[Any] | list[Any]:
    """A numpy array where its type is safe, a list where numpy would change values."""
    if isinstance(groups, np.ndarray) and groups.ndim and not isinstance(groups, np.ma.MaskedArray):
        return _datetimes(groups) if groups.dtype.kind == "M" else groups
    if hasattr(groups, "columns") and hasattr(groups, "shape") and len(groups.shape) == 2:
        columns = [_as_list(_column(groups, i)) for i in range(groups.shape[1])]
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))
    if getattr(getattr(groups, "dtype", None), "kind", "") in ("i", "u", "b") and hasattr(groups, "to_numpy"):
        array: NDArray[Any] = groups.to_numpy()
        return array if array.dtype.kind in "iub" else _as_list(groups)
    return _as_list(groups)


def _column(frame: Any, i: int) -> Any:
    if hasattr(frame, "iloc"):
        return frame.iloc[:, i]
    return frame[:, i] if not hasattr(frame, "column") else frame.column(i)


def _as_list(values: Any) -> list[Any]:
    for method in ("to_pylist", "to_list", "tolist"):
        if hasattr(values, method):
            values = getattr(values, method)()
            break
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InputTypeError(
            f"groups must be one key per row, but got {_short(values)}. Pass a list, an array or a column."
        )
    return list(values)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:59] + "…"


_TAGS: dict[str, tuple[type, Callable[[Any], str], Callable[[str], Hashable]]] = {
    "datetime": (dt.datetime, dt.datetime.isoformat, dt.datetime.fromisoformat),
    "date": (dt.date, dt.date.isoformat, dt.date.fromisoformat),
    "time": (dt.time, dt.time.isoformat, dt.time.fromisoformat),
    "decimal": (decimal.Decimal, str, decimal.Decimal),
    "uuid": (uuid.UUID, str, uuid.UUID),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
}
