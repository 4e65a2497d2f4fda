"""`rows_to_label` on tables: rows to label next, as a small table to fill in; `read_labelled`: labelled rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fieldcal import verbs
from fieldcal.errors import InputError, option
from fieldcal.objects import Lab, Prevalence, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.options import check_choice, check_goes_with, check_options, check_whole, column_names
from fieldcal.storage import DESIGN_COLUMN
from fieldcal.tables.columns import (
    PredictionColumns,
    Scores,
    prediction_columns,
    read_labelled_rows,
    read_rows,
)
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Small, Table, open_table
from fieldcal.tables.engines.frames import Frame, in_another_order, with_lists
from fieldcal.tables.groups import Grouping, LookUp, counted_groups
from fieldcal.tables.quantile_columns import QuantilesLike
from fieldcal.tables.rows import Rows
from fieldcal.tables.validity import examine, refuse
from fieldcal.types import Crossing, Ints, Keys
from fieldcal.verbs.rows_to_label import LabelAllocation, check_choosable, ordering_class

#: Columns by which rows with equal predictions are put in order.
_ORDERED = ("text", "bool", "date", "time", "integer", "float", "decimal")


def rows_to_label(
    prev: Prevalence,
    frame: Any,
    n: int,
    *,
    label: str | None = None,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    missing: Literal["error", "drop"] = "error",
    normalize: bool = False,
    crossing: Crossing = "error",
    random_state: int = 0,
) -> Any:
    """The rows of a table to label next, as a table to fill in: their own columns, an empty label, and the design.

    Chosen as in `fieldcal.rows_to_label`, where the table is: of a lazy table, only these rows are read. Filled in,
    they are counted by ``count(…, label=…, design="by_score", only_labels=True)``, or `fieldcal estimate --labelled`.

    Parameters
    ----------
    prev, n, missing, random_state : as in `fieldcal.rows_to_label`
    frame : pandas, polars (eager or lazy), pyarrow, DuckDB relation or PySpark frame
        With quantiles of a number, a table in memory.
    label : column of the true classes, or numbers
        Rows in which it is known are not chosen again; it need not be there. By default the lab's.
    by, scores, quantiles, normalize, crossing : as in `count`; by default the columns that were counted

    Returns
    -------
    A table in memory of n rows: of the library of the one that was given, pyarrow's for DuckDB and Spark

    Examples
    --------
    >>> import polars as pl
    >>> import fieldcal
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.example().data
    >>> lab = tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")
    >>> field_rows = pl.LazyFrame({"id": range(4000), "p": data.proba_field})
    >>> prev = fieldcal.estimate(lab, tables.count(lab, field_rows))
    >>> to_label = tables.rows_to_label(prev, field_rows, 50)
    >>> to_label.columns, to_label.shape, to_label["y"].null_count()
    (['id', 'p', 'y', 'fieldcal_design'], (50, 4), 50)
    """
    check_call("fieldcal.tables.rows_to_label(prev, frame, n)", (prev, Prevalence), (frame, "a table"))
    check_choosable(prev)
    check_whole("n", n, least=1)
    check_choice("missing", missing, ("error", "drop"))
    check_options(normalize=normalize, random_state=random_state)
    check_goes_with(prev.lab.predicted, missing=missing)
    table = open_table(frame)
    name = _label_name(prev.lab, label)
    if DESIGN_COLUMN in table.names:
        raise InputError(
            f"The table already has a column {DESIGN_COLUMN!r}, which says how rows were chosen. Give the table of the "
            "whole field, or rename it."
        )
    columns = prediction_columns(
        table, prev.lab, scores=scores, quantiles=quantiles, normalize=normalize, crossing=crossing
    )
    grouping = counted_groups(prev, by, table)
    if table.lazy:
        found = _Lazy.of(prev, columns, grouping, name, missing).chosen(n, random_state)
        rows = in_another_order(table.taken(found), np.random.default_rng(random_state).permutation(n))
    else:
        options: dict[str, Any] = {"normalize": normalize} if isinstance(columns, Scores) else {}
        options |= {"missing": missing, "random_state": random_state}
        rows = _in_memory(prev, columns, grouping, name, n, **options)
    empty = {} if name in table.names else {name: [None] * n}
    return with_lists(rows, {**empty, DESIGN_COLUMN: ["by_score"] * n}, {name: _label_type(prev.lab)})


def _label_name(lab: Lab, label: str | None) -> str:
    """The column of labels: the one that is named, or the lab's."""
    if label is None and lab.columns is None:
        raise InputError(
            f"This lab was learnt from arrays and knows no column of labels. Pass {option('label')}, its name."
        )
    name = label if label is not None else lab.columns.label  # type: ignore[union-attr]
    if not isinstance(name, str) or not name:
        raise InputError(f"label must be the name of a column, but got {name!r:.60}.")
    return name


def _in_memory(
    prev: Prevalence, columns: PredictionColumns, grouping: Grouping, label: str, n: int, **options: Any
) -> Any:
    """Chosen in memory, as on arrays."""
    table = columns.table
    others = {"label": columns.label(label)} if label in table.names else {}
    rows = read_rows(columns, grouping, others=others)
    y = columns.labels(rows.others["label"], label) if others else None
    places = verbs.rows_to_label(prev, rows.predictions, n, groups=rows.groups, y=y, **options)
    assert isinstance(table, Frame)  # the others are lazy
    return table.at(places.tolist())


@dataclass(frozen=True)
class _Lazy:
    """Unlabelled rows of a table that is not in memory."""

    prev: Prevalence
    scores: Scores
    grouping: Grouping
    missing: str
    rows: Rows

    @classmethod
    def of(
        cls, prev: Prevalence, columns: PredictionColumns, grouping: Grouping, label: str, missing: str
    ) -> _Lazy:
        """Of these columns."""
        if not isinstance(columns, Scores):
            raise InputError("Rows with predicted quantiles are chosen in memory: collect the table first.")
        table = columns.table
        for name in table.names:
            table.column(name)
        rows = table.rows
        if label in table.names:
            rows = rows.where(_is_empty(table, label))
        if missing == "drop":
            rows = rows.where(~columns.missing())
        return cls(prev, columns, grouping, missing, rows)

    @property
    def _bin(self) -> str:
        return self.scores.table.helper("bin")

    def _prepared(self, keys: dict[str, Expr], *, repair: bool = True) -> Rows:
        backend = self.scores.table.backend
        rows = self.rows.add(self.scores.expressions(repair=repair) | keys)
        bins = self.prev.lab.partition.expression(backend, self.scores.final(self.scores.named()))
        return rows.add({self._bin: backend.int64(bins)})

    def chosen(self, n: int, seed: int) -> Rows:
        """The rows, from two passes: one counts them per group and bin, the other selects them."""
        names, room = self._counted()
        allocation = LabelAllocation.of(self.prev, names, room, n, seed)
        cells = np.flatnonzero(allocation.take)
        groups, bins = np.divmod(cells, room.shape[1])
        parts = self.grouping.parts([names[g] for g in groups]) if self.grouping.columns else []
        return self._found(LookUp(self.grouping.keys, parts), allocation, cells, bins)

    def _counted(self, *, repair: bool = False) -> tuple[Keys, Ints]:
        """Groups, and numbers of rows per group and bin; refuses invalid scores."""
        table, keys = self.scores.table, self.grouping.names()
        columns = {name: table.helper(name) for name in ("rows", "valid")}
        rows = self._prepared(self.grouping.expressions(), repair=repair)
        totals = {columns["rows"]: table.backend.count()}
        totals[columns["valid"]] = table.backend.count(self.scores.valid(self.scores.named()))
        found = table.collect(
            rows.grouped({name: table.backend.column(name) for name in [*keys, self._bin]}, totals)
        )
        n, usable = (np.asarray(found[columns[name]], dtype=np.int64) for name in ("rows", "valid"))
        if usable.sum() < n.sum() and not repair:
            refuse(examine(table, self.scores), self.scores, missing=self.missing)
            return self._counted(repair=True)
        groups = self.grouping.decode([found[k] for k in keys])
        names, codes = (
            ((None,), np.zeros(len(n), np.intp)) if groups is None else group_keys.factorize(groups, n=len(n))
        )
        room = np.zeros((len(names), self.prev.lab.n_bins), dtype=np.int64)
        np.add.at(room, (codes, np.asarray(found[self._bin], dtype=np.intp)), n)
        return names, room

    def _found(self, look_up: LookUp, allocation: LabelAllocation, cells: Ints, bins: Ints) -> Rows:
        table = self.scores.table
        backend, column = table.backend, table.backend.column
        numbers = {"bin_of": bins, "cell": cells, "size": allocation.size[cells]}
        numbers |= {"take": allocation.take[cells], "start": allocation.start[cells]}
        held = {table.helper(name): values.astype(np.int64) for name, values in numbers.items()}
        small = Small({**look_up.columns(), **held}, {**look_up.types(), **dict.fromkeys(held, "BIGINT")})
        rows = self._prepared(self.grouping.expressions())
        rows = rows.joined(small, {**look_up.on(), self._bin: table.helper("bin_of")}, how="inner")
        size, take, start, cell = (column(table.helper(n)) for n in ("size", "take", "start", "cell"))
        place = table.helper("rank")
        ranked = rows.add({place: backend.row_number(self._order(), within=[cell])})
        here, before = (take * (column(place) + backend.integer(k)) + start for k in (1, 0))
        chosen = ranked.where(backend.quotient(here, size) > backend.quotient(before, size))
        return chosen.sorted([table.helper("cell"), place])

    def _order(self) -> list[Expr]:
        """Order of the rows in a cell: by the prediction, then by the other columns."""
        table, scores = self.scores.table, self.scores.named()
        first = scores[-1] if len(scores) == 1 else scores[ordering_class(self.prev)]
        return [first, *(table.column(n) for n in table.names if table.dtype(n).family in _ORDERED)]


def _is_empty(table: Table, label: str) -> Expr:
    backend, held = table.backend, table.column(label)
    if table.dtype(label).family != "float":
        return backend.absent(held)
    return ~backend.is_number(held) | backend.absent(held)


def _label_type(lab: Lab) -> str:
    if lab.outcome.kind == "intervals":
        return "DOUBLE"
    kinds = frozenset(type(c) for c in lab.classes)
    return {frozenset({int}): "BIGINT", frozenset({bool}): "BOOLEAN"}.get(kinds, "VARCHAR")


def read_labelled(
    prev: Prevalence,
    frame: Any,
    *,
    label: str | None = None,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    quantiles: QuantilesLike | None = None,
    predictions: str | Sequence[str] | None = None,
    crossing: Crossing = "error",
) -> dict[str, Any]:
    """Predictions, labels and groups of the labelled rows of a table, as `fieldcal.report` takes them.

    Rows without a label are left out: the table may be the field itself, of which a few rows were labelled. The columns
    are read into memory.

    Parameters
    ----------
    prev, frame, by, scores, quantiles, predictions, crossing : as in `recalibrate`
    label : column of the true classes, or numbers; by default the lab's

    Returns
    -------
    dict
        With ``proba``, ``y`` and ``groups``: ``fieldcal.report(prev, **rows)``.

    Examples
    --------
    >>> import fieldcal
    >>> import polars as pl
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.example().data
    >>> lab = tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")
    >>> rows = pl.DataFrame({"p": data.proba_field, "y": [*data.y_field[:300], *[None] * 3700]})
    >>> prev = fieldcal.estimate(lab, tables.count(lab, rows), trust=1)
    >>> len(tables.read_labelled(prev, rows)["y"])
    300
    """
    check_call("fieldcal.tables.read_labelled(prev, frame)", (prev, Prevalence), (frame, "a table"))
    if label is not None:
        column_names("label", [label])
    table, known = open_table(frame), _label_name(prev.lab, label)
    named: dict[str, Any] = {"scores": scores, "quantiles": quantiles, "predictions": predictions}
    columns = prediction_columns(table, prev.lab, **named, crossing=crossing)
    grouping = counted_groups(prev, by, table)
    rows, y = read_labelled_rows(columns, grouping, known, labelled_only=True)
    return {"proba": rows.predictions, "y": y, "groups": rows.groups}
