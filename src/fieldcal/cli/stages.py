"""What the commands do between reading and writing: one function per verb, shared with `run`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import show
from fieldcal.cli.options import (
    fitting_options,
    intervals_of,
    names,
    prior_of,
    quantile_columns,
    score_names,
    trust_of,
)
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
    by: list[str] | None,
    scores: Sequence[str] | None,
    quantiles: Sequence[str] | None,
    **options: Any,
) -> Lab:
    """From a table with labels to a Lab, of classes or of a number."""
    if (scores is None) == (quantiles is None):
        raise InputError(
            f"Of --scores and --quantiles {'none is' if scores is None else 'both are'} given, but one is needed: "
            "--scores names columns with probabilities of classes, --quantiles columns with quantiles of a number."
        )
    fitting = fitting_options(options, of_number=scores is None)
    learn = _learn_classes if quantiles is None else _learn_number
    with show.working(settings, "learn"):
        return learn(source.relation, scores or quantiles or (), label=label, by=by or (), **fitting)


def _learn_classes(
    relation: Any,
    scores: Sequence[str],
    *,
    label: str,
    by: Sequence[str],
    classes: Sequence[str] | None,
    bins: int | None,
    ordered: bool,
    normalize: bool,
) -> Lab:
    from fieldcal import tables

    return tables.learn(
        relation,
        scores=score_names(scores),
        label=label,
        by=by,
        classes=_typed(names(classes), relation, label),
        partition="auto" if bins is None else bins,
        ordered=ordered,
        normalize=normalize,
    )


def _learn_number(relation: Any, quantiles: Sequence[str], *, intervals: str | None, **options: Any) -> Lab:
    from fieldcal.regression import frames

    columns, cut = quantile_columns(quantiles), intervals_of(intervals)
    return frames.learn_table(relation, quantiles=columns, intervals=cut, **options)


def count_stage(settings: Settings, lab: Lab, source: Source, **options: Any) -> Field:
    """From a table of the field to a Field."""
    verbs, fitting = _verbs_of(lab), _of_lab(lab, options)
    with show.working(settings, "count"):
        return verbs.count(lab, source.relation, **fitting)


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
    verbs, fitting = _verbs_of(prev.lab), _of_lab(prev.lab, options)
    with show.working(settings, "recalibrate"):
        return verbs.recalibrate_file(prev, session, source, str(target), **fitting)


def labelled_stage(settings: Settings, prev: Prevalence, source: Source, **options: Any) -> dict[str, Any]:
    """From a table of the field to its labelled rows."""
    verbs, fitting = _verbs_of(prev.lab), _of_lab(prev.lab, options)
    with show.working(settings, "read labels"):
        return verbs.read_labelled(prev, source.relation, **fitting)


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


@dataclass(frozen=True)
class Verbs:
    """The verbs on tables, for classes or for a number."""

    count: Callable[..., Field]
    recalibrate_file: Callable[..., int]
    read_labelled: Callable[..., dict[str, Any]]


def _verbs_of(lab: Lab) -> Verbs:
    if lab.support is None:
        from fieldcal import tables

        return Verbs(tables.count, tables.recalibrate_file, tables.read_labelled)
    from fieldcal.regression import frames  # which loads much that classes do not need

    return Verbs(frames.count_table, frames.recalibrate_file, frames.read_labelled)


def _of_lab(lab: Lab, options: dict[str, Any]) -> dict[str, Any]:
    """The options that fit what the lab is of; columns of quantiles understood."""
    fitting = fitting_options(options, of_number=lab.support is not None)
    if fitting.get("quantiles") is not None:
        fitting["quantiles"] = quantile_columns(fitting["quantiles"])
    return fitting


def _class_of(prev: Prevalence, text: str | None) -> Hashable:
    """The class that is spelled so; classes need not be text."""
    if text is None:
        return None
    spelled = {str(c): c for c in reversed(prev.classes)}
    if text not in spelled:
        known = ", ".join(map(str, prev.classes))
        raise InputError(
            f"There is no class {text!r:.60}.{did_you_mean(text, list(spelled))} There are {known:.200}."
        )
    return spelled[text]


def _typed(classes: list[str] | None, relation: Any, label: str) -> Sequence[Hashable] | None:
    """Classes as the label column spells them: 0 is a number if the labels are numbers."""
    kind = str(dict(zip(relation.columns, relation.types, strict=True)).get(label, "VARCHAR")).upper()
    if classes is None:
        return None
    if kind == "BOOLEAN":  # also what DuckDB makes of a CSV with yes and no
        return [_TRUTH.get(c.lower(), c) for c in classes]
    return [int(c) if "INT" in kind and c.lstrip("+-").isdecimal() else c for c in classes]
