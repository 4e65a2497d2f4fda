"""learn, count, pairs and rows to label on tables in files; labels may stand in a table of their own."""

from __future__ import annotations

import fnmatch
import warnings
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fieldcal.errors import FieldcalWarning, InputError, RowError, named
from fieldcal.objects import Field, Lab, Prevalence, group_keys
from fieldcal.objects.derived import Pairs
from fieldcal.storage import DESIGN_COLUMN
from fieldcal.tables.count import count, pairs
from fieldcal.tables.count_table import read_counts
from fieldcal.tables.files.session import Session, Source
from fieldcal.tables.files.text import quoted
from fieldcal.tables.learn import learn
from fieldcal.tables.names import group_columns
from fieldcal.tables.rows_to_label import rows_to_label
from fieldcal.tables.weight_table import text_columns
from fieldcal.types import DESIGNS, Design

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")
_TRUTH = dict.fromkeys(_TRUE, True) | dict.fromkeys(_FALSE, False)


def learn_source(
    source: Source, *, label: str, by: Sequence[str] | None = None, missing: str = "error", **given: Any
) -> Lab:
    """The lab of a table; with ``missing="drop"`` of its rows that have a prediction and a label."""
    values = given["predictions"]
    source = source.bound(scores=_predictions(given), predictions=values, label=label, by=by)
    if given["classes"] is not None:
        given["classes"] = _typed(given["classes"], source.relation, label)
    if given["positive"] is not None:
        given["positive"] = _typed([given["positive"]], source.relation, label)[0]
    with lines_of(source):
        relation = source.relation if values is None else _without_blanks(source, label)
        if missing == "drop" and values is None:
            relation = _complete_rows(source, [label, *_names(_predictions(given))])
        return learn(relation, label=label, by=by or (), **given)


def count_source(lab: Lab, source: Source, labelled: Source | None = None, **given: Any) -> Field:
    """The field of a table, with the labels that it has, or those of another table of its rows.

    Parameters
    ----------
    given : of `fieldcal.tables.count`; ``label`` and ``design`` are those of the other table where there is one
    """
    label, design = given.pop("label"), given.pop("design")
    if labelled is None and (label is None or DESIGN_COLUMN not in source.columns):
        return _count(lab, source, label=label, design=design, **given)
    if given["time"] is not None:
        raise InputError(
            f"Windows of {named('time')} do not go with labels in another table, nor with a column {DESIGN_COLUMN}. "
            "Put the labels of one design into the table of the field."
        )
    batch = given.pop("batch")
    field = _count(lab, source, **given)
    options = {name: value for name, value in given.items() if name not in ("by", "time", "every")}
    field = add_labels(lab, field, labelled or source, label=label, design=design, **options)
    return field if batch is None else field.named(batch)


def field_of(
    lab: Lab, session: Session, path: Path, *, labels_elsewhere: bool = False, **given: Any
) -> Field:
    """A field from its artefact, or from the table of counts that a warehouse made."""
    if path.suffix.lower() == ".json":
        return Field.load(path)
    counts = {name: given[name] for name in ("by", "missing") if name in given}
    design = None if labels_elsewhere else given.get("design")
    return read_counts(lab, session.open(path).relation, design=design or "random", **counts)


def add_labels(
    lab: Lab,
    field: Field,
    source: Source,
    *,
    label: str | None = None,
    design: Design | None = None,
    by: list[str] | None = None,
    **given: Any,
) -> Field:
    """A field with the labels of a table whose rows it has counted."""
    given |= {"label": label_column(lab, label), "by": _group_columns(field, by), "only_labels": True}
    relation = relation_of(lab, source, given, text=text_columns(given["by"], field.groups))
    parts: dict[Design, Any] = {design or lab.design or "random": relation}
    if DESIGN_COLUMN in source.columns:
        parts = _by_design(relation, given["label"], design)
    counted = [count(lab, part, design=each, **given) for each, part in parts.items()]
    found = sum(counted[1:], counted[0])
    unmatched = group_keys.positions(field.groups, found.groups) < 0
    if unmatched.any():
        raise InputError(
            f"The table of labels has the group {found.groups[int(unmatched.argmax())]!r:.60}, which the field does "
            "not have. Are its rows part of the field? If they are not counted yet, put them into its table."
        )
    return field + found


def pairs_source(lab: Lab, source: Source, **given: Any) -> Pairs:
    """Which rows of a table are about the same item."""
    with lines_of(source):
        return pairs(lab, relation_of(lab, source, given), **given)


def rows_to_label_file(
    prev: Prevalence, session: Session, source: Source, target: str, n: int, *, label: str, **given: Any
) -> None:
    """Choose rows of a table to label, and write them to a file."""
    given["by"] = list(group_columns(prev, given["by"]))
    text = text_columns(given["by"], prev.groups)
    relation = relation_of(prev.lab, source, given | {"label": label}, text=text)
    if prev.lab.outcome.kind == "intervals":  # no engine bins a distribution
        relation = relation.arrow().read_all()
    chosen = rows_to_label(prev, relation, n, label=label, **given)
    session.write(session.connection.from_arrow(chosen), target, sources=[source])


def relation_of(lab: Lab, source: Source, given: Mapping[str, Any], *, text: Sequence[str] = ()) -> Any:
    """The table, its columns bound to their roles; a label that is an empty text is missing."""
    label, words = given.get("label"), any(isinstance(c, str) for c in lab.classes)
    columns = {name: given.get(name) for name in ("by", "time", "label", "predictions")}
    text = [*text, *([label] if label is not None and words else [])]
    bound = source.bound(lab, scores=_predictions(given), text=text, **columns)
    return bound.relation if label not in text or "" in lab.classes else _without_blanks(bound, label)


@contextmanager
def lines_of(source: Source) -> Iterator[None]:
    """An error about a row of this table also names its line."""
    try:
        yield
    except RowError as error:
        line = None if error.row is None else source.line_of(error.row)
        if line is None:
            raise
        where = f"The first is line {line} of {source.name!r}."
        raise RowError(f"{error.args[0]} {where}", row=error.row) from None


def label_column(lab: Lab, label: str | None) -> str:
    """The one that is named, or the lab's."""
    if label is not None:
        return label
    if lab.columns is None:
        raise InputError(
            f"The lab was learnt from arrays and knows no column of labels: name it with {named('label')}."
        )
    return lab.columns.label


def _count(lab: Lab, source: Source, **given: Any) -> Field:
    with lines_of(source):
        return count(lab, relation_of(lab, source, given), **given)


def _predictions(given: Mapping[str, Any]) -> Any:
    return given.get("quantiles") if given.get("scores") is None else given["scores"]


def _complete_rows(source: Source, columns: Sequence[str]) -> Any:
    """The rows without a null or NaN in the columns that these names or patterns match."""
    relation = source.relation
    matched = [n for n in relation.columns if any(n == p or fnmatch.fnmatchcase(n, p) for p in columns)]
    kinds = _kinds(relation)
    tests = [f"{quoted(n)} IS NOT NULL" for n in matched]
    tests += [f"NOT isnan({quoted(n)})" for n in matched if kinds[n] in ("FLOAT", "DOUBLE")]
    if not tests:
        return relation  # the error about the names is raised where they are read
    complete = relation.filter(" AND ".join(tests))
    rows, dropped = len(relation), len(relation) - len(complete)
    if dropped:
        text = f"{dropped:,} of {rows:,} lab rows have no prediction or no label: dropped."
        warnings.warn(FieldcalWarning(text), stacklevel=2)
    return complete.set_alias(source.name)


def _names(columns: Any) -> list[str]:
    listed = list(columns.values()) if isinstance(columns, Mapping) else columns
    return [listed] if isinstance(listed, str) else list(listed or ())


def _kinds(relation: Any) -> dict[str, str]:
    return dict(zip(relation.columns, map(str, relation.types), strict=True))


def _without_blanks(source: Source, label: str) -> Any:
    """The table, where a label that is an empty text, as some write CSV, is missing."""
    relation = source.relation
    if source.format == "parquet" or _kinds(relation).get(label) != "VARCHAR":
        return relation
    column = quoted(label)
    return relation.project(f"* REPLACE (nullif({column}, '') AS {column})").set_alias(source.name)


def _group_columns(field: Field, by: list[str] | None) -> list[str]:
    """Those that were counted; of a field that does not know them, those that are named."""
    known = list(field.by) or by or []
    if field.grouped and not known:
        raise InputError(
            f"The field does not know the names of its group columns: name them with {named('by')}."
        )
    return known if field.grouped else []


def _by_design(relation: Any, label: str, given: Design | None) -> dict[Design, Any]:
    """The rows of each design that a column names."""
    if given is not None:
        raise InputError(
            f"The table has a column {DESIGN_COLUMN!r}, which says how its rows were chosen: leave {named('design')} "
            "out, or rename the column."
        )
    known = relation.filter(f"{quoted(label)} IS NOT NULL") if label in relation.columns else relation
    found = [value for (value,) in known.project(quoted(DESIGN_COLUMN)).distinct().fetchall()]
    odd = [value for value in found if value not in DESIGNS]
    if odd:
        raise InputError(
            f"The column {DESIGN_COLUMN!r} says {odd[0]!r:.60} of rows with a label. Write one of "
            f"{', '.join(DESIGNS)}."
        )
    parts = {d: relation.filter(f"{quoted(DESIGN_COLUMN)} = '{d}'") for d in DESIGNS if d in found}
    return parts or {"random": relation}


def _typed(classes: Sequence[str], relation: Any, label: str) -> list[Hashable]:
    """Classes as the label column spells them: 0 is a number if the labels are numbers."""
    kind = _kinds(relation).get(label, "VARCHAR").upper()
    if kind == "BOOLEAN":  # also what DuckDB makes of a CSV with yes and no
        return [_TRUTH.get(c.lower(), c) for c in classes]
    if not kind.startswith(("DOUBLE", "FLOAT", "DECIMAL")) and "INT" not in kind:
        return list(classes)
    return [int(number) if (number := _whole(c)) is not None else c for c in classes]


def _whole(text: str) -> int | None:
    """A whole number, also as a column with gaps spells it: 1.0."""
    head, _, tail = text.partition(".")
    return int(head) if head.lstrip("+-").isdecimal() and not tail.strip("0") else None
