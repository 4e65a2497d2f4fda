"""`recalibrate` on tables: one join with a small table of weights, and one expression."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np

from fieldcal import verbs
from fieldcal.errors import InputError
from fieldcal.objects import Correction, Prevalence
from fieldcal.objects.artefact import check_call
from fieldcal.options import check_goes_with
from fieldcal.tables.columns import Scores, group_columns, new_names, prediction_columns, read_rows
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.files.paths import check_target
from fieldcal.tables.quantile_columns import QuantileColumns, QuantilesLike
from fieldcal.tables.validity import examine, refuse
from fieldcal.tables.value_columns import ValueColumns
from fieldcal.tables.value_table import recalibrate_values
from fieldcal.tables.weight_table import Course, Groups, Job, RecalibrateOptions, bind, counted_groups
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
        native = type(table.frame.to_native())
        raise InputError(
            "Recalibrating quantiles needs a table in memory, but got "
            f"{native.__module__}.{native.__name__}. Collect it first, or use `fieldcal recalibrate` on files."
        )
    numbered = None if row is None else table.prepare([])
    place = {} if row is None else {"place": nw.col(row).cast(nw.Int64)}
    rows = read_rows(columns, grouping, others=place, frame=numbered)
    answer = verbs.recalibrate(
        prev,
        rows.predictions,
        groups=rows.groups,
        unseen=options.unseen,
        acknowledge=True,
        shape=options.shape,
    )
    made = dict(zip(new, map(np.ascontiguousarray, answer.values.T), strict=True))
    if row is None:
        small = nw.from_dict(made, backend=table.frame.implementation)
        return table.finish(small, {n: nw.col(n) for n in new})
    places = np.asarray(rows.others["place"], dtype=np.int64)
    return _joined(table, numbered, made, row=row, places=places)


def _joined(table: Table, numbered: Any, made: dict[str, Any], *, row: str, places: Ints) -> Any:
    """The new columns beside the rows that they were made of, found again by their place."""
    at = table.helper("place")
    helpers = {table.helper(f"new_{k}"): name for k, name in enumerate(made)}
    columns = {at: places, **{helper: made[name] for helper, name in helpers.items()}}
    small = table.small(columns, {at: nw.Int64, **dict.fromkeys(helpers, nw.Float64)})
    joined = table.look_up(numbered, small, {row: at})
    return table.finish(joined, {name: nw.col(helper) for helper, name in helpers.items()})


def correct(correction: Correction, columns: Scores, by: Sequence[str], options: RecalibrateOptions) -> Any:
    """One expression in the table's engine, after one join with groups."""
    new = new_names(columns.columns, columns.table.names, options.name)
    job, course = Job(correction, columns.table, columns, options), Course.of(correction, options.unseen)
    rows = weighed_rows(job, by, joins=course.joins)
    return columns.table.finish(*job.answers(rows, course, new))


def weighed_rows(
    job: Job, by: Sequence[str], *, joins: bool, beside: Mapping[str, Floats] | None = None
) -> Any:
    """The rows of a table with checked predictions, and the weights of their groups.

    ``joins``: whether anything depends on the group of a row; ``beside``: see `Groups.of`.
    """
    table, columns, options = job.table, job.scores, job.options
    if columns.n_ids is not None:
        raise InputError(
            "Bin ids in a table are not recalibrated: read them, and use fieldcal.recalibrate on arrays."
        )
    if options.check:
        _check_scores(job)
    if not job.correction.grouped:
        return table.prepare(columns.expressions())
    groups = Groups.of(job, by, beside)
    prepared = table.prepare([*columns.expressions(), *groups.look_up.left()])
    small = table.align(prepared, groups.small, groups.look_up.on())
    if options.check:
        groups.check(prepared, small)
    return table.look_up(prepared, small, groups.look_up.on()) if joins else prepared


def _check_scores(job: Job) -> None:
    t, columns = job.table, [nw.col(n) for n in job.scores.names()]
    frame = t.frame.select(*job.scores.expressions())
    valid = frame.select(t.indicator(job.scores.valid(columns)).alias("valid"))
    found = t.collect(valid.select(nw.len().alias("rows"), nw.col("valid").sum().cast(nw.Int64)))
    if int(found["valid"][0] or 0) < int(found["rows"][0]):
        refuse(examine(t, job.scores), job.scores, missing=job.options.missing)


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
