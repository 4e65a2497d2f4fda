"""SQL for a warehouse: a statement that counts, and one that recalibrates. Rows never leave it.

Nothing here holds a connection. Statements are built with sqlglot, which quotes every name and every value. They keep
to what dialects share: one GROUP BY, one LEFT JOIN, CASE, and float64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from fieldcal.core.partition import Bins
from fieldcal.errors import InputError, InputTypeError
from fieldcal.extras import require
from fieldcal.names import refuse_repeats
from fieldcal.objects import Lab, Prevalence
from fieldcal.tables.counting import group_names
from fieldcal.tables.grouping import group_columns
from fieldcal.tables.scores import new_names, score_names
from fieldcal.tables.weights import (
    WAREHOUSE_FLOOR,
    Floats,
    as_columns,
    ratios,
    refuse_numbers,
    require_groups,
    weights_table,
)
from fieldcal.verbs.recalibration import check_applicable

if TYPE_CHECKING:
    from fieldcal.tables.sql_words import SqlWords

__all__ = ["count_statement", "recalibrate_statement", "weights_table"]


def count_statement(
    lab: Lab,
    table: str,
    *,
    dialect: str,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
) -> str:
    """The statement that counts the predictions of a warehouse's table, per group and bin.

    Its result, one row per group, saved as CSV or parquet, is what `fieldcal.tables.read_counts` makes a Field of.

    Parameters
    ----------
    lab : Lab
    table : str
        As in a FROM clause of the dialect: ``schema.table``, with quotes where names need them.
    dialect : str
        Any SQL dialect of sqlglot: "postgres", "snowflake", "bigquery", "spark", "duckdb", …
    by : column or columns of the groups
        By default those of the lab; ``[]`` counts one population. Names are taken literally, so upper and lower
        case matter: Snowflake and Oracle have columns in upper case unless they were made with quotes.
    scores : column or columns of the predictions, in the order of the classes
        By default those of the lab.

    Notes
    -----
    Group keys come out as text, with a second column that is 1 where the key is null. Text is compared as the
    warehouse compares it. Rows whose scores are missing, outside [0, 1] or do not sum to one are counted apart; what to
    do about them is decided when the counts are read.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> print(count_statement(lab, "sales.leads", dialect="postgres", by="town", scores="p"))
    WITH "fieldcal_input" AS (
      SELECT
        COALESCE(CAST("fieldcal_row"."town" AS TEXT), '') AS "fieldcal_group_1",
        CASE WHEN "fieldcal_row"."town" IS NULL THEN 1 ELSE 0 END AS "fieldcal_null_1",
        CAST("fieldcal_row"."p" AS DOUBLE PRECISION) AS "fieldcal_raw_1"
      FROM sales.leads AS "fieldcal_row"
    ), ...
    """
    words = _words(dialect)
    if not isinstance(lab, Lab):
        raise InputTypeError(
            f"The statement needs a Lab first, but got {type(lab).__name__}. Learn one first."
        )
    refuse_numbers(lab)
    columns = _names(group_names(lab, by), "by")
    from fieldcal.tables import statements

    return words.write(
        statements.counting(words, lab, table, _names(score_names(lab, scores), "scores"), columns)
    )


def recalibrate_statement(
    prev: Prevalence,
    table: str,
    *,
    dialect: str,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    unseen: Literal["global", "raw"] = "global",
    name: str = "{}_recalibrated",
    acknowledge: bool = False,
    weights: str | None = None,
) -> str:
    """The statement that recalibrates a warehouse's table: every row and column of it, and new columns at the end.

    Parameters
    ----------
    prev : Prevalence
    table, dialect : as in `count_statement`
    by, scores : columns of the groups and of the predictions
        By default those that were counted.
    unseen : "global" or "raw"
        Rows of a group that `estimate` never saw: use the estimate of the whole field, or leave them alone.
    name : str
        The name of a new column, with ``{}`` for the name of the old one. The table must not have it already, which
        cannot be seen from here.
    acknowledge : bool
        Apply an estimate over groups that were declared ``protected``.
    weights : str, optional
        A table in the warehouse that holds `weights_table`, with the key columns as text. By default the weights are
        written into the statement, which some warehouses refuse beyond ten thousand groups or so.

    Notes
    -----
    Scores that are null, NaN or outside [0, 1], or that do not sum to one, give null. Groups are matched by the text
    that they were counted with.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> print(recalibrate_statement(prev, "leads", dialect="duckdb", scores="p"))
    SELECT
      "fieldcal_row".*,
      CASE WHEN ... END AS "p_recalibrated"
    FROM leads AS "fieldcal_row"
    """
    words = _words(dialect)
    check_applicable(prev, acknowledge=acknowledge)
    refuse_numbers(prev.lab)
    if unseen not in ("global", "raw"):
        raise InputError(
            f"unseen must be 'global' or 'raw' here, but got {unseen!r}: a statement cannot refuse rows. Look for them "
            "with `fieldcal sql count`."
        )
    columns = _prediction_names(prev.lab, scores)
    grouped = _names(group_columns(prev, by), "by")
    from fieldcal.tables import statements

    source = None
    if weights is not None:
        source = statements.given(words, weights)
        require_groups(prev)
    elif len(prev.groups) and prev.field.grouped:
        source = statements.written_out(
            words, as_columns(prev, len(grouped), loose_text=words.loose_text, has_truth=words.has_truth)
        )
    query = statements.recalibrating(
        words,
        table,
        columns,
        new_names(columns, [*columns, *grouped], name),
        by=grouped,
        weights=source,
        substitute=_substitute(prev, unseen).tolist(),
    )
    return words.write(query)


def _words(dialect: str) -> SqlWords:
    """The only door to sqlglot, which is an extra."""
    require("sqlglot", "sql", purpose="to write SQL statements")
    from fieldcal.tables.sql_words import SqlWords

    return SqlWords(dialect)


def _names(names: Sequence[str], role: str) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputTypeError(f"{role} must be names of columns, but has {name!r:.60}.")
    refuse_repeats(names)
    return tuple(names)


def _prediction_names(lab: Lab, scores: str | Sequence[str] | None) -> tuple[str, ...]:
    if isinstance(lab.partition, Bins):
        raise InputError("Bin ids are no predictions: there is nothing to recalibrate in this table.")
    return _names(score_names(lab, scores), "scores")


def _substitute(prev: Prevalence, unseen: str) -> Floats:
    """The ratios of all rows of one population, or of rows whose group was never seen."""
    if not prev.field.grouped:
        return ratios(prev.weights[0], floor=WAREHOUSE_FLOOR)
    overall = prev.overall_weights
    return ratios(overall if unseen == "global" else np.ones_like(overall), floor=WAREHOUSE_FLOOR)
