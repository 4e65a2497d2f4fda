"""Field rows whose labels are known: read from a table, to be compared with what was estimated without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fieldcal.errors import InputError
from fieldcal.objects import Prevalence
from fieldcal.tables.columns import Grouping, Scores, group_columns
from fieldcal.tables.engines import open_table
from fieldcal.tables.learn import read_rows


def read_labelled(
    prev: Prevalence,
    frame: Any,
    *,
    label: str | None = None,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """Predictions, labels and groups of the labelled rows of a table, as `fieldcal.report` takes them.

    Rows without a label are left out: the table may be the field itself, of which a few rows were labelled. The columns
    are read into memory.

    Parameters
    ----------
    prev : Prevalence
    frame : as in `fieldcal.tables.learn`
    label : column of the true classes; by default the lab's
    by, scores : columns of the groups and the predictions; by default those that were counted

    Returns
    -------
    dict
        With ``proba``, ``y`` and ``groups``: ``fieldcal.report(prev, **rows)``.

    Examples
    --------
    >>> import fieldcal
    >>> import polars as pl
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1000, random_state=0)
    >>> lab = tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")
    >>> rows = pl.DataFrame({"p": data.proba_field, "y": [*data.y_field[:300], *[None] * 700]})
    >>> prev = fieldcal.estimate(lab, tables.count(lab, rows), trust=1)
    >>> len(tables.read_labelled(prev, rows)["y"])
    300
    """
    if prev.lab.support is not None:
        raise InputError("This estimate is of a regression: use fieldcal.regression.read_labelled.")
    table = open_table(frame)
    known = label if label is not None else None if prev.lab.columns is None else prev.lab.columns.label
    if known is None:
        raise InputError("The lab was learnt from arrays and knows no column of labels: pass label=….")
    table.require([known], role="label")
    grouping = Grouping.of(table, group_columns(prev, by))
    rows = read_rows(Scores.of(table, prev.lab, scores, normalize=False), grouping, known, labelled_only=True)
    return rows if grouping.columns else {**rows, "groups": None}
