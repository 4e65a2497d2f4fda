"""Labels of field rows, in the field's own table or in another one; and items, by which rows of groups are paired."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.inputs import session as open_session
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError, RowError
from fieldcal.storage import DESIGN_COLUMN

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.objects.derived import Pairs
    from fieldcal.tables.files.session import Session, Source
    from fieldcal.types import Design

Labelled = Annotated[str | None, opt.option("Labelled")]


@dataclass(frozen=True, kw_only=True)
class Labels:
    """Where the labels of field rows are."""

    label: Annotated[str | None, opt.option("label.labels")] = None
    labelled: Labelled = None
    design: opt.HowChosen = None


@dataclass(frozen=True, kw_only=True)
class FieldLabels:
    """The same where --label is a column of the lab."""

    field_label: Annotated[str | None, opt.option("field_label")] = None
    labelled: Labelled = None
    design: opt.HowChosen = None

    @property
    def labels(self) -> Labels:
        """As `count` has them."""
        return Labels(label=self.field_label, labelled=self.labelled, design=self.design)


def check_of_another_table(labels: Labels, columns: Mapping[str, Any], *, is_artefact: bool) -> None:
    """Refuse what is about a table of labels where none is given; of a table of counts, --design is its labels'."""
    about = {f"--{name}": columns.get(name) for name in ("scores", "quantiles", "predictions")} | {
        "--label": labels.label
    }
    about |= {"--design": labels.design} if is_artefact else {}
    given = [name for name, value in about.items() if value is not None]
    if labels.labelled is None and given:
        raise InputError(
            f"{given[0]} is about the table of --labelled, which is not given. Labels in the table of the field are "
            "counted with it: fieldcal count --label."
        )


def count_with_labels(
    settings: Settings, lab: Lab, session: Session, source: Source, labels: Labels, **given: Any
) -> Field:
    """The field of a table, with the labels that it has or another one."""
    own = labels.labelled is None
    if own and (labels.label is None or DESIGN_COLUMN not in source.columns):
        given |= {"label": labels.label, "design": labels.design}
        with lines_of(source):
            return _count(settings, lab, relation_of(lab, source, given), **given)
    if given["time"] is not None:
        raise InputError(
            f"Windows of --time do not go with labels in another table, nor with a column {DESIGN_COLUMN}. Put the "
            "labels of one design into the table of the field."
        )
    batch = given.pop("batch")
    field = _count(settings, lab, relation_of(lab, source, given), **given)
    options = {name: value for name, value in given.items() if name not in ("by", "time", "every")}
    later = source if labels.labelled is None else session.open(labels.labelled)
    field = add_labels(settings, lab, field, later, labels, **options)
    return field if batch is None else field.named(batch)


def add_labels(
    settings: Settings,
    lab: Lab,
    field: Field,
    source: Source,
    labels: Labels,
    *,
    by: list[str] | None = None,
    **given: Any,
) -> Field:
    """A field with the labels of a table whose rows it has counted."""
    from fieldcal.objects import group_keys
    from fieldcal.tables.weight_table import text_columns

    given |= {"label": label_column(lab, labels.label), "by": _group_columns(field, by), "only_labels": True}
    relation = relation_of(lab, source, given, text=text_columns(given["by"], field.groups))
    parts: dict[Design, Any] = {labels.design or lab.design or "random": relation}
    if DESIGN_COLUMN in source.columns:
        parts = _by_design(relation, given["label"], labels.design)
    counted = [_count(settings, lab, part, design=design, **given) for design, part in parts.items()]
    found = sum(counted[1:], counted[0])
    lost = group_keys.positions(field.groups, found.groups) < 0
    if lost.any():
        raise InputError(
            f"The table of labels has the group {found.groups[int(lost.argmax())]!r:.60}, which the field does not "
            "have. Are its rows part of the field? If they are not counted yet, put them into its table."
        )
    return field + found


def _count(settings: Settings, lab: Lab, relation: Any, **given: Any) -> Field:
    from fieldcal import tables

    with out.working(settings, "count"):
        return tables.count(lab, relation, **given)


def relation_of(lab: Lab, source: Source, given: Mapping[str, Any], *, text: Sequence[str] = ()) -> Any:
    """The table, its columns bound to their roles; a label that is an empty text is missing."""
    label, words = given.get("label"), any(isinstance(c, str) for c in lab.classes)
    columns = {name: given.get(name) for name in ("by", "time", "label")}
    scores = given.get("quantiles") if given.get("scores") is None else given["scores"]
    text = [*text, *([label] if label is not None and words else [])]
    values = given.get("predictions")
    bound = source.bound(lab, scores=scores, predictions=values, text=text, **columns)
    return bound.relation if label not in text or "" in lab.classes else without_blanks(bound, label)


def without_blanks(source: Source, label: str) -> Any:
    """The table, where a label that is an empty text, as some write CSV, is missing."""
    import duckdb

    relation, column = source.relation, duckdb.ColumnExpression(label)
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    if source.format == "parquet" or kinds.get(label) != "VARCHAR":
        return relation
    filled = duckdb.CaseExpression(column != duckdb.ConstantExpression(""), column).alias(label)
    made = relation.select(*(filled if name == label else duckdb.ColumnExpression(name) for name in kinds))
    return made.set_alias(source.name)


def complete_rows(settings: Settings, source: Source, patterns: Sequence[str]) -> Any:
    """The rows of a lab without a null or NaN in the columns that these names or patterns match."""
    relation = source.relation
    names = [n for n in relation.columns if any(n == p or fnmatch.fnmatchcase(n, p) for p in patterns)]
    kinds = dict(zip(relation.columns, map(str, relation.types), strict=True))
    quoted = {name: '"' + name.replace('"', '""') + '"' for name in names}
    tests = [f"{quoted[n]} IS NOT NULL" for n in names]
    tests += [f"NOT isnan({quoted[n]})" for n in names if kinds[n] in ("FLOAT", "DOUBLE")]
    if not tests:
        return relation  # the error about the names is raised where they are read
    complete = relation.filter(" AND ".join(tests))
    dropped = len(relation) - len(complete)
    if dropped:
        out.warn(
            settings, f"{dropped:,} of {len(relation):,} lab rows have no prediction or no label: dropped."
        )
    return complete.set_alias(source.name)


@contextmanager
def lines_of(source: Source) -> Iterator[None]:
    """An error that speaks of a row of this table also tells its line."""
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
            "The lab was learnt from arrays and knows no column of labels: name it with --label."
        )
    return lab.columns.label


def _group_columns(field: Field, by: list[str] | None) -> list[str]:
    """Those that were counted; of a field that does not know them, those that are named."""
    known = list(field.by) or by or []
    if field.grouped and not known:
        raise InputError("The field does not know the names of its group columns: name them with --by.")
    return known if field.grouped else []


def _by_design(relation: Any, label: str, given: Design | None) -> dict[Design, Any]:
    import duckdb

    from fieldcal.types import DESIGNS

    if given is not None:
        raise InputError(
            f"The table has a column {DESIGN_COLUMN!r}, which says how its rows were chosen: leave --design out, or "
            "rename the column."
        )
    design = duckdb.ColumnExpression(DESIGN_COLUMN)
    known = (
        relation.filter(duckdb.ColumnExpression(label).isnotnull()) if label in relation.columns else relation
    )
    said = [value for (value,) in known.select(design).distinct().fetchall()]
    odd = [value for value in said if value not in DESIGNS]
    if odd:
        raise InputError(
            f"The column {DESIGN_COLUMN!r} says {odd[0]!r:.60} of rows with a label. Write one of "
            f"{', '.join(DESIGNS)}."
        )
    parts = {d: relation.filter(design == duckdb.ConstantExpression(d)) for d in DESIGNS if d in said}
    return parts or {"random": relation}


Item = Annotated[list[str] | None, opt.option("Item")]


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Where the items are."""

    paired: Annotated[str | None, opt.option("paired")] = None
    item: Item = None


def pairs_of(settings: Settings, prev: Prevalence, given: Paired) -> Pairs | None:
    """The pairs of an estimate's own rows, where they are asked for."""
    if given.paired is None and given.item is None:
        return None
    if given.paired is None or given.item is None:
        raise InputError(
            "Items are compared with both --paired, the table that was counted, and --item, its column of items. Give "
            "both, or neither."
        )
    with open_session(settings) as opened:
        source = opened.open(given.paired)
        held = prev.lab.columns
        label = held.label if held is not None and held.label in source.columns else None
        by = list(prev.field.by)
        return read_pairs(settings, prev.lab, source, by=by, item=opt.names(given.item), label=label)


def read_pairs(settings: Settings, lab: Lab, source: Source, **given: Any) -> Pairs:
    """The pairs of a table."""
    from fieldcal import tables

    relation = relation_of(lab, source, given)
    with out.working(settings, "pair"), lines_of(source):
        return tables.pairs(lab, relation, **given)
