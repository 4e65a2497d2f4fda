"""`recalibrate` on tables: one join with a small table of weights, and one expression."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldcal import verbs
from fieldcal.errors import InputError
from fieldcal.objects import Correction, Prevalence
from fieldcal.objects.artefact import check_call
from fieldcal.options import check_goes_with
from fieldcal.tables.columns import Scores, prediction_columns, read_rows
from fieldcal.tables.engines import Small, Table, open_table
from fieldcal.tables.files.paths import check_target
from fieldcal.tables.groups import counted_groups
from fieldcal.tables.names import group_columns, new_names
from fieldcal.tables.quantile_columns import QuantileColumns, QuantilesLike
from fieldcal.tables.rows import Rows
from fieldcal.tables.validity import examine, refuse
from fieldcal.tables.value_columns import ValueColumns
from fieldcal.tables.value_table import recalibrate_values
from fieldcal.tables.weight_table import Course, Groups, Job, RecalibrateOptions, bind
from fieldcal.types import Crossing, Floats, Ints, Shape, Unseen
from fieldcal.verbs.recalibrate import check_applicable

if TYPE_CHECKING:
    from fieldcal.tables.files.session import Session, Source


def recalibrate(
    prev: Prevalence,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    predictions: str | Sequence[str] | None = None,
    unseen: Unseen = "global",
    missing: Literal["error", "keep"] = "error",
    normalize: bool = False,
    crossing: Crossing = "error",
    acknowledge: bool = False,
    name: str = "{}_recalibrated",
    check: bool = True,
    shape: Shape = "auto",
) -> Any:
    """The table with recalibrated columns at its end: same kind, same rows, same order.

    Parameters
    ----------
    prev, unseen, missing, normalize, acknowledge, shape : as in `fieldcal.recalibrate`
    frame : pandas, polars (eager or lazy), pyarrow, DuckDB relation or PySpark frame
        With quantiles of a number, a table in memory: collect others first, or use ``fieldcal recalibrate`` on files.
    by, scores, quantiles, predictions, crossing : columns of the groups and of the predictions, as in `count`
        By default those that were counted. With categories (``predictions``), the new columns hold the probability of
        each class given the category and the group.
    name : str
        The name of a new column, with ``{}`` for the name of the old one; with categories, for ``p_`` and the class.
    check : bool
        Check scores and groups now, with the errors and warnings of arrays. This reads those columns of a lazy table
        once. Without it nothing is read: invalid scores give null, unknown groups follow ``unseen``. Quantiles, and
        distinct categories, are read and checked anyway.

    Returns
    -------
    A table of the kind that was given; lazy if that was lazy

    Examples
    --------
    >>> import polars as pl
    >>> import fieldcal
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.example().data
    >>> lab_rows = pl.DataFrame({"p": data.proba_lab, "y": data.y_lab})
    >>> lab = tables.learn(lab_rows, scores="p", label="y")
    >>> field_rows = pl.DataFrame({"p": data.proba_field, "town": data.groups_field})
    >>> prev = fieldcal.estimate(lab, tables.count(lab, field_rows, by="town"), trust=1)
    >>> tables.recalibrate(prev, field_rows).columns
    ['p', 'town', 'p_recalibrated']
    """
    options = RecalibrateOptions(unseen, missing, normalize, acknowledge, name, check, crossing, shape)
    named: dict[str, Any] = {"scores": scores, "quantiles": quantiles, "predictions": predictions}
    check_call("fieldcal.tables.recalibrate(prev, frame)", (prev, Prevalence), (frame, "a table"))
    return apply(prev, open_table(frame), by=by, **named, options=options)


def apply(
    prev: Prevalence,
    table: Table,
    *,
    by: str | Sequence[str] | None = None,
    options: RecalibrateOptions,
    row: str | None = None,
    **named: Any,
) -> Any:
    """Recalibrate an open table; for files, ``row`` is the column with the position of a row."""
    check_applicable(prev, acknowledge=options.acknowledge, shape=options.shape)
    check_goes_with(prev.lab.predicted, missing=options.missing)
    kept: dict[str, Any] = {"normalize": options.normalize, "crossing": options.crossing}
    columns = prediction_columns(table, prev.lab, **named, **kept)
    if isinstance(columns, ValueColumns):
        return recalibrate_values(prev, columns, by, options)
    if isinstance(columns, QuantileColumns):
        return _apply_to_quantiles(prev, columns, by, options, row)
    return correct(prev.correction(options.shape), columns, group_columns(prev, by), options)


def _apply_to_quantiles(
    prev: Prevalence,
    columns: QuantileColumns,
    by: str | Sequence[str] | None,
    options: RecalibrateOptions,
    row: str | None,
) -> Any:
    """Recalibrate quantiles in memory, and join the result to its rows."""
    table = columns.table
    new = new_names(columns.columns, table.names, options.name)
    grouping = counted_groups(prev, by, table)
    if table.lazy and row is None:
        raise InputError(
            "Recalibrating quantiles needs a table in memory, but got one that is read as it is needed. Collect it "
            "first, or use `fieldcal recalibrate` on files."
        )
    place, numbered = table.row if row is None else row, table.rows
    if row == table.row:
        numbered = table.numbered(numbered)
    rows = read_rows(columns, grouping, others={"place": table.backend.column(place)}, rows=numbered)
    answer = verbs.recalibrate(
        prev,
        rows.predictions,
        groups=rows.groups,
        unseen=options.unseen,
        acknowledge=True,
        shape=options.shape,
    )
    made = dict(zip(new, map(np.ascontiguousarray, answer.values.T), strict=True))
    return _joined(table, numbered, made, row=place, places=np.asarray(rows.others["place"], dtype=np.int64))


def _joined(table: Table, rows: Rows, made: dict[str, Any], *, row: str, places: Ints) -> Any:
    """The new columns beside the rows that they were made of, found again by their place."""
    at = table.helper("place")
    helpers = {table.helper(f"new_{k}"): name for k, name in enumerate(made)}
    columns = {at: places, **{helper: made[name] for helper, name in helpers.items()}}
    small = Small(columns, {at: "BIGINT", **dict.fromkeys(helpers, "DOUBLE")})
    joined = rows.joined(small, {row: at})
    return table.finish(joined, {name: table.backend.column(helper) for helper, name in helpers.items()})


def correct(correction: Correction, columns: Scores, by: Sequence[str], options: RecalibrateOptions) -> Any:
    """One expression in the table's engine, after one join with groups."""
    new = new_names(columns.columns, columns.table.names, options.name)
    job, course = Job(correction, columns.table, columns, options), Course.of(correction, options.unseen)
    rows = weighed_rows(job, by, joins=course.joins)
    return columns.table.finish(*job.answers(rows, course, new))


def weighed_rows(
    job: Job, by: Sequence[str], *, joins: bool, beside: Mapping[str, Floats] | None = None
) -> Rows:
    """The rows of a table with checked predictions, and the weights of their groups.

    ``joins``: whether anything depends on the group of a row; ``beside``: see `Groups.of`.
    """
    table, columns, options = job.table, job.scores, job.options
    if columns.n_ids is not None:
        raise InputError(
            "Bin ids in a table are not recalibrated: read them, and use fieldcal.recalibrate on arrays."
        )
    groups = Groups.of(job, by, beside) if job.correction.grouped else None
    keys = {} if groups is None else groups.grouping.expressions()
    rows = table.rows.add(columns.expressions() | keys)
    if options.check:
        _check(job, rows, None if options.unseen == "raw" else groups)
    if groups is None or not joins:
        return rows
    return table.look_up(rows, groups.small, groups.look_up.on())


def _check(job: Job, rows: Rows, groups: Groups | None) -> None:
    """Read scores and groups once: refuse scores that are not valid; warn of, or refuse, groups that are not known."""
    backend, table = job.table.backend, job.table
    names = {name: table.helper(name) for name in ("rows", "valid")}
    asked = {
        names["rows"]: backend.count(),
        names["valid"]: backend.count(job.scores.valid(job.scores.named())),
    }
    if groups is not None:
        rows, asked = rows.joined(groups.small, groups.look_up.on()), asked | groups.unmatched()
    found = table.collect(rows.select(asked))
    if int(found[names["valid"]][0]) < int(found[names["rows"]][0]):
        refuse(examine(table, job.scores), job.scores, missing=job.options.missing)
    if groups is not None:
        groups.check(found)


def recalibrate_file(
    prev: Prevalence,
    session: Session,
    source: Source,
    target: str | os.PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    predictions: str | Sequence[str] | None = None,
    **options: Any,
) -> int:
    """Recalibrate a table in files into ``target``, whose ending sets the format; returns the number of rows."""
    check_target(os.fspath(target), source.inputs)
    numbers = scores if quantiles is None else quantiles
    source = bind(prev, source, by=by, scores=numbers, predictions=predictions)
    relation, row_id = source.with_row_id()
    table = open_table(relation, row_id=row_id)
    row = row_id[0] if row_id else table.helper("row")
    chosen = RecalibrateOptions(**options)
    named: dict[str, Any] = {"scores": scores, "quantiles": quantiles, "predictions": predictions}
    answer = apply(prev, table, by=by, **named, options=chosen, row=row)
    return session.write(answer, target, sources=[source])
