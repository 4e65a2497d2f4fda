"""The column of true classes in a table, null for rows without a label."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import Classes, Lab, group_keys
from fieldcal.tables.dialect import Expr
from fieldcal.tables.engines import Table
from fieldcal.tables.engines.frames import Frame
from fieldcal.types import Design, Ints, Keys
from fieldcal.verbs.field_labels import STRAY, UNKNOWN, field_labels, label_places, stray_label

_FAMILIES = ("text", "null", "bool", "date", "time", "decimal", "float", "integer")


@dataclass(frozen=True)
class Labels:
    """The class of each row of a table of counts, as its position; `UNKNOWN` without a label."""

    places: Ints
    design: Design
    only: bool  # whether their rows were counted before

    @property
    def known(self) -> Ints:
        """Which rows of the table have a label."""
        return np.flatnonzero(self.places != UNKNOWN)

    def part(self, at: Ints) -> Labels:
        """Those of some rows."""
        return replace(self, places=self.places[at])


@dataclass(frozen=True)
class LabelColumn:
    """The label column of one table."""

    table: Table
    column: str
    classes: Classes
    design: Design
    only: bool  # whether the rows were counted before
    placed: bool = False  # whether the column holds the places of classes, of labels that are objects

    @classmethod
    def of(cls, table: Table, lab: Lab, column: str, *, design: Design, only: bool) -> LabelColumn:
        """The label column, checked to exist and to have a type of classes."""
        table.require([column], role="label")
        assert isinstance(lab.outcome, Classes)  # numbers are read into memory
        found = cls(table, column, lab.outcome, design, only)
        kind = table.dtype(column)
        if kind.family == "objects" and isinstance(table, Frame):
            values = table.values(column)
            places = field_labels(lab.outcome, values, n=len(values))
            table.give(column, places, places == UNKNOWN)
            return replace(found, placed=True)
        if kind.family not in _FAMILIES:
            raise InputTypeError(
                f"The label column {column!r:.60} is of type {kind}. {group_keys.KINDS}: convert it first, as str(…) "
                "does."
            )
        return found

    @property
    def name(self) -> str:
        """Our name of the column."""
        return self.table.helper("label")

    def expression(self) -> Expr:
        """The labels, null where they are null or NaN."""
        backend, labels = self.table.backend, self.table.column(self.column)
        family = self.table.dtype(self.column).family
        if family in ("text", "null"):
            return backend.cast(labels, "TEXT")
        if family != "float":
            return labels
        number = backend.double(labels)
        return backend.when(backend.is_number(number), number)

    def read(self, values: Sequence[Any], rows: Ints) -> Labels:
        """Class positions of the grouped labels, each with a number of rows."""
        if self.placed:
            return Labels(np.array([UNKNOWN if v is None else v for v in values]), self.design, self.only)
        return labels_of(
            self.classes, values, rows, design=self.design, only=self.only, first_row=self._first_row
        )

    def _first_row(self, label: Any) -> int | None:
        return self.table.first(self.expression().eq(self.table.backend.constant(label)))


def labels_of(
    classes: Classes,
    values: Any,
    rows: Ints,
    *,
    design: Design,
    only: bool,
    first_row: Callable[[Any], int | None] = lambda label: None,
) -> Labels:
    """Positions of labels, each with a number of rows; refuses labels that are not classes."""
    places = label_places(classes, values)
    strays = np.flatnonzero(places == STRAY)
    if len(strays):
        first = int(strays[0])
        n = int(rows[[i for i in strays if values[i] == values[first]]].sum())
        where = f"{n:,} row{'s' if n > 1 else ''}"
        raise stray_label(classes, values, first, where=where, row=first_row(values[first]))
    return Labels(places, design, only)


def spelled_classes(classes: Keys, *, loose_text: bool = False) -> dict[str, Hashable]:
    """Each class by the texts that warehouses and CSV readers print it as: 1 is "1" or "1.0".

    ``loose_text``: whether text is compared without regard to case and to trailing blanks.
    """
    found: dict[str, Hashable] = {}
    for c in classes:
        for text in {t.casefold().rstrip(" ") if loose_text else t: None for t in _spellings(c)}:
            if text in found:
                raise InputError(
                    f"The classes {found[text]!r:.60} and {c!r:.60} are equal in a warehouse that prints them as text. "
                    "Rename one before fieldcal learn."
                )
            found[text] = c
    return found


def _spellings(c: Hashable) -> list[str]:
    if isinstance(c, str):
        return [c]
    if isinstance(c, bool):
        words = ("true", "t") if c else ("false", "f")
        return [*(w for word in words for w in (word, word.capitalize(), word.upper())), *_spellings(int(c))]
    if isinstance(c, int):
        return [str(c), f"{c}.0"]
    if type(c) is dt.date:
        return [c.isoformat()]
    raise InputError(
        f"The class {group_keys.show(c)!r} is a {type(c).__name__}, which warehouses print in different ways. Learn "
        "with labels of text, whole numbers, dates or truth values, or count the labelled rows outside of it."
    )


def read_spelled(classes: Keys, values: Sequence[Any], *, name: str) -> list[Any]:
    """Labels from their text; None where null or NaN."""
    spelled = spelled_classes(classes)
    text = any(isinstance(c, str) for c in classes)
    known = [None if group_keys.is_null(v) else v for v in values]
    odd = next((v for v in known if v is not None and text and not isinstance(v, str)), None)
    if odd is not None:
        raise InputTypeError(
            f"The column {name!r} of the counts has {odd!r:.60}, but the classes are text, and are given as text, so "
            "that nothing such as '01' is lost. Read it as text."
        )
    missing = () if text else ("nan", "NaN")
    texts = [None if v is None or str(v) in missing else str(v) for v in known]
    return [None if t is None else spelled.get(t, t) for t in texts]
