"""`count` on tables: one GROUP BY in the table's own engine; `pairs`: rows on the same item."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from fieldcal import verbs
from fieldcal.core.values import Values
from fieldcal.errors import InputError, option
from fieldcal.objects import Field, Lab
from fieldcal.objects.artefact import check_call
from fieldcal.objects.derived import Pairs
from fieldcal.options import check_choice, check_goes_with, check_options, column_names
from fieldcal.tables import count_table
from fieldcal.tables import expressions as row
from fieldcal.tables.columns import Scores, prediction_columns, read_rows
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.engines.base import floats
from fieldcal.tables.groups import Grouping
from fieldcal.tables.label_column import LabelColumn
from fieldcal.tables.quantile_columns import QuantileColumns, QuantilesLike
from fieldcal.tables.rows import Holding, Rows
from fieldcal.tables.validity import Quality, examine, refuse
from fieldcal.tables.value_columns import Unseen, ValueColumns
from fieldcal.tables.windows import Window, in_windows
from fieldcal.types import Crossing, Design
from fieldcal.validation import MISSING_OTHERWISE
from fieldcal.verbs.categories import warn_unseen
from fieldcal.verbs.count import check_batch, empty_field, warn_if_ids
from fieldcal.verbs.field_labels import check_label_options


def count(
    lab: Lab,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    predictions: str | Sequence[str] | None = None,
    missing: Literal["error", "drop"] = "error",
    normalize: bool = False,
    crossing: Crossing = "error",
    batch: str | None = None,
    time: str | None = None,
    every: str | None = None,
    label: str | None = None,
    design: Design | None = None,
    only_labels: bool = False,
) -> Field:
    """Histograms of the predictions in a table, per group and bin, computed where the table is.

    Only groups × bins numbers are transferred, and those of each class if rows have labels; they equal
    `fieldcal.count` on arrays to the last bit. Quantiles of a number are read into memory.

    Parameters
    ----------
    lab, missing, normalize, batch, design, only_labels : as in `fieldcal.count`
    frame : pandas, polars (eager or lazy), pyarrow, DuckDB relation or PySpark frame
    by : column or columns of the groups
        By default those of the lab; ``[]`` counts one population. Several columns make tuples.
    scores, quantiles, predictions, crossing : columns of the predictions, as in `learn`; by default those of the lab
    time, every : str, optional
        A column of dates or times and a length such as ``"1d"``, ``"1w"``, ``"1mo"``, ``"1h"``: every window
        becomes a batch named after its start (`Field.window`).
    label : column of the true classes, or numbers, null where they are not known; ``y`` of `fieldcal.count`

    Examples
    --------
    >>> import fieldcal
    >>> import polars as pl
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.example().data
    >>> lab_rows = pl.DataFrame({"p": data.proba_lab, "y": data.y_lab})
    >>> lab = tables.learn(lab_rows, scores="p", label="y")
    >>> field_rows = pl.LazyFrame({"p": [0.2, 0.7, 0.8], "town": ["York", "Leeds", None]})
    >>> field = tables.count(lab, field_rows, by="town")
    >>> field.groups, field.n.tolist()
    (('Leeds', 'York', None), [1, 1, 1])
    """
    check_call("fieldcal.tables.count(lab, frame)", (lab, Lab), (frame, "a table"))
    check_choice("missing", missing, ("error", "drop"))
    check_options(normalize=normalize)
    check_batch(batch)
    check_label_options("label", label, design=design, only_labels=only_labels)
    check_goes_with(lab.predicted, missing=missing, time=time, every=every)
    table = open_table(frame)
    window = None if time is None and every is None else Window.of(table, time, every)
    grouping = Grouping.of(table, group_names(lab, by))
    columns = prediction_columns(
        table,
        lab,
        scores=scores,
        quantiles=quantiles,
        predictions=predictions,
        normalize=normalize,
        crossing=crossing,
    )
    chosen: Design = design or lab.design or "random"
    labels: dict[str, Any] = {"design": chosen, "only_labels": only_labels}
    if isinstance(columns, QuantileColumns):
        field = _count_distributions(lab, columns, grouping, batch, label, **labels)
    else:
        known = None if label is None else LabelColumn.of(table, lab, label, design=chosen, only=only_labels)
        if isinstance(columns, ValueColumns):
            counted = _count_values(ValuePlan(lab, table, grouping, window, known, columns), missing)
        else:
            columns = replace(columns, counts_zeros=lab.partition.counts_zeros)
            counted = _count(Plan(lab, table, grouping, window, known, columns), missing)
        counted = counted if window is None else counted.over(window.every)
        field = counted if batch is None else counted.named(batch)
    warn_if_ids(len(field.groups), int(field.n.sum()))
    return field


def group_names(lab: Lab, by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The given group columns, or those of the lab."""
    if by is None:
        return lab.columns.by if lab.columns is not None else ()
    return column_names("by", by)


@dataclass(frozen=True)
class _Keys:
    """The keys of the counts: groups, windows and labels."""

    lab: Lab
    table: Table
    grouping: Grouping
    window: Window | None
    label: LabelColumn | None

    def keys(self) -> dict[str, Expr]:
        """What is grouped by, under our names: rows with a label are counted by class."""
        parts = [part for part in (self.window, self.label) if part]
        return self.grouping.expressions() | {part.name: part.expression() for part in parts}

    def grouped(self, rows: Rows, totals: Mapping[str, Expr]) -> dict[str, Any]:
        """The result of the GROUP BY of rows that have their keys; sorted, so that Python need not."""
        keys = {name: self.table.backend.column(name) for name in self.keys()}
        return self.table.collect(rows.grouped(keys, totals, ordered=self.table.dialect == "duckdb"))

    def groups(self, small: dict[str, Any]) -> Any:
        """The groups of a small result."""
        return self.grouping.decode([small[n] for n in self.grouping.names()])

    def with_keys(self, counted: count_table.Counted, small: dict[str, Any]) -> count_table.Counted:
        """The counts of a small result, with its windows and labels."""
        if self.window is not None:
            counted = replace(counted, windows=self.window.ids(small[self.window.name]))
        if self.label is not None:
            counted = replace(counted, labels=self.label.read(small[self.label.name], counted.rows))
        return counted

    def field(self, counted: count_table.Counted, seen: count_table.Counted, **found: int) -> Field:
        """The counts as a field, a batch for every window."""
        given: dict[str, Any] = {"by": self.grouping.columns, "seen": seen, **found}
        make = count_table.as_field if self.window is None else in_windows
        return make(self.lab, counted, **given)


@dataclass(frozen=True)
class Plan(_Keys):
    """Counts of predictions that the engine bins."""

    scores: Scores

    def aggregate(self, *, repair: bool = False) -> count_table.Counted:
        """The GROUP BY, of all rows as if they were valid; with ``repair``, without missing ones, rounding clipped."""
        scores, backend, partition = self.scores, self.table.backend, self.lab.partition
        rows = self.table.rows.where(~scores.missing()) if repair else self.table.rows
        given = scores.expressions(repair=True) if repair else scores.unguarded()
        held = Holding(rows.select(self.keys() | given), self.table.prefix)
        columns = scores.named()
        valid = scores.valid(columns) & scores.present(columns)
        final = scores.final(columns)
        if scores.normalize and len(columns) > 1:  # columns too, as every bin asks for all of them
            final = held.hold(final)
        below = partition.below(backend, final)
        if below is None:  # a column, as every bin asks for it
            (bins,) = held.hold([partition.expression(backend, final)])
            below = [bins <= backend.integer(j) for j in range(partition.m - 1)]
        read = scores.as_read(final, held.hold)
        totals = {count_table.ROWS: backend.count(), count_table.VALID: backend.count(valid)}
        totals |= zip(count_table.below_columns(self.lab), map(backend.count, below), strict=True)
        summed = read[-1:] if len(self.lab.classes) == 2 else read
        for name, x in zip(count_table.units_columns(self.lab), summed, strict=False):
            totals[name] = backend.int64(backend.sum(row.units(backend, x, valid)))
        small = self.grouped(held.rows, totals)
        return self.with_keys(count_table.Counted.read(self.lab, small, self.groups(small)), small)


@dataclass(frozen=True)
class ValuePlan(_Keys):
    """Counts of categories, which the engine groups by as they are; Python normalises them."""

    values: ValueColumns

    def collected(self) -> dict[str, Any]:
        """The rows of every group, window, label and value."""
        rows = self.table.rows.select(self.keys() | self.values.expressions())
        keys = {name: self.table.backend.column(name) for name in [*self.keys(), *self.values.names()]}
        return self.table.collect(rows.grouped(keys, {count_table.ROWS: self.table.backend.count()}))


def _count_distributions(
    lab: Lab,
    columns: QuantileColumns,
    grouping: Grouping,
    batch: str | None,
    label: str | None,
    **labels: Any,
) -> Field:
    """Counts of distributions, in memory."""
    others = {} if label is None else {"label": columns.label(label)}
    rows = read_rows(columns, grouping, others=others)
    y = None if label is None else floats(rows.others["label"])
    field = verbs.count(lab, rows.predictions, groups=rows.groups, y=y, **labels)
    field = field.model_copy(update={"by": grouping.columns})
    return field if batch is None else field.named(batch)


def _count(plan: Plan, missing: str) -> Field:
    counted = plan.aggregate()
    quality, seen = Quality(), counted
    if int(counted.valid.sum()) < int(counted.rows.sum()):
        quality = examine(plan.table, plan.scores)
        refuse(quality, plan.scores, missing=missing)
        counted = plan.aggregate(repair=True)
    if not plan.grouping.columns and not int(counted.rows.sum()):
        raise empty_field(0)
    if plan.label is not None and plan.label.only:
        quality, counted = Quality(), counted.with_labels()
        seen = counted
    return plan.field(counted, seen, dropped=quality.missing, clipped=quality.clipped)


def _count_values(plan: ValuePlan, missing: str) -> Field:
    small, partition = plan.collected(), plan.lab.partition
    assert isinstance(partition, Values)
    columns, rows = plan.values.listed(small), np.asarray(small[count_table.ROWS], dtype=np.int64)
    found, all_rows = Unseen.of(partition, columns, rows), int(rows.sum())
    if found.missing and missing == "error":
        way_out = f"Drop those rows{MISSING_OTHERWISE}."
        plan.values.refuse_missing(columns, found.missing, what=f"{all_rows:,} rows", way_out=way_out)
    counted = count_table.Counted.of_bins(plan.lab, plan.groups(small), rows, found.placed.ids)
    counted = plan.with_keys(replace(counted, unseen=np.where(found.placed.unseen, rows, 0)), small)
    if not plan.grouping.columns and not int(counted.valid.sum()):
        raise empty_field(all_rows, found.left_out)
    only = plan.label is not None and plan.label.only
    counted = counted.with_labels() if only else counted
    warn_unseen(partition, found.values, found.left_out, n_rows=all_rows, stacklevel=4)
    return plan.field(counted, counted, dropped=0 if only else found.missing)


def pairs(
    lab: Lab,
    frame: Any,
    *,
    item: str | Sequence[str],
    by: str | Sequence[str] | None = None,
    predictions: str | Sequence[str] | None = None,
    label: str | None = None,
    missing: Literal["error", "drop"] = "error",
) -> Pairs:
    """Rows of a table on the same item, as in `fieldcal.pairs`. The columns are read into memory.

    Parameters
    ----------
    lab, frame, by, predictions, label, missing : as they were given to `count`; the lab was learnt from values
    item : column, or columns, of what a row is about, such as the id of a question

    Returns
    -------
    Pairs

    Examples
    --------
    >>> import polars as pl
    >>> import fieldcal
    >>> from fieldcal import tables
    >>> verdict = ["pass", "pass", "fail", "pass", "fail", "fail"] * 20
    >>> human = ["pass", "fail", "fail", "pass", "fail", "pass"] * 20
    >>> rows = pl.DataFrame({"verdict": verdict, "human": human, "model": ["a", "b"] * 60})
    >>> rows = rows.with_columns(question=pl.int_range(120) // 2)
    >>> lab = tables.learn(rows, predictions="verdict", label="human", by="model", design="random")
    >>> tables.pairs(lab, rows, item="question", label="human")
    Pairs: 60 items, 60 of them in two or more of 2 groups
    """
    check_call("fieldcal.tables.pairs(lab, frame, …)", (lab, Lab), (frame, "a table"))
    table = open_table(frame)
    groups, items = (
        Grouping.of(table, names) for names in (group_names(lab, by), column_names("item", item))
    )
    if not groups.columns or not items.columns:
        raise InputError(
            f"Pairs need groups to compare, {option('by')}, and what rows are about, {option('item')}."
        )
    columns = prediction_columns(table, lab, scores=None, quantiles=None, predictions=predictions)
    others = {f"item_{i}": x for i, x in enumerate(items.expressions().values())}
    others |= {} if label is None else {"label": columns.label(label)}
    rows = read_rows(columns, groups, others=others)
    return verbs.pairs(
        lab,
        rows.predictions,
        rows.groups,
        items.decode([rows.others[f"item_{i}"] for i in range(len(items.columns))]),
        y=rows.others.get("label"),
        missing=missing,
    )
