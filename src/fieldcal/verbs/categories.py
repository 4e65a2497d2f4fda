"""Categories as predictions: the columns of judges and tests, and their bins."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.core.values import (
    LEFT_OUT,
    MISSING,
    Value,
    Values,
    canonical,
    fit_values,
    most_values,
    rows_of_values,
)
from fieldcal.errors import BinsWarning, InputError, InputTypeError, RowError, ValueWarning, option
from fieldcal.objects import group_keys
from fieldcal.objects.outcome import are_distributions, n_labels, refuse_several_columns
from fieldcal.options import AS_VALUES, check_choice, check_whole, is_auto
from fieldcal.storage import did_you_mean
from fieldcal.types import DESIGNS, Design, Floats, Ints, Missing
from fieldcal.validation import MISSING_OTHERWISE, CheckedScores

#: Unknown categories that a warning lists.
_NAMED = 3
#: More categories of a single judge than this are scores, or free text.
_MOST_VALUES = 1_000


def design_of_values(design: Any) -> Design:
    """The design of the labelled rows, which has no default for categories."""
    if design is None:
        raise InputError(
            f"With {AS_VALUES}, say how the labelled rows were chosen. {option('design', 'random')}: at random among "
            f"the rows in question. {option('design', 'by_score')}: among these rows, by their values or "
            f"groups. {option('design', 'by_class')}: by their class, such as half of each, or from elsewhere, so that "
            "only the judge's error rates within each class carry over."
        )
    check_choice("design", design, DESIGNS)
    return design  # type: ignore[no-any-return]


def value_columns(predictions: Any) -> list[list[Any]]:
    """One column of categories per judge, from (n,) or (n, J) values, a table, or a list of tuples."""
    if isinstance(predictions, Mapping) or are_distributions(predictions):
        raise InputTypeError(
            f"predictions must be one value per row, but got {type(predictions).__name__}. Pass a list, an array or a "
            "column; of several judges a table, or a list of tuples."
        )
    columns = group_keys.table_columns(predictions)
    if columns is None:
        rows = group_keys.as_list(predictions, name="predictions", each="value")
        columns = _columns(rows) if rows and all(isinstance(row, (tuple, list)) for row in rows) else [rows]
    if not columns:
        raise InputError("predictions have no column. Name at least one.")
    return columns


def _columns(rows: list[Any]) -> list[list[Any]]:
    if len({len(row) for row in rows}) > 1 or not rows[0]:
        raise InputError(
            "predictions are rows of unequal length, or of none. Give every row one value per judge."
        )
    return [list(column) for column in zip(*rows, strict=True)]


def value_bins(partition: Values, predictions: Any, *, missing: Missing) -> CheckedScores:
    """Bins of field categories; rows without a bin are marked as missing."""
    columns = value_columns(predictions)
    placed = partition.place(columns)
    _check_present(placed.ids == MISSING, missing)
    _warn_unseen(partition, columns, placed.ids, placed.unseen)
    none = placed.ids < 0
    return CheckedScores(
        placed.ids,  # type: ignore[arg-type]
        none if none.any() else None,
        0,
        columns=False,
        unseen=int(placed.unseen.sum()),
        left_out=int((placed.ids == LEFT_OUT).sum()),
    )


def _check_present(absent: Any, missing: Missing) -> None:
    if missing == "error" and absent.any():
        raise InputError(
            f"{int(absent.sum()):,} of {len(absent):,} field predictions are missing (null or blank), the first in row "
            f"{int(absent.argmax())}. Drop those rows{MISSING_OTHERWISE}."
        )


def _warn_unseen(partition: Values, columns: list[list[Any]], ids: Ints, unseen: Any) -> None:
    at = np.flatnonzero(unseen)
    counts = rows_of_values([[column[i] for i in at] for column in columns])
    rows = [value for value in counts if value is not None]
    first = {value: int(i) for i, value in zip(at[::-1], rows[::-1], strict=True)}
    left_out = int((ids == LEFT_OUT).sum())
    warn_unseen(partition, Counter(rows), left_out, n_rows=len(ids), first=first, stacklevel=6)


def warn_unseen(
    partition: Values,
    unseen: Mapping[Value, int],
    left_out: int,
    *,
    n_rows: int,
    first: Mapping[Value, int] | None = None,
    stacklevel: int,
) -> None:
    """Warn about categories that are not in the lab: the most frequent ones, and how their rows are counted.

    ``left_out`` of the rows are in no bin; ``first`` is the first row of each category, if rows have an order.
    """
    if not unseen:
        return
    known = [" · ".join(value) for value in partition.known]
    often = sorted(unseen.items(), key=lambda pair: (-pair[1], pair[0]))[:_NAMED]
    named = []
    for value, n in often:
        text, where = " · ".join(value), "" if first is None else f", the first is row {first[value]}"
        named.append(f"{text!r:.60} ({n:,} row{'s' * (n > 1)}{where}).{did_you_mean(text, known)}")
    more = len(unseen) - len(named)
    warnings.warn(
        ValueWarning(
            f"{len(unseen):,} of the values are not in the lab, in {sum(unseen.values()):,} of {n_rows:,} "
            f"rows: {' '.join(named)}{f' And {more:,} more values.' if more else ''} {_fate(left_out)}"
        ),
        stacklevel=stacklevel,
    )


def _fate(left: int) -> str:
    if not left:
        return "They count with the nearest number, or with the other rare values of the lab."
    fate = f"Left out: {left:,} row{'s' * (left > 1)}."
    return f"{fate} Correct their spelling, or label some of them and learn again."


def refuse_alike(labels: Iterable[Any], first: Callable[[str], int | None]) -> None:
    """Refuse labels that differ only in case or blanks, or are blank."""
    rows = Counter(label for label in labels if isinstance(label, str))
    often: dict[str | None, str] = {}
    for label, n in sorted(rows.items(), key=lambda pair: (-pair[1], pair[0])):
        text = canonical(label)
        other = often.setdefault(text, label)
        if text is not None and other == label:
            continue
        row = first(label)
        where = f"{n:,} row{'s' * (n > 1)}{'' if row is None else f', the first is row {row}'}"
        if text is None:
            raise RowError(f"The label {label!r:.60} is blank ({where}). Let it be missing.", row=row)
        raise RowError(
            f"The labels {other!r:.60} and {label!r:.60} ({where}) differ only in case or blanks, but would be two "
            "classes. Spell them alike.",
            row=row,
        )


@dataclass(frozen=True)
class LabValues:
    """Labelled rows of a lab of categories."""

    columns: list[list[Any]]  # of all rows
    rows: Ints  # (n,) indices of the labelled rows
    y: Any  # their labels

    @classmethod
    def of(cls, predictions: Any, y: Any) -> LabValues:
        """From all rows; those without a label only add to the known categories."""
        columns = value_columns(predictions)
        refuse_several_columns(y)
        n = len(columns[0])
        if n_labels(y) != n:
            raise InputError(
                f"There are {n} predictions but {n_labels(y)} labels. Give one per row, missing where it is not known."
            )
        rows, labels = group_keys.known(y)
        if not len(rows):
            raise InputError(
                "The lab has no labelled rows: every label is missing, so there is nothing to learn from. Check the "
                "filter before this."
            )
        listed = list(labels)
        refuse_alike(listed, lambda label: int(rows[listed.index(label)]))
        return cls(columns, rows, labels)

    @property
    def seen(self) -> dict[Value, int]:
        values = rows_of_values(self.columns)
        labelled = Counter(values[i] for i in self.rows)
        return {value: labelled[value] for value in set(values) if value is not None}

    def fitted(self, asked: Any, class_rows: Floats, *, ordered: bool) -> Values:
        """The requested bins, at most as many as the lab's labelled rows support."""
        if isinstance(asked, Values):
            return asked
        if not is_auto(asked):
            if isinstance(asked, bool) or not isinstance(asked, (int, np.integer)):
                raise InputTypeError(
                    "The partition of values must be 'auto', a number of bins at most, or Values(…), but got "
                    f"{asked!r:.60}."
                )
            check_whole("partition", asked, least=2)
        seen = self.seen
        if len(self.columns) == 1 and len(seen) > _MOST_VALUES:
            raise InputError(
                f"There are {len(seen):,} different values, such as {min(seen)[0]!r:.60}: these are scores or free "
                f"text, not values of few kinds. Round them, or leave {AS_VALUES} out if they are "
                "probabilities."
            )
        most = (
            most_values(class_rows, judges=len(self.columns), ordered=ordered)
            if is_auto(asked)
            else int(asked)
        )
        fitted = fit_values(seen, most=len(seen))
        if fitted.m <= most:
            return fitted
        if is_auto(asked):
            warnings.warn(
                BinsWarning(
                    f"{fitted.m:,} values are too many for the lab's {len(self.rows):,} labelled rows. The "
                    f"rarest are merged, so that {most:,} bins remain. Label more rows to keep them apart, or set "
                    f"their number with {option('partition', most)}."
                ),
                stacklevel=4,
            )
        return fit_values(seen, most=most)

    def placed(self, partition: Values) -> Ints:
        """Bins of the labelled rows; refuses rows without a category or bin."""
        columns = [[column[i] for i in self.rows] for column in self.columns]
        placed = partition.place(columns)
        for fault, what in (
            (MISSING, "no value: it is missing or blank"),
            (LEFT_OUT, "a value that is in no bin"),
        ):
            at = np.flatnonzero(placed.ids == fault)
            if len(at):
                given = tuple(column[at[0]] for column in columns)
                shown = given[0] if len(given) == 1 else given
                raise InputError(
                    f"{len(at):,} of {len(placed.ids):,} labelled rows have {what}, the first is row "
                    f"{self.rows[at[0]]}, {shown!r:.60}. Correct it, or drop those rows."
                )
        _warn_unseen(partition, columns, placed.ids, placed.unseen)
        return placed.ids
