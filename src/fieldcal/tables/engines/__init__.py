"""Engines that run statements. `open_table` finds the one of a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from fieldcal.errors import InputTypeError
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables.engines.base import Small, Table, Type

__all__ = ["Small", "Table", "Type", "open_table"]


def open_table(native: Any, *, row_id: Sequence[str] = ()) -> Table:
    """The table behind whatever the user holds; ``row_id`` are last columns of a relation that only say its order."""
    if hasattr(native, "to_native"):  # wrapped by narwhals
        native = native.to_native()
    made = next((kind for cls in type(native).__mro__ if (kind := _kind(cls)) is not None), None)
    if made is None:
        raise InputTypeError(
            f"Expected a table (pandas, polars, pyarrow, a DuckDB relation, PySpark), but got "
            f"{type(native).__name__}. For arrays use fieldcal.learn, count and recalibrate; for files "
            "fieldcal.tables.files.session."
        )
    refuse_repeats(_names(native))
    return made(native, row_id)


def _kind(cls: type) -> Callable[[Any, Sequence[str]], Table] | None:
    """What opens instances of a class; by its name, as its library may not be installed."""
    library = cls.__module__.partition(".")[0]
    if library == "pyspark" and cls.__name__ == "DataFrame" and ".pandas" not in cls.__module__:
        return _spark
    return _KINDS.get((library.lstrip("_"), cls.__name__))


def _spark(native: Any, _: Sequence[str]) -> Table:
    from fieldcal.tables.engines.spark import Spark

    return Spark(native)


def _relation(native: Any, row_id: Sequence[str]) -> Table:
    from fieldcal.tables.engines.duckdb import DuckDB

    return DuckDB(native, row_id)


def _frame(native: Any, _: Sequence[str]) -> Table:
    for name in ("duckdb", "pyarrow"):
        require(name, "tables", purpose="to count and recalibrate tables")
    from fieldcal.tables.engines.frames import Frame, library_of

    return Frame(native, library_of(native))


def _lazy(native: Any, _: Sequence[str]) -> Table:
    for name in ("duckdb", "pyarrow"):
        require(name, "tables", purpose="to count and recalibrate tables")
    from fieldcal.tables.engines.frames import LazyPolars

    return LazyPolars(native)


_KINDS: dict[tuple[str, str], Callable[[Any, Sequence[str]], Table]] = {
    ("pandas", "DataFrame"): _frame,
    ("polars", "DataFrame"): _frame,
    ("pyarrow", "Table"): _frame,
    ("polars", "LazyFrame"): _lazy,
    ("duckdb", "DuckDBPyRelation"): _relation,
}


def _names(native: Any) -> list[Any]:
    if hasattr(native, "collect_schema"):
        return list(native.collect_schema().names())
    return list(getattr(native, "column_names", getattr(native, "columns", ())))
