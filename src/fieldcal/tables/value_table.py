"""The table of categories per group, and the results joined to the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal import verbs
from fieldcal.core.decision import largest
from fieldcal.core.values import Values
from fieldcal.errors import InputError, UnseenGroupWarning, ValueWarning
from fieldcal.objects import Prevalence, group_keys
from fieldcal.tables.engines import Small
from fieldcal.tables.groups import Grouping, LookUp, counted_groups
from fieldcal.tables.names import new_names
from fieldcal.tables.rows import Rows
from fieldcal.tables.value_columns import Unseen, ValueColumns, has_value
from fieldcal.tables.weight_table import RecalibrateOptions
from fieldcal.types import Floats, Ints
from fieldcal.validation import MISSING_OTHERWISE
from fieldcal.verbs.categories import warn_unseen
from fieldcal.verbs.recalibrate import unseen_words


@dataclass(frozen=True)
class ValueTable:
    """Each category of each group in a table."""

    values: ValueColumns
    grouping: Grouping
    parts: list[list[Any]]  # the columns of the groups and the values
    rows: Ints  # how many rows of the table have them

    @classmethod
    def of(
        cls,
        prev: Prevalence,
        columns: ValueColumns,
        by: str | Sequence[str] | None,
        options: RecalibrateOptions,
    ) -> ValueTable:
        """One GROUP BY; refuses rows without a category unless they may be kept."""
        grouping, table = counted_groups(prev, by, columns.table), columns.table
        n, keys = table.helper("rows"), grouping.expressions() | columns.expressions()
        named = {name: table.backend.column(name) for name in keys}
        small = table.collect(table.rows.select(keys).grouped(named, {n: table.backend.count()}))
        parts = [_plain(small[name]) for name in keys]
        found = cls(columns, grouping, parts, np.asarray(small[n], dtype=np.intp))
        has = np.array(has_value(found.columns), dtype=bool)
        if options.missing == "error" and not has.all():
            rows, what = int(found.rows[~has].sum()), f"{int(found.rows.sum()):,} rows"
            way_out = f"Drop those rows{MISSING_OTHERWISE}."
            columns.refuse_missing(found.columns, rows, what=what, way_out=way_out)
        return found

    @property
    def columns(self) -> list[list[Any]]:
        """The values, one list per judge."""
        return self.parts[len(self.grouping.columns) :]

    @property
    def predictions(self) -> list[Any]:
        """The values as verbs on arrays take them."""
        return self.columns[0] if len(self.columns) == 1 else list(zip(*self.columns, strict=True))

    @property
    def groups(self) -> Any:
        """The groups, as verbs on arrays take them."""
        return self.grouping.decode(self.parts[: len(self.grouping.columns)])

    def joined(self, made: Mapping[str, Any]) -> Rows:
        """The rows of the table, with the numbers of their group and category."""
        table, keys = self.values.table, [*self.grouping.keys, *self.values.keys()]
        look_up = LookUp(keys, self.parts)
        types = {name: "BIGINT" if values.dtype.kind == "i" else "DOUBLE" for name, values in made.items()}
        small = Small({**look_up.columns(), **made}, {**look_up.types(), **types})
        rows = table.rows.add({key.name: key.expression for key in keys})
        return table.look_up(rows, small, look_up.on())


def recalibrate_values(
    prev: Prevalence, columns: ValueColumns, by: str | Sequence[str] | None, options: RecalibrateOptions
) -> Any:
    """The table with a column for each class: its probability given the group and the value of the row."""
    table = columns.table
    new = new_names([f"p_{c}" for c in prev.classes], table.names, options.name)
    found = ValueTable.of(prev, columns, by, options)
    made = class_probabilities(prev, found, options)
    held = [table.helper(f"class_{k}") for k in range(len(new))]
    rows = found.joined(dict(zip(held, map(np.ascontiguousarray, made.T), strict=True)))
    backend = table.backend
    columns_of = {name: backend.column(h) for name, h in zip(new, held, strict=True)}
    return table.finish(rows, {n: backend.when(backend.is_number(x), x) for n, x in columns_of.items()})


def class_probabilities(prev: Prevalence, found: ValueTable, options: RecalibrateOptions) -> Floats:
    """P(class | group, category) as on arrays, (n, K); NaN without a category of the lab."""
    with _told_by_rows(prev, found, options):
        made: Floats = verbs.recalibrate(
            prev,
            found.predictions,
            groups=found.groups,
            unseen=options.unseen,
            missing="keep",
            acknowledge=True,
            shape=options.shape,
        )
    return made


def decided_places(
    prev: Prevalence, found: ValueTable, goal: Any, options: RecalibrateOptions
) -> tuple[Ints, Ints]:
    """Positions of the lab's most probable class and of the decided class; −1 for none."""
    partition = prev.lab.partition
    assert isinstance(partition, Values)
    ids = partition.place(found.columns).ids
    at = np.flatnonzero(ids >= 0)
    before, after = (np.full(len(ids), -1, dtype=np.int64) for _ in range(2))
    before[at] = largest(prev.lab.bin_classes[ids[at]])
    groups = None if found.groups is None else [found.groups[i] for i in at]
    with _told_by_rows(prev, found, options):
        decided = verbs.decide(
            prev,
            [found.predictions[i] for i in at],
            groups=groups,
            goal=goal,
            unseen=options.unseen,
            acknowledge=True,
            shape=options.shape,
        )
    after[at] = prev.lab.outcome.codes(decided)
    return before, after


@contextmanager
def _told_by_rows(prev: Prevalence, found: ValueTable, options: RecalibrateOptions) -> Iterator[None]:
    """Warn of, or refuse, unknown categories and groups, counted in rows of the table."""
    partition = prev.lab.partition
    assert isinstance(partition, Values)
    tally = Unseen.of(partition, found.columns, found.rows)
    warn_unseen(partition, tally.values, tally.left_out, n_rows=int(found.rows.sum()), stacklevel=7)
    if found.groups is not None and options.unseen != "raw":
        names, codes = group_keys.factorize(found.groups, n=len(found.rows))
        lost = group_keys.positions(prev.groups, names) < 0
        if lost.any():
            one = group_keys.show(names[int(lost.argmax())])
            what = f"the groups of {int(found.rows[lost[codes]].sum()):,} rows (one is {one!r})"
            if options.unseen == "error":
                raise InputError(unseen_words(what, "error"))
            warnings.warn(UnseenGroupWarning(unseen_words(what, "global")), stacklevel=7)
    with (  # theirs would be of the rows of our own small table
        warnings.catch_warnings(action="ignore", category=ValueWarning),
        warnings.catch_warnings(action="ignore", category=UnseenGroupWarning),
    ):
        yield


def _plain(values: Any) -> list[Any]:
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [None if group_keys.is_null(value) else value for value in listed]
