"""SQL for a warehouse: statements that count, recalibrate and decide. Rows never leave it.

Nothing here holds a connection. Statements are built with sqlglot, which quotes every name and every value. They keep
to what dialects share: one GROUP BY, one LEFT JOIN, CASE, and float64.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fieldcal.core.decision import Goal
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import Correction, Lab, Prevalence
from fieldcal.options import column_names
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables import expressions as row
from fieldcal.tables.change_prevalence import check_width, correction_of, known_columns
from fieldcal.tables.count import group_names
from fieldcal.tables.decide import assumed_shares, plain_classes
from fieldcal.tables.expressions import Expr
from fieldcal.tables.label_column import spelled_classes
from fieldcal.tables.names import group_columns, new_names, score_names, warn_if_recalibrated
from fieldcal.tables.sql_queries import (
    GIVEN,
    RECALIBRATED,
    ROW,
    WEIGHTS,
    counting,
    gains,
    recalibrating_steps,
    same_group,
    written_out,
)
from fieldcal.tables.weight_table import (
    Course,
    refuse_without_sql,
    require_groups,
    share_column,
    weight_columns,
)
from fieldcal.tables.weight_table import weights_table as weights_table
from fieldcal.types import Floats, Shape
from fieldcal.verbs.change_prevalence import PrevalenceLike, as_classes
from fieldcal.verbs.recalibrate import check_applicable, check_decidable

if TYPE_CHECKING:
    from fieldcal.tables.dialect import SqlBackend


def count_statement(
    lab: Lab,
    table: str,
    *,
    dialect: str,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    label: str | None = None,
) -> str:
    """The statement that counts the predictions of a warehouse's table, per group and bin.

    Its result, one row per group, or per group and label, saved as CSV or parquet, is what
    `fieldcal.tables.read_counts` makes a Field of.

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
    label : column of the true classes, null where they are not known, optional
        How these rows were chosen, ``design``, is said when the counts are read.

    Notes
    -----
    Group keys and labels come out as text, with a second column that is 1 where they are null. Text is compared as the
    warehouse compares it. Rows whose scores are missing, outside [0, 1] or do not sum to one are counted apart; what to
    do about them is decided when the counts are read.

    Examples
    --------
    >>> import fieldcal
    >>> lab = fieldcal.datasets.example().lab
    >>> print(count_statement(lab, "sales.leads", dialect="postgres", by="town", scores="p"))
    WITH "fieldcal_input" AS (
      SELECT
        COALESCE(CAST("fieldcal_row"."town" AS TEXT), '') AS "fieldcal_group_1",
        CASE WHEN "fieldcal_row"."town" IS NULL THEN 1 ELSE 0 END AS "fieldcal_null_1",
        CAST("fieldcal_row"."p" AS DOUBLE PRECISION) AS "fieldcal_raw_1"
      FROM sales.leads AS "fieldcal_row"
    ), ...
    """
    backend = _backend(dialect)
    if not isinstance(lab, Lab):
        raise InputTypeError(
            f"The statement needs a Lab first, but got {type(lab).__name__}. Learn one first."
        )
    refuse_without_sql(lab)
    columns, predictions = _names(group_names(lab, by), "by"), _names(score_names(lab, scores), "scores")
    warn_if_recalibrated(predictions, lab)
    if label is not None:
        (label,) = _names(column_names("label", [label]), "label")
        spelled_classes(lab.classes, loose_text=backend.loose_text)
    return backend.write(counting(backend, lab, table, predictions, columns, label))


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
    shape: Shape = "auto",
) -> str:
    """The statement that recalibrates a warehouse's table: every row and column of it, and new columns at the end.

    Parameters
    ----------
    prev, table, dialect, by, scores : as in `count_statement`; by default the columns that were counted
    unseen, acknowledge, shape : as in `fieldcal.recalibrate`, but a statement cannot refuse rows of unseen groups
    name : str
        The name of a new column, with ``{}`` for the name of the old one. The table must not have it already, which
        cannot be seen from here.
    weights : str, optional
        A table in the warehouse that holds `weights_table` of the same estimate, with the key columns as text: trust
        and the movement of the whole field are in the statement. By default the weights of groups are, too, which some
        warehouses refuse beyond ten thousand groups or so.
        Those of bins (``shape="bins"``) always are; the table must have been made with the same shape.

    Notes
    -----
    Scores that are null, NaN or outside [0, 1], or that do not sum to one, give null. Groups are matched by the text
    that they were counted with.

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, *_ = fieldcal.datasets.example()
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> print(recalibrate_statement(prev, "leads", dialect="duckdb", scores="p"))
    SELECT
      "fieldcal_row".*,
      CASE WHEN ... END AS "p_recalibrated"
    FROM leads AS "fieldcal_row"
    """
    backend = _backend(dialect)
    check_applicable(prev, acknowledge=acknowledge, shape=shape)
    refuse_without_sql(prev.lab)
    _check_unseen(unseen)
    columns = _prediction_names(prev.lab, scores)
    grouped = _names(group_columns(prev, by), "by")
    correction = prev.correction(shape)
    course = Course.of(correction, unseen)
    source = _weight_source(backend, correction, grouped, weights, joins=course.joins)
    new = new_names(columns, [*columns, *grouped], name)
    calibration = prev.lab.calibration_map
    given: dict[str, Any] = {"by": grouped, "weights": source, "calibration": calibration}
    steps = recalibrating_steps(backend, table, columns, new, course, **given)
    return backend.write(backend.after(steps, steps.pop(RECALIBRATED)))


def decide_statement(
    prev: Prevalence,
    table: str,
    *,
    dialect: str,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    goal: Literal["accuracy", "balanced"] | Any = "accuracy",
    unseen: Literal["global", "raw"] = "global",
    name: str = "decision",
    recalibrated: str = "{}_recalibrated",
    acknowledge: bool = False,
    weights: str | None = None,
    shape: Shape = "auto",
) -> str:
    """The statement that decides each row of a warehouse's table: what `recalibrate_statement` gives, and the class.

    Parameters
    ----------
    prev, table, dialect, by, scores, unseen, acknowledge, shape : as in `recalibrate_statement`
    goal : "accuracy", "balanced" or (K, K) costs, true class by decision, as in `fieldcal.decide`
    name : the name of the column with the decided class, which comes last
    recalibrated : ``name`` of `recalibrate_statement`
    weights : str, optional
        As in `recalibrate_statement`; not with ``goal="balanced"``, which needs the prevalences of groups too.

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, *_ = fieldcal.datasets.example()
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> print(decide_statement(prev, "leads", dialect="duckdb", scores="p", goal=[[0, 1], [20, 0]]))
    WITH "fieldcal_recalibrated" AS (
    ...
    )
    SELECT
      "fieldcal_row".*,
      CASE
    ...
      END AS "decision"
    FROM "fieldcal_recalibrated" AS "fieldcal_row"
    """
    backend = _backend(dialect)
    check_decidable(prev, acknowledge=acknowledge, shape=shape)
    _check_unseen(unseen)
    wanted, values = Goal.of(goal, len(prev.classes)), [backend.label(c) for c in plain_classes(prev.classes)]
    columns = _prediction_names(prev.lab, scores)
    grouped = _names(group_columns(prev, by), "by")
    new = new_names(columns, [*columns, *grouped], recalibrated, named_by="recalibrated")
    (decision,) = new_names(columns[:1], [*columns, *grouped, *new], name)
    correction = prev.correction(shape)
    course, (own, others) = Course.of(correction, unseen), assumed_shares(prev, unseen)
    shares = own if wanted.costs is None and prev.field.grouped and len(prev.groups) else None
    if shares is not None and weights is not None:
        raise InputError(
            f"{option('goal', 'balanced')} needs the prevalences of the groups, which the table of "
            f"{option('weights')} does not hold. Leave it out: both are then written into the statement."
        )
    joins = course.joins or shares is not None
    source = _weight_source(backend, correction, grouped, weights, joins=joins, shares=shares)
    given: dict[str, Any] = {"by": grouped, "weights": source, "shares": shares is not None}
    given["calibration"] = prev.lab.calibration_map
    steps = recalibrating_steps(backend, table, columns, new, course, **given)
    predictions = [backend.column(n, ROW) for n in new]
    each = gains(backend, predictions, wanted, others, joined=shares is not None)
    unknown = backend.absent(predictions[0])
    made = {decision: backend.when(unknown, backend.null(), row.best(backend, each, values))}
    query = backend.select([], made, backend.step(RECALIBRATED, ROW), whole=ROW)
    if shares is not None:
        query = query.join(backend.step(WEIGHTS), on=same_group(backend, grouped), join_type="left")
    return backend.write(backend.after(steps, query))


def _check_unseen(unseen: object) -> None:
    if not isinstance(unseen, str) or unseen not in ("global", "raw"):
        raise InputError(
            f"unseen must be 'global' or 'raw' here, but got {unseen!r}: a statement cannot refuse rows. Look for them "
            "with `fieldcal sql count`."
        )


def _weight_source(
    backend: SqlBackend,
    correction: Correction,
    by: Sequence[str],
    weights: str | None,
    *,
    joins: bool,
    shares: Floats | None = None,
) -> Expr | None:
    """Where to find the weights of groups, as a table or written out; none if all rows take the same steps.

    ``shares``, (G, K) prevalences of the groups, are written out beside the weights.
    """
    if weights is not None:
        given = backend.source(weights, GIVEN)
        require_groups(correction)
        return given if joins else None
    return _weights_inside(backend, correction, len(by), shares) if joins else None


def change_prevalence_statement(
    table: str,
    *,
    dialect: str,
    scores: str | Sequence[str],
    old: PrevalenceLike,
    new: PrevalenceLike,
    by: str | Sequence[str] = (),
    classes: Sequence[Hashable] | None = None,
    name: str = "{}_recalibrated",
) -> str:
    """The statement that changes a warehouse's predictions to another mix of classes, which the caller knows.

    Parameters
    ----------
    table, dialect : as in `count_statement`
    scores : column of the second of two classes, or one column per class; a pattern with ``*`` needs ``classes``
    old, new, by, classes : as in `fieldcal.tables.change_prevalence`; rows of a group that is not in ``new`` stay
    name : the name of a new column, with ``{}`` for the name of the old one

    Examples
    --------
    >>> print(change_prevalence_statement("leads", dialect="duckdb", scores="p", old=0.5, new=0.1))
    SELECT
      "fieldcal_row".*,
      CASE WHEN ... END AS "p_recalibrated"
    FROM leads AS "fieldcal_row"
    """
    backend = _backend(dialect)
    columns, known = known_columns(_in_statement(scores, classes), scores, classes)
    grouped = _names(column_names("by", by), "by")
    correction = correction_of(columns, known, old=old, new=new, grouped=bool(grouped))
    check_width(columns, correction)
    steps = recalibrating_steps(
        backend,
        table,
        _names(columns, "scores"),
        new_names(columns, [*columns, *grouped], name),
        Course.of(correction, "raw"),
        by=grouped,
        weights=_weights_inside(backend, correction, len(grouped)) if grouped else None,
    )
    return backend.write(backend.after(steps, steps.pop(RECALIBRATED)))


def _in_statement(scores: str | Sequence[str], classes: Sequence[Hashable] | None) -> tuple[str, ...]:
    """The columns that there must be: the table is not seen from here."""
    if not isinstance(scores, str) or "*" not in scores:
        return column_names("scores", scores)
    if classes is None:
        raise InputError(
            f"A statement cannot look up the columns that match the pattern {scores!r:.60}. Pass "
            f"{option('classes')}, or name the columns."
        )
    return tuple(scores.replace("*", str(c), 1) for c in as_classes(classes))


def _weights_inside(
    backend: SqlBackend, correction: Correction, n_keys: int, shares: Floats | None = None
) -> Expr:
    """The weights of the groups, and their prevalences if there are any, written into the statement."""
    kinds = {"loose_text": backend.loose_text, "has_truth": backend.has_truth}
    columns = weight_columns(correction, n_keys, **kinds)
    beside = {} if shares is None else {share_column(k): each.tolist() for k, each in enumerate(shares.T)}
    return written_out(backend, columns | beside)


def _backend(dialect: str) -> SqlBackend:
    """sqlglot is an extra: this is the only place that imports it, when a statement is asked for."""
    require("sqlglot", "sql", purpose="to write SQL statements")
    from fieldcal.tables.dialect import SqlBackend

    return SqlBackend(dialect)


def _names(names: Sequence[str], role: str) -> tuple[str, ...]:
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputTypeError(f"{role} must be names of columns, but has {name!r:.60}.")
    refuse_repeats(names)
    return tuple(names)


def _prediction_names(lab: Lab, scores: str | Sequence[str] | None) -> tuple[str, ...]:
    if lab.partition.takes == "ids":
        raise InputError(
            "Bin ids in a table are not recalibrated: read them, and use fieldcal.recalibrate on arrays."
        )
    names = _names(score_names(lab, scores), "scores")
    warn_if_recalibrated(names, lab)
    return names
