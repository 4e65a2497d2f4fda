"""Columns of predictions and groups: their names, types and rows."""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import narwhals as nw
import numpy as np

from fieldcal.core.calibration import CalibrationMap
from fieldcal.core.partition import takes_ids
from fieldcal.errors import InputError, InputTypeError, RecalibratedWarning, Word, option
from fieldcal.objects import Lab, Prevalence, group_keys
from fieldcal.options import check_goes_with, column_names
from fieldcal.storage import did_you_mean
from fieldcal.tables import expressions as row
from fieldcal.tables.engines import Table
from fieldcal.tables.engines.base import floats
from fieldcal.tables.expressions import Expr
from fieldcal.tables.quantile_columns import QuantileColumns, QuantilesLike
from fieldcal.tables.value_columns import OfClasses, ValueColumns
from fieldcal.types import Crossing
from fieldcal.validation import CLIP

#: Stands in for null in memory, so that no condition on a score is null: libraries differ in what they make of those.
#: In queries a null condition is not met, and is not added up.
_NO_SCORE = -1.0
#: How the columns end that `recalibrate` makes.
_RECALIBRATED = "_recalibrated"


@dataclass(frozen=True)
class Scores(OfClasses):
    """The score columns of one table, in the order of the classes, or the one of the second of two."""

    table: Table
    columns: tuple[str, ...]
    normalize: bool
    n_ids: int | None = None  # given bin ids in place of predictions: how many bins there are
    counts_zeros: bool = (
        True  # whether a binary score of exactly 0 is in any bin; else it is as good as missing
    )
    calibration: CalibrationMap | None = None  # what predictions are read as; bins are of what the model said

    @classmethod
    def of(cls, table: Table, lab: Lab, scores: str | Sequence[str] | None, *, normalize: bool) -> Scores:
        """The given columns, or those of the lab; checked to exist and to be numeric."""
        ids = lab.n_bins if takes_ids(lab.partition) else None
        columns = score_names(lab, scores)
        return cls(table, columns, normalize, ids, calibration=lab.calibration_map).checked()

    def checked(self) -> Scores:
        """Refuse columns that do not exist or are not numeric."""
        self.table.require(self.columns, role="scores")
        for name in self.columns:
            dtype = self.table.dtype(name)
            if self.n_ids is not None and not dtype.is_integer():
                raise InputTypeError(f"The bin ids in {name!r:.60} must be whole numbers, but are {dtype}.")
            if not (dtype.is_numeric() or dtype == nw.Boolean) and self.table.has_rows():
                raise InputTypeError(
                    f"The scores in column {name!r:.60} must be numbers, but are {dtype}. Cast the column first; "
                    f"verdicts, ratings and other values are named with {option('predictions')}."
                )
        return self

    def names(self) -> list[str]:
        """Internal names of the score columns."""
        return [self.table.helper(f"score_{k}") for k in range(len(self.columns))]

    def raw(self) -> list[nw.Expr]:
        """The columns as float64 (bin ids unchanged); null where they are null or NaN.

        NaN is tested explicitly, because statistics of Parquet files omit it, and engines that rely on them would
        evaluate the comparison as true.
        """
        given = self._as_given()
        if self.n_ids is not None:
            return given
        kept: list[nw.Expr] = [nw.when(~self.table.is_nan(x)).then(x) for x in given]
        if self.counts_zeros:
            return kept
        return [nw.when(~row.is_zero(self.table.backend, kept[-1])).then(x) for x in kept]

    def _as_given(self) -> list[nw.Expr]:
        if self.n_ids is not None:
            return [self.table.column(self.columns[0])]
        return [self.table.column(c).cast(nw.Float64) for c in self.columns]

    def expressions(self, *, repair: bool = False) -> list[nw.Expr]:
        """The columns under internal names, with a placeholder for null; ``repair`` clips rounding errors."""
        filled = self.raw()
        if not self.table.lazy:
            filled = [x.fill_null(-1 if self.n_ids is not None else _NO_SCORE) for x in filled]
        if repair and self.n_ids is None:
            filled = [row.clipped(self.table.backend, x) for x in filled]
        return [x.alias(n) for x, n in zip(filled, self.names(), strict=True)]

    def missing(self) -> nw.Expr:
        """Whether any score of the row is null or NaN."""
        parts = [x.is_null() for x in self._as_given()]
        if self.n_ids is None:
            parts += [self.table.is_nan(x.fill_null(0.0)) for x in self._as_given()]
        if not self.counts_zeros:
            parts.append(row.is_zero(self.table.backend, self._as_given()[-1].fill_null(1.0)))
        return reduce(lambda a, b: a | b, parts)

    def valid(self, columns: Sequence[nw.Expr], *, slack: float = 0.0) -> Expr:
        """Whether a row can be binned as it is."""
        backend = self.table.backend
        if self.n_ids is not None:
            return (columns[0] >= 0) & (columns[0] < self.n_ids)
        inside = row.inside(backend, columns, slack=slack)
        if len(columns) == 1:
            return inside
        if self.normalize:
            return inside & (row.total(columns) > backend.number(0.0))
        return inside & row.is_one(backend, row.total(columns))

    def usable(self, columns: Sequence[nw.Expr]) -> Expr:
        """Whether a row could be repaired: in range up to rounding."""
        return self.valid(columns, slack=CLIP)

    def final(self, columns: Sequence[nw.Expr]) -> list[nw.Expr]:
        """The predictions of a valid row, in the form that is binned."""
        if not self.normalize or len(columns) == 1:
            return list(columns)
        whole = row.total(columns)
        return [x / whole for x in columns]

    def as_read(self, columns: Sequence[nw.Expr], hold: row.Hold) -> Sequence[nw.Expr]:
        """The predictions as probabilities to sum and recalibrate: calibrated, if the lab is.

        ``hold`` materialises expressions that are used repeatedly.
        """
        if self.calibration is None:
            return columns
        made = hold(self.calibration.expressions(self.table.backend, columns))
        if len(made) < 3:
            return made
        (whole,) = hold([row.total(made)])
        return hold([x / whole for x in made])

    def predictions(self, read: Mapping[str, Any]) -> Any:
        """The scores of rows that were read, (n,) or (n, K); NaN where they are missing."""
        if self.n_ids is not None:
            return np.asarray(read[self.names()[0]])
        columns = [floats(read[n]) for n in self.names()]
        return columns[0] if len(columns) == 1 else np.column_stack(columns)


def score_names(lab: Lab, scores: str | Sequence[str] | None) -> tuple[str, ...]:
    """The given columns, or those of the lab, in the number that the classes need."""
    if scores is None and lab.columns is None:
        raise InputError(
            f"This lab was learnt from arrays and knows no column names. Pass {option('scores')}, in the order of the "
            f"classes {lab.classes!r:.200}."
        )
    asked = scores if scores is not None else lab.columns.scores  # type: ignore[union-attr]
    columns = column_names("scores", asked)
    width = 1 if lab.partition.takes == "ids" else len(lab.classes)
    if len(columns) != width and (width, len(columns)) != (2, 1):
        raise InputError(
            f"There are {len(columns)} columns of scores for {len(lab.classes)} classes. Name one per class, in the "
            f"order {lab.classes!r:.200}" + (", or the one of the second." if width == 2 else ".")
        )
    return columns


def new_names(
    columns: Sequence[str], taken: Iterable[str], name: str, *, named_by: str = "name"
) -> list[str]:
    """Names of the new columns; refuses existing ones."""
    if not isinstance(name, str) or not name or any("\ud800" <= c <= "\udfff" for c in name):
        raise InputError(
            f"{option(named_by, name)} cannot name a column: it is empty or no text. Write "
            f"{option(named_by, '{}_new')}."
        )
    new, there = [name.replace("{}", c) for c in columns], set(taken)
    clash = [n for n in new if n in there]
    if clash or len(set(new)) < len(new):
        raise InputError(
            f"The new column would be named {(clash or new)[0]!r:.60}, which the table already has. Choose another "
            f"with {option(named_by, '{}_new')}, where {{}} stands for the old name."
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
    in_order : whether names that do not contain their class are in the order of the classes
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
    columns = column_names("scores", scores)
    if len(columns) == 1:
        return columns
    return _by_name(columns, classes, in_order=in_order)


def _by_pattern(pattern: str, names: Sequence[str], classes: Sequence[Hashable]) -> tuple[str, ...]:
    head, _, tail = pattern.partition("*")
    wanted = [f"{head}{c}{tail}" for c in classes]
    present = [w for w in wanted if w in names]
    if len(classes) == 2 and present == wanted[1:]:  # the score of the second class alone
        return (wanted[1],)
    if len(classes) == 2 and present == wanted[:1]:
        raise InputError(
            f"Of the classes {classes!r:.200} the pattern {pattern!r:.60} finds a column of {classes[0]!r:.60} alone. "
            f"Say so: {option('scores', wanted[0])} {option('positive', classes[0])}."
        )
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
        f"The columns {list(columns)!r:.300} do not contain the names of their classes, "
        f"{classes!r:.200}. Pass {option('classes')} in "
        f"the order of the columns, or {option('scores', Word('{class: column}'))}."
    )


#: Columns of probabilities, of quantiles of a number, or of values.
PredictionColumns = Scores | QuantileColumns | ValueColumns


def prediction_columns(
    table: Table,
    lab: Lab,
    *,
    scores: str | Sequence[str] | None,
    quantiles: QuantilesLike | None,
    predictions: str | Sequence[str] | None = None,
    normalize: bool = False,
    crossing: Crossing = "error",
) -> PredictionColumns:
    """The given columns, or those of the lab, of the kind of the lab."""
    named = {"scores": scores, "quantiles": quantiles, "predictions": predictions}
    check_goes_with(lab.predicted, **named, normalize=normalize, crossing=crossing)
    if lab.of_values:
        return ValueColumns.of(table, lab, predictions)
    columns: Scores | QuantileColumns
    if lab.outcome.kind == "intervals":
        columns = QuantileColumns.of(table, lab, quantiles, crossing=crossing)
    else:
        columns = Scores.of(table, lab, scores, normalize=normalize)
    warn_if_recalibrated(columns.columns, lab)
    return columns


def warn_if_recalibrated(names: Sequence[str], lab: Lab) -> None:
    """Warn about a column that `recalibrate` named, because a second correction is wrong."""
    learnt = () if lab.columns is None else lab.columns.scores
    again = [name for name in names if name.endswith(_RECALIBRATED) and name not in learnt]
    if again:
        named = option("scores") if lab.outcome.kind == "classes" else option("quantiles")
        warnings.warn(
            RecalibratedWarning(
                f"The column {again[0]!r:.80} seems to hold predictions that were recalibrated before, which the lab's "
                f"were not. Name the model's own predictions with {named}."
            ),
            stacklevel=4,
        )


def group_columns(prev: Prevalence, by: str | Sequence[str] | None) -> tuple[str, ...]:
    """The given group columns, or those that were counted; none for one population."""
    asked = prev.field.by if by is None else column_names("by", by)
    if bool(asked) == prev.field.grouped:
        return asked
    if asked:
        raise InputError(
            f"This prevalence is for one population, but {option('by', list(asked))} was given. Count with "
            f"{option('by')} first, or leave it out here."
        )
    raise InputError(
        f"This prevalence is per group ({len(prev.groups):,} of them), counted from arrays: pass {option('by')}, the "
        "column or columns of the groups."
    )


@dataclass(frozen=True)
class Kind:
    """Values of one Python type: the engine's type, and a placeholder for null where nulls cannot be matched."""

    type: type
    filler: Any
    words: str


_KINDS = {
    "int": Kind(int, 0, "whole numbers"),
    "str": Kind(str, "", "text"),
    "bool": Kind(bool, False, "true or false"),
    "date": Kind(dt.date, dt.date(1970, 1, 1), "dates"),
    "datetime": Kind(dt.datetime, dt.datetime(1970, 1, 1), "times"),
}


@dataclass(frozen=True)
class Grouping:
    """The group columns of one table."""

    table: Table
    columns: tuple[str, ...]
    kinds: tuple[Kind, ...]
    dtypes: tuple[Any, ...]  # of the columns as they are compared

    @classmethod
    def of(cls, table: Table, columns: Sequence[str]) -> Grouping:
        """Check that the columns exist and have types of keys."""
        table.require(columns, role="groups")
        if len(set(columns)) < len(columns):
            raise InputError(f"The group columns {list(columns)!r:.200} name one twice. Name each once.")
        found = [_kind(name, table.dtype(name)) for name in columns]
        return cls(table, tuple(columns), tuple(k for k, _ in found), tuple(d for _, d in found))

    def names(self) -> list[str]:
        """Internal names of the key columns."""
        return [self.table.helper(f"key_{i}") for i in range(len(self.columns))]

    def expressions(self) -> list[nw.Expr]:
        """The key columns, of one type per kind."""
        return [
            _as(self.table.column(c), self.table.dtype(c), d).alias(n)
            for c, d, n in zip(self.columns, self.dtypes, self.names(), strict=True)
        ]

    def decode(self, parts: Sequence[Any]) -> Any:
        """The keys of a small result, one list per column, as `group_keys.factorize` takes them."""
        if len(parts) < 2:
            return parts[0] if parts else None
        lists = [p.tolist() if isinstance(p, np.ndarray) else p for p in parts]
        return list(zip(*lists, strict=True))

    def matches(self, groups: Sequence[Hashable]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which keys could occur in these columns."""
        if len(self.columns) == 1 and set(map(type, groups)) <= {self.kinds[0].type, type(None)}:
            known: list[Any] = [g for g in groups if g is not None]
            extremes = [min(known), max(known)] if self.kinds[0].type is int and known else []
            if self.kinds[0].type is not dt.datetime and all(_holds(self.dtypes[0], x) for x in extremes):
                return np.ones(len(groups), dtype=bool)  # the usual case, without a look at every key
        return np.fromiter((self._fits(g) for g in groups), dtype=bool, count=len(groups))

    def _fits(self, key: Hashable) -> bool:
        parts = key if len(self.columns) > 1 and isinstance(key, tuple) else (key,)
        return len(parts) == len(self.columns) and all(
            p is None or (type(p) is k.type and _holds(d, p))
            for p, k, d in zip(parts, self.kinds, self.dtypes, strict=True)
        )

    def look_up(self, groups: Sequence[Hashable]) -> LookUp:
        """The match of rows with a small table of these keys."""
        if len(self.columns) == 1:
            return LookUp(self, [list(groups)])
        return LookUp(self, [list(p) for p in zip(*groups, strict=True)] or [[] for _ in self.columns])


@dataclass(frozen=True)
class LookUp:
    """Keys as columns for an equality join; flags mark null keys."""

    grouping: Grouping
    parts: list[list[Any]]

    @cached_property
    def nulls(self) -> list[bool]:
        """Which columns have a null key."""
        return [None in part for part in self.parts]

    def left(self) -> list[nw.Expr]:
        """The columns of the big table."""
        made = []
        for name, expression, kind, dtype, _, null in self._columns():
            if not null:
                made.append(expression)
                continue
            filler = nw.lit(kind.filler).cast(dtype)
            made += [
                nw.when(expression.is_null()).then(filler).otherwise(expression).alias(name),
                expression.is_null().alias(name + "_null"),
            ]
        return made

    def right(self) -> dict[str, list[Any]]:
        """The columns of the small table."""
        columns: dict[str, list[Any]] = {}
        for name, _, kind, _, part, null in self._columns():
            columns[name + "_of"] = [kind.filler if v is None else v for v in part] if null else part
            if null:
                columns[name + "_null_of"] = [v is None for v in part]
        return columns

    def dtypes(self) -> dict[str, Any]:
        """The types of those columns."""
        found = {}
        for name, _, _, dtype, _, null in self._columns():
            found[name + "_of"] = dtype
            if null:
                found[name + "_null_of"] = nw.Boolean
        return found

    def on(self) -> dict[str, str]:
        """Columns of the big table to those of the small one."""
        return {name.removesuffix("_of"): name for name in self.dtypes()}

    def _columns(self) -> list[tuple[str, nw.Expr, Kind, Any, list[Any], bool]]:
        g = self.grouping
        return list(zip(g.names(), g.expressions(), g.kinds, g.dtypes, self.parts, self.nulls, strict=True))


def compared_as(dtype: Any) -> Any:
    """The type in which values are compared: one for all integers that it holds, one for all text."""
    if dtype.is_integer():
        return dtype if dtype in (nw.UInt64, nw.Int128, nw.UInt128) else nw.Int64
    return nw.String if dtype in (nw.String, nw.Categorical, nw.Enum) else dtype


def _kind(name: str, dtype: Any) -> tuple[Kind, Any]:
    if dtype.is_integer() or compared_as(dtype) == nw.String:
        return _KINDS["int" if dtype.is_integer() else "str"], compared_as(dtype)
    if dtype in (nw.Boolean, nw.Date):
        return _KINDS["bool" if dtype == nw.Boolean else "date"], dtype
    if dtype == nw.Datetime and dtype.time_zone is not None:
        raise InputTypeError(
            f"The group column {name!r:.60} holds times of a zone ({dtype.time_zone}), in which one reading of the "
            "clock can be two hours. Make it dates, or times without a zone, first."
        )
    if dtype == nw.Datetime:
        return _KINDS["datetime"], dtype
    if dtype.is_float():
        raise InputTypeError(
            f"The group column {name!r:.60} holds decimal fractions ({dtype}), which engines compare differently. "
            f"{group_keys.KINDS}. Make it whole numbers or text first; in pandas, whole numbers with gaps are Int64."
        )
    raise InputTypeError(
        f"The group column {name!r:.60} is of type {dtype}. {group_keys.KINDS}: convert it first, as str(…) does."
    )


#: What 64 bits hold: whole numbers, and nanoseconds around 1970 in whole microseconds.
_SIGNED, _UNSIGNED = range(-(2**63), 2**63), range(2**64)
_NANOSECONDS = (dt.datetime(1677, 9, 21, 0, 12, 43, 145225), dt.datetime(2262, 4, 11, 23, 47, 16, 854775))
_MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def _holds(dtype: Any, value: Any) -> bool:
    if type(value) is int:
        return value in (_SIGNED if dtype == nw.Int64 else _UNSIGNED if dtype == nw.UInt64 else (value,))
    if type(value) is not dt.datetime:
        return True
    if value.tzinfo is not None:
        return False
    if dtype.time_unit == "ns":
        return _NANOSECONDS[0] <= value <= _NANOSECONDS[1]
    return value.microsecond % _MICROSECONDS[dtype.time_unit] == 0


def _as(expression: nw.Expr, dtype: Any, wanted: Any) -> nw.Expr:
    return expression if dtype == wanted else expression.cast(wanted)


@dataclass(frozen=True)
class Rows:
    """Rows that were read: probabilities, distributions or values, groups (None without group columns), and other
    columns.
    """

    predictions: Any
    groups: Any
    others: Mapping[str, Any]


def read_rows(
    columns: PredictionColumns,
    grouping: Grouping,
    *,
    others: Mapping[str, nw.Expr] | None = None,
    frame: Any = None,
) -> Rows:
    """The rows of the table, or of a frame of its engine, with ``others``, columns by their new names."""
    table, names = columns.table, {n: columns.table.helper(n) for n in others or ()}
    made = [x.alias(n) for x, n in zip(columns.raw(), columns.names(), strict=True)]
    made += [x.alias(names[n]) for n, x in (others or {}).items()]
    # All of it in one query: a lazy table may have its rows in another order the next time.
    rows = (table.frame if frame is None else frame).select(*made, *grouping.expressions())
    read = _collect(table, rows, numbers=[] if isinstance(columns, ValueColumns) else columns.names())
    return Rows(
        columns.predictions(read),
        grouping.decode([read[n] for n in grouping.names()]),
        {n: read[name] for n, name in names.items()},
    )


def read_labelled_rows(
    columns: PredictionColumns, grouping: Grouping, label: str, *, labelled_only: bool = False
) -> tuple[Rows, Any]:
    """The rows, or those with a label, and their labels."""
    table, y = columns.table, columns.label(label)
    frame = table.frame.filter(~table.column(label).is_null()) if labelled_only else None
    rows = read_rows(columns, grouping, others={"label": y}, frame=frame)
    return rows, columns.labels(rows.others["label"], label)


def _collect(table: Table, rows: Any, *, numbers: list[str]) -> dict[str, Any]:
    if table.lazy:
        return table.collect(rows)
    arrays = {n: rows.get_column(n).to_numpy() for n in numbers}
    rest = [n for n in rows.columns if n not in arrays]
    return {**arrays, **(table.collect(rows.select(*rest)) if rest else {})}
