"""The queries behind the statements of `sql`, step by step."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np

from fieldcal.core.calibration import CalibrationMap, Line
from fieldcal.core.decision import Goal
from fieldcal.core.reweight import BinStep
from fieldcal.objects import Lab
from fieldcal.tables import count_table
from fieldcal.tables import expressions as row
from fieldcal.tables.expressions import Expr
from fieldcal.tables.weight_table import (
    WAREHOUSE_FLOOR,
    Course,
    WeightTable,
    ratio_column,
    ratios,
    share_column,
)
from fieldcal.types import Floats
from fieldcal.validation import CLIP

if TYPE_CHECKING:
    from fieldcal.tables.dialect import SqlBackend

ROW, GIVEN, WEIGHTS, BINS = "fieldcal_row", "fieldcal_given", "fieldcal_weights", "fieldcal_bins"
RECALIBRATED = "fieldcal_recalibrated"
_STATE, _CLIPPED_CELLS, _BIN = "fieldcal_state", "fieldcal_clipped_cells", "fieldcal_bin"
_PIECE, _LINE = "fieldcal_piece", ("fieldcal_start", "fieldcal_low", "fieldcal_slope")
_VALID, _MISSING, _OUTSIDE, _UNSUMMED = range(4)
#: Scores below count as 0 in products, which underflow otherwise: an error in some engines. With ratios no further
#: from 1 than `weight_table.WAREHOUSE_FLOOR` that changes no answer by more than its last bits.
TINY = 1e-160


def counting(
    backend: SqlBackend,
    lab: Lab,
    source: str,
    scores: Sequence[str],
    by: Sequence[str],
    label: str | None = None,
) -> Expr:
    """One row per group: numbers of valid and invalid rows; rows per bin; sums of predictions.

    With ``label``, one row per group and value of this column.
    """
    texts = [(name, count_table.group_column(i), count_table.null_column(i)) for i, name in enumerate(by)]
    texts += [] if label is None else [(label, count_table.LABEL, count_table.UNLABELLED)]
    keys = [new for _, *pair in texts for new in pair]
    raw, clean = ([f"fieldcal_{kind}_{k + 1}" for k in range(len(scores))] for kind in ("raw", "score"))
    steps = {
        "fieldcal_input": _input(backend, source, scores, raw, texts),
        "fieldcal_judged": _judged(backend, lab, [*keys, *raw], raw),
        "fieldcal_cleaned": _cleaned(backend, lab, keys, raw, clean),
    }
    if lab.partition.below(backend, [backend.column(name) for name in clean]) is None:
        steps["fieldcal_binned"] = _binned(backend, lab, [*keys, *clean, _STATE, _CLIPPED_CELLS], clean)
    read = clean
    if lab.calibration_map is not None:
        read = [f"fieldcal_calibrated_{k + 1}" for k in range(1 if len(lab.classes) == 2 else len(scores))]
        kept = [*keys, *clean, _STATE, _CLIPPED_CELLS, *([_BIN] if "fieldcal_binned" in steps else [])]
        last = list(steps)[-1]
        steps |= _calibrated(backend, lab.calibration_map, kept, clean, read, last)
    return backend.after(steps, _counted(backend, lab, keys, clean, read, list(steps)[-1]))


def _input(
    backend: SqlBackend,
    source: str,
    scores: Sequence[str],
    raw: Sequence[str],
    texts: Sequence[tuple[str, str, str]],
) -> Expr:
    """Keys as text with a flag for null, so that no file format loses the difference; scores as float64."""
    made: dict[str, Expr] = {}
    for name, text, null in texts:
        made[text] = backend.text(backend.column(name, ROW))
        made[null] = backend.is_null(backend.column(name, ROW))
    made |= {new: backend.double(backend.column(old, ROW)) for old, new in zip(scores, raw, strict=True)}
    return backend.select([], made, backend.source(source, ROW))


def _judged(backend: SqlBackend, lab: Lab, kept: Sequence[str], raw: Sequence[str]) -> Expr:
    """Whether the row can be used, or the first reason why not."""
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
    bins = lab.partition.expression(backend, [backend.column(name) for name in clean])
    made = {_BIN: backend.when(_is(backend, _VALID), bins)}
    return backend.select(kept, made, backend.step("fieldcal_cleaned"))


def _calibrated(
    backend: SqlBackend,
    calibration: CalibrationMap,
    kept: Sequence[str],
    clean: Sequence[str],
    read: Sequence[str],
    step: str,
) -> dict[str, Expr]:
    """Calibrated scores of valid rows; with more than two classes, before division by their sum."""
    found = Read.of(backend, calibration, [backend.column(name) for name in clean[-len(read) :]])
    query = backend.select(kept, dict(zip(read, found.columns, strict=True)), backend.step(step))
    for name, alias, piece in found.joins:
        on = piece.eq(backend.column(_PIECE, alias))
        query = query.join(backend.step(name, alias), on=on, join_type="left")
    return {**found.steps, "fieldcal_calibrated": query}


def _counted(
    backend: SqlBackend, lab: Lab, keys: Sequence[str], clean: Sequence[str], read: Sequence[str], step: str
) -> Expr:
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
        summed = [backend.column(name) for name in read[-len(units) :]]  # of two classes, the second
        if lab.calibration_map is not None and len(summed) > 1:
            summed = [c / row.total(summed) for c in summed]
        made |= {name: backend.sum(row.units(backend, c)) for name, c in zip(units, summed, strict=True)}
    return backend.select(keys, made, backend.step(step)).group_by(*(backend.column(key) for key in keys))


def recalibrating_steps(
    backend: SqlBackend,
    source: str,
    scores: Sequence[str],
    new: Sequence[str],
    course: Course,
    *,
    by: Sequence[str],
    weights: Expr | None,
    calibration: CalibrationMap | None = None,
    shares: bool = False,
) -> dict[str, Expr]:
    """Every row of the table as it is, with new columns at its end, as the last, `RECALIBRATED`, of several steps.

    The lines of a calibration are small tables that are joined, one for each class; with ``shares``, the prevalences of
    groups stand beside their weights.
    """
    x = [backend.double(backend.column(name, ROW)) for name in scores]
    found = [backend.column(ratio_column(k + 1), WEIGHTS) for k in range(max(len(scores) - 1, 1))]
    binned = [backend.column(ratio_column(k + 1), BINS) for k in range(len(found))]
    clean = [_clipped_for_products(backend, c) for c in x]
    read = Read(clean) if calibration is None else Read.of(backend, calibration, x)
    answers = course.answers(
        *(backend, read.columns, found),
        lost=backend.absent(found[0]),
        binned=binned,
        floor=WAREHOUSE_FLOOR,
        summed=read.summed,
    )
    made = {name: backend.when(_usable(backend, x), e) for e, name in zip(answers, new, strict=True)}
    query = backend.select([], made, backend.source(source, ROW), whole=ROW)
    before: dict[str, Expr] = {}
    if weights is not None:
        before[WEIGHTS] = _weights(backend, weights, len(by), len(found), len(found) + 1 if shares else 0)
    if weights is not None and course.joins:
        query = query.join(backend.step(WEIGHTS), on=same_group(backend, by), join_type="left")
    if course.by_bin is not None:
        before[BINS] = _bin_weights(backend, course.by_bin)
        query = query.join(backend.step(BINS), on=_same_bin(backend, course.by_bin, x), join_type="left")
    for name, alias, piece in read.joins:
        on = backend.when(_usable(backend, x), piece).eq(backend.column(_PIECE, alias))
        query = query.join(backend.step(name, alias), on=on, join_type="left")
    return {**before, **read.steps, RECALIBRATED: query}


@dataclass(frozen=True)
class Read:
    """Scores of a row after calibration."""

    columns: Sequence[Expr]  # one, of the second of two classes, or one per class
    summed: Expr | None = None  # what more than two are still to be divided by; None where it is one
    steps: Mapping[str, Expr] = field(default_factory=dict)  # small tables that they need, by name
    joins: Sequence[tuple[str, str, Expr]] = ()  # such a table, its name in the join, and which row is joined

    @classmethod
    def of(cls, backend: SqlBackend, calibration: CalibrationMap, scores: Sequence[Expr]) -> Read:
        """Calibrated columns: the row's segment of the piecewise linear map is looked up once."""
        used = scores if len(scores) > 2 else scores[-1:]
        lines = [_with_ends(line) for line in calibration.lines]
        steps = {f"fieldcal_line_{k + 1}": _line(backend, each) for k, each in enumerate(lines)}
        joins, columns = [], []
        for k, x in enumerate(used):
            name = f"fieldcal_line_{min(k + 1, len(steps))}"
            alias = f"fieldcal_piece_of_{k + 1}"
            joins.append((name, alias, lines[min(k, len(lines) - 1)].piece(backend, x)))
            start, low, slope = (backend.column(n, alias) for n in _LINE)
            columns.append(low + slope * (x - start))
        if len(scores) == 2:
            columns = [backend.number(1.0) - columns[0], columns[0]]
        return cls(columns, row.total(columns) if len(scores) > 2 else None, steps, joins)


def _with_ends(line: Line) -> Line:
    """Level below 0 (see `TINY`) and above 1, so that rounding beyond them needs no further words."""
    low, high = line.at(np.array([0.0, 1.0]))
    return Line(
        np.array([TINY, *line.cuts, 1.0]),
        np.array([0.0, *line.x, 1.0]),
        np.array([low, *line.y, high]),
        np.array([0.0, *line.slope, 0.0]),
    )


def _line(backend: SqlBackend, line: Line) -> Expr:
    columns = {
        name: values.tolist() for name, values in zip(_LINE, (line.x, line.y, line.slope), strict=True)
    }
    made = {_PIECE: backend.int64(backend.column(_PIECE, GIVEN))}
    made |= {name: backend.double(backend.column(name, GIVEN)) for name in columns}
    given = written_out(backend, {_PIECE: list(range(len(line.x))), **columns})
    return backend.select([], made, given)


def gains(
    backend: SqlBackend, predictions: Sequence[Expr], goal: Goal, shares: Floats, *, joined: bool
) -> list[Expr]:
    """The gain of each decision, by shares (K,) for rows without a known group; ``joined``: others have their own."""
    savings = goal.savings
    if savings is not None:  # products with smaller ones may underflow: see `TINY`
        return row.gains(backend, predictions, np.where(savings < WAREHOUSE_FLOOR, 0.0, savings))
    prevalence = [backend.number(share) for share in shares]
    if joined:
        own = [backend.column(share_column(k), WEIGHTS) for k in range(len(shares))]
        prevalence = [
            backend.when(backend.absent(own[0]), *pair) for pair in zip(prevalence, own, strict=True)
        ]
    return row.gains(backend, predictions, None, prevalence)


def written_out(backend: SqlBackend, columns: WeightTable) -> Expr:
    """A small table inside the statement. Floats are text, which loses no bit; the statement casts them."""

    def spell(value: str | int | float) -> Expr:
        if isinstance(value, int):
            return backend.integer(value)
        return backend.string(value if isinstance(value, str) else repr(value))

    rows = [[spell(value) for value in r] for r in zip(*columns.values(), strict=True)]
    return backend.values(rows, list(columns), GIVEN)


def _weights(backend: SqlBackend, source: Expr, n_keys: int, n_ratios: int, n_shares: int = 0) -> Expr:
    made: dict[str, Expr] = {}
    for i in range(n_keys):
        key, null = count_table.group_column(i), count_table.null_column(i)
        made[key] = backend.text(backend.column(key, GIVEN))
        made[null] = backend.int64(backend.column(null, GIVEN))
    numbers = [*(ratio_column(k + 1) for k in range(n_ratios)), *(share_column(k) for k in range(n_shares))]
    for name in numbers:
        made[name] = backend.double(backend.column(name, GIVEN))
    return backend.select([], made, source)


def _bin_weights(backend: SqlBackend, step: BinStep) -> Expr:
    """The weights of the bins as a small table, joined by the row's bin."""
    columns = {
        ratio_column(k + 1): r.tolist() for k, r in enumerate(ratios(step.weights, floor=WAREHOUSE_FLOOR).T)
    }
    made = {_BIN: backend.int64(backend.column(_BIN, GIVEN))}
    made |= {name: backend.double(backend.column(name, GIVEN)) for name in columns}
    return backend.select([], made, written_out(backend, {_BIN: list(range(len(step.weights))), **columns}))


def _same_bin(backend: SqlBackend, step: BinStep, x: Sequence[Expr]) -> Expr:
    bins = step.partition.expression(backend, [row.clipped(backend, c) for c in x])
    return backend.when(_usable(backend, x), bins).eq(backend.column(_BIN, BINS))


def same_group(backend: SqlBackend, by: Sequence[str]) -> Expr:
    """Text and flag of every key column agree."""
    parts = []
    for i, name in enumerate(by):
        column = backend.column(name, ROW)
        parts.append(backend.text(column).eq(backend.column(count_table.group_column(i), WEIGHTS)))
        parts.append(backend.is_null(column).eq(backend.column(count_table.null_column(i), WEIGHTS)))
    return reduce(and_, parts)


def _usable(backend: SqlBackend, x: Sequence[Expr]) -> Expr:
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
