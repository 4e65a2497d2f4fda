"""The table of counts, one row per group: column names, conversion to a Field, and reading it.

Engines and warehouses make the same table. `Counted` is that table in memory, `as_field` makes a Field of it, and
`read_counts` reads the result of a warehouse's statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.objects import SCORE_UNIT, UNNAMED, Batch, Classes, Field, Lab, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.objects.batches import ByDesign, labels_of_counts
from fieldcal.options import column_names
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.label_column import Labels, labels_of, read_spelled
from fieldcal.types import Design, Ints, Keys
from fieldcal.verbs.count import warn_if_ids
from fieldcal.verbs.field_labels import check_label_options, no_labels

ROWS, VALID = "fieldcal_rows", "fieldcal_valid"
#: The class of the rows, where some have labels, and a flag for rows that have none.
LABEL, UNLABELLED = "fieldcal_label", "fieldcal_unlabelled"
#: Columns that only a warehouse's table has: an engine is asked again where rows are not valid (`validity.examine`).
FLAWS = ("fieldcal_missing", "fieldcal_outside", "fieldcal_unsummed", "fieldcal_clipped")
MISSING, OUTSIDE, UNSUMMED, CLIPPED = FLAWS

Int64s = NDArray[np.int64]


def group_column(i: int) -> str:
    """The name of the i-th part of the key, from 0."""
    return f"fieldcal_group_{i + 1}"


def null_column(i: int) -> str:
    """The name of the flag for a null in the i-th part of the key."""
    return f"fieldcal_null_{i + 1}"


def below_columns(lab: Lab) -> list[str]:
    """Numbers of valid rows in this bin or one before it; the last bin follows by subtraction."""
    return [f"fieldcal_below_{j + 1}" for j in range(lab.n_bins - 1)]


def units_columns(lab: Lab) -> list[str]:
    """Sums of predictions in whole units: of the second of two classes, or of every class; none without predictions."""
    if not lab.partition.takes_probabilities:
        return []
    K = len(lab.classes)
    return ["fieldcal_units_2"] if K == 2 else [f"fieldcal_units_{k + 1}" for k in range(K)]


@dataclass(frozen=True)
class Counted:
    """A table of counts in memory: group keys and whole numbers."""

    groups: Any  # as group_keys.factorize takes them; None for one population
    rows: Int64s
    valid: Int64s
    below: Int64s  # (rows of the table, m − 1)
    units: Int64s  # (rows of the table, 1 or K)
    windows: Sequence[str | None] | None = None  # the window of each row, where there are windows
    labels: Labels | None = None  # the class of each row, where the table tells classes apart
    unseen: Int64s | None = None  # of values: rows with one that the lab has never seen

    @classmethod
    def of_bins(cls, lab: Lab, groups: Any, rows: Int64s, bins: Ints) -> Counted:
        """Counts from rows with one bin each; a negative bin means none."""
        valid = np.where(bins >= 0, rows, 0)
        below = np.where(bins[:, None] <= np.arange(lab.n_bins - 1), valid[:, None], 0)
        return cls(groups, rows, valid, below, np.zeros((len(rows), 0), dtype=np.int64))

    @classmethod
    def read(cls, lab: Lab, columns: Mapping[str, Any], groups: Any, labels: Labels | None = None) -> Counted:
        """From the columns of a table of counts."""
        rows, valid = _ints(columns[ROWS]), _ints(columns[VALID])

        def stack(names: list[str]) -> Int64s:
            parts = [_ints(columns[c]) for c in names]
            return np.column_stack(parts) if parts else np.zeros((len(rows), 0), dtype=np.int64)

        return cls(groups, rows, valid, stack(below_columns(lab)), stack(units_columns(lab)), labels=labels)

    def part(self, at: NDArray[np.intp]) -> Counted:
        """The given rows of the table."""
        groups = self.groups  # None for one population
        if groups is not None:
            groups = groups[at] if isinstance(groups, np.ndarray) else [groups[i] for i in at]
        windows = None if self.windows is None else [self.windows[i] for i in at]
        labels = None if self.labels is None else self.labels.part(at)
        return Counted(
            groups,
            self.rows[at],
            self.valid[at],
            self.below[at],
            self.units[at],
            windows,
            labels,
            None if self.unseen is None else self.unseen[at],
        )

    def with_labels(self) -> Counted:
        """The rows of the table that have a label."""
        known = [] if self.labels is None else [i for i in self.labels.known if self.valid[i]]
        if not known:
            raise no_labels()
        return replace(self.part(np.array(known)), unseen=None)

    def tables(self, lab: Lab) -> dict[str, Int64s]:
        """The tables of a batch. Rows of a table have no weights, so the squares are the rows."""
        V = self._rows_per_bin(lab)
        found = {"V": V, "score_sums": self._score_sums(lab, V), "weight_squares": V}
        if self.labels is None or not self.labels.only:
            return found
        return {name: np.zeros_like(table) for name, table in found.items()}

    def labelled(self, lab: Lab, groups: Ints) -> ByDesign:
        """The counts of labelled rows, from the positions of the groups."""
        if self.labels is None:
            return ByDesign()
        known = self.labels.known
        return labels_of_counts(
            groups[known],
            self.labels.places[known],
            self._rows_per_bin(lab)[known],
            design=self.labels.design,
            n_classes=len(lab.classes),
        )

    def _rows_per_bin(self, lab: Lab) -> Int64s:
        V = np.empty((len(self.rows), lab.n_bins), dtype=np.int64)
        V[:, :-1], V[:, -1] = self.below, self.valid
        V[:, 1:] -= self.below  # of the bins up to this one, those before it
        return V

    def _score_sums(self, lab: Lab, V: Int64s) -> Int64s:
        if not lab.partition.takes_probabilities:
            return _shares_in_units(lab, V)
        if len(lab.classes) > 2:
            return self.units
        return np.column_stack([self.valid * int(1 / SCORE_UNIT) - self.units[:, 0], self.units[:, 0]])


def as_field(
    lab: Lab,
    counted: Counted,
    *,
    by: Sequence[str],
    grouped: bool | None = None,
    seen: Counted | None = None,
    dropped: int = 0,
    clipped: int = 0,
) -> Field:
    """The Field that the same rows would give as arrays.

    ``seen`` are the counts of all rows, if some were left out: groups without usable rows stay, with zero rows.
    """
    names: Keys = (None,)
    codes = np.zeros(len(counted.rows), dtype=np.intp)
    grouped = bool(by) if grouped is None else grouped
    if grouped:
        names, codes = group_keys.arrange(counted.groups)
        if seen is not None and seen is not counted:
            present, (names, _) = names, group_keys.arrange(seen.groups)
            codes = group_keys.positions(names, present)[codes]
    tables: dict[str, Any] = {}
    for name, part in counted.tables(lab).items():
        table = np.zeros((len(names), *part.shape[1:]), dtype=np.int64)
        if len(names) == len(codes) > 1:  # every group once, the usual case
            table[codes] = part
        else:
            np.add.at(table, codes, part)
        tables[name] = table
    batch = Batch(
        groups=names,
        **tables,
        dropped=dropped,
        clipped=clipped,
        unseen=0 if counted.unseen is None else int(counted.unseen.sum()),
        labelled=counted.labelled(lab, codes),
    )
    return Field(
        lab=lab.digest,
        classes=lab.classes,
        n_bins=lab.n_bins,
        grouped=grouped,
        by=tuple(by),
        batches={UNNAMED: batch},
    )


def _shares_in_units(lab: Lab, V: Int64s) -> Int64s:
    """Class shares of the bins in whole units, which stand in for predictions with given bin ids."""
    second = np.floor(lab.bin_predictions / SCORE_UNIT + 0.5).astype(np.int64)
    if len(lab.classes) == 2:
        second[:, 0] = int(1 / SCORE_UNIT) - second[:, 1]
    return np.asarray(V @ second)


def _ints(values: Any) -> Int64s:
    """Integers from any numeric form of an engine (decimals, floats, text)."""
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values.astype(np.int64)
    return np.array([0 if v is None else int(v) for v in values], dtype=np.int64)


def read_counts(
    lab: Lab,
    frame: Any,
    *,
    by: str | Sequence[str] | None = None,
    missing: Literal["error", "drop"] = "error",
    design: Design = "random",
    only_labels: bool = False,
) -> Field:
    """The Field from a table of counts, as the statement of ``fieldcal sql count`` makes it in a warehouse.

    Parameters
    ----------
    lab : the lab that the statement was made with
    frame : the statement's answer, one row per group, or group and label, as any table; group columns as text
    by : names of the group columns; by default those of the lab
    missing, design, only_labels : as in `fieldcal.count`; the last two of a statement with ``label``

    Examples
    --------
    >>> import duckdb
    >>> import fieldcal
    >>> import polars as pl
    >>> from fieldcal import tables
    >>> data = fieldcal.datasets.example().data
    >>> lab = tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")
    >>> predictions = pl.DataFrame({"p": data.proba_field})
    >>> statement = tables.sql_count(lab, "predictions", dialect="duckdb")
    >>> tables.read_counts(lab, duckdb.sql(statement))
    Field: 4,000 rows, one population, 8 bins
    """
    check_call("fieldcal.tables.read_counts(lab, frame)", (lab, Lab), (frame, "a table"))
    table = open_table(frame)
    names = {str(n).lower(): n for n in table.names}  # Snowflake and Oracle return names in upper case
    parts = _parts(names)
    needed = [ROWS, VALID, *below_columns(lab), *units_columns(lab)]
    _require(names, needed)
    check_label_options("label", names.get(LABEL), design=design, only_labels=only_labels)
    read = _read(table, names, [*needed, *FLAWS, UNLABELLED], parts)
    _refuse(read, missing)
    counted = Counted.read(lab, read, _groups(read, parts))
    if LABEL in read:
        labels = _labels(lab, read, counted.rows, design=design, only=only_labels)
        counted = replace(counted, labels=labels)
    if (counted.valid < counted.rows).any() and MISSING not in read:
        raise InputError(
            "Some rows are not valid and the table does not say why. Make it with `fieldcal sql count`."
        )
    if not parts and not int(counted.rows.sum()):
        raise InputError("The field is empty: the table of counts has no rows. Check the filter before this.")
    if only_labels:
        counted = counted.with_labels()
    field = as_field(
        lab,
        counted,
        by=_by(lab, by, parts),
        grouped=parts > 0,
        dropped=0 if only_labels else _sum(read, MISSING),
        clipped=0 if only_labels else _sum(read, CLIPPED),
    )
    warn_if_ids(len(field.groups), int(field.n.sum()))
    return field


def _parts(names: dict[str, Any]) -> int:
    n = 0
    while group_column(n) in names:
        n += 1
    return n


def _require(names: dict[str, Any], needed: Sequence[str]) -> None:
    lost = [n for n in needed if n not in names]
    if lost:
        raise InputError(
            f"This table of counts has no column {lost[0]!r} ({len(lost)} of {len(needed)} are missing). Was it made "
            "with another lab? Make it with `fieldcal sql count`. A table of predictions is counted first: `fieldcal "
            "count`."
        )
    strays = [n for n in names if n.startswith("fieldcal_below_") and n not in needed]
    if strays:
        raise InputError(
            f"This table of counts has more bins than the lab ({strays[0]!r}). Was it made with another lab?"
        )


def _read(table: Table, names: dict[str, Any], wanted: Sequence[str], parts: int) -> dict[str, Any]:
    made, number = {}, table.backend.int64
    for i in range(parts):
        name = names[group_column(i)]
        if table.dtype(name).family != "text":
            raise InputTypeError(
                f"The group column {name!r} of the counts is {table.dtype(name)}, but warehouses give it as text, so "
                "that nothing such as '01' is lost. Read it as text."
            )
        made[group_column(i)] = table.column(name)
        if null_column(i) in names:
            made[null_column(i)] = number(table.column(names[null_column(i)]))
    if LABEL in names:
        made[LABEL] = table.column(names[LABEL])
    made |= {n: number(table.column(names[n])) for n in wanted if n in names}
    return table.collect(table.rows.select(made))


def _groups(read: dict[str, Any], parts: int) -> Any:
    """Keys of text; a flag separates null from empty text, which CSV cannot."""
    columns = []
    for i in range(parts):
        values = list(read[group_column(i)])
        flags = read.get(null_column(i))
        if flags is not None:
            values = [None if int(f) else v or "" for v, f in zip(values, flags, strict=True)]
        columns.append(values)
    return columns[0] if parts == 1 else list(zip(*columns, strict=True))


def _labels(lab: Lab, read: dict[str, Any], rows: Int64s, *, design: Design, only: bool) -> Labels:
    assert isinstance(lab.outcome, Classes)  # no statement counts numbers
    values = [v if v is not None else "" for v in read[LABEL]]
    if UNLABELLED in read:
        values = [None if int(f) else v for v, f in zip(values, read[UNLABELLED], strict=True)]
    known = read_spelled(lab.classes, values, name=LABEL)
    return labels_of(lab.outcome, known, rows, design=design, only=only)


def _refuse(read: dict[str, Any], missing: str) -> None:
    rows = _sum(read, ROWS)
    if _sum(read, OUTSIDE):
        raise InputError(
            f"{_sum(read, OUTSIDE):,} of {rows:,} rows have scores outside [0, 1]. Are these percentages or "
            "logits? Correct them in the warehouse, and count again."
        )
    if _sum(read, UNSUMMED):
        raise InputError(
            f"In {_sum(read, UNSUMMED):,} of {rows:,} rows the scores do not sum to one. Rescale them, and "
            "count again."
        )
    if _sum(read, MISSING) and missing == "error":
        raise InputError(
            f"{_sum(read, MISSING):,} of {rows:,} rows have no score (null or NaN). Pass {option('missing', 'drop')} "
            "to go on without them."
        )


def _by(lab: Lab, by: str | Sequence[str] | None, parts: int) -> tuple[str, ...]:
    given = None if by is None else column_names("by", by)
    known = given if given is not None else lab.columns.by if lab.columns is not None else ()
    if len(known) == parts:
        return tuple(known)
    if given is not None:
        raise InputError(f"The counts have {parts} group columns, but by names {len(given)}: {list(given)}.")
    return ()  # as from arrays: later steps ask for the names


def _sum(read: dict[str, Any], name: str) -> int:
    return sum(int(v or 0) for v in read.get(name, ()))
