"""PySpark frames: nothing but expressions and one broadcast table reaches the cluster, and no row comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.tables.engines.base import Small, Table

_TYPES = {bool: "boolean", int: "long", float: "double"}


class Spark(Table):
    """Spark reads dots and backticks in names as syntax, so columns go by number until the end."""

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
            plain = _TYPES.get(type(listed[0])) if listed else "string"
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
