"""The two statements for a warehouse, as sqlglot's expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import and_

from sqlglot import exp

from fieldcal.core.partition import Bins, Edges
from fieldcal.inputs import CLIP
from fieldcal.objects import Lab
from fieldcal.tables import counts
from fieldcal.tables import expressions as row
from fieldcal.tables.expressions import Expr
from fieldcal.tables.sql_words import SqlWords
from fieldcal.tables.weights import Columns, ratio_column

_ROW, _GIVEN, _WEIGHTS = "fieldcal_row", "fieldcal_given", "fieldcal_weights"
_STATE, _CLIPPED_CELLS, _BIN = "fieldcal_state", "fieldcal_clipped_cells", "fieldcal_bin"
_VALID, _MISSING, _OUTSIDE, _UNSUMMED = range(4)
#: Scores below count as 0 in products, which underflow otherwise: an error in some engines. With ratios no further
#: from 1 than `weights.WAREHOUSE_FLOOR` that changes no answer by more than its last bits.
TINY = 1e-160


def counting(words: SqlWords, lab: Lab, source: str, scores: Sequence[str], by: Sequence[str]) -> Expr:
    """One row per group: how many rows are valid, or why not; rows per bin; sums of predictions."""
    keys = [f(i) for i in range(len(by)) for f in (counts.group_column, counts.null_column)]
    raw, clean = ([f"fieldcal_{kind}_{k + 1}" for k in range(len(scores))] for kind in ("raw", "score"))
    steps = {
        "fieldcal_input": _input(words, source, scores, raw, by),
        "fieldcal_judged": _judged(words, lab, [*keys, *raw], raw),
        "fieldcal_cleaned": _cleaned(words, lab, keys, raw, clean),
    }
    if not isinstance(lab.partition, Edges):  # edges are compared with the score itself
        steps["fieldcal_binned"] = _binned(words, lab, [*keys, *clean, _STATE, _CLIPPED_CELLS], clean)
    query = _counted(words, lab, keys, clean).from_(_named(list(steps)[-1]))
    for name, step in steps.items():
        query = query.with_(words.name(name), as_=step)
    return query


def _input(
    words: SqlWords, source: str, scores: Sequence[str], raw: Sequence[str], by: Sequence[str]
) -> exp.Select:
    """Keys as text with a flag for null, so that no file format loses the difference; scores as float64."""
    made: dict[str, Expr] = {}
    for i, name in enumerate(by):
        made[counts.group_column(i)] = words.text(words.column(name, _ROW))
        made[counts.null_column(i)] = words.is_null(words.column(name, _ROW))
    made |= {new: words.double(words.column(old, _ROW)) for old, new in zip(scores, raw, strict=True)}
    return _select(words, [], made).from_(words.source(source, _ROW))


def _judged(words: SqlWords, lab: Lab, kept: Sequence[str], raw: Sequence[str]) -> exp.Select:
    """Whether the row can be used, or why not. A later question is asked only of rows that passed the earlier."""
    x = [words.column(name) for name in raw]
    valid, outside, unsummed = (words.integer(state) for state in (_VALID, _OUTSIDE, _UNSUMMED))
    if isinstance(lab.partition, Bins):
        in_range = (x[0] >= words.integer(0)) & (x[0] <= words.integer(lab.n_bins - 1))
        passed = words.when(words.floor(x[0]) >= x[0], valid, outside)
    else:
        in_range = row.inside(words, x, slack=CLIP)
        whole = row.total([row.clipped(words, c) for c in x])
        passed = words.when(row.is_one(words, whole), valid, unsummed) if len(x) > 1 else valid
    present = reduce(and_, [words.is_number(c) for c in x])
    state = words.when(present, words.when(in_range, passed, outside), words.integer(_MISSING))
    return _select(words, kept, {_STATE: state}).from_(_named("fieldcal_input"))


def _cleaned(
    words: SqlWords, lab: Lab, keys: Sequence[str], raw: Sequence[str], clean: Sequence[str]
) -> exp.Select:
    """The scores of valid rows, rounding clipped; null elsewhere, and no condition is true for null."""
    x = [words.column(name) for name in raw]
    one, zero = words.integer(1), words.integer(0)
    cells, scores = zero, x
    if not isinstance(lab.partition, Bins):
        cells = row.total([words.when(row.is_rounding(words, c), one, zero) for c in x])
        scores = [row.clipped(words, c) for c in x]
    made = {_CLIPPED_CELLS: words.when(_is(words, _VALID), cells, zero)}
    made |= {name: words.when(_is(words, _VALID), c) for name, c in zip(clean, scores, strict=True)}
    return _select(words, [*keys, _STATE], made).from_(_named("fieldcal_judged"))


def _binned(words: SqlWords, lab: Lab, kept: Sequence[str], clean: Sequence[str]) -> exp.Select:
    """The bin of every valid row."""
    bins = row.bin_of(words, lab.partition, [words.column(name) for name in clean])
    made = {_BIN: words.when(_is(words, _VALID), bins)}
    return _select(words, kept, made).from_(_named("fieldcal_cleaned"))


def _counted(words: SqlWords, lab: Lab, keys: Sequence[str], clean: Sequence[str]) -> exp.Select:
    x = [words.column(name) for name in clean]
    below = row.below(words, lab.partition, x, words.column(_BIN))
    states = {
        counts.VALID: _VALID,
        counts.MISSING: _MISSING,
        counts.OUTSIDE: _OUTSIDE,
        counts.UNSUMMED: _UNSUMMED,
    }
    made = {counts.ROWS: words.count()}
    made |= {name: words.count(_is(words, state)) for name, state in states.items()}
    made[counts.CLIPPED] = words.sum(words.column(_CLIPPED_CELLS))
    made |= dict(zip(counts.below_columns(lab), map(words.count, below), strict=True))
    if units := counts.units_columns(lab):
        summed = x[-len(units) :]  # of two classes, the second
        made |= {name: words.sum(row.units(words, c)) for name, c in zip(units, summed, strict=True)}
    return _select(words, keys, made).group_by(*(words.column(key) for key in keys))


def recalibrating(
    words: SqlWords,
    source: str,
    scores: Sequence[str],
    new: Sequence[str],
    *,
    by: Sequence[str],
    weights: Expr | None,
    substitute: Sequence[float],
) -> Expr:
    """Every row of the table as it is, with new columns at its end.

    Parameters
    ----------
    weights : where to find the weights of groups, from `written_out` or `words.source`; none if all rows share them
    substitute : the ratios of rows whose group is not there, or of all
    """
    x = [words.double(words.column(name, _ROW)) for name in scores]
    ratios = [words.number(r) for r in substitute]
    if weights is not None:
        found = [words.column(ratio_column(k + 1), _WEIGHTS) for k in range(len(ratios))]
        ratios = [exp.func("COALESCE", w, r) for w, r in zip(found, ratios, strict=True)]
    answers = row.recalibrated(words, [_clipped_for_products(words, c) for c in x], ratios)
    columns = [
        words.alias(words.when(_usable(words, x), e), name) for e, name in zip(answers, new, strict=True)
    ]
    everything = exp.Column(this=exp.Star(), table=words.name(_ROW))
    query = exp.select(everything, *columns).from_(words.source(source, _ROW))
    if weights is None:
        return query
    query = query.join(_named(_WEIGHTS), on=_same_group(words, by), join_type="left")
    return query.with_(words.name(_WEIGHTS), as_=_weights(words, weights, len(by), len(ratios)))


def written_out(words: SqlWords, columns: Columns) -> Expr:
    """A small table inside the statement. Floats as text, which loses no bit; the statement casts them anyway."""

    def spell(value: str | int | float) -> Expr:
        if isinstance(value, int):
            return words.integer(value)
        return words.string(value if isinstance(value, str) else repr(value))

    rows = [[spell(value) for value in r] for r in zip(*columns.values(), strict=True)]
    return words.values(rows, list(columns), _GIVEN)


def given(words: SqlWords, table: str) -> Expr:
    """A table of weights that the user has loaded."""
    return words.source(table, _GIVEN)


def _weights(words: SqlWords, source: Expr, n_keys: int, n_ratios: int) -> Expr:
    """Of one type, whatever the loader of a file has guessed."""
    made: dict[str, Expr] = {}
    for i in range(n_keys):
        key, null = counts.group_column(i), counts.null_column(i)
        made[key] = words.text(words.column(key, _GIVEN))
        made[null] = exp.cast(words.column(null, _GIVEN), "BIGINT")
    for k in range(1, n_ratios + 1):
        made[ratio_column(k)] = words.double(words.column(ratio_column(k), _GIVEN))
    return _select(words, [], made).from_(source)


def _same_group(words: SqlWords, by: Sequence[str]) -> Expr:
    parts = []
    for i, name in enumerate(by):
        column = words.column(name, _ROW)
        parts.append(words.text(column).eq(words.column(counts.group_column(i), _WEIGHTS)))
        parts.append(words.is_null(column).eq(words.column(counts.null_column(i), _WEIGHTS)))
    return exp.and_(*parts)


def _usable(words: SqlWords, x: Sequence[Expr]) -> Expr:
    """Not true for null and NaN."""
    in_range = row.inside(words, x, slack=CLIP)
    if len(x) == 1:
        return in_range
    return in_range & row.is_one(words, row.total([row.clipped(words, c) for c in x]))


def _clipped_for_products(words: SqlWords, x: Expr) -> Expr:
    small = words.when(x < words.number(TINY), words.number(0.0), x)
    return words.when(x > words.number(1.0), words.number(1.0), small)


def _is(words: SqlWords, state: int) -> Expr:
    return words.column(_STATE).eq(words.integer(state))


def _select(words: SqlWords, kept: Sequence[str], made: dict[str, Expr]) -> exp.Select:
    columns = [words.column(name) for name in kept]
    return exp.select(*columns, *(words.alias(e, name) for name, e in made.items()))


def _named(step: str) -> exp.Table:
    return exp.table_(step, quoted=True)
