"""Field rows whose labels are known: read from a table, to be compared with what was estimated without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldcal.errors import InputError, Option
from fieldcal.objects import Prevalence
from fieldcal.objects.calls import check_call
from fieldcal.options import column_names
from fieldcal.tables.columns import prediction_columns, read_labelled_rows
from fieldcal.tables.engines import open_table
from fieldcal.tables.quantile_columns import QuantilesLike
from fieldcal.tables.weight_table import counted_groups
from fieldcal.types import Crossing


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
    table = open_table(frame)
    known = label if label is not None else None if prev.lab.columns is None else prev.lab.columns.label
    if known is None:
        raise InputError(
            "The lab was learnt from arrays and knows no column of labels: pass ", Option("label"), "."
        )
    named: dict[str, Any] = {"scores": scores, "quantiles": quantiles, "predictions": predictions}
    columns = prediction_columns(table, prev.lab, **named, crossing=crossing)
    grouping = counted_groups(prev, by, table)
    rows, y = read_labelled_rows(columns, grouping, known, labelled_only=True)
    return {"proba": rows.predictions, "y": y, "groups": rows.groups}
