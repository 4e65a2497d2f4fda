"""polars' LazyFrame: nothing is read before the user asks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import narwhals as nw

from fieldcal.tables.engines.base import Small, Table, values_of

#: Up to here an ordered join is the cheaper one; beyond, an unordered join and a sort.
_ORDERED_JOIN = 50_000


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
