"""pairs on tables: which rows of several groups are about the same item."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from fieldcal import verbs
from fieldcal.errors import InputError, Option
from fieldcal.objects import Lab
from fieldcal.objects.calls import check_call
from fieldcal.objects.derived import Pairs
from fieldcal.options import column_names
from fieldcal.tables.columns import Grouping, prediction_columns, read_rows
from fieldcal.tables.count import group_names
from fieldcal.tables.engines import open_table


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
    """Which rows of a table are about the same item, as `fieldcal.pairs` has it. The columns are read into memory.

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
            "Pairs need groups to compare, ", Option("by"), ", and what rows are about, ", Option("item"), "."
        )
    columns = prediction_columns(table, lab, scores=None, quantiles=None, predictions=predictions)
    others = {f"item_{i}": x for i, x in enumerate(items.expressions())}
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
