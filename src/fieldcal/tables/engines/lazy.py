"""polars' LazyFrame and PySpark frames: nothing is read before the user asks, and no row of Spark's comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.tables.engines.base import Small, Table, values_of

#: Up to here an ordered join is the cheaper one; beyond, an unordered join and a sort.
_ORDERED_JOIN = 50_000
_SPARK_TYPES = {bool: "boolean", int: "long", float: "double"}


class LazyPolars(Table):
    """The streaming engine does the counting; the join's order is asked for."""

    sorts = True

    def collect(self, frame: Any) -> dict[str, Any]:
        """Whole numbers as arrays, unless nulls would make them fractions; everything else as lists."""
        table = frame.to_native().collect(engine="streaming")
        return {s.name: values_of(nw.from_native(s, series_only=True)) for s in table.iter_columns()}

    def first(self, condition: nw.Expr) -> int | None:
        """In the order of the table."""
        row = self.helper("row")
        numbered = nw.from_native(self.frame.to_native().with_row_index(row))
        found: int | None = numbered.filter(condition).select(nw.col(row).min()).collect().item()
        return found

    def small(self, columns: Small, dtypes: Mapping[str, Any]) -> Any:
        """A frame in memory, lazily."""
        import polars as pl

        made = nw.from_native(pl.DataFrame(dict(columns)), eager_only=True)
        return made.select(*(nw.col(name).cast(dtypes[name]) for name in columns)).lazy()

    def look_up(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """A left join that keeps the order of the left side."""
        left, right, row = prepared.to_native(), small.to_native(), self.helper("row")
        keys: dict[str, Any] = {"left_on": list(on), "right_on": list(on.values()), "how": "left"}
        if self.size_of(small) <= _ORDERED_JOIN:
            return nw.from_native(left.join(right, **keys, maintain_order="left"))
        joined = left.with_row_index(row).join(right, **keys, maintain_order="none")
        return nw.from_native(joined.sort(row))

    @staticmethod
    def size_of(small: Any) -> int:
        """How many rows the small table has."""
        return int(small.select(nw.len()).collect().item())


class Spark(Table):
    """Spark reads dots and backticks in names as syntax, so columns go by number until the end.

    Nothing but expressions and one broadcast table reaches the cluster.
    """

    def __init__(self, native: Any) -> None:
        names = list(native.columns)
        self._native = native
        super().__init__(nw.from_native(native.toDF(*(f"c{i}" for i in range(len(names))))), names)

    def indicator(self, condition: nw.Expr) -> nw.Expr:
        """Spark does not add truth values."""
        return condition.cast(nw.Int32)

    def collect(self, frame: Any) -> dict[str, Any]:
        """The rows of a result of groups."""
        native = frame.to_native()
        columns = list(zip(*native.collect(), strict=True)) or [()] * len(native.columns)
        return {name: list(values) for name, values in zip(native.columns, columns, strict=True)}

    def small(self, columns: Small, dtypes: Mapping[str, Any]) -> Any:
        """A table that goes to every worker whole, so that the big one stays where and as it is."""
        from pyspark.sql import functions
        from pyspark.sql.types import StructType

        schema, lists = StructType(), []
        for name, values in columns.items():
            listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
            plain = _SPARK_TYPES.get(type(listed[0])) if listed else "string"
            schema.add(name, plain or "string")
            lists.append(listed if plain else list(map(str, listed)))  # dates and times are read from text
        rows = list(zip(*lists, strict=True))
        native = functions.broadcast(self._native.sparkSession.createDataFrame(rows, schema))
        return nw.from_native(native).select(*(nw.col(name).cast(dtypes[name]) for name in columns))

    def look_up(self, prepared: Any, small: Any, on: Mapping[str, str]) -> Any:
        """A broadcast join: rows stay in their partitions, in their order."""
        return prepared.join(small, left_on=list(on), right_on=list(on.values()), how="left")

    def finish(self, computed: Any, new: Mapping[str, nw.Expr]) -> Any:
        """With the user's names again."""
        numbered = {self.helper(f"new_{i}"): e for i, e in enumerate(new.values())}
        return super().finish(computed, numbered).toDF(*self.names, *new)
