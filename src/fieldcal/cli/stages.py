"""What the commands do between reading and writing: one function per verb, shared with `run`."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import show
from fieldcal.cli.options import names, prior_of, score_names, trust_of
from fieldcal.cli.settings import Settings
from fieldcal.errors import InputError
from fieldcal.names import did_you_mean

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence
    from fieldcal.reporting import Report
    from fieldcal.tables.files import Session, Source


_TRUTH = dict.fromkeys(("true", "t", "yes", "y", "1"), True) | dict.fromkeys(
    ("false", "f", "no", "n", "0"), False
)


def learn_stage(
    settings: Settings,
    source: Source,
    *,
    label: str,
    scores: Sequence[str],
    by: list[str] | None,
    classes: Sequence[str] | None,
    bins: int | None,
    normalize: bool,
) -> Lab:
    """From a table with labels to a Lab."""
    from fieldcal import tables

    with show.working(settings, "learn"):
        return tables.learn(
            source.relation,
            scores=score_names(scores),
            label=label,
            by=by or (),
            classes=_typed(names(classes), source.relation, label),
            partition="auto" if bins is None else bins,
            normalize=normalize,
        )


def count_stage(settings: Settings, lab: Lab, source: Source, **options: Any) -> Field:
    """From a table of the field to a Field."""
    from fieldcal import tables

    with show.working(settings, "count"):
        return tables.count(lab, source.relation, **options)


def estimate_stage(
    settings: Settings, lab: Lab, field: Field, *, trust: str, prior: str, level: float, protected: bool
) -> Prevalence:
    """From a Lab and a Field to a Prevalence."""
    with show.working(settings, "estimate") as progress:
        return fieldcal.estimate(
            lab,
            field,
            trust=trust_of(trust),
            prior=prior_of(prior),
            level=level,
            protected=protected,
            progress=progress,
        )


def recalibrate_stage(
    settings: Settings, prev: Prevalence, session: Session, source: Source, target: Path, **options: Any
) -> int:
    """From a Prevalence and a table to a new file; how many rows it has."""
    from fieldcal import tables

    with show.working(settings, "recalibrate"):
        return tables.recalibrate_file(prev, session, source, str(target), **options)


def labelled_stage(settings: Settings, prev: Prevalence, source: Source, **options: Any) -> dict[str, Any]:
    """From a table of the field to its labelled rows."""
    from fieldcal import tables

    with show.working(settings, "read labels"):
        return tables.read_labelled(prev, source.relation, **options)


def report_stage(
    settings: Settings,
    prev: Prevalence,
    target: Path,
    *,
    of: str | None = None,
    title: str | None = None,
    rows: dict[str, Any] | None = None,
) -> Report:
    """From a Prevalence to a page."""
    with show.working(settings, "report"):
        made = fieldcal.report(
            prev.lab, prev.field, prev, of=_class_of(prev, of), title=title, **(rows or {})
        )
        made.save(target)
    return made


def _class_of(prev: Prevalence, text: str | None) -> Hashable:
    """The class that is spelled so; classes need not be text."""
    if text is None:
        return None
    spelled = {str(c): c for c in reversed(prev.classes)}
    if text not in spelled:
        raise InputError(f"There is no class {text!r:.60}.{did_you_mean(text, list(spelled))}")
    return spelled[text]


def _typed(classes: list[str] | None, relation: Any, label: str) -> Sequence[Hashable] | None:
    """Classes as the label column spells them: 0 is a number if the labels are numbers."""
    kind = str(dict(zip(relation.columns, relation.types, strict=True)).get(label, "VARCHAR")).upper()
    if classes is None:
        return None
    if kind == "BOOLEAN":  # also what DuckDB makes of a CSV with yes and no
        return [_TRUTH.get(c.lower(), c) for c in classes]
    return [int(c) if "INT" in kind and c.lstrip("+-").isdecimal() else c for c in classes]
