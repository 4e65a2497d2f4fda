"""From a warehouse's table of counts to a Field."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import narwhals as nw

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Field, Lab
from fieldcal.tables import counts
from fieldcal.tables.engines import Table, open_table
from fieldcal.verbs.counting import warn_if_ids


def read_counts(
    lab: Lab,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    missing: Literal["error", "drop"] = "error",
) -> Field:
    """The Field behind a table of counts, as the statement of ``fieldcal sql count`` makes it in a warehouse.

    Parameters
    ----------
    lab : the lab that the statement was made with
    frame : the statement's answer, one row per group, as any table; group columns as text
    by : names of the group columns; by default those of the lab
    missing : "error" or "drop"
        Whether rows without a score are refused or counted in ``Field.dropped``.

    Examples
    --------
    >>> import duckdb
    >>> import fieldcal
    >>> import polars as pl
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1000, random_state=0)
    >>> lab = tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")
    >>> predictions = pl.DataFrame({"p": data.proba_field})
    >>> statement = tables.sql_count(lab, "predictions", dialect="duckdb")
    >>> tables.read_counts(lab, duckdb.sql(statement))
    Field: 1,000 rows, one population, 8 bins
    """
    table = open_table(frame)
    names = {str(n).lower(): n for n in table.names}  # some warehouses shout
    parts = _parts(names)
    needed = [counts.ROWS, counts.VALID, *counts.below_columns(lab), *counts.units_columns(lab)]
    _require(names, needed)
    read = _read(table, names, [*needed, *counts.FLAWS], parts)
    _refuse(read, missing)
    counted = counts.Counted.read(lab, read, _groups(read, parts))
    if (counted.valid < counted.rows).any() and counts.MISSING not in read:
        raise InputError(
            "Some rows are not valid and the table does not say why. Make it with `fieldcal sql count`."
        )
    field = counts.as_field(
        lab,
        counted,
        by=_by(lab, by, parts),
        grouped=parts > 0,
        dropped=_sum(read, counts.MISSING),
        clipped=_sum(read, counts.CLIPPED),
    )
    warn_if_ids(len(field.groups), int(field.n.sum()))
    return field


def _parts(names: dict[str, Any]) -> int:
    """How many group columns there are."""
    n = 0
    while counts.group_column(n) in names:
        n += 1
    return n


def _require(names: dict[str, Any], needed: Sequence[str]) -> None:
    lost = [n for n in needed if n not in names]
    if lost:
        raise InputError(
            f"This table of counts has no column {lost[0]!r} ({len(lost)} of {len(needed)} are missing). Was it made "
            "with another lab? Make it with `fieldcal sql count`."
        )
    strays = [n for n in names if n.startswith("fieldcal_below_") and n not in needed]
    if strays:
        raise InputError(
            f"This table of counts has more bins than the lab ({strays[0]!r}). Was it made with another lab?"
        )


def _read(table: Table, names: dict[str, Any], wanted: Sequence[str], parts: int) -> dict[str, Any]:
    """Whole numbers, and keys as text."""
    keyed = []
    for i in range(parts):
        name = names[counts.group_column(i)]
        if table.dtype(name) != nw.String:
            raise InputTypeError(
                f"The group column {name!r} of the counts is {table.dtype(name)}, but warehouses give it as text, so "
                "that nothing such as '01' is lost. Read it as text."
            )
        keyed.append(table.column(name).alias(counts.group_column(i)))
        if counts.null_column(i) in names:
            keyed.append(table.column(names[counts.null_column(i)]).alias(counts.null_column(i)))
    numbers = [table.column(names[n]).cast(nw.Int64).alias(n) for n in wanted if n in names]
    return table.collect(table.frame.select(*keyed, *numbers))


def _groups(read: dict[str, Any], parts: int) -> Any:
    """Keys of text; a flag tells null from empty text, which CSV cannot."""
    columns = []
    for i in range(parts):
        values = list(read[counts.group_column(i)])
        flags = read.get(counts.null_column(i))
        if flags is not None:
            values = [None if int(f) else v or "" for v, f in zip(values, flags, strict=True)]
        columns.append(values)
    return columns[0] if parts == 1 else list(zip(*columns, strict=True))


def _refuse(read: dict[str, Any], missing: str) -> None:
    rows = _sum(read, counts.ROWS)
    if _sum(read, counts.OUTSIDE):
        raise InputError(
            f"{_sum(read, counts.OUTSIDE):,} of {rows:,} rows have scores outside [0, 1]. Are these percentages or "
            "logits? Correct them in the warehouse, and count again."
        )
    if _sum(read, counts.UNSUMMED):
        raise InputError(
            f"In {_sum(read, counts.UNSUMMED):,} of {rows:,} rows the scores do not sum to one. Rescale them, and "
            "count again."
        )
    if _sum(read, counts.MISSING) and missing == "error":
        raise InputError(
            f"{_sum(read, counts.MISSING):,} of {rows:,} rows have no score (null or NaN). Pass missing='drop' to "
            "go on without them."
        )


def _by(lab: Lab, by: str | Sequence[str] | None, parts: int) -> tuple[str, ...]:
    given = (by,) if isinstance(by, str) else tuple(by) if by is not None else None
    known = given if given is not None else lab.columns.by if lab.columns is not None else ()
    if len(known) == parts:
        return tuple(known)
    if given is not None:
        raise InputError(f"The counts have {parts} group columns, but by names {len(given)}: {list(given)}.")
    return ()  # as from arrays: later steps ask for the names


def _sum(read: dict[str, Any], name: str) -> int:
    return sum(int(v or 0) for v in read.get(name, ()))
