"""Checks of the scores in a table: one pass, only if something is invalid."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fieldcal.errors import InputError, option
from fieldcal.objects import group_keys
from fieldcal.tables import expressions as row
from fieldcal.tables.columns import Scores
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table
from fieldcal.validation import CLIP, MISSING_OTHERWISE, NO_BIN_FOR_ZERO, likely_cause


@dataclass(frozen=True)
class Quality:
    """Numbers of rows and scores that cannot be used as they are."""

    rows: int = 0
    missing: int = 0  # rows with a null or NaN
    outside: int = 0  # scores outside [0, 1] by more than rounding
    clipped: int = 0  # scores outside by rounding
    low: float = 0.0
    high: float = 1.0
    empty: int = 0  # rows whose scores are all zero
    unsummed: int = 0  # rows that do not sum to one
    sums: tuple[float, float] = (1.0, 1.0)


def examine(table: Table, scores: Scores) -> Quality:
    """Count what is wrong, in the table's engine."""
    backend, rows = table.backend, table.helper("rows")
    present = table.rows.where(~scores.missing()).select(scores.expressions())
    asked = {rows: backend.count()} | _questions(table, scores, scores.named())
    answers = table.collect(present.select(asked))
    found = {n: v[0] for n, v in answers.items() if not group_keys.is_null(v[0])}
    everything = table.collect(table.rows.select({rows: backend.count()}))
    return _read(found | {"rows": found[rows]}, int(everything[rows][0]))


def _questions(table: Table, scores: Scores, columns: list[Expr]) -> dict[str, Expr]:
    backend, asked = table.backend, {}
    slack, top = (CLIP, 1.0) if scores.n_ids is None else (0.0, scores.n_ids - 1.0)
    low, high = backend.number(-slack), backend.number(top + slack)
    for k, x in enumerate(columns):
        asked[f"outside_{k}"] = backend.count((x < low) | (x > high))
        asked[f"low_{k}"], asked[f"high_{k}"] = backend.least(x), backend.most(x)
        if scores.n_ids is None:
            asked[f"clipped_{k}"] = backend.count(row.is_rounding(backend, x))
    if len(columns) > 1:
        total = row.total([row.clipped(backend, x) for x in columns])
        asked["empty"] = backend.count(total <= backend.number(0.0))
        asked["unsummed"] = backend.count(~row.is_one(backend, total))
        asked["least"], asked["most"] = backend.least(total), backend.most(total)
    return asked


def _read(found: dict[str, Any], rows: int) -> Quality:
    def over(prefix: str) -> list[Any]:
        return [v for n, v in found.items() if n.startswith(prefix)]

    return Quality(
        rows=rows,
        missing=rows - int(found["rows"]),
        outside=int(sum(over("outside_"))),
        clipped=int(sum(over("clipped_"))),
        low=float(min(over("low_"), default=0.0)),
        high=float(max(over("high_"), default=1.0)),
        empty=int(found.get("empty", 0)),
        unsummed=int(found.get("unsummed", 0)),
        sums=(float(found.get("least", 1.0)), float(found.get("most", 1.0))),
    )


def refuse(quality: Quality, scores: Scores, *, missing: str) -> None:
    """Raise the errors of arrays; what remains can be repaired."""
    named = ", ".join(f"{c!r:.60}" for c in scores.columns[:4]) + (", …" if len(scores.columns) > 4 else "")
    if quality.missing and missing == "error" and not scores.counts_zeros:
        raise InputError(
            f"{quality.missing:,} of {quality.rows:,} rows have no score in {named}, or one of exactly 0, "
            f"{NO_BIN_FOR_ZERO}"
        )
    if quality.missing and missing == "error":
        raise InputError(
            f"{quality.missing:,} of {quality.rows:,} rows have no score (null or NaN) in {named}. Drop those rows"
            f"{MISSING_OTHERWISE}."
        )
    if quality.outside and scores.n_ids is not None:
        raise InputError(
            f"Bin ids must lie in 0 .. {scores.n_ids - 1}, but {named} spans {quality.low:.0f} .. {quality.high:.0f}."
        )
    if quality.outside:
        worst = quality.high if quality.high - 1.0 > -quality.low else quality.low
        raise InputError(
            f"Scores must be probabilities, but {named} reaches {worst:.4g} ({quality.outside:,} values are outside). "
            f"{likely_cause(quality.low, quality.high)}"
        )
    if quality.empty:
        raise InputError(
            f"In {quality.empty:,} rows the scores {named} are all zero: no class has any probability. Drop such rows."
        )
    if quality.unsummed and not scores.normalize:
        worst = max(quality.sums, key=lambda s: abs(s - 1.0))
        raise InputError(
            f"The scores {named} of a row must sum to one, but in {quality.unsummed:,} rows they do not (one sums to "
            f"{worst:.6g}). Are these one-against-rest scores? Pass {option('normalize', True)} to rescale each row."
        )
