"""Names of columns: of scores, matched to classes; of groups; of what is new."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence

from fieldcal.errors import InputError, RecalibratedWarning, Word, option
from fieldcal.objects import Lab, Prevalence
from fieldcal.options import column_names
from fieldcal.storage import did_you_mean

#: How the columns end that `recalibrate` makes.
_RECALIBRATED = "_recalibrated"


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
