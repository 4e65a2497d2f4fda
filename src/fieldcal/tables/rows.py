"""Rows of a table in memory, as the verbs on arrays take them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from fieldcal.tables.columns import Grouping, QuantileColumns, Scores
from fieldcal.tables.engines import Table


@dataclass(frozen=True)
class Rows:
    """What was read: probabilities or distributions, groups (None without group columns), and other columns."""

    predictions: Any
    groups: Any
    others: Mapping[str, Any]


def read_rows(
    columns: Scores | QuantileColumns,
    grouping: Grouping,
    *,
    others: Mapping[str, nw.Expr] | None = None,
    frame: Any = None,
) -> Rows:
    """The rows of the columns' table, or of a frame of its engine.

    Parameters
    ----------
    others : further columns, by the name under which they are answered
    """
    table, names = columns.table, {n: columns.table.helper(n) for n in others or ()}
    made = [x.alias(n) for x, n in zip(columns.raw(), columns.names(), strict=True)]
    made += [x.alias(names[n]) for n, x in (others or {}).items()]
    # All of it in one query: a lazy table may have its rows in another order the next time.
    rows = (table.frame if frame is None else frame).select(*made, *grouping.expressions())
    read = _collect(table, rows, numbers=columns.names())
    return Rows(
        columns.predictions(read),
        grouping.decode([read[n] for n in grouping.names()]),
        {n: read[name] for n, name in names.items()},
    )


def read_labelled_rows(
    columns: Scores | QuantileColumns, grouping: Grouping, label: str, *, labelled_only: bool = False
) -> tuple[Rows, Any]:
    """The rows, or those with a label, and their labels."""
    table, y = columns.table, columns.label(label)
    frame = table.frame.filter(~table.column(label).is_null()) if labelled_only else None
    rows = read_rows(columns, grouping, others={"label": y}, frame=frame)
    return rows, columns.labels(rows.others["label"], label)


def _collect(table: Table, rows: Any, *, numbers: list[str]) -> dict[str, Any]:
    """As the engine does; predictions in memory without a detour over lists."""
    if table.lazy:
        return table.collect(rows)
    arrays = {n: rows.get_column(n).to_numpy() for n in numbers}
    rest = [n for n in rows.columns if n not in arrays]
    return {**arrays, **(table.collect(rows.select(*rest)) if rest else {})}
