"""One thin class per engine: what narwhals leaves open. `open_table` finds the right one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw

from fieldcal.errors import InputTypeError
from fieldcal.storage import refuse_repeats
from fieldcal.tables.engines.base import Table
from fieldcal.tables.engines.duckdb import DuckDB
from fieldcal.tables.engines.lazy import LazyPolars, Spark
from fieldcal.tables.engines.memory import Arrow, Eager

__all__ = ["Table", "open_table"]

_SPARK = {nw.Implementation.PYSPARK, nw.Implementation.PYSPARK_CONNECT}


def open_table(native: Any, *, row_id: Sequence[str] = ()) -> Table:
    """The table behind whatever the user holds; ``row_id`` are last columns of a relation that only say its order."""
    if isinstance(native, (nw.DataFrame, nw.LazyFrame)):
        native = native.to_native()
    names = _names(native)
    refuse_repeats(names)
    try:
        frame = nw.from_native(native)
    except TypeError:
        raise InputTypeError(
            f"Expected a table (pandas, polars, pyarrow, a DuckDB relation, PySpark), but got "
            f"{type(native).__name__}. For arrays use fieldcal.learn, count and recalibrate; for files "
            "fieldcal.tables.files.session."
        ) from None
    if isinstance(frame, nw.DataFrame):
        return (Arrow if frame.implementation.is_pyarrow() else Eager)(frame, names)
    kind = frame.implementation
    if kind in _SPARK:
        return Spark(native)
    if kind is nw.Implementation.POLARS:
        return LazyPolars(frame, names)
    if kind is nw.Implementation.DUCKDB:
        return DuckDB(frame, names[: len(names) - len(row_id)], row_id)
    raise InputTypeError(
        f"Tables of {kind} are not supported. Convert it to polars, pyarrow or a DuckDB relation first."
    )


def _names(native: Any) -> list[Any]:
    """Before narwhals sees them: it refuses repeated names in its own words."""
    if hasattr(native, "collect_schema"):
        return list(native.collect_schema().names())
    return list(getattr(native, "column_names", getattr(native, "columns", ())))
