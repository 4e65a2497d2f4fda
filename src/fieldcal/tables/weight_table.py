"""The table of weights by which predictions of each group are multiplied, as ratios to the first class.

Engines join it to the rows; warehouses get it as text, in a statement or a file.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from fieldcal.core.reweight import BinStep, Step
from fieldcal.errors import InputError, UnseenGroupWarning, option
from fieldcal.objects import Correction, Lab, Prevalence, group_keys
from fieldcal.options import check_choice, check_options
from fieldcal.tables import count_table
from fieldcal.tables import expressions as row
from fieldcal.tables.columns import Scores
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Small, Table
from fieldcal.tables.groups import Grouping, LookUp, refuse_kinds
from fieldcal.tables.names import group_columns
from fieldcal.tables.rows import Holding, Rows
from fieldcal.types import Crossing, Floats, Keys, Shape, Unseen
from fieldcal.verbs.recalibrate import unseen_words

if TYPE_CHECKING:
    from fieldcal.tables.files.session import Source

#: Key columns, null flags and ratios of a warehouse's table of weights, by name.
WeightTable = dict[str, list[Any]]
KeyTexts = tuple[str | None, ...]

#: A class that the estimate rules out keeps this share of the largest weight, so that a row which is certain of it
#: stays as it is (as in `core.reweight`), and no ratio is 0/0 or infinite.
FLOOR = 1e-300
#: The same for a warehouse: in PostgreSQL a product that underflows is an error (see `sql_queries.TINY`).
WAREHOUSE_FLOOR = 1e-70


def ratios(weights: Floats, *, floor: float = FLOOR) -> Floats:
    """The weight of every class but the first, over the first's: (…, K) to (…, K − 1).

    None is below ``floor``, as a share of the group's largest, so that ratios lie between ``floor`` and ``1 / floor``.
    """
    largest = weights.max(axis=-1, keepdims=True, initial=0.0)
    scaled = np.divide(weights, largest, out=np.zeros_like(weights, dtype=np.float64), where=largest > 0)
    scaled = np.maximum(scaled, floor)
    return np.asarray(scaled[..., 1:] / scaled[..., :1])


@dataclass(frozen=True)
class RecalibrateOptions:
    """Options of applying weights to rows."""

    unseen: Unseen = "global"
    missing: Literal["error", "keep"] = "error"
    normalize: bool = False
    acknowledge: bool = False
    name: str = "{}_recalibrated"
    check: bool = True
    crossing: Crossing = "error"
    shape: Shape = "auto"

    def __post_init__(self) -> None:
        check_choice("missing", self.missing, ("error", "keep"))
        check_options(
            unseen=self.unseen,
            crossing=self.crossing,
            normalize=self.normalize,
            acknowledge=self.acknowledge,
            check=self.check,
        )
        if self.unseen == "error" and not self.check:
            raise InputError(
                f"{option('unseen', 'error')} needs {option('check', True)}: without it no group is looked at."
            )


@dataclass(frozen=True)
class Job:
    """One recalibration: the table, its predictions and the options."""

    correction: Correction
    table: Table
    scores: Scores
    options: RecalibrateOptions

    def answers(self, rows: Rows, course: Course, new: Sequence[str]) -> tuple[Rows, dict[str, Expr]]:
        """The rows and their new columns; null where scores are invalid."""
        held = Holding(rows, self.table.prefix)
        made = self.predictions(held, course)
        when = self.table.backend.when
        return held.rows, {n: when(made.usable, e) for n, e in zip(new, made.new, strict=True)}

    def predictions(self, held: Holding, course: Course) -> Predictions:
        """Expressions of the rows' predictions before and after."""
        backend, raw = self.table.backend, self.scores.named()
        usable, clean = self.scores.usable(raw), [row.clipped(backend, x) for x in raw]
        if len(raw) > 1:  # step by step: one expression would be too long for engines at ten classes
            usable, *clean = held.hold([usable, *clean])
            clean = held.hold(self.scores.final(clean)) if self.scores.normalize else clean
        found = [backend.column(_ratio(self.table, k)) for k in range(self.correction.n_classes - 1)]
        binned: list[Expr] = []
        if course.by_bin is not None:
            (bins,) = held.hold([course.by_bin.partition.expression(backend, clean)])
            binned = [backend.pick(bins, v.tolist()) for v in ratios(course.by_bin.weights).T]
            binned = held.hold(binned)
        read = self.scores.as_read(clean, held.hold)
        made = course.answers(backend, read, found, lost=self.lost(), binned=binned, hold=held.hold)
        return Predictions(usable, clean, made)

    def lost(self) -> Expr:
        """Whether a row has no weights because its group is unknown."""
        return self.table.backend.absent(self.table.backend.column(_ratio(self.table, 0)))


@dataclass(frozen=True)
class Predictions:
    """Expressions of the predictions of rows."""

    usable: Expr  # whether the row has predictions
    old: Sequence[Expr]  # as the model said
    new: Sequence[Expr]


@dataclass(frozen=True)
class Course:
    """The steps of rows, and those of rows with an unknown group."""

    steps: tuple[Step | BinStep, ...]
    unseen: tuple[Step | BinStep, ...]  # their weights are the same for all, but for those of bins
    joins: bool  # whether anything depends on the group of a row

    @classmethod
    def of(cls, correction: Correction, unseen: Unseen) -> Course:
        """Of a correction."""
        steps, grouped = correction.steps, correction.grouped
        lost = () if unseen == "raw" and grouped else correction.steps_unseen
        apart = len(lost) < len(steps) or any(map(_per_group, steps))
        joins = grouped and len(correction.groups) > 0 and apart
        return cls(steps if joins else lost, lost, joins)

    @property
    def by_bin(self) -> BinStep | None:
        """The step with weights by bin, if there is one."""
        return next((step for step in self.steps if isinstance(step, BinStep)), None)

    def answers(
        self,
        backend: row.Backend,
        columns: Sequence[Expr],
        found: Sequence[Expr],
        *,
        lost: Expr,
        binned: Sequence[Expr] = (),
        hold: row.Hold = list,
        floor: float = FLOOR,
        summed: Expr | None = None,
    ) -> Sequence[Expr]:
        """New predictions of a row by the ratios of its group (``found`` unless ``lost``) and of its bin (``binned``).

        ``hold`` and ``summed``: see `expressions.recalibrated`; ``floor``: see `ratios`.
        """

        def move(step: Step) -> row.Move:
            return row.Move(step.trust, found if _per_group(step) else _literals(backend, step, floor))

        def moved(steps: Sequence[Step | BinStep]) -> Sequence[Expr]:
            moves = [move(step) for step in steps if isinstance(step, Step)]
            if len(moves) < len(steps):
                moves = [row.Move(1.0, binned).then(*moves)]
            return row.recalibrated(backend, columns, moves, hold, summed)

        if not self.joins:
            return moved(self.unseen)
        return [backend.when(lost, *x) for x in zip(moved(self.unseen), moved(self.steps), strict=True)]


def _literals(backend: row.Backend, step: Step, floor: float) -> list[Expr]:
    return [backend.number(r) for r in ratios(step.weights, floor=floor)]


def _per_group(step: Step | BinStep) -> bool:
    return isinstance(step, Step) and step.weights.ndim == 2


def group_weights(correction: Correction) -> Floats:
    """The weights (G, K) of the step that differs between groups; ones without such a step."""
    found = [step.weights for step in correction.steps if _per_group(step)]
    return found[0] if found else np.ones((len(correction.groups), correction.n_classes))


@dataclass(frozen=True)
class Groups:
    """The groups of a table and the small table of their weights."""

    job: Job
    grouping: Grouping
    look_up: LookUp
    small: Small

    @classmethod
    def of(cls, job: Job, by: Sequence[str], beside: Mapping[str, Floats] | None = None) -> Groups:
        """The group columns, with the weights of all groups and other numbers (``beside``), one per group."""
        grouping, groups = Grouping.of(job.table, by), job.correction.groups
        known = np.flatnonzero(grouping.matches(groups))
        if len(groups) and not len(known):
            refuse_kinds(grouping, groups)
        look_up = LookUp(
            grouping.keys,
            grouping.parts(groups if len(known) == len(groups) else [groups[i] for i in known]),
        )
        columns, types = look_up.columns(), look_up.types()
        found = ratios(group_weights(job.correction))
        weights = {_ratio(job.table, k): column for k, column in enumerate(found.T)}
        for name, values in (weights | dict(beside or {})).items():
            columns[name], types[name] = values[known], "DOUBLE"
        return cls(job, grouping, look_up, Small(columns, types))

    def unmatched(self) -> dict[str, Expr]:
        """The number of rows of unknown groups, and the key of one of them, of joined rows."""
        backend, lost = self.job.table.backend, self.job.lost()
        keys = {n: backend.first(backend.column(n), lost) for n in self.grouping.names()}
        return {self.job.table.helper("lost"): backend.count(lost)} | keys

    def check(self, found: Mapping[str, Any]) -> None:
        """Warn of, or refuse, rows of unknown groups."""
        rows = int(found[self.job.table.helper("lost")][0])
        if not rows:
            return
        parts = [found[n][0] for n in self.grouping.names()]
        key = group_keys.normalize(tuple(parts) if len(parts) > 1 else parts[0])
        what = f"the groups of {rows:,} rows (one is {group_keys.show(key)!r})"
        if self.job.options.unseen == "error":
            raise InputError(unseen_words(what, "error", known=self.job.correction.known))
        warnings.warn(UnseenGroupWarning(unseen_words(what, "global")), stacklevel=7)


def bind(
    prev: Prevalence,
    source: Source,
    *,
    by: str | Sequence[str] | None = None,
    scores: str | Sequence[str] | Mapping[Any, str] | None = None,
    predictions: str | Sequence[str] | None = None,
    label: str | None = None,
) -> Source:
    """A table in files with columns bound as they were counted: text groups are text here too."""
    columns = group_columns(prev, by)
    text = text_columns(columns, prev.groups)
    return source.bound(prev.lab, scores=scores, predictions=predictions, label=label, by=columns, text=text)


def text_columns(columns: Sequence[str], groups: Keys) -> list[str]:
    """The group columns that have text among the keys of these groups."""
    keys = [key if isinstance(key, tuple) and len(columns) > 1 else (key,) for key in groups]
    held = zip(columns, zip(*keys, strict=True), strict=False) if keys else ()
    return [name for name, parts in held if any(type(part) is str for part in parts)]


def _ratio(table: Table, k: int) -> str:
    return table.helper(f"ratio_{k}")


def ratio_column(k: int) -> str:
    """The name of the weight of class k over that of class 0."""
    return f"fieldcal_ratio_{k + 1}"


def share_column(k: int) -> str:
    """The name of the prevalence of class k."""
    return f"fieldcal_share_{k + 1}"


def weights_table(prev: Prevalence, *, shape: Shape = "auto") -> WeightTable:
    """The weights of all groups as columns, to write as CSV and load where a statement would be too long.

    With ``shape="bins"`` they are applied on top of the weights of bins, which are always in the statement. Key
    columns hold text: load them as text, or "01" becomes 1. ``fieldcal_null_1`` is 1 where the key is null.
    """
    refuse_without_sql(prev.lab)
    correction = prev.correction(shape)
    require_groups(correction)
    first = prev.groups[0] if prev.groups else None
    parts = len(prev.field.by) or (len(first) if isinstance(first, tuple) else 1)
    return weight_columns(correction, parts)


def refuse_without_sql(lab: Lab) -> None:
    """Refuse a lab of distributions or categories, which no statement bins."""
    if lab.of_values:
        raise InputError(
            "This lab is of values, such as the verdicts of a judge, for which there is no SQL. Count them with "
            "`fieldcal count` or fieldcal.tables.count, which groups by them where the table lives."
        )
    if lab.outcome.kind == "intervals":
        raise InputError(
            "This lab is of a regression: its predictions are distributions of a number, for which there "
            "is no SQL. Export the table to Parquet or CSV and use `fieldcal count` and `fieldcal recalibrate`."
        )


def require_groups(correction: Correction) -> None:
    """Refuse an estimate that has one row of weights and no key."""
    if not correction.grouped:
        raise InputError(
            "This prevalence is for one population: its weights are in the statement, and no table of them is needed."
        )


def weight_columns(
    correction: Correction, parts: int, *, loose_text: bool = False, has_truth: bool = True
) -> WeightTable:
    """The weights per group, with keys of so many parts, as a warehouse prints them.

    ``loose_text``: whether it compares text without regard to case and to trailing blanks; ``has_truth``: whether it
    prints truth values as 'true' and 'false'.
    """
    texts = [_key_texts(key, parts, has_truth) for key in correction.groups]
    _refuse_double_matches(correction.groups, texts, loose_text)
    columns: WeightTable = {}
    for i in range(parts):
        columns[count_table.group_column(i)] = [text[i] or "" for text in texts]
        columns[count_table.null_column(i)] = [int(text[i] is None) for text in texts]
    table = ratios(group_weights(correction), floor=WAREHOUSE_FLOOR)
    return columns | {ratio_column(k + 1): table[:, k].tolist() for k in range(table.shape[1])}


def _key_texts(key: Hashable, n_parts: int, has_truth: bool) -> KeyTexts:
    """The parts of a key as a warehouse prints them; None where null."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != n_parts:
        raise InputError(
            f"The group {group_keys.show(key)!r} has {len(parts)} parts, but {n_parts} columns are to hold it. Name "
            f"one per part with {option('by')}"
        )
    return tuple(_text(part, has_truth) for part in parts)


def _text(part: Hashable, has_truth: bool) -> str | None:
    if part is None or type(part) is str:
        return part
    if type(part) is bool and has_truth:
        return "true" if part else "false"
    if type(part) in (int, dt.date):
        return str(part)
    raise InputError(
        f"The group {group_keys.show(part)!r} is a {type(part).__name__}, which warehouses print in different ways. "
        "Count with the statement of `fieldcal sql count`, so that groups are matched by the warehouse's own text."
    )


def _refuse_double_matches(groups: Keys, texts: Sequence[KeyTexts], loose_text: bool) -> None:
    """Refuse keys that a warehouse considers equal, which would duplicate their rows."""
    seen: dict[KeyTexts, Hashable] = {}
    for key, text in zip(groups, texts, strict=True):
        same = tuple(t.casefold().rstrip(" ") if t is not None else t for t in text) if loose_text else text
        if same in seen:
            raise InputError(
                f"The groups {seen[same]!r:.60} and {key!r:.60} are equal in this warehouse, and its rows would appear "
                "twice. Count with the statement of `fieldcal sql count`, or rename one."
            )
        seen[same] = key
