"""PySpark frames, on a cluster or through Connect: statements go to Spark, and no row of a table comes back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines.base import Small, Table, Type
from fieldcal.tables.rows import SMALL, TABLE, Rows

#: Times with a zone, by the name that Spark has for them.
_ZONED = ("timestamp",)
_TYPES = {"BIGINT": "bigint", "DOUBLE": "double", "BOOLEAN": "boolean"}
_FROM_TEXT = {"DATE": "date", "VARCHAR": "string"}


class Spark(Table):
    """Columns go by number until the end: Spark replaces ``${…}`` in the text of a statement.

    Nothing but a statement and one broadcast table reaches the cluster.
    """

    dialect: ClassVar[str] = "spark"

    def __init__(self, native: Any) -> None:
        super().__init__(native.columns)
        self.native = native.toDF(*(f"c{k}" for k in range(len(self.names))))
        self.types = [Type.of(kind, zoned=_ZONED) for _, kind in self.native.dtypes]

    def dtype(self, name: str) -> Type:
        """As Spark calls it."""
        return self.types[self.names.index(name)]

    def column(self, name: str) -> Expr:
        """By its number."""
        return self.backend.column(f"c{self.names.index(name)}")

    def collect(self, rows: Rows) -> dict[str, Any]:
        """The rows of a result of groups."""
        native = self._run(rows)
        columns = list(zip(*native.collect(), strict=True)) or [()] * len(native.columns)
        return {name: list(values) for name, values in zip(native.columns, columns, strict=True)}

    def _run(self, rows: Rows) -> Any:
        """The answer to a statement, which has not run. Frames are named in braces."""
        text = rows.statement().replace("{", "{{").replace("}", "}}")
        frames = {TABLE: self.native}
        if rows.small is not None:
            frames[SMALL] = self._broadcast(rows.small)
        for name in frames:
            text = text.replace(f"`{name}`", f"{{{name}}}")
        return self.native.sparkSession.sql(text, **frames)

    def _broadcast(self, small: Small) -> Any:
        """A table that goes to every worker whole, so that the big one stays where and as it is."""
        lists, schema, cast = [], [], []
        for k, (name, values) in enumerate(small.columns.items()):
            listed = values.tolist() if isinstance(values, np.ndarray) else list(values)
            kind = _TYPES.get(small.types[name])
            lists.append(listed if kind else [None if v is None else str(v) for v in listed])
            schema.append(f"c{k} {kind or 'string'}")
            wanted = kind or _FROM_TEXT.get(small.types[name], "timestamp_ntz")
            cast.append(f"CAST(c{k} AS {wanted}) AS `{name}`")
        rows = list(zip(*lists, strict=True))
        frame = self.native.sparkSession.createDataFrame(rows, ", ".join(schema))
        return frame.selectExpr(*cast).hint("broadcast")

    def numbered(self, rows: Rows) -> Rows:
        """Rows of Spark have no order; they stay in their partitions."""
        return rows

    def first(self, condition: Expr) -> int | None:
        """Rows of Spark have no positions."""
        return None

    def finish(self, rows: Rows, new: Mapping[str, Expr]) -> Any:
        """With the user's names again."""
        own = [f"c{k}" for k in range(len(self.names))]
        numbered = {self.helper(f"new_{k}"): e for k, e in enumerate(new.values())}
        return self._run(rows.answer(own, numbered)).toDF(*self.names, *new)

    def taken(self, rows: Rows) -> Any:
        """As pyarrow's table."""
        own = [f"c{k}" for k in range(len(self.names))]
        return self._run(rows.answer(own, {})).toDF(*self.names).toArrow()
