"""learn on tables: the lab's rows are read, once; they are few."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from fieldcal import verbs
from fieldcal.core.partition import PartitionLike, takes_ids
from fieldcal.errors import InputError
from fieldcal.objects import Columns, Lab, group_keys
from fieldcal.tables.columns import Grouping, Scores, match_classes
from fieldcal.tables.engines import open_table
from fieldcal.validation import check_order


def learn(
    frame: Any,
    *,
    scores: str | Sequence[str] | Mapping[Hashable, str],
    label: str,
    by: str | Sequence[str] = (),
    classes: Sequence[Hashable] | None = None,
    partition: PartitionLike = "auto",
    smoothing: float | Literal["auto"] = "auto",
    ordered: bool = False,
    normalize: bool = False,
    random_state: int = 0,
) -> Lab:
    """Learn from a table of labelled predictions; the lab remembers the names of its columns.

    The columns named here are read into memory: labelled rows are few.

    Parameters
    ----------
    frame : pandas, polars (eager or lazy), pyarrow, DuckDB relation or PySpark frame
    scores : str, sequence or mapping
        One column, the probability of the second of two classes; or one column per class, as names, as a pattern
        such as ``"p_*"`` with ``*`` for the class, or as a mapping from class to name. Names are matched to classes by
        what they contain; names that do not tell their class are taken in the order of ``classes``.
    label : column of the true classes
    by : column or columns of the groups, for the rehearsal; later steps use the same
    classes, partition, smoothing, ordered, normalize, random_state : as in `fieldcal.learn`

    Returns
    -------
    Lab

    Examples
    --------
    >>> import fieldcal
    >>> import pyarrow as pa
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> rows = pa.table({"p_0": 1 - data.proba_lab, "p_1": data.proba_lab, "y": data.y_lab})
    >>> tables.learn(rows, scores="p_*", label="y").columns.scores
    ('p_0', 'p_1')
    """
    table = open_table(frame)
    names = (by,) if isinstance(by, str) else tuple(by or ())
    grouping = Grouping.of(table, names)
    table.require([label], role="label")
    y = table.column(label).alias(table.helper("label"))
    found = _classes(table.collect(table.frame.select(y))[table.helper("label")], classes)
    if ordered and classes is None:
        check_order(found)
    columns = match_classes(scores, table.names, found, in_order=classes is not None)
    ids = partition.m if takes_ids(partition) else None
    rows = read_rows(Scores(table, columns, normalize, ids).checked(), grouping, label)
    lab = verbs.learn(
        rows["proba"],
        rows["y"],
        groups=rows["groups"],
        classes=found,
        partition=partition,
        smoothing=smoothing,
        ordered=ordered,
        normalize=normalize,
        random_state=random_state,
    )
    return lab.model_copy(update={"columns": Columns(scores=columns, label=label, by=names)})


def _classes(y: Any, classes: Sequence[Hashable] | None) -> tuple[Hashable, ...]:
    """The classes in the order of the columns; by default the sorted labels."""
    if classes is not None:
        return tuple(group_keys.normalize(c) for c in classes)
    present, codes = group_keys.factorize(y, n=len(y), name="labels")
    if None in present:
        missing = int((codes == present.index(None)).sum())
        raise InputError(f"{missing:,} labels are missing. Drop those rows from the lab data.")
    return present


def read_rows(
    scores: Scores, grouping: Grouping, label: str, *, labelled_only: bool = False
) -> dict[str, Any]:
    """Predictions, labels and groups of a table's rows, or of those with a label, as arrays and lists."""
    table, name = scores.table, scores.table.helper("label")
    # All of it in one query: a lazy table may have its rows in another order the next time.
    predictions = [x.alias(n) for x, n in zip(scores.raw(), scores.names(), strict=True)]
    frame = table.frame.filter(~table.column(label).is_null()) if labelled_only else table.frame
    read = table.collect(frame.select(table.column(label).alias(name), *predictions, *grouping.expressions()))
    groups = grouping.decode([read[n] for n in grouping.names()])
    return {"proba": _predictions(scores, read), "y": read[name], "groups": groups}


def _predictions(scores: Scores, read: Mapping[str, Any]) -> Any:
    if scores.n_ids is not None:
        return np.asarray(read[scores.names()[0]])
    values = ([np.nan if group_keys.is_null(v) else v for v in read[n]] for n in scores.names())
    columns = [np.array(column, dtype=np.float64) for column in values]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)
