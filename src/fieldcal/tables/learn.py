"""`learn` on tables: reads the labelled rows into memory."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

from fieldcal import verbs
from fieldcal.core.methods import MethodName
from fieldcal.core.partition import PartitionLike, takes_ids
from fieldcal.errors import InputError, option
from fieldcal.objects import Lab, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.options import check_goes_with, check_options, column_names
from fieldcal.tables.columns import (
    PredictionColumns,
    ReadRows,
    Scores,
    read_labelled_rows,
)
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.groups import Grouping
from fieldcal.tables.names import match_classes
from fieldcal.tables.quantile_columns import QuantileColumns, QuantilesLike
from fieldcal.tables.value_columns import ValueColumns, has_value
from fieldcal.types import Crossing, Design, Kind
from fieldcal.validation import as_labels, check_order
from fieldcal.verbs.calibrate import CalibrationLike
from fieldcal.verbs.categories import refuse_alike
from fieldcal.verbs.positive import refuse_columns, refuse_name_of_other, refuse_other_class


def learn(
    frame: Any,
    *,
    label: str,
    scores: str | Sequence[str] | Mapping[Hashable, str] | None = None,
    quantiles: QuantilesLike | None = None,
    predictions: str | Sequence[str] | None = None,
    design: Design | None = None,
    by: str | Sequence[str] = (),
    classes: Sequence[Hashable] | None = None,
    positive: Hashable = None,
    method: MethodName = "default",
    partition: PartitionLike = "auto",
    smoothing: float | Literal["auto"] = "auto",
    ordered: bool = False,
    normalize: bool = False,
    calibration: CalibrationLike = None,
    intervals: int | Literal["auto"] | Sequence[float] = "auto",
    atoms: Sequence[float] | Literal["auto"] = "auto",
    crossing: Crossing = "error",
    random_state: int = 0,
) -> Lab:
    """Learn from a table of labelled predictions; the lab remembers the names of its columns.

    The named columns are read into memory.

    Parameters
    ----------
    frame : pandas, polars (eager or lazy), pyarrow, DuckDB relation or PySpark frame
    scores : str, sequence or mapping
        One column, the probability of the second of two classes, or of that named by ``positive``; or one column
        per class, as names, as a pattern such as ``"p_*"`` with ``*`` for the class, or as a mapping from class to
        name. Names are matched to the classes that they contain; other names are taken in the order of ``classes``.
    quantiles : str or mapping
        Instead of scores, for a model that predicts a number: a pattern such as ``"q_*"``, where ``*`` is the level
        (0.05) or a percentage (5, 05), which it is if any of the numbers is above 1; or a mapping from level to column,
        ``{0.05: "low", 0.5: "middle", 0.95: "high"}``.
    predictions : str or sequence
        Instead of scores, for a judge or a test: the column of its categories, or one column per judge; as with
        ``kind="values"`` of `fieldcal.learn`.
    label : column of the true classes, or numbers
        With ``predictions`` it may be null in most rows: only labelled rows are read, and the distinct categories.
    by : column or columns of the groups, for the rehearsal; later steps use the same
    crossing : as in `fieldcal.regression.from_quantiles`
    design, classes, positive, method, partition, smoothing, ordered, normalize, calibration : as in `fieldcal.learn`
    intervals, atoms, random_state : as in `fieldcal.learn`

    Examples
    --------
    >>> import fieldcal
    >>> import pyarrow as pa
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.example().data
    >>> rows = pa.table({"p_0": 1 - data.proba_lab, "p_1": data.proba_lab, "y": data.y_lab})
    >>> tables.learn(rows, scores="p_*", label="y").columns.scores
    ('p_0', 'p_1')
    """
    check_call("fieldcal.tables.learn(frame, …)", (frame, "a table"))
    _one_kind(scores=scores, quantiles=quantiles, predictions=predictions)
    table = open_table(frame)
    check_options(ordered=ordered, normalize=normalize)
    column_names("label", [label])
    names = column_names("by", by)
    grouping = Grouping.of(table, names)
    columns: PredictionColumns
    kind: Kind = "probabilities"
    if predictions is not None:
        check_goes_with("values", crossing=crossing, positive=positive)
        columns, kind = ValueColumns.find(table, predictions), "values"
    elif quantiles is not None:
        check_goes_with(
            "distributions",
            classes=classes,
            positive=positive,
            ordered=ordered,
            normalize=normalize,
            calibration=calibration,
        )
        columns = QuantileColumns.find(table, quantiles, crossing=crossing)
    else:
        check_goes_with("probabilities", intervals=intervals, atoms=atoms, crossing=crossing)
        ids = partition.m if takes_ids(partition) else None
        if isinstance(scores, str) and ("*" not in scores or scores in table.names):
            table.require([label], role="label")
            named: tuple[str, ...] = (scores,)  # no class has to be known to find it
        else:
            present, in_order = _classes(table, label, classes, ordered), classes is not None
            named = match_classes(() if scores is None else scores, table.names, present, in_order=in_order)
            refuse_columns(len(named), positive)
            if len(named) == 1 and isinstance(scores, str):  # the pattern contains its class
                refuse_other_class(named[0], present[1], positive)
            classes = present if len(named) > 1 else classes
        columns = Scores(table, named, normalize, ids).checked()
    if isinstance(columns, ValueColumns) and table.lazy:
        rows, y = _read_values(columns, grouping, label)
    else:
        rows, y = read_labelled_rows(columns, grouping, label)
    lab = verbs.learn(
        rows.predictions,
        y,
        kind=kind,
        design=design,
        groups=rows.groups,
        classes=classes,
        positive=positive,
        method=method,
        partition=partition,
        smoothing=smoothing,
        ordered=ordered,
        normalize=normalize,
        calibration=calibration,
        intervals=intervals,
        atoms=atoms,
        random_state=random_state,
    )
    lab = lab.model_copy(update={"columns": columns.remembered(label, names)})
    if lab.positive_column is not None and positive is None and classes is None:
        refuse_name_of_other(lab.positive_column, lab.classes)
    return lab


def _one_kind(**given: object) -> None:
    named = [name for name, columns in given.items() if columns is not None]
    if len(named) != 1:
        raise InputError(
            f"Of {option('scores')}, {option('quantiles')} and {option('predictions')} "
            f"{' and '.join(named) + ' are' if named else 'none is'} given, but one is needed: the first names "
            "columns with probabilities of classes, the second columns with quantiles of a number, the third columns "
            "with values, such as the verdicts of a judge."
        )


def _read_values(columns: ValueColumns, grouping: Grouping, label: str) -> tuple[ReadRows, Any]:
    """The labelled rows, and one unlabelled row of each other category."""
    table = columns.table
    rows, y = read_labelled_rows(columns, grouping, label, labelled_only=True)
    found = table.collect(table.rows.select(columns.expressions()).distinct())
    every = columns.listed(found)
    has, human = has_value(columns.split(rows.predictions)), columns.label(label)
    if not all(has):
        way_out = "Correct it, or drop those rows."
        what, among = f"{len(has):,} labelled rows", ~table.backend.absent(human)
        columns.refuse_missing(every, has.count(False), what=what, way_out=way_out, among=among)
    refuse_alike(y, lambda text: table.first(human.eq(table.backend.constant(text))))
    more = columns.predictions(found)
    nobody = [None] * len(more)
    groups = None if rows.groups is None else [*rows.groups, *nobody]
    return ReadRows([*rows.predictions, *more], groups, {}), [*y, *nobody]


def _classes(
    table: Table, label: str, classes: Sequence[Hashable] | None, ordered: bool
) -> tuple[Hashable, ...]:
    table.require([label], role="label")
    if classes is not None:
        return tuple(group_keys.normalize(c) for c in classes)
    name = table.helper("label")
    y = table.collect(table.rows.select({name: table.column(label)}))[name]
    present, _ = as_labels(y)
    if ordered:
        check_order(present)
    return present
