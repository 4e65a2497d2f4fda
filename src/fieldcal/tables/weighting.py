"""Weights on their way to the rows: the small table of groups, the look-up, and the new columns."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import narwhals as nw
import numpy as np

from fieldcal import keys
from fieldcal.errors import InputError, UnseenGroupWarning
from fieldcal.objects import Prevalence
from fieldcal.tables import expressions as row
from fieldcal.tables.engines import Table
from fieldcal.tables.grouping import Grouping, LookUp, group_columns
from fieldcal.tables.scores import Scores
from fieldcal.tables.weights import Floats, ratios
from fieldcal.verbs.recalibration import Unseen, unseen_words


@dataclass(frozen=True)
class Options:
    """How it is applied."""

    unseen: Unseen = "global"
    missing: Literal["error", "keep"] = "error"
    normalize: bool = False
    acknowledge: bool = False
    name: str = "{}_recalibrated"
    check: bool = True

    def __post_init__(self) -> None:
        if self.unseen not in ("global", "raw", "error"):
            raise InputError(f"unseen must be 'global', 'raw' or 'error', but got {self.unseen!r}.")
        if self.missing not in ("error", "keep"):
            raise InputError(f"missing must be 'error' or 'keep', but got {self.missing!r}.")
        if self.unseen == "error" and not self.check:
            raise InputError("unseen='error' needs check=True: without it no group is looked at.")


@dataclass(frozen=True)
class Job:
    """What is recalibrated, and how."""

    prev: Prevalence
    table: Table
    scores: Scores
    options: Options

    def answers(
        self, rows: Any, weights: list[nw.Expr], new: Sequence[str]
    ) -> tuple[Any, dict[str, nw.Expr]]:
        """The rows, and the new columns made of them: null where the scores are none."""
        words = self.table.words
        raw = [nw.col(n) for n in self.scores.names()]
        usable, clean = self.scores.usable(raw), [row.clipped(words, x) for x in raw]
        if len(raw) == 1:
            made = row.recalibrated(words, clean, weights)
        else:  # step by step: one expression grows with the third power of the classes, too long for engines at ten
            rows, (usable, *clean) = self._held(rows, "clean", [usable, *clean])
            rows, final = self._held(rows, "final", self.scores.final(clean))
            rows, parts = self._held(rows, "part", row.scaled(final, weights))
            rows, (whole,) = self._held(rows, "whole", [row.total(parts)])
            made = [x / whole for x in parts]
        return rows, {n: nw.when(usable).then(e) for n, e in zip(new, made, strict=True)}

    def _held(self, rows: Any, name: str, made: Sequence[nw.Expr]) -> tuple[Any, list[nw.Expr]]:
        """The rows with columns of ours, and those columns."""
        names = [self.table.helper(f"{name}_{k}") for k in range(len(made))]
        return rows.with_columns(*(e.alias(n) for e, n in zip(made, names, strict=True))), [
            nw.col(n) for n in names
        ]

    def substitute(self) -> Floats:
        """The ratios of groups that the estimate never saw."""
        overall = self.prev.overall_weights
        asked = overall if self.options.unseen != "raw" else np.ones_like(overall)
        return np.asarray(ratios(asked[None])[0])


@dataclass(frozen=True)
class Groups:
    """The groups of a table and the small table of their weights."""

    job: Job
    grouping: Grouping
    look_up: LookUp
    small: Any

    @classmethod
    def of(cls, job: Job, by: str | Sequence[str] | None) -> Groups:
        """The group columns that are asked for, or those that were counted, with the weights of all groups."""
        grouping, groups = Grouping.of(job.table, group_columns(job.prev, by)), job.prev.groups
        known = np.flatnonzero(grouping.matches(groups))
        if len(groups) and not len(known):
            refuse_kinds(grouping, job.prev)
        look_up = grouping.look_up(groups if len(known) == len(groups) else [groups[i] for i in known])
        columns: dict[str, Any] = dict(look_up.right())
        dtypes = look_up.dtypes()
        table = ratios(job.prev.weights)[known]
        for k in range(table.shape[1]):
            columns[_ratio(job.table, k)] = table[:, k]
            dtypes[_ratio(job.table, k)] = nw.Float64
        columns[rows_column(job.table)] = np.asarray(job.prev.n)[known].astype(np.int64)
        dtypes[rows_column(job.table)] = nw.Int64
        return cls(job, grouping, look_up, job.table.small(columns, dtypes))

    def weights(self) -> list[nw.Expr]:
        """The ratios of every row, those of unseen groups filled in."""
        return [
            nw.col(_ratio(self.job.table, k)).fill_null(float(r)) for k, r in enumerate(self.job.substitute())
        ]

    def check(self, prepared: Any, small: Any) -> None:
        """Warn of, or refuse, rows of groups that the estimate never saw."""
        options, table, on = self.job.options, self.job.table, self.look_up.on()
        if options.unseen == "raw" or self._just_counted(prepared, small):
            return
        lost = prepared.join(small, left_on=list(on), right_on=list(on.values()), how="anti")
        rows = int(table.collect(lost.select(nw.len().alias("rows")))["rows"][0])
        if not rows:
            return
        first = table.collect(lost.select(*on).head(1))
        parts = [None if first.get(f"{n}_null", [False])[0] else first[n][0] for n in self.grouping.names()]
        key = keys.normalize(tuple(parts) if len(parts) > 1 else parts[0])
        what = f"{rows:,} rows are of groups that were not in the field (one is {keys.show(key)!r})"
        if options.unseen == "error":
            raise InputError(unseen_words(what, "error"))
        warnings.warn(unseen_words(what, "global"), UnseenGroupWarning, stacklevel=4)

    def _just_counted(self, prepared: Any, small: Any) -> bool:
        """Whether the table has the very groups that were counted, as often: the usual case, told at little cost."""
        table, on = self.job.table, self.look_up.on()
        now = table.fingerprint(prepared, list(on))
        if now is None:
            return False
        counted = small.select(
            *(nw.col(theirs).alias(ours) for ours, theirs in on.items()), rows_column(table)
        )
        return now == table.fingerprint(counted, list(on), rows_column(table))


def rows_column(table: Table) -> str:
    """The column of the small table that says how many rows of a group were counted."""
    return table.helper("rows")


def _ratio(table: Table, k: int) -> str:
    return table.helper(f"ratio_{k}")


def refuse_kinds(grouping: Grouping, prev: Prevalence) -> None:
    """No group of the estimate could stand in these columns."""
    held = " and ".join(k.words for k in grouping.kinds)
    raise InputError(
        f"The group columns {list(grouping.columns)!r:.200} hold {held}, but the estimate's groups are like "
        f"{prev.groups[0]!r:.60}: none can match. Cast the columns to the type that was counted, or count this table."
    )
