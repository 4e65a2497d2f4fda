"""recalibrate on tables: one join with a small table of weights, and one expression."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import narwhals as nw
import numpy as np

from fieldcal import keys
from fieldcal.errors import InputError, UnseenGroupWarning
from fieldcal.objects import Prevalence
from fieldcal.tables import expressions as row
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.grouping import Grouping, LookUp
from fieldcal.tables.paths import check_target
from fieldcal.tables.quality import examine, refuse
from fieldcal.tables.scores import Scores
from fieldcal.tables.weights import Floats, ratios
from fieldcal.verbs.recalibration import Unseen, check_applicable, unseen_words

if TYPE_CHECKING:
    from fieldcal.tables.files import Session, Source


def recalibrate(
    prev: Prevalence,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    unseen: Unseen = "global",
    missing: Literal["error", "keep"] = "error",
    normalize: bool = False,
    acknowledge: bool = False,
    name: str = "{}_recalibrated",
    check: bool = True,
) -> Any:
    """The same table with recalibrated columns at its end: same kind, same rows, same order.

    Parameters
    ----------
    prev : Prevalence
    frame : pandas, polars (eager or lazy), pyarrow, DuckDB relation or PySpark frame
    by, scores : columns of the groups and of the predictions
        By default those that were counted.
    unseen : "global", "raw" or "error"
        Rows of a group that `estimate` never saw: use the estimate of the whole field (with a warning), leave
        them alone, or refuse.
    missing : "error" or "keep"
        Whether rows without a score are refused or stay without one.
    normalize : bool
        Rescale the predictions of a row to sum to one first.
    acknowledge : bool
        Apply an estimate over groups that were declared ``protected``.
    name : str
        The name of a new column, with ``{}`` for the name of the old one.
    check : bool
        Look through the scores and groups now, and raise or warn as arrays would. A lazy table is read for this once,
        those columns only. Without it nothing is read: scores that are none give null, unseen groups go as told.

    Returns
    -------
    A table of the kind that was given; lazy if that was lazy

    Examples
    --------
    >>> import polars as pl
    >>> import fieldcal
    >>> from fieldcal import tables
    >>> lab_rows = pl.DataFrame({"p": [0.1, 0.3, 0.6, 0.9] * 25, "y": [0, 1, 0, 1] * 25})
    >>> lab = tables.learn(lab_rows, scores="p", label="y")
    >>> field_rows = pl.DataFrame({"p": [0.9, 0.8, 0.3] * 20, "town": ["York", "Leeds", None] * 20})
    >>> prev = fieldcal.estimate(lab, tables.count(lab, field_rows, by="town"), trust=1)
    >>> tables.recalibrate(prev, field_rows).columns
    ['p', 'town', 'p_recalibrated']
    """
    return apply(
        prev,
        open_table(frame),
        by=by,
        scores=scores,
        options=Options(unseen, missing, normalize, acknowledge, name, check),
    )


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


def apply(
    prev: Prevalence,
    table: Table,
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    options: Options,
) -> Any:
    """Recalibrate a table that is open."""
    check_applicable(prev, acknowledge=options.acknowledge)
    columns = Scores.of(table, prev.lab, scores, normalize=options.normalize)
    if columns.n_ids is not None:
        raise InputError("Bin ids are no predictions: there is nothing to recalibrate in this table.")
    new = _new_names(table, columns, options.name)
    job = Job(prev, table, columns, options)
    if options.check:
        _check_scores(job)
    if not prev.field.grouped:
        if by:
            raise InputError(
                "This prevalence is of one population, but group columns were given. Count with by=… first, or leave "
                "by=… out here."
            )
        prepared = table.prepare(columns.expressions())
        return table.finish(*job.answers(prepared, [nw.lit(r) for r in ratios(prev.weights)[0]], new))
    groups = _Groups.of(job, by)
    prepared = table.prepare([*columns.expressions(), *groups.look_up.left()])
    small = table.align(prepared, groups.small, groups.look_up.on())
    if options.check:
        groups.check(prepared, small)
    joined = table.look_up(prepared, small.drop(_rows(table)), groups.look_up.on())
    return table.finish(*job.answers(joined, groups.weights(), new))


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
class _Groups:
    """The groups of a table and the small table of their weights."""

    job: Job
    grouping: Grouping
    look_up: LookUp
    small: Any

    @classmethod
    def of(cls, job: Job, by: str | Sequence[str] | None) -> _Groups:
        grouping, groups = Grouping.of(job.table, _group_names(job.prev, by)), job.prev.groups
        known = np.flatnonzero(grouping.matches(groups))
        if len(groups) and not len(known):
            _refuse_kinds(grouping, job.prev)
        look_up = grouping.look_up(groups if len(known) == len(groups) else [groups[i] for i in known])
        columns: dict[str, Any] = dict(look_up.right())
        dtypes = look_up.dtypes()
        table = ratios(job.prev.weights)[known]
        for k in range(table.shape[1]):
            columns[_ratio(job.table, k)] = table[:, k]
            dtypes[_ratio(job.table, k)] = nw.Float64
        columns[_rows(job.table)] = np.asarray(job.prev.n)[known].astype(np.int64)
        dtypes[_rows(job.table)] = nw.Int64
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
        counted = small.select(*(nw.col(theirs).alias(ours) for ours, theirs in on.items()), _rows(table))
        return now == table.fingerprint(counted, list(on), _rows(table))


def _rows(table: Table) -> str:
    return table.helper("rows")


def _ratio(table: Table, k: int) -> str:
    return table.helper(f"ratio_{k}")


def _check_scores(job: Job) -> None:
    t, columns = job.table, [nw.col(n) for n in job.scores.names()]
    frame = t.frame.select(*job.scores.expressions())
    valid = frame.select(t.indicator(job.scores.valid(columns)).alias("valid"))
    found = t.collect(valid.select(nw.len().alias("rows"), nw.col("valid").sum().cast(nw.Int64)))
    if int(found["valid"][0] or 0) < int(found["rows"][0]):
        refuse(examine(t, job.scores), job.scores, missing=job.options.missing)


def _new_names(table: Table, scores: Scores, name: str) -> list[str]:
    """The names of the new columns; none may be there already."""
    new = [name.replace("{}", c) for c in scores.columns]
    taken = [n for n in new if n in table.names]
    if taken or len(set(new)) < len(new):
        raise InputError(
            f"The new column would be named {(taken or new)[0]!r:.60}, which the table already has. Choose another "
            "with name='{}_new', where {} stands for the old name."
        )
    return new


def _group_names(prev: Prevalence, by: str | Sequence[str] | None) -> tuple[str, ...]:
    if by is not None:
        return (by,) if isinstance(by, str) else tuple(by)
    if not prev.field.by:
        raise InputError(
            f"This prevalence is per group ({len(prev.groups):,} of them), counted from arrays: pass by=…, the column "
            "or columns of the groups."
        )
    return prev.field.by


def _refuse_kinds(grouping: Grouping, prev: Prevalence) -> None:
    held = " and ".join(k.words for k in grouping.kinds)
    raise InputError(
        f"The group columns {list(grouping.columns)!r:.200} hold {held}, but the estimate's groups are like "
        f"{prev.groups[0]!r:.60}: none can match. Cast the columns to the type that was counted, or count this table."
    )


def recalibrate_file(
    prev: Prevalence,
    session: Session,
    source: Source,
    target: str | os.PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    **options: Any,
) -> int:
    """Recalibrate a table in files into another file; how many rows were written.

    Parameters
    ----------
    prev : Prevalence
    session, source : from `fieldcal.tables.files`
    target : where to write; its ending says what
    by, scores, **options : as in `recalibrate`
    """
    check_target(os.fspath(target), source.paths)
    relation, row_id = source.with_row_id()
    table = open_table(relation, row_id=row_id)
    answer = apply(prev, table, by=by, scores=scores, options=Options(**options))
    return session.write(answer, target, sources=[source])
