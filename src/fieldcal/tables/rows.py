"""A statement about the rows of one table, put together step by step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

from sqlglot import exp

from fieldcal.tables.dialect import Expr, SqlBackend

if TYPE_CHECKING:
    from fieldcal.tables.engines.base import Small

#: Names of the user's table and of the small one in the statements that an engine runs.
TABLE, SMALL = "__fieldcal_table", "__fieldcal_small"
_LEFT, _RIGHT = "__fieldcal_left", "__fieldcal_right"


@dataclass(frozen=True)
class Rows:
    """Rows after some steps, each a SELECT from the one before; nothing runs."""

    backend: SqlBackend
    steps: tuple[Expr, ...] = ()
    small: Small | None = None  # joined in one of the steps

    def then(self, step: Callable[[Expr], Expr]) -> Rows:
        """A step, from its source."""
        source = exp.table_(self._name(len(self.steps)) if self.steps else TABLE, quoted=True)
        return replace(self, steps=(*self.steps, step(source)))

    def select(self, made: Mapping[str, Expr]) -> Rows:
        """These columns alone."""
        return self.then(lambda source: self.backend.select([], made, source))

    def add(self, made: Mapping[str, Expr]) -> Rows:
        """All columns, and new ones."""
        if not made:
            return self
        new = [self.backend.alias(e, n) for n, e in made.items()]
        return self.then(lambda source: exp.select(exp.Star(), *new, copy=False).from_(source, copy=False))

    def where(self, condition: Expr) -> Rows:
        """The rows that meet a condition."""
        return self.then(lambda source: exp.select(exp.Star()).from_(source).where(condition))

    def grouped(self, keys: Mapping[str, Expr], totals: Mapping[str, Expr], *, ordered: bool = False) -> Rows:
        """One row per key; of one population without keys."""

        def step(source: Expr) -> Expr:
            query = self.backend.select([], {**keys, **totals}, source)
            query = query.group_by(*keys.values(), copy=False) if keys else query
            order = [exp.Ordered(this=self.backend.column(n), nulls_first=False) for n in keys]
            return query.order_by(*order) if ordered and keys else query

        return self.then(step)

    def joined(self, small: Small, on: Mapping[str, str], *, how: str = "left") -> Rows:
        """With the columns of a small table where keys are equal, null being equal to null."""
        column = self.backend.column
        parts = [exp.NullSafeEQ(this=column(a, _LEFT), expression=column(b, _RIGHT)) for a, b in on.items()]
        gained = [column(name, _RIGHT) for name in small.columns if name not in on.values()]

        def step(source: Expr) -> Expr:
            left = exp.alias_(source, _LEFT, quoted=True, table=True)
            right = exp.alias_(exp.table_(SMALL, quoted=True), _RIGHT, quoted=True, table=True)
            star = exp.Column(this=exp.Star(), table=self.backend.name(_LEFT))
            return exp.select(star, *gained).from_(left).join(right, on=reduce(and_, parts), join_type=how)

        return replace(self.then(step), small=small)

    def sorted(self, names: Sequence[str]) -> Rows:
        """In the order of these columns."""
        order = [exp.Ordered(this=self.backend.column(n), nulls_first=False) for n in names]
        return self.then(lambda source: exp.select(exp.Star()).from_(source).order_by(*order))

    def distinct(self) -> Rows:
        """Every row once."""
        return self.then(lambda source: exp.select(exp.Star()).from_(source).distinct())

    def answer(self, names: Sequence[str], new: Mapping[str, Expr], order: Sequence[str] = ()) -> Rows:
        """The user's columns and new ones, sorted by columns that are left out."""

        def step(source: Expr) -> Expr:
            query = self.backend.select(names, new, source)
            return (
                query.order_by(*(exp.Ordered(this=self.backend.column(n)) for n in order)) if order else query
            )

        return self.then(step)

    def limit(self, n: int) -> Rows:
        """The first rows."""
        return self.then(lambda source: exp.select(exp.Star()).from_(source).limit(n))

    def statement(self) -> str:
        """The text, with earlier steps before the last."""
        steps = self.steps or (exp.select(exp.Star()).from_(exp.table_(TABLE, quoted=True)),)
        before = {self._name(i + 1): step for i, step in enumerate(steps[:-1])}
        return self.backend.write(self.backend.after(before, steps[-1]))

    @staticmethod
    def _name(step: int) -> str:
        return f"__fieldcal_step_{step}"


class Holding:
    """Rows whose expressions can be kept in columns, where they are used several times."""

    def __init__(self, rows: Rows, prefix: str) -> None:
        self.rows, self._prefix, self._held = rows, prefix, 0

    def hold(self, made: Sequence[Expr]) -> list[Expr]:
        """Columns that hold these expressions."""
        names = [f"{self._prefix}held_{self._held + k}" for k in range(len(made))]
        self._held += len(made)
        self.rows = self.rows.add(dict(zip(names, made, strict=True)))
        return [self.rows.backend.column(n) for n in names]
