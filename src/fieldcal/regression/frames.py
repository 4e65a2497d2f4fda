"""The verbs on tables with quantile columns.

Unlike probabilities of classes, quantiles cannot be counted by a GROUP BY: the columns named here are read into memory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import Columns, Field, Lab, Prevalence
from fieldcal.regression.piecewise import Quantiles
from fieldcal.regression.quantile_columns import (
    QuantileColumns,
    QuantilesLike,
    Rows,
    read_rows,
    require_numbers,
)
from fieldcal.regression.verbs import count, learn, recalibrate, support_of
from fieldcal.tables.columns import Grouping, group_columns, new_names
from fieldcal.tables.count import group_names
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.files.paths import check_target
from fieldcal.tables.weight_table import bind, refuse_kinds
from fieldcal.types import Crossing, Floats, Unseen
from fieldcal.verbs.count import check_batch, warn_if_ids
from fieldcal.verbs.recalibrate import check_applicable

if TYPE_CHECKING:
    from fieldcal.tables.files.session import Session, Source


def learn_table(
    frame: Any,
    *,
    quantiles: QuantilesLike,
    label: str,
    by: str | Sequence[str] = (),
    intervals: int | Literal["auto"] | Sequence[float] = "auto",
    atoms: Sequence[float] | Literal["auto"] = "auto",
    crossing: Crossing = "error",
    random_state: int = 0,
) -> Lab:
    """Learn from a table of predicted quantiles and true numbers; the lab remembers the columns and their levels.

    Parameters
    ----------
    frame : pandas, polars (eager or lazy), pyarrow, DuckDB relation or PySpark frame
        The columns named here are read into memory.
    quantiles : str or mapping
        A pattern such as ``"q_*"``, where ``*`` is the level (0.05) or a percentage (5, 05), which it is if any of the
        numbers is above 1; or a mapping from level to column, ``{0.05: "low", 0.5: "middle", 0.95: "high"}``.
    label : column of the true numbers
    by : column or columns of the groups, for the rehearsal; later steps use the same
    intervals, atoms, random_state : as in `fieldcal.regression.learn`
    crossing : as in `fieldcal.regression.from_quantiles`

    Returns
    -------
    Lab

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from fieldcal import regression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=4000)
    >>> middle = (y + 0.7 * rng.normal(size=4000)) / 1.49
    >>> rows = pl.DataFrame({"y": y, "q_10": middle - 0.73, "q_50": middle, "q_90": middle + 0.73})
    >>> lab = regression.learn_table(rows, quantiles="q_*", label="y", intervals=[-1, 0, 1])
    >>> lab.columns.scores, lab.columns.levels
    (('q_10', 'q_50', 'q_90'), (0.1, 0.5, 0.9))
    """
    table = open_table(frame)
    names = (by,) if isinstance(by, str) else tuple(by or ())
    columns = QuantileColumns.find(quantiles, table)
    rows = _with_label(table, columns, Grouping.of(table, names), label, crossing)
    lab = learn(
        rows.predicted,
        rows.others["label"],
        groups=rows.groups,
        intervals=intervals,
        atoms=atoms,
        random_state=random_state,
    )
    remembered = Columns(scores=columns.names, label=label, by=names, levels=columns.levels)
    return lab.model_copy(update={"columns": remembered})


def count_table(
    lab: Lab,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    batch: str | None = None,
    crossing: Crossing = "error",
) -> Field:
    """Count the predicted distributions in a table, per group and bin.

    Parameters
    ----------
    lab : Lab
        Of a regression: from `learn_table` or `fieldcal.regression.learn`.
    frame, crossing : as in `learn_table`
    by : column or columns of the groups
        By default those of the lab; ``[]`` counts one population. Null is a group of its own.
    quantiles : as in `learn_table`; by default the columns of the lab
    batch : as in `fieldcal.count`

    Returns
    -------
    Field
        For `fieldcal.estimate`; the same as `fieldcal.regression.count` gives on arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> from fieldcal import regression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=4000)
    >>> middle = (y + 0.7 * rng.normal(size=4000)) / 1.49
    >>> rows = pl.DataFrame({"y": y, "q_10": middle - 0.73, "q_50": middle, "q_90": middle + 0.73})
    >>> lab = regression.learn_table(rows, quantiles="q_*", label="y", intervals=[-1, 0, 1])
    >>> log = rows.select("q_10", "q_50", "q_90").with_columns(site=pl.lit("York"))
    >>> regression.count_table(lab, log, by="site").groups
    ('York',)
    """
    support_of(lab)
    check_batch(batch)
    table = open_table(frame)
    grouping = Grouping.of(table, group_names(lab, by))
    rows = read_rows(table, QuantileColumns.of(lab, quantiles, table), grouping, crossing=crossing)
    field = count(lab, rows.predicted, groups=rows.groups)
    warn_if_ids(len(field.groups), int(field.n.sum()))
    field = field.model_copy(update={"by": grouping.columns})
    return field if batch is None else field.named(batch)


def recalibrate_table(
    prev: Prevalence,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    unseen: Unseen = "global",
    acknowledge: bool = False,
    name: str = "{}_recalibrated",
    crossing: Crossing = "error",
) -> Any:
    """The same table with recalibrated quantiles at its end: same kind, same rows, same order.

    Parameters
    ----------
    prev : Prevalence
        Estimated from a lab and a field of this module.
    frame : pandas, polars (eager) or pyarrow
        Tables elsewhere are refused: collect them first, or use ``fieldcal recalibrate`` on files.
    by, quantiles : columns of the groups and of the quantiles
        By default those that were counted.
    unseen, acknowledge : as in `fieldcal.recalibrate`
    name : str
        The name of a new column, with ``{}`` for the name of the old one.
    crossing : as in `fieldcal.regression.from_quantiles`

    Returns
    -------
    A table of the kind that was given; the index of pandas is kept

    Examples
    --------
    >>> import numpy as np
    >>> import polars as pl
    >>> import fieldcal
    >>> from fieldcal import regression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=4000)
    >>> middle = (y + 0.7 * rng.normal(size=4000)) / 1.49
    >>> rows = pl.DataFrame({"y": y, "q_10": middle - 0.73, "q_50": middle, "q_90": middle + 0.73})
    >>> lab = regression.learn_table(rows, quantiles="q_*", label="y", intervals=[-1, 0, 1])
    >>> prev = fieldcal.estimate(lab, regression.count_table(lab, rows), trust=1)
    >>> regression.recalibrate_table(prev, rows, name="{}_new").columns
    ['y', 'q_10', 'q_50', 'q_90', 'q_10_new', 'q_50_new', 'q_90_new']
    """
    check_applicable(prev, acknowledge=acknowledge)
    table = open_table(frame)
    if table.lazy:
        raise InputError(
            f"recalibrate_table needs a table in memory, but got {type(frame).__module__}.{type(frame).__name__}. "
            "Collect it first, or use `fieldcal recalibrate` on files."
        )
    columns = _columns_of(prev, quantiles, table)
    new = new_names(columns.names, table.names, name)
    rows = read_rows(table, columns, _grouping(prev, by, table), crossing=crossing)
    answer = recalibrate(prev, rows.predicted, groups=rows.groups, unseen=unseen, acknowledge=acknowledge)
    made = nw.from_dict(dict(zip(new, _columns(answer), strict=True)), backend=table.frame.implementation)
    return table.finish(made, {n: nw.col(n) for n in new})


def recalibrate_file(
    prev: Prevalence,
    session: Session,
    source: Source,
    target: str | os.PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    unseen: Unseen = "global",
    acknowledge: bool = False,
    name: str = "{}_recalibrated",
    crossing: Crossing = "error",
) -> int:
    """Recalibrate quantile columns of a table in files into another file; how many rows were written.

    Parameters
    ----------
    prev : Prevalence
    session, source : from `fieldcal.tables.files.session`
    target : where to write; its ending says what
    by, quantiles, unseen, acknowledge, name, crossing : as in `recalibrate_table`
    """
    check_applicable(prev, acknowledge=acknowledge)
    check_target(os.fspath(target), source.inputs)
    source = bind(prev, source, by=by, scores=quantiles)
    relation, row_id = source.with_row_id()
    table = open_table(relation, row_id=row_id)
    columns = _columns_of(prev, quantiles, table)
    new = new_names(columns.names, table.names, name)
    numbered, row = table.prepare([]), row_id[0] if row_id else table.helper("row")
    place = {"place": nw.col(row).cast(nw.Int64)}
    grouping = _grouping(prev, by, table)
    rows = read_rows(table, columns, grouping, crossing=crossing, others=place, frame=numbered)
    answer = recalibrate(prev, rows.predicted, groups=rows.groups, unseen=unseen, acknowledge=acknowledge)
    helpers = [table.helper(f"new_{k}") for k in range(len(new))]
    small = _beside(table, rows, dict(zip(helpers, _columns(answer), strict=True)))
    joined = table.look_up(numbered, small, {row: table.helper("place")})
    done = table.finish(joined, {n: nw.col(h) for n, h in zip(new, helpers, strict=True)})
    return session.write(done, target, sources=[source])


def read_labelled(
    prev: Prevalence,
    frame: Any,
    *,
    label: str | None = None,
    by: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    crossing: Crossing = "error",
) -> dict[str, Any]:
    """Distributions, true numbers and groups of the labelled rows, as `fieldcal.report` takes them.

    Parameters
    ----------
    prev : Prevalence
    frame, crossing : as in `learn_table`; rows without a label are left out
    label : column of the true numbers; by default the lab's
    by, quantiles : as in `recalibrate_table`
    """
    table = open_table(frame)
    known = label if label is not None else None if prev.lab.columns is None else prev.lab.columns.label
    if known is None:
        raise InputError("The lab was learnt from arrays and knows no column of labels: pass label=….")
    columns, grouping = _columns_of(prev, quantiles, table), _grouping(prev, by, table)
    rows = _with_label(table, columns, grouping, known, crossing, labelled_only=True)
    return {"proba": rows.predicted, "y": rows.others["label"], "groups": rows.groups}


def _columns_of(prev: Prevalence, quantiles: QuantilesLike | None, table: Table) -> QuantileColumns:
    support_of(prev.lab)
    return QuantileColumns.of(prev.lab, quantiles, table)


def _grouping(prev: Prevalence, by: str | Sequence[str] | None, table: Table) -> Grouping:
    """The groups that were counted, in columns of the types that were."""
    grouping = Grouping.of(table, group_columns(prev, by))
    if grouping.columns and len(prev.groups) and not grouping.matches(prev.groups).any():
        refuse_kinds(grouping, prev)
    return grouping


def _with_label(
    table: Table,
    columns: QuantileColumns,
    grouping: Grouping,
    label: str,
    crossing: Crossing,
    *,
    labelled_only: bool = False,
) -> Rows:
    """Rows with their true number, as float64."""
    require_numbers(table, label, "label")
    number = table.column(label)
    frame = table.frame.filter(~number.is_null()) if labelled_only else None
    others = {"label": number.cast(nw.Float64)}
    rows = read_rows(table, columns, grouping, crossing=crossing, others=others, frame=frame)
    found = np.array(rows.others["label"], dtype=np.float64)
    if np.isnan(found).any():
        raise InputError(
            f"{int(np.isnan(found).sum()):,} of {len(found):,} rows have no number in the label column {label!r:.60}. "
            "Drop those rows from the lab data."
        )
    return Rows(rows.predicted, rows.groups, {"label": found})


def _columns(answer: Any) -> list[Floats]:
    """The new quantiles, column by column."""
    if not isinstance(answer, Quantiles):  # pragma: no cover - quantiles answer quantiles
        raise TypeError(f"expected quantiles, got {type(answer).__name__}")
    return [np.ascontiguousarray(column) for column in answer.values.T]


def _beside(table: Table, rows: Rows, new: dict[str, Floats]) -> Any:
    """The new columns in the engine of the table, with the place of their row."""
    place = table.helper("place")
    columns = {place: np.asarray(rows.others["place"], dtype=np.int64), **new}
    return table.small(columns, {n: nw.Int64 if n == place else nw.Float64 for n in columns})
