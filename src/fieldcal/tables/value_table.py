"""The table of categories per group, and the results joined to the rows."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal import verbs
from fieldcal.core.decision import largest
from fieldcal.core.values import Values
from fieldcal.errors import InputError, UnseenGroupWarning, ValueWarning
from fieldcal.objects import Prevalence, group_keys
from fieldcal.tables.columns import Grouping, Kind, LookUp, new_names
from fieldcal.tables.value_columns import Unseen, ValueColumns, has_value
from fieldcal.tables.weight_table import RecalibrateOptions, counted_groups
from fieldcal.types import Floats, Ints
from fieldcal.validation import MISSING_OTHERWISE
from fieldcal.verbs.recalibrate import unseen_words
from fieldcal.verbs.values import warn_unseen

_KINDS = {nw.String: Kind(str, "", "text"), nw.Boolean: Kind(bool, False, "true or false")}
_NUMBER, _WHOLE = Kind(float, 0.0, "numbers"), Kind(int, 0, "whole numbers")


@dataclass(frozen=True)
class _Keys(Grouping):
    """The columns of groups and of categories together."""

    values: ValueColumns
    groups: Grouping

    @classmethod
    def of_both(cls, values: ValueColumns, groups: Grouping) -> _Keys:
        dtypes = values.dtypes()
        kinds = [_KINDS.get(d, _NUMBER if d == nw.Float64 else _WHOLE) for d in dtypes]
        return cls(
            values.table,
            (*groups.columns, *values.columns),
            (*groups.kinds, *kinds),
            (*groups.dtypes, *dtypes),
            values,
            groups,
        )

    def expressions(self) -> list[nw.Expr]:
        """Groups as they are compared, values null where they are NaN."""
        made = [*self.groups.expressions(), *self.values.raw()]
        return [x.alias(n) for x, n in zip(made, self.names(), strict=True)]


@dataclass(frozen=True)
class ValueTable:
    """Each category of each group in a table."""

    keys: _Keys
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
        keys, table = _Keys.of_both(columns, counted_groups(prev, by, columns.table)), columns.table
        n = table.helper("rows")
        frame = table.frame.select(*keys.expressions()).group_by(*keys.names()).agg(nw.len().alias(n))
        small = table.collect(frame.select(*keys.names(), nw.col(n).cast(nw.Int64)))
        found = cls(keys, [_plain(small[name]) for name in keys.names()], np.asarray(small[n], dtype=np.intp))
        has = np.array(has_value(found.columns), dtype=bool)
        if options.missing == "error" and not has.all():
            rows, what = int(found.rows[~has].sum()), f"{int(found.rows.sum()):,} rows"
            way_out = f"Drop those rows{MISSING_OTHERWISE}."
            columns.refuse_missing(found.columns, rows, what=what, way_out=way_out)
        return found

    @property
    def columns(self) -> list[list[Any]]:
        """The values, one list per judge."""
        return self.parts[len(self.keys.groups.columns) :]

    @property
    def predictions(self) -> list[Any]:
        """The values as verbs on arrays take them."""
        return self.columns[0] if len(self.columns) == 1 else list(zip(*self.columns, strict=True))

    @property
    def groups(self) -> Any:
        """The groups, as verbs on arrays take them."""
        return self.keys.groups.decode(self.parts[: len(self.keys.groups.columns)])

    def joined(self, made: Mapping[str, Any]) -> Any:
        """The rows of the table, with the numbers of their group and category."""
        table, look_up = self.keys.table, LookUp(self.keys, self.parts)
        numbers = {
            name: nw.Int64 if values.dtype.kind == "i" else nw.Float64 for name, values in made.items()
        }
        small = table.small({**look_up.right(), **made}, {**look_up.dtypes(), **numbers})
        prepared = table.prepare(look_up.left())
        return table.look_up(prepared, table.align(prepared, small, look_up.on()), look_up.on())


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
    return table.finish(
        rows,
        {name: nw.when(~table.is_nan(nw.col(h))).then(nw.col(h)) for name, h in zip(new, held, strict=True)},
    )


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
