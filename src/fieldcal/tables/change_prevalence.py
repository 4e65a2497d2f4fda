"""`change_prevalence` on tables: known prevalences, applied in the table's own engine."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from fieldcal.errors import InputError, option
from fieldcal.objects import Correction
from fieldcal.options import check_choice, column_names
from fieldcal.storage import refuse_repeats
from fieldcal.tables.columns import Scores
from fieldcal.tables.engines import Table, open_table
from fieldcal.tables.files.paths import check_target
from fieldcal.tables.names import match_classes
from fieldcal.tables.recalibrate import correct
from fieldcal.tables.weight_table import RecalibrateOptions
from fieldcal.types import Keys
from fieldcal.verbs.change_prevalence import PrevalenceLike, as_classes, known_correction

if TYPE_CHECKING:
    from fieldcal.tables.files.session import Session, Source


def change_prevalence(
    frame: Any,
    *,
    scores: str | Sequence[str],
    old: PrevalenceLike,
    new: PrevalenceLike,
    by: str | Sequence[str] = (),
    classes: Sequence[Hashable] | None = None,
    unseen: Literal["error", "raw"] = "error",
    missing: Literal["error", "keep"] = "error",
    normalize: bool = False,
    name: str = "{}_recalibrated",
    check: bool = True,
) -> Any:
    """The table with new columns for another, known mix of classes: `fieldcal.change_prevalence`.

    Parameters
    ----------
    frame, missing, normalize, name, check : as in `recalibrate`
    scores : str or sequence
        One column, the probability of the second of two classes; or one per class, as names or as a pattern such as
        ``"p_*"``, where ``*`` is the class.
    old, new, classes, unseen : as in `fieldcal.change_prevalence`
        By default the classes are what ``*`` stands for, or the names of the columns.
    by : column or columns of the groups, where ``new`` is a mapping from group to prevalences

    Returns
    -------
    A table of the kind that was given; lazy if that was lazy

    Examples
    --------
    >>> import polars as pl
    >>> from fieldcal import tables
    >>> rows = pl.DataFrame({"p": [0.5, 0.9], "place": ["forest", "meadow"]})
    >>> tables.change_prevalence(rows, scores="p", old=0.5, new=0.1)["p_recalibrated"].round(3).to_list()
    [0.1, 0.5]
    """
    check_choice("unseen", unseen, ("error", "raw"))
    options = RecalibrateOptions(unseen, missing, normalize, name=name, check=check)
    return _apply(open_table(frame), options, scores=scores, old=old, new=new, by=by, classes=classes)


def change_prevalence_file(
    session: Session,
    source: Source,
    target: str | os.PathLike[str],
    *,
    scores: str | Sequence[str],
    old: PrevalenceLike,
    new: PrevalenceLike,
    by: str | Sequence[str] = (),
    classes: Sequence[Hashable] | None = None,
    **options: Any,
) -> int:
    """As `change_prevalence`, from files to a file; returns the number of rows written."""
    check_target(os.fspath(target), source.inputs)
    source = source.bound(scores=scores, by=by)
    relation, row_id = source.with_row_id()
    table = open_table(relation, row_id=row_id)
    chosen = RecalibrateOptions(**options)
    answer = _apply(table, chosen, scores=scores, old=old, new=new, by=by, classes=classes)
    return session.write(answer, target, sources=[source])


def _apply(
    table: Table, options: RecalibrateOptions, *, scores: Any, old: Any, new: Any, by: Any, classes: Any
) -> Any:
    columns, names = known_columns(table.names, scores, classes)
    groups = column_names("by", by)
    correction = correction_of(columns, names, old=old, new=new, grouped=bool(groups))
    check_width(columns, correction)
    return correct(correction, Scores(table, columns, options.normalize).checked(), groups, options)


def known_columns(
    names: Sequence[str], scores: str | Sequence[str], classes: Sequence[Hashable] | None
) -> tuple[tuple[str, ...], Keys | None]:
    """The columns of the predictions, and the classes in order if they are known."""
    known = None if classes is None else as_classes(classes)
    if isinstance(scores, str) and "*" in scores and scores not in names:
        head, _, tail = scores.partition("*")
        if known is None:
            fits = [n for n in names if n.startswith(head) and n.endswith(tail)]
            known = tuple(n[len(head) : len(n) - len(tail)] for n in fits if len(n) >= len(head) + len(tail))
        if len(known) < 2:
            raise InputError(
                f"The pattern {scores!r:.60} fits {len(known)} of the columns {list(names)!r:.200}, but there are two "
                "classes at least. Name the columns, or the one of the second class."
            )
        return match_classes(scores, names, known, in_order=True), known
    columns = column_names("scores", scores)
    refuse_repeats(columns)
    if not columns:
        raise InputError(f"No column of predictions is named. Pass {option('scores')}.")
    if len(columns) == 1:
        return columns, known
    if known is not None and len(known) != len(columns):
        raise InputError(
            f"There are {len(columns)} columns of scores for {len(known)} classes. Name one per class."
        )
    return columns, columns if known is None else known


def correction_of(
    columns: Sequence[str], names: Keys | None, *, old: Any, new: Any, grouped: bool
) -> Correction:
    """The correction for prevalences given by class, or by the column of its scores."""

    def by_class(shares: Any) -> Any:
        if names is None or not isinstance(shares, Mapping) or set(shares) != set(columns):
            return shares
        return {name: shares[column] for name, column in zip(names, columns, strict=True)}

    if not grouped:
        new = by_class(new)
    elif isinstance(new, Mapping):
        new = {group: by_class(shares) for group, shares in new.items()}
    return known_correction(by_class(old), new, classes=names, grouped=grouped)


def check_width(columns: Sequence[str], correction: Correction) -> None:
    """Refuse a number of columns that does not match the prevalences; one column means two classes."""
    if len(columns) != correction.n_classes and (len(columns), correction.n_classes) != (1, 2):
        raise InputError(
            f"There are prevalences of {correction.n_classes} classes, but {len(columns)} columns of scores. Name one "
            "per class, or the one of the second of two."
        )
