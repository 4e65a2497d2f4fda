"""Operations on the scores of a row, written once in terms of `core.backend`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce

from fieldcal.core.backend import Backend as Backend
from fieldcal.core.backend import Expr as Expr
from fieldcal.core.backend import clipped as clipped
from fieldcal.core.backend import total as total
from fieldcal.core.calibration import CalibrationMap
from fieldcal.core.decision import TIE
from fieldcal.core.partition import Partition
from fieldcal.objects import SCORE_UNIT
from fieldcal.tables.dialect import SqlBackend
from fieldcal.types import Floats
from fieldcal.validation import CLIP, SUM_TOLERANCE

#: Expressions in, columns that hold them out.
Hold = Callable[[Sequence[Expr]], Sequence[Expr]]


def inside(backend: Backend, columns: Sequence[Expr], *, slack: float = 0.0) -> Expr:
    """Whether all scores of a row are numbers in [0, 1]; false for NaN in every engine."""
    parts = [(x >= backend.number(-slack)) & (x <= backend.number(1.0 + slack)) for x in columns]
    return reduce(lambda a, b: a & b, parts)


def is_one(backend: Backend, value: Expr) -> Expr:
    """Whether a row's total is one, as far as rounding goes."""
    return (value >= backend.number(1.0 - SUM_TOLERANCE)) & (value <= backend.number(1.0 + SUM_TOLERANCE))


def is_rounding(backend: Backend, x: Expr) -> Expr:
    """Whether a score lies beyond 0 or 1 by no more than rounding."""
    low = (x < backend.number(0.0)) & (x >= backend.number(-CLIP))
    return low | ((x > backend.number(1.0)) & (x <= backend.number(1.0 + CLIP)))


def is_zero(backend: Backend, x: Expr) -> Expr:
    """Whether a score is 0, as far as rounding goes."""
    return (x <= backend.number(0.0)) & (x >= backend.number(-CLIP))


def units(backend: SqlBackend, x: Expr, valid: Expr | None = None) -> Expr:
    """A score in whole units, rounded half up: sums of them are exact in any order."""
    shifted = x * backend.number(1.0 / SCORE_UNIT) + backend.number(0.5)
    return backend.floor(shifted) if valid is None else backend.whole_if(valid, shifted)


def below(partition: Partition, backend: Backend, columns: Sequence[Expr], bins: Expr) -> list[Expr]:
    """For each bin but the last, whether the row lies in it or in one before it."""
    own = partition.below(backend, columns)
    return [bins <= backend.integer(j) for j in range(partition.m - 1)] if own is None else own


def calibrated(
    backend: SqlBackend, calibration: CalibrationMap, columns: Sequence[Expr], hold: Hold
) -> Sequence[Expr]:
    """`core.calibration.CalibrationMap.read` of a row: the segment of each line is looked up once."""
    made = []
    for k, x in enumerate(columns if len(columns) > 2 else columns[-1:]):
        line = calibration.line(k)
        (piece,) = hold([line.piece(backend, x)])
        start, low, slope = (backend.pick(piece, v.tolist()) for v in (line.x, line.y, line.slope))
        made.append(low + slope * (x - start))
    made = list(hold(made))
    if len(columns) == 2:
        return [backend.number(1.0) - made[0], made[0]]
    if len(columns) == 1:
        return made
    (whole,) = hold([total(made)])
    return hold([x / whole for x in made])


@dataclass(frozen=True)
class Move:
    """`core.reweight.Step` as an engine's expressions."""

    trust: float
    ratios: Sequence[Expr]  # the weight of every class but the first, over the first's

    def then(self, other: Move) -> Move:
        """The composition of two moves."""
        return Move(1.0, [a * b for a, b in zip(self.ratios, other.ratios, strict=True)])


def recalibrated(
    backend: Backend,
    columns: Sequence[Expr],
    moves: Sequence[Move],
    hold: Hold = list,
    summed: Expr | None = None,
) -> Sequence[Expr]:
    """The known-bias lemma, mixed with the old prediction, in at most two steps, as in `core.reweight`.

    ``hold`` materialises expressions that are used repeatedly, if the engine can. With more than two classes the
    result must still be divided by ``summed``; None if that is one.
    """
    if len(columns) == 1:
        return [
            reduce(
                lambda x, move: _mixed(backend, move.trust, x, _binary(backend, x, move)), moves, columns[0]
            )
        ]
    own = columns if summed is None else [x / summed for x in columns]
    if not moves:
        return own
    first, *more = moves
    parts = scaled(columns, first.ratios)
    (whole,) = hold([total(parts)])
    once = [_mixed(backend, first.trust, x, part / whole) for x, part in zip(own, parts, strict=True)]
    if not more:
        return once
    # Of what the first step makes of a row only sums are needed, so that no expression grows with the square of the
    # classes: it is (1 − ω) · whole · columns + ω · parts, up to a factor.
    (second,) = more
    kept, moved = scaled(columns, second.ratios), scaled(parts, second.ratios)
    rest, trust = backend.number(1.0 - first.trust) * whole, backend.number(first.trust)
    trust = trust if summed is None else trust * summed
    sums = hold([total(kept), total(moved)])
    below = rest * sums[0] + trust * sums[1]
    twice = [(rest * a + trust * b) / below for a, b in zip(kept, moved, strict=True)]
    return [_mixed(backend, second.trust, old, new) for old, new in zip(once, twice, strict=True)]


def _binary(backend: Backend, x: Expr, move: Move) -> Expr:
    up = x * move.ratios[0]
    return up / (up + (backend.number(1.0) - x))


def _mixed(backend: Backend, trust: float, old: Expr, new: Expr) -> Expr:
    return new if trust == 1 else old + backend.number(trust) * (new - old)


def scaled(columns: Sequence[Expr], ratios: Sequence[Expr]) -> list[Expr]:
    """The scores of several classes times their weights, before they are made to sum to one."""
    return [columns[0], *(x * r for x, r in zip(columns[1:], ratios, strict=True))]


def gains(
    backend: Backend, columns: Sequence[Expr], savings: Floats | None, prevalence: Sequence[Expr] = ()
) -> list[Expr]:
    """`core.decision.Goal.gains` of a row; for one column, of both classes."""
    proba = [backend.number(1.0) - columns[0], columns[0]] if len(columns) == 1 else list(columns)
    if savings is None:
        return [x / p for x, p in zip(proba, prevalence, strict=True)]
    return [
        total([x if s == 1.0 else x * backend.number(s) for x, s in zip(proba, saved, strict=True) if s])
        if saved.any()
        else backend.number(0.0)
        for saved in savings.T
    ]


def best(backend: Backend, gains: Sequence[Expr], values: Sequence[Expr], hold: Hold = list) -> Expr:
    """The value with the largest gain, the first of ties: `core.decision.largest`."""
    gains = hold(gains)
    (enough,) = hold([backend.largest(gains) * backend.number(1.0 - TIE)])
    answer = values[-1]
    for gain, value in zip(reversed(gains[:-1]), reversed(values[:-1]), strict=True):
        answer = backend.when(gain >= enough, value, answer)
    return answer
