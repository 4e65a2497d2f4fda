"""Score columns: which they are, what makes a row valid, and how it is repaired."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce

import narwhals as nw

from fieldcal.core.partition import Bins
from fieldcal.errors import InputError, InputTypeError
from fieldcal.inputs import CLIP
from fieldcal.names import did_you_mean
from fieldcal.objects import Lab
from fieldcal.tables import expressions as row
from fieldcal.tables.engines import Table
from fieldcal.tables.expressions import Expr

#: Stands in for null in memory, so that no condition on a score is null: libraries differ in what they make of those.
#: In queries a null condition is not met, and is not added up.
_NO_SCORE = -1.0


@dataclass(frozen=True)
class Scores:
    """The score columns of one table, in the order of the classes, or the one of the second of two."""

    table: Table
    columns: tuple[str, ...]
    normalize: bool
    n_ids: int | None = None  # given bin ids in place of predictions: how many bins there are

    @classmethod
    def of(cls, table: Table, lab: Lab, scores: str | Sequence[str] | None, *, normalize: bool) -> Scores:
        """The columns that are asked for, or the lab's; checked to be there and to hold numbers."""
        ids = lab.partition.n if isinstance(lab.partition, Bins) else None
        return cls(table, score_names(lab, scores), normalize, ids).checked()

    def checked(self) -> Scores:
        """Refuse columns that are not there or hold no numbers."""
        self.table.require(self.columns, role="scores")
        for name in self.columns:
            dtype = self.table.dtype(name)
            if self.n_ids is not None and not dtype.is_integer():
                raise InputTypeError(f"The bin ids in {name!r:.60} must be whole numbers, but are {dtype}.")
            if not (dtype.is_numeric() or dtype == nw.Boolean):
                raise InputTypeError(
                    f"The scores in column {name!r:.60} must be numbers, but are {dtype}. Cast the column first."
                )
        return self

    def names(self) -> list[str]:
        """Our names of the score columns."""
        return [self.table.helper(f"score_{k}") for k in range(len(self.columns))]

    def raw(self) -> list[nw.Expr]:
        """The columns as float64 (bin ids as they are); null where they are null."""
        if self.n_ids is not None:
            return [self.table.column(self.columns[0])]
        return [self.table.column(c).cast(nw.Float64) for c in self.columns]

    def expressions(self, *, repair: bool = False) -> list[nw.Expr]:
        """The columns under our names; null may be a number that is no score. With ``repair``, rounding is clipped."""
        filled = self.raw()
        if not self.table.lazy:
            filled = [x.fill_null(-1 if self.n_ids is not None else _NO_SCORE) for x in filled]
        if repair and self.n_ids is None:
            filled = [row.clipped(self.table.words, x) for x in filled]
        return [x.alias(n) for x, n in zip(filled, self.names(), strict=True)]

    def missing(self) -> nw.Expr:
        """Whether any score of the row is null or NaN."""
        parts = [x.is_null() for x in self.raw()]
        if self.n_ids is None:
            parts += [x.fill_null(0.0).is_nan() for x in self.raw()]
        return reduce(lambda a, b: a | b, parts)

    def valid(self, columns: Sequence[nw.Expr], *, slack: float = 0.0) -> Expr:
        """Whether a row under our names can be binned as it is."""
        words = self.table.words
        if self.n_ids is not None:
            return (columns[0] >= 0) & (columns[0] < self.n_ids)
        inside = row.inside(words, columns, slack=slack)
        if len(columns) == 1:
            return inside
        if self.normalize:
            return inside & (row.total(columns) > words.number(0.0))
        return inside & row.is_one(words, row.total(columns))

    def usable(self, columns: Sequence[nw.Expr]) -> Expr:
        """Whether a row could be repaired: in range but for rounding."""
        return self.valid(columns, slack=CLIP)

    def final(self, columns: Sequence[nw.Expr]) -> list[nw.Expr]:
        """The predictions of a valid row, as they are binned and recalibrated."""
        if not self.normalize or len(columns) == 1:
            return list(columns)
        whole = row.total(columns)
        return [x / whole for x in columns]


def score_names(lab: Lab, scores: str | Sequence[str] | None) -> tuple[str, ...]:
    """The columns that are asked for, or the lab's: as many as the classes need."""
    if scores is None and lab.columns is None:
        raise InputError(
            "This lab was learnt from arrays and knows no column names. Pass scores=…, in the order of the classes "
            f"{lab.classes!r:.200}."
        )
    if scores is None and lab.columns is not None and lab.columns.levels is not None:
        raise InputError(
            "This lab was learnt from quantiles of a number, not from probabilities of classes. Use "
            "fieldcal.regression.count_table and recalibrate_table, or the command line."
        )
    asked = scores if scores is not None else lab.columns.scores  # type: ignore[union-attr]
    columns = (asked,) if isinstance(asked, str) else tuple(asked)
    width = 1 if isinstance(lab.partition, Bins) else len(lab.classes)
    if len(columns) != width and (width, len(columns)) != (2, 1):
        raise InputError(
            f"There are {len(columns)} columns of scores for {len(lab.classes)} classes. Name one per class, in the "
            f"order {lab.classes!r:.200}" + (", or the one of the second." if width == 2 else ".")
        )
    return columns


def new_names(columns: Sequence[str], taken: Iterable[str], name: str) -> list[str]:
    """The names of the new columns, none of which may be there already."""
    new, there = [name.replace("{}", c) for c in columns], set(taken)
    clash = [n for n in new if n in there]
    if clash or len(set(new)) < len(new):
        raise InputError(
            f"The new column would be named {(clash or new)[0]!r:.60}, which the table already has. Choose another "
            "with name='{}_new', where {} stands for the old name."
        )
    return new


def match_classes(
    scores: str | Sequence[str] | Mapping[Hashable, str],
    names: Sequence[str],
    classes: Sequence[Hashable],
    *,
    in_order: bool,
) -> tuple[str, ...]:
    """The score column of every class, or the one column of the second of two.

    Parameters
    ----------
    scores : a name, a pattern with ``*`` for the class, names, or a mapping from class to name
    names : all columns of the table
    in_order : whether names that do not tell their class are in the order of the classes
    """
    if isinstance(scores, Mapping):
        lost = [c for c in classes if c not in scores]
        if lost:
            raise InputError(f"scores has no column for the class {lost[0]!r}. Give one per class.")
        stray = next((c for c in scores if c not in classes), None)
        if stray is not None:
            raise InputError(
                f"scores names a column for {stray!r}, which is not among the classes {classes!r:.200}."
            )
        return tuple(scores[c] for c in classes)
    if isinstance(scores, str):
        if "*" not in scores or scores in names:
            return (scores,)
        return _by_pattern(scores, names, classes)
    columns = tuple(scores)
    if len(columns) == 1:
        return columns
    return _by_name(columns, classes, in_order=in_order)


def _by_pattern(pattern: str, names: Sequence[str], classes: Sequence[Hashable]) -> tuple[str, ...]:
    head, _, tail = pattern.partition("*")
    wanted = [f"{head}{c}{tail}" for c in classes]
    present = [w for w in wanted if w in names]
    if len(classes) == 2 and present == wanted[1:]:  # the score of the second class alone
        return (wanted[1],)
    lost = next((w for w in wanted if w not in names), None)
    if lost is not None:
        raise InputError(
            f"The pattern {pattern!r:.60} and the classes {classes!r:.200} ask for a column {lost!r:.60}, which the "
            f"table does not have.{did_you_mean(lost, names)}"
        )
    return tuple(wanted)


def _by_name(columns: tuple[str, ...], classes: Sequence[Hashable], *, in_order: bool) -> tuple[str, ...]:
    """Names that contain their class between a common head and tail are matched; others need an order."""
    if len(columns) != len(classes):
        raise InputError(
            f"There are {len(columns)} columns of scores for {len(classes)} classes, {classes!r:.200}. Name one "
            "per class."
        )
    texts = [str(c) for c in classes]
    for name in columns:
        for text in texts:
            at = name.find(text)
            while at >= 0:
                head, tail = name[:at], name[at + len(text) :]
                wanted = tuple(f"{head}{t}{tail}" for t in texts)
                if set(wanted) == set(columns):
                    return wanted
                at = name.find(text, at + 1)
    if in_order:
        return columns
    raise InputError(
        f"The columns {list(columns)!r:.300} do not tell their classes, {classes!r:.200}. Pass classes=… in the order "
        "of the columns, or scores={class: column}."
    )
