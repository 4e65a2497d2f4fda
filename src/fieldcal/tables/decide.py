"""`decide` on tables: recalibrated predictions, and the class with the largest gain."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldcal.core.backend import value_between
from fieldcal.core.decision import Goal, divisors
from fieldcal.errors import InputError
from fieldcal.objects import Prevalence, show
from fieldcal.objects.artefact import check_call
from fieldcal.tables import expressions as row
from fieldcal.tables.columns import Scores, prediction_columns
from fieldcal.tables.dialect import Expr, SqlBackend
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.files.paths import check_target
from fieldcal.tables.names import group_columns, new_names
from fieldcal.tables.recalibrate import weighed_rows
from fieldcal.tables.rows import Holding, Rows
from fieldcal.tables.value_columns import ValueColumns
from fieldcal.tables.value_table import ValueTable, decided_places
from fieldcal.tables.weight_table import Course, Job, RecalibrateOptions, bind
from fieldcal.types import Floats, Ints, Keys, Shape, Unseen
from fieldcal.verbs.recalibrate import check_decidable

if TYPE_CHECKING:
    from fieldcal.tables.files.session import Session, Source

_UNDECIDED = -1
_LEAST, _MOST = -(2**63), 2**63 - 1


def decide(
    prev: Prevalence,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    predictions: str | Sequence[str] | None = None,
    goal: Literal["accuracy", "balanced"] | Any = "accuracy",
    unseen: Unseen = "global",
    missing: Literal["error", "keep"] = "error",
    normalize: bool = False,
    acknowledge: bool = False,
    name: str = "decision",
    check: bool = True,
    shape: Shape = "auto",
) -> Any:
    """The table with the decided class in a new last column: same kind, same rows, same order.

    Parameters
    ----------
    prev, frame, by, scores, predictions, unseen, normalize, acknowledge, check, shape : as in `recalibrate`
    goal : "accuracy", "balanced" or (K, K) costs, true class by decision, as in `fieldcal.decide`
    missing : "error" or "keep"
        Whether rows without a score are refused or stay undecided, null.
    name : the name of the new column

    Returns
    -------
    A table of the kind that was given; lazy if that was lazy

    Examples
    --------
    >>> import polars as pl
    >>> import fieldcal
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.example().data
    >>> lab_rows = pl.DataFrame({"p": data.proba_lab, "y": data.y_lab})
    >>> lab = tables.learn(lab_rows, scores="p", label="y")
    >>> prev = fieldcal.estimate(lab, tables.count(lab, pl.DataFrame({"p": data.proba_field})), trust=1)
    >>> rows = pl.DataFrame({"p": [0.01, 0.95]})
    >>> tables.decide(prev, rows, goal=[[0, 1], [20, 0]])["decision"].to_list()
    [0, 1]
    """
    options = RecalibrateOptions(unseen, missing, normalize, acknowledge, name, check, shape=shape)
    named: dict[str, Any] = {"by": by, "scores": scores, "predictions": predictions}
    check_call("fieldcal.tables.decide(prev, frame)", (prev, Prevalence), (frame, "a table"))
    return _decisions(prev, open_table(frame), goal, **named, options=options).finished()


@dataclass(frozen=True)
class Decided:
    """Numbers of rows decided as each class, before and after."""

    rows: int
    before: dict[Hashable, int]  # by the largest of the predictions as they are
    after: dict[Hashable, int]
    changed: int
    undecided: int  # without a prediction

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        decided = [{"class": c, "before": self.before[c], "after": n} for c, n in self.after.items()]
        return {
            "classes": list(self.after),
            "decided": decided,
            "changed": self.changed,
            "undecided": self.undecided,
        }

    def lines(self, at_most: int = 12) -> list[str]:
        """In words: how many rows are which class, by the largest prediction and by the decision."""
        shown = sorted(self.after, key=lambda c: -max(self.before[c], self.after[c]))[:at_most]
        lines = [
            f"{show.name(c)}: {self.before[c]:,} rows by the largest prediction, {self.after[c]:,} by the decision"
            for c in self.after
            if c in shown
        ]
        if len(self.after) > len(shown):
            lines.append(show.more(len(self.after), len(shown)))
        if self.undecided:
            lines.append(f"{self.undecided:,} rows without a prediction stay undecided")
        return lines


def decide_file(
    prev: Prevalence,
    session: Session,
    source: Source,
    target: str | os.PathLike[str],
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | None = None,
    predictions: str | Sequence[str] | None = None,
    goal: Literal["accuracy", "balanced"] | Any = "accuracy",
    name: str = "decision",
    **options: Any,
) -> Decided:
    """Decide a table in files into ``target``, whose ending sets the format; returns the numbers of rows."""
    check_target(os.fspath(target), source.inputs)
    source = bind(prev, source, by=by, scores=scores, predictions=predictions)
    relation, row_id = source.with_row_id()
    chosen = RecalibrateOptions(name=name, **options)
    table = open_table(relation, row_id=row_id)
    named: dict[str, Any] = {"by": by, "scores": scores, "predictions": predictions}
    made = _decisions(prev, table, goal, **named, options=chosen)
    decided = made.counted()
    session.write(made.finished(), target, sources=[source])
    return decided


def _decisions(
    prev: Prevalence,
    table: Table,
    goal: Any,
    *,
    by: str | Sequence[str] | None,
    options: RecalibrateOptions,
    **named: Any,
) -> _Decisions | _OfValues:
    """The decisions for a checked table."""
    check_decidable(prev, acknowledge=options.acknowledge, shape=options.shape)
    plain_classes(prev.classes)
    wanted = Goal.of(goal, len(prev.classes))
    columns = prediction_columns(table, prev.lab, quantiles=None, **named, normalize=options.normalize)
    (name,) = new_names(columns.columns[:1], table.names, options.name)
    if isinstance(columns, ValueColumns):
        return _OfValues.of(prev, ValueTable.of(prev, columns, by, options), goal, name, options)
    assert isinstance(columns, Scores)  # numbers are refused above
    job = Job(prev.correction(options.shape), table, columns, options)
    return _Decisions.of(prev, job, wanted, name, group_columns(prev, by))


@dataclass(frozen=True)
class _Decisions:
    """The rows of a table, with the positions of the decided classes in two internal columns."""

    prev: Prevalence
    job: Job
    name: str
    rows: Rows
    usable: Expr
    before: Expr
    after: Expr

    @classmethod
    def of(cls, prev: Prevalence, job: Job, goal: Goal, name: str, by: Sequence[str]) -> _Decisions:
        """One expression in the table's engine, after one join with groups."""
        backend, course = job.table.backend, Course.of(job.correction, job.options.unseen)
        shares = _Shares.of(prev, job) if goal.costs is None else None
        joins = course.joins or (shares is not None and shares.joins)
        rows = weighed_rows(job, by, joins=joins, beside=None if shares is None else shares.columns())
        held = Holding(rows, job.table.prefix)
        made = job.predictions(held, course)
        prevalence = () if shares is None else shares.expressions()
        gains = row.gains(backend, held.hold(made.new), goal.savings, prevalence)
        old = row.gains(backend, made.old, np.eye(job.correction.n_classes))
        places = [backend.integer(k) for k in range(job.correction.n_classes)]
        before, after = held.hold([row.best(backend, each, places, held.hold) for each in (old, gains)])
        return cls(prev, job, name, held.rows, made.usable, before, after)

    def finished(self) -> Any:
        """The user's table with the decided class."""
        backend = self.job.table.backend
        chosen = backend.when(self.usable, _chosen(backend, self.prev.classes, self.after))
        return self.job.table.finish(self.rows, {self.name: chosen})

    def counted(self) -> Decided:
        """Numbers of rows by class before and after; reads the rows once."""
        table, backend = self.job.table, self.job.table.backend
        before, after, rows = (table.helper(name) for name in ("before", "after", "rows"))
        places = {before: self.before, after: self.after}
        undecided = backend.integer(_UNDECIDED)
        made = self.rows.select({n: backend.when(self.usable, e, undecided) for n, e in places.items()})
        found = table.collect(made.grouped({n: backend.column(n) for n in places}, {rows: backend.count()}))
        old, new = (np.asarray(found[name], dtype=np.intp) for name in (before, after))
        return _flows(self.prev.classes, old, new, found[rows])


@dataclass(frozen=True)
class _OfValues:
    """Decisions for categories, made once per category."""

    classes: Keys
    found: ValueTable
    name: str
    before: Ints
    after: Ints

    @classmethod
    def of(
        cls, prev: Prevalence, found: ValueTable, goal: Any, name: str, options: RecalibrateOptions
    ) -> _OfValues:
        return cls(prev.classes, found, name, *decided_places(prev, found, goal, options))

    def finished(self) -> Any:
        """The user's table with the decided class."""
        table = self.found.values.table
        place = table.helper("decided")
        rows, backend = self.found.joined({place: self.after}), table.backend
        at = backend.column(place)
        chosen = backend.when(at >= backend.integer(0), _chosen(backend, self.classes, at))
        return table.finish(rows, {self.name: chosen})

    def counted(self) -> Decided:
        """How many rows go from which class to which."""
        return _flows(self.classes, self.before, self.after, self.found.rows)


def _chosen(backend: SqlBackend, classes: Keys, place: Expr) -> Expr:
    values = [backend.constant(c) for c in plain_classes(classes)]
    if isinstance(classes[0], int) and not isinstance(classes[0], bool):
        values = [backend.int64(value) for value in values]
    return value_between(backend, place, [backend.integer(k) for k in range(len(values) - 1)], values)


def _flows(classes: Keys, before: Ints, after: Ints, rows: Any) -> Decided:
    """Numbers of rows by class before and after, from the positions of the classes."""
    flows = np.zeros((len(classes) + 1,) * 2, dtype=np.int64)  # the last place is that of the undecided
    np.add.at(flows, (before, after), rows)
    decided = flows[:-1, :-1]
    return Decided(
        rows=int(flows.sum()),
        before=dict(zip(classes, decided.sum(axis=1).tolist(), strict=True)),
        after=dict(zip(classes, decided.sum(axis=0).tolist(), strict=True)),
        changed=int(decided.sum() - np.trace(decided)),
        undecided=int(flows[-1, -1]),
    )


@dataclass(frozen=True)
class _Shares:
    """The prevalences that a row's recalibrated predictions assume: those of its group, or of its substitute."""

    job: Job
    groups: Floats  # (G, K)
    others: Floats  # (K,), of rows whose group was never seen, and of one population
    joins: bool

    @classmethod
    def of(cls, prev: Prevalence, job: Job) -> _Shares:
        shares = assumed_shares(prev, job.options.unseen)
        return cls(job, *shares, joins=prev.field.grouped and len(prev.groups) > 0)

    def columns(self) -> dict[str, Floats]:
        """Of the small table that is joined."""
        return dict(zip(self._names(), self.groups.T, strict=True)) if self.joins else {}

    def expressions(self) -> list[Expr]:
        """Of a row that has them beside it."""
        backend = self.job.table.backend
        others = [backend.number(share) for share in self.others]
        if not self.joins:
            return others
        own = [backend.column(name) for name in self._names()]
        return [backend.when(self.job.lost(), *pair) for pair in zip(others, own, strict=True)]

    def _names(self) -> list[str]:
        return [self.job.table.helper(f"share_{k}") for k in range(self.groups.shape[1])]


def assumed_shares(prev: Prevalence, unseen: Unseen) -> tuple[Floats, Floats]:
    """The prevalences assumed by recalibrated predictions: (G, K) per group, and (K,) for other rows."""
    if not prev.field.grouped:
        return divisors(prev.estimate), divisors(prev.estimate[0])
    return divisors(prev.estimate), divisors(prev.whole.estimate if unseen == "global" else prev.lab.p_lab)


def plain_classes(classes: Keys) -> list[str | int | bool]:
    """The classes as values that one column can hold."""
    plain = [c for c in classes if isinstance(c, (str, int)) and (isinstance(c, str) or _LEAST <= c <= _MOST)]
    if len(plain) < len(classes) or len({type(c) for c in plain}) > 1:
        raise InputError(
            f"The classes {classes!r:.120} cannot stand in one column: text, whole numbers of 64 bits or truth values "
            "can. Learn with such labels, or use fieldcal.decide on arrays."
        )
    return plain
