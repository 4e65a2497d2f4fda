"""An estimate as plain columns, and as a table of pandas, polars or pyarrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from fieldcal.errors import MissingExtraError
from fieldcal.objects import group_keys
from fieldcal.options import check_choice
from fieldcal.types import Keys

if TYPE_CHECKING:
    from fieldcal.objects.prevalence import Prevalence

_LIBRARIES = ("pandas", "polars", "pyarrow")
_BY_CLASS = ("mean_prediction", "urc", "estimate", "lower", "upper")


def columns(prev: Prevalence) -> dict[str, list[Any]]:
    """One row per class of the whole field, then one per group and class."""
    groups = prev.groups if prev.field.grouped else ()
    G, K = len(groups), len(prev.classes)
    table: dict[str, list[Any]] = {"scope": ["whole"] * K + ["group"] * (G * K)}
    for name, keys in _key_columns(groups).items():
        table[name] = [None] * K + [key for key in keys for _ in range(K)]
    table["class"] = list(prev.classes) * (G + 1)
    table["n"] = np.repeat([np.sum(prev.n), *prev.n[:G]], K).tolist()
    for name in _BY_CLASS:
        whole, each = getattr(prev.whole, name), getattr(prev, name)
        known = whole is not None and each is not None
        table[name] = np.vstack([whole, each[:G]]).ravel().tolist() if known else [None] * (K * (G + 1))
    table["trust_between"] = [prev.trust_between] * (K * (G + 1))
    table["trust_overall"] = [prev.trust_overall] * (K * (G + 1))
    table["lab_labels"] = [None] * K + [n for n in prev.labelled_rows("lab")[:G] for _ in range(K)]
    table["field_labels"] = [None] * K + [n for n in prev.labelled_rows("field")[:G] for _ in range(K)]
    first = None if prev.field.grouped else prev.status[0]
    table["status"] = [status for status in (first, *prev.status[:G]) for _ in range(K)]
    return table


def widened(table: dict[str, list[Any]], classes: Keys) -> dict[str, list[Any]]:
    """The table with one row per group and a column per class, ``estimate_<class>``."""
    K = len(classes)
    wide = {name: values[::K] for name, values in table.items() if name not in (*_BY_CLASS, "class")}
    for k, label in enumerate(classes):
        wide |= {f"{name}_{group_keys.show(label)}": table[name][k::K] for name in _BY_CLASS}
    return wide


def to_frame(table: dict[str, list[Any]], backend: str | None) -> Any:
    """A table of the requested library, or of the first that is installed."""
    import narwhals as nw

    if backend is not None:
        check_choice("backend", backend, _LIBRARIES)
    for name in [backend] if backend else _LIBRARIES:
        try:
            return nw.from_dict(_for(name, table), backend=name).to_native()  # type: ignore[arg-type]
        except (ImportError, ModuleNotFoundError):
            continue
    install = backend if backend in ("pandas", "pyarrow") else "'fieldcal[polars]'"
    raise MissingExtraError(
        f"to_frame returns a table of {backend or 'pandas, polars or pyarrow'}, which is not installed. "
        f"Install it: pip install {install}; or use to_dict(), which needs no library."
    )


def _key_columns(groups: Keys) -> dict[str, list[Any]]:
    parts = {len(g) for g in groups if isinstance(g, tuple)}
    if len(parts) == 1 and all(isinstance(g, tuple) for g in groups):
        return {f"group_{i + 1}": [g[i] for g in groups] for i in range(parts.pop())}  # type: ignore[index]
    mixed = len({type(g) for g in groups if g is not None}) > 1
    return {"group": [group_keys.show(g) if mixed and g is not None else g for g in groups]}


def _for(library: str, table: dict[str, list[Any]]) -> dict[str, Any]:
    """Adapts a table to a library: nullable integers for pandas; lone surrogates, which no library accepts, as ?."""
    table = {name: [_valid(value) for value in values] for name, values in table.items()}
    if library != "pandas":
        return table
    gaps = [n for n, v in table.items() if None in v and {type(x) for x in v if x is not None} == {int}]
    return table | {name: np.array(table[name], dtype=object) for name in gaps}


def _valid(value: Any) -> Any:
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else value
