"""SQL for a warehouse: statements that count, recalibrate and decide. Rows never leave it.

Nothing here holds a connection. Statements are built with sqlglot, which quotes every name and every value. They keep
to what dialects share: one GROUP BY, one LEFT JOIN, CASE, and float64.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldcal.core.decision import Goal
from fieldcal.errors import InputError, InputTypeError, Option
from fieldcal.objects import Correction, Lab, Prevalence
from fieldcal.options import column_names
from fieldcal.storage import refuse_repeats, require
from fieldcal.tables import count_table
from fieldcal.tables import expressions as row
from fieldcal.tables.change_prevalence import check_width, known_columns
from fieldcal.tables.columns import group_columns, new_names, score_names, warn_if_recalibrated
from fieldcal.tables.count import group_names
from fieldcal.tables.decide import assumed_shares, plain_classes
from fieldcal.tables.expressions import Expr
from fieldcal.tables.weight_table import (
    WAREHOUSE_FLOOR,
    Course,
    WeightTable,
    ratio_column,
    refuse_numbers,
    require_groups,
    share_column,
    weight_columns,
    weights_table,
)
from fieldcal.types import Floats
from fieldcal.validation import CLIP
from fieldcal.verbs.change_prevalence import PrevalenceLike, known_correction
from fieldcal.verbs.recalibrate import check_applicable, check_decidable

if TYPE_CHECKING:
    from fieldcal.tables.sql_dialect import SqlBackend

__all__ = [
    "change_prevalence_statement",
    "count_statement",
    "decide_statement",
    "recalibrate_statement",
    "weights_table",
]

_ROW, _GIVEN, _WEIGHTS = "fieldcal_row", "fieldcal_given", "fieldcal_weights"
_RECALIBRATED = "fieldcal_recalibrated"
_STATE, _CLIPPED_CELLS, _BIN = "fieldcal_state", "fieldcal_clipped_cells", "fieldcal_bin"
_VALID, _MISSING, _OUTSIDE, _UNSUMMED = range(4)
#: Scores below count as 0 in products, which underflow otherwise: an error in some engines. With ratios no further
#: from 1 than `weight_table.WAREHOUSE_FLOOR` that changes no answer by more than its last bits.
TINY = 1e-160


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
    backend = _backend(dialect)
    if not isinstance(lab, Lab):
        raise InputTypeError(
            f"The statement needs a Lab first, but got {type(lab).__name__}. Learn one first."
        )
    refuse_numbers(lab)
    columns, predictions = _names(group_names(lab, by), "by"), _names(score_names(lab, scores), "scores")
    warn_if_recalibrated(predictions, lab)
    return backend.write(_counting(backend, lab, table, predictions, columns))


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
        A table in the warehouse that holds `weights_table` of the same estimate, with the key columns as text: trust
        and the movement of the whole field are in the statement. By default the weights of groups are, too, which some
        warehouses refuse beyond ten thousand groups or so.

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
    backend = _backend(dialect)
    check_applicable(prev, acknowledge=acknowledge)
    refuse_numbers(prev.lab)
    _check_unseen(unseen)
    columns = _prediction_names(prev.lab, scores)
    grouped = _names(group_columns(prev, by), "by")
    course = Course.of(prev.correction, unseen)
    source = _weight_source(backend, prev, grouped, weights, joins=course.joins)
    new = new_names(columns, [*columns, *grouped], name)
    query = _recalibrating(backend, table, columns, new, course, by=grouped, weights=source)
    return backend.write(query)


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
) -> str:
    """The statement that decides each row of a warehouse's table: what `recalibrate_statement` gives, and the class.

    Parameters
    ----------
    prev, table, dialect, by, scores, unseen, acknowledge : as in `recalibrate_statement`
    goal : "accuracy", "balanced" or (K, K) costs, true class by decision
        As in `fieldcal.decide`, which decides the same.
    name : str
        The name of the column with the decided class, which comes last.
    recalibrated : str
        The name of a column of recalibrated predictions, with ``{}`` for the name of the old one.
    weights : str, optional
        As in `recalibrate_statement`; not with ``goal="balanced"``, which needs the prevalences of groups too.

    Notes
    -----
    Scores that are null, NaN or outside [0, 1], or that do not sum to one, give null.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
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
    check_decidable(prev, acknowledge=acknowledge)
    _check_unseen(unseen)
    wanted, values = Goal.of(goal, len(prev.classes)), [backend.label(c) for c in plain_classes(prev.classes)]
    columns = _prediction_names(prev.lab, scores)
    grouped = _names(group_columns(prev, by), "by")
    new = new_names(columns, [*columns, *grouped], recalibrated, option="recalibrated")
    (decision,) = new_names(columns[:1], [*columns, *grouped, *new], name)
    course, (own, others) = Course.of(prev.correction, unseen), assumed_shares(prev, unseen)
    shares = own if wanted.costs is None and prev.field.grouped and len(prev.groups) else None
    if shares is not None and weights is not None:
        raise InputError(
            Option("goal", "balanced"),
            " needs the prevalences of the groups, which the table of ",
            Option("weights"),
            " does not hold. Leave it out: both are then written into the statement.",
        )
    joins = course.joins or shares is not None
    source = _weight_source(backend, prev, grouped, weights, joins=joins, shares=shares)
    steps = _recalibrating_steps(
        backend, table, columns, new, course, by=grouped, weights=source, shares=shares is not None
    )
    predictions = [backend.column(n, _ROW) for n in new]
    gains = _gains(backend, predictions, wanted, others, joined=shares is not None)
    unknown = backend.absent(predictions[0])
    made = {decision: backend.when(unknown, backend.null(), row.best(backend, gains, values))}
    query = backend.select([], made, backend.step(_RECALIBRATED, _ROW), whole=_ROW)
    if shares is not None:
        query = query.join(backend.step(_WEIGHTS), on=_same_group(backend, grouped), join_type="left")
    return backend.write(backend.after(steps, query))


def _check_unseen(unseen: object) -> None:
    if not isinstance(unseen, str) or unseen not in ("global", "raw"):
        raise InputError(
            f"unseen must be 'global' or 'raw' here, but got {unseen!r}: a statement cannot refuse rows. Look for them "
            "with `fieldcal sql count`."
        )


def _weight_source(
    backend: SqlBackend,
    prev: Prevalence,
    by: Sequence[str],
    weights: str | None,
    *,
    joins: bool,
    shares: Floats | None = None,
) -> Expr | None:
    """Where to find the weights of groups, as a table or written out; none if all rows take the same steps.

    Parameters
    ----------
    shares : (G, K) prevalences of the groups, to be written out beside the weights
    """
    if weights is not None:
        given = backend.source(weights, _GIVEN)
        require_groups(prev)
        return given if joins else None
    return _weights_inside(backend, prev.correction, len(by), shares) if joins else None


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
    scores : column of the second of two classes, or one column per class; names, as the table is not seen from here
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
    columns, known = known_columns(column_names("scores", scores), scores, classes)
    grouped = _names(column_names("by", by), "by")
    correction = known_correction(old, new, classes=known, grouped=bool(grouped))
    check_width(columns, correction)
    query = _recalibrating(
        backend,
        table,
        _names(columns, "scores"),
        new_names(columns, [*columns, *grouped], name),
        Course.of(correction, "raw"),
        by=grouped,
        weights=_weights_inside(backend, correction, len(grouped)) if grouped else None,
    )
    return backend.write(query)


def _weights_inside(
    backend: SqlBackend, correction: Correction, n_keys: int, shares: Floats | None = None
) -> Expr:
    """The weights of the groups, and their prevalences if there are any, written into the statement."""
    kinds = {"loose_text": backend.loose_text, "has_truth": backend.has_truth}
    columns = weight_columns(correction, n_keys, **kinds)
    beside = {} if shares is None else {share_column(k): each.tolist() for k, each in enumerate(shares.T)}
    return _written_out(backend, columns | beside)


def _backend(dialect: str) -> SqlBackend:
    """sqlglot is an extra: this is the only place that imports it, when a statement is asked for."""
    require("sqlglot", "sql", purpose="to write SQL statements")
    from fieldcal.tables.sql_dialect import SqlBackend

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


def _counting(backend: SqlBackend, lab: Lab, source: str, scores: Sequence[str], by: Sequence[str]) -> Expr:
    """One row per group: how many rows are valid, or why not; rows per bin; sums of predictions."""
    keys = [f(i) for i in range(len(by)) for f in (count_table.group_column, count_table.null_column)]
    raw, clean = ([f"fieldcal_{kind}_{k + 1}" for k in range(len(scores))] for kind in ("raw", "score"))
    steps = {
        "fieldcal_input": _input(backend, source, scores, raw, by),
        "fieldcal_judged": _judged(backend, lab, [*keys, *raw], raw),
        "fieldcal_cleaned": _cleaned(backend, lab, keys, raw, clean),
    }
    if lab.partition.below(backend, [backend.column(name) for name in clean]) is None:
        steps["fieldcal_binned"] = _binned(backend, lab, [*keys, *clean, _STATE, _CLIPPED_CELLS], clean)
    return backend.after(steps, _counted(backend, lab, keys, clean, list(steps)[-1]))


def _input(
    backend: SqlBackend, source: str, scores: Sequence[str], raw: Sequence[str], by: Sequence[str]
) -> Expr:
    """Keys as text with a flag for null, so that no file format loses the difference; scores as float64."""
    made: dict[str, Expr] = {}
    for i, name in enumerate(by):
        made[count_table.group_column(i)] = backend.text(backend.column(name, _ROW))
        made[count_table.null_column(i)] = backend.is_null(backend.column(name, _ROW))
    made |= {new: backend.double(backend.column(old, _ROW)) for old, new in zip(scores, raw, strict=True)}
    return backend.select([], made, backend.source(source, _ROW))


def _judged(backend: SqlBackend, lab: Lab, kept: Sequence[str], raw: Sequence[str]) -> Expr:
    """Whether the row can be used, or why not. A later question is asked only of rows that passed the earlier."""
    x = [backend.column(name) for name in raw]
    valid, outside, unsummed = (backend.integer(state) for state in (_VALID, _OUTSIDE, _UNSUMMED))
    if lab.partition.takes == "ids":
        in_range = (x[0] >= backend.integer(0)) & (x[0] <= backend.integer(lab.n_bins - 1))
        passed = backend.when(backend.floor(x[0]) >= x[0], valid, outside)
    else:
        in_range = row.inside(backend, x, slack=CLIP)
        whole = row.total([row.clipped(backend, c) for c in x])
        passed = backend.when(row.is_one(backend, whole), valid, unsummed) if len(x) > 1 else valid
    present = reduce(and_, [backend.is_number(c) for c in x])
    if not lab.partition.counts_zeros:  # what the arrays take for missing, too
        present = present & ((x[-1] > backend.number(0.0)) | (x[-1] < backend.number(-CLIP)))
    state = backend.when(present, backend.when(in_range, passed, outside), backend.integer(_MISSING))
    return backend.select(kept, {_STATE: state}, backend.step("fieldcal_input"))


def _cleaned(
    backend: SqlBackend, lab: Lab, keys: Sequence[str], raw: Sequence[str], clean: Sequence[str]
) -> Expr:
    """The scores of valid rows, rounding clipped; null elsewhere, and no condition is true for null."""
    x = [backend.column(name) for name in raw]
    one, zero = backend.integer(1), backend.integer(0)
    cells, scores = zero, x
    if lab.partition.takes != "ids":
        cells = row.total([backend.when(row.is_rounding(backend, c), one, zero) for c in x])
        scores = [row.clipped(backend, c) for c in x]
    made = {_CLIPPED_CELLS: backend.when(_is(backend, _VALID), cells, zero)}
    made |= {name: backend.when(_is(backend, _VALID), c) for name, c in zip(clean, scores, strict=True)}
    return backend.select([*keys, _STATE], made, backend.step("fieldcal_judged"))


def _binned(backend: SqlBackend, lab: Lab, kept: Sequence[str], clean: Sequence[str]) -> Expr:
    """The bin of every valid row."""
    bins = lab.partition.expression(backend, [backend.column(name) for name in clean])
    made = {_BIN: backend.when(_is(backend, _VALID), bins)}
    return backend.select(kept, made, backend.step("fieldcal_cleaned"))


def _counted(backend: SqlBackend, lab: Lab, keys: Sequence[str], clean: Sequence[str], step: str) -> Expr:
    """One row per group."""
    x = [backend.column(name) for name in clean]
    below = row.below(lab.partition, backend, x, backend.column(_BIN))
    states = {
        count_table.VALID: _VALID,
        count_table.MISSING: _MISSING,
        count_table.OUTSIDE: _OUTSIDE,
        count_table.UNSUMMED: _UNSUMMED,
    }
    made = {count_table.ROWS: backend.count()}
    made |= {name: backend.count(_is(backend, state)) for name, state in states.items()}
    made[count_table.CLIPPED] = backend.sum(backend.column(_CLIPPED_CELLS))
    made |= dict(zip(count_table.below_columns(lab), map(backend.count, below), strict=True))
    if units := count_table.units_columns(lab):
        summed = x[-len(units) :]  # of two classes, the second
        made |= {name: backend.sum(row.units(backend, c)) for name, c in zip(units, summed, strict=True)}
    return backend.select(keys, made, backend.step(step)).group_by(*(backend.column(key) for key in keys))


def _recalibrating(
    backend: SqlBackend,
    source: str,
    scores: Sequence[str],
    new: Sequence[str],
    course: Course,
    *,
    by: Sequence[str],
    weights: Expr | None,
) -> Expr:
    """Every row of the table as it is, with new columns at its end."""
    steps = _recalibrating_steps(backend, source, scores, new, course, by=by, weights=weights)
    return backend.after(steps, steps.pop(_RECALIBRATED))


def _recalibrating_steps(
    backend: SqlBackend,
    source: str,
    scores: Sequence[str],
    new: Sequence[str],
    course: Course,
    *,
    by: Sequence[str],
    weights: Expr | None,
    shares: bool = False,
) -> dict[str, Expr]:
    """The same as the last of one or two steps.

    Parameters
    ----------
    weights : see `_weight_source`
    shares : whether the prevalences of groups stand beside them
    """
    x = [backend.double(backend.column(name, _ROW)) for name in scores]
    found = [backend.column(ratio_column(k + 1), _WEIGHTS) for k in range(max(len(scores) - 1, 1))]
    clean = [_clipped_for_products(backend, c) for c in x]
    answers = course.answers(backend, clean, found, lost=backend.absent(found[0]), floor=WAREHOUSE_FLOOR)
    made = {name: backend.when(_usable(backend, x), e) for e, name in zip(answers, new, strict=True)}
    query = backend.select([], made, backend.source(source, _ROW), whole=_ROW)
    if weights is None:
        return {_RECALIBRATED: query}
    if course.joins:
        query = query.join(backend.step(_WEIGHTS), on=_same_group(backend, by), join_type="left")
    small = _weights(backend, weights, len(by), len(found), len(found) + 1 if shares else 0)
    return {_WEIGHTS: small, _RECALIBRATED: query}


def _gains(
    backend: SqlBackend, predictions: Sequence[Expr], goal: Goal, shares: Floats, *, joined: bool
) -> list[Expr]:
    """What each decision gains.

    Parameters
    ----------
    shares : (K,), of rows without a group, or without one that was seen
    joined : whether the others have theirs beside them
    """
    savings = goal.savings
    if savings is not None:  # products with smaller ones may underflow: see `TINY`
        return row.gains(backend, predictions, np.where(savings < WAREHOUSE_FLOOR, 0.0, savings))
    prevalence = [backend.number(share) for share in shares]
    if joined:
        own = [backend.column(share_column(k), _WEIGHTS) for k in range(len(shares))]
        prevalence = [
            backend.when(backend.absent(own[0]), *pair) for pair in zip(prevalence, own, strict=True)
        ]
    return row.gains(backend, predictions, None, prevalence)


def _written_out(backend: SqlBackend, columns: WeightTable) -> Expr:
    """A small table inside the statement. Floats as text, which loses no bit; the statement casts them anyway."""

    def spell(value: str | int | float) -> Expr:
        if isinstance(value, int):
            return backend.integer(value)
        return backend.string(value if isinstance(value, str) else repr(value))

    rows = [[spell(value) for value in r] for r in zip(*columns.values(), strict=True)]
    return backend.values(rows, list(columns), _GIVEN)


def _weights(backend: SqlBackend, source: Expr, n_keys: int, n_ratios: int, n_shares: int = 0) -> Expr:
    """Of one type, whatever the loader of a file has guessed."""
    made: dict[str, Expr] = {}
    for i in range(n_keys):
        key, null = count_table.group_column(i), count_table.null_column(i)
        made[key] = backend.text(backend.column(key, _GIVEN))
        made[null] = backend.int64(backend.column(null, _GIVEN))
    numbers = [*(ratio_column(k + 1) for k in range(n_ratios)), *(share_column(k) for k in range(n_shares))]
    for name in numbers:
        made[name] = backend.double(backend.column(name, _GIVEN))
    return backend.select([], made, source)


def _same_group(backend: SqlBackend, by: Sequence[str]) -> Expr:
    """Text and flag of every key column agree."""
    parts = []
    for i, name in enumerate(by):
        column = backend.column(name, _ROW)
        parts.append(backend.text(column).eq(backend.column(count_table.group_column(i), _WEIGHTS)))
        parts.append(backend.is_null(column).eq(backend.column(count_table.null_column(i), _WEIGHTS)))
    return reduce(and_, parts)


def _usable(backend: SqlBackend, x: Sequence[Expr]) -> Expr:
    """Not true for null and NaN."""
    numbers = reduce(and_, [backend.is_number(c) for c in x])
    in_range = numbers & row.inside(backend, x, slack=CLIP)
    if len(x) == 1:
        return in_range
    return in_range & row.is_one(backend, row.total([row.clipped(backend, c) for c in x]))


def _clipped_for_products(backend: SqlBackend, x: Expr) -> Expr:
    small = backend.when(x < backend.number(TINY), backend.number(0.0), x)
    return backend.when(x > backend.number(1.0), backend.number(1.0), small)


def _is(backend: SqlBackend, state: int) -> Expr:
    return backend.column(_STATE).eq(backend.integer(state))
