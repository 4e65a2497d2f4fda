"""fieldcal change-prevalence: predictions for a mix of classes that the caller knows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fieldcal.cli import options as opt
from fieldcal.cli import output as out
from fieldcal.cli.inputs import check_table_target, session
from fieldcal.cli.options import arguments
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError
from fieldcal.storage import is_table

if TYPE_CHECKING:
    from fieldcal.tables.files.session import Session

_HOW = (
    "a share of the second of two classes, 0.05; numbers in the order of the classes, 0.7,0.2,0.1 (shares, rows or "
    "class weights: only ratios count); or by name, cat=70,dog=30"
)


@dataclass(frozen=True, kw_only=True)
class Known:
    """Both mixes of classes."""

    scores: Annotated[
        list[str],
        typer.Option(
            metavar="COLUMNS",
            help="The columns with the predictions: the probability of the second class, 'p_*' where * is the class, "
            "or p_a,p_b with one name per class.",
            show_default=False,
        ),
    ]
    old: Annotated[
        str,
        typer.Option(
            metavar="SHARES", help=f"The mix that the predictions assume: {_HOW}.", show_default=False
        ),
    ]
    new: Annotated[
        str,
        typer.Option(
            metavar="SHARES|TABLE",
            help="The mix of the rows, written in the same way. With --by, a table with the columns of the groups and "
            "one of shares per class, named after it, or one of the second of two.",
            show_default=False,
        ),
    ]
    by: opt.By = None
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="The classes in the order of the columns: a,b.", show_default=False
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Changing:
    """The other options."""

    unseen: Annotated[
        Literal["error", "raw"],
        typer.Option(help="Groups that are not in the table of --new: refuse, or leave alone."),
    ] = "error"
    missing: opt.KeptRows = "error"
    normalize: opt.Normalize = False
    name: opt.NewName = "{}_recalibrated"


def change_prevalence(
    settings: Settings,
    table: Annotated[str, typer.Argument(metavar="TABLE", help=f"Predictions to change. {opt.TABLE}")],
    output: opt.TableOutput,
    known: Known,
    options: Changing,
) -> None:
    """Predictions for another mix of classes, which you know: also to undo class weights or resampling.

    Example: fieldcal change-prevalence scores.csv --scores p --old 0.5 --new 0.05 -o new.csv
    """
    from fieldcal import tables

    given = arguments(known)
    old, new = shares_of(given.pop("old"), "--old"), given.pop("new")
    by = given.pop("by") or []
    read = [new] if by else []
    to_stdout = check_table_target(settings, output, [table, *read])
    with session(settings) as opened, out.working(settings, "change-prevalence"):
        wanted = shares_of_groups(opened, new, by) if by else shares_of(new, "--new")
        rows = tables.change_prevalence_file(
            opened,
            opened.open(table),
            str(output),
            **given,
            old=old,
            new=wanted,
            by=by,
            **arguments(options),
        )
    text = f"{rows:,} rows, from {known.old} to {known.new}; right as far as these numbers are"
    if to_stdout:
        out.note(settings, text)
    else:
        out.done(settings, {"rows": rows, "old": old, "new": _listed(wanted)}, [output], text)


def shares_of(text: str, option: str) -> float | list[float] | dict[str, float]:
    """One share, one number per class, or numbers by the name of the class.

    Examples
    --------
    >>> from fieldcal.cli.known import shares_of
    >>> shares_of("0.05", "--old"), shares_of("7,2,1", "--old"), shares_of("cat=1,dog=3", "--old")
    (0.05, [7.0, 2.0, 1.0], {'cat': 1.0, 'dog': 3.0})
    """
    from fieldcal.verbs.change_prevalence import as_prevalences

    parts = opt.names([text]) or []
    pairs = [part.rpartition("=") for part in parts]
    numbers = [opt.number(last) for _, _, last in pairs]
    named = [name for name, sign, _ in pairs if sign]
    values = [value for value in numbers if value is not None]
    if not parts or len(values) < len(parts) or len(named) not in (0, len(parts)):
        raise InputError(f"{option} must be {_HOW}, but got {text!r:.60}.")
    as_prevalences(option, values if named or len(values) > 1 else values[0])  # refused as it is typed
    if named:
        if len(set(named)) < len(named):
            raise InputError(f"{option} names a class twice, in {text!r:.60}. Give each one number.")
        return dict(zip(named, values, strict=True))
    return values[0] if len(values) == 1 else values


def shares_of_groups(opened: Session, path: str, by: Sequence[str]) -> dict[Any, Any]:
    """The prevalences of every group, from a table of them."""
    if not is_table(path):
        raise InputError(
            f"With --by, --new names a table of the groups' shares (CSV or Parquet), but got {path!r:.60}. Leave --by "
            "out if all groups have the same."
        )
    columns = opened.open(path).relation.columns
    shares = [name for name in columns if name not in by]
    lost = [name for name in by if name not in columns]
    if lost or not shares:
        what = f"has no column {lost[0]!r:.60}" if lost else "has no column of shares"
        raise InputError(f"The table {path!r:.60} of --new {what}: it has {', '.join(columns):.120}.")
    rows = opened.open(path).bound(scores=shares, by=by).relation.project(*map(_quoted, [*by, *shares]))
    found: dict[Any, Any] = {}
    for row in rows.fetchall():
        key = row[0] if len(by) == 1 else tuple(row[: len(by)])
        if key in found:
            raise InputError(f"The table {path!r:.60} of --new has the group {key!r:.60} twice. Leave one.")
        values = {name: _share(value, name, path) for name, value in zip(shares, row[len(by) :], strict=True)}
        found[key] = values[shares[0]] if len(shares) == 1 else values
    return found


def _share(value: Any, column: str, path: str) -> float:
    found = None if value is None else opt.number(str(value))
    if found is None:
        raise InputError(
            f"The table {path!r:.60} of --new has {value!r:.40} in its column {column!r:.40}, which is no share. Leave "
            "all columns out but those of the groups and their shares."
        )
    return found


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _listed(wanted: Any) -> Any:
    """For JSON, where keys are text."""
    if not isinstance(wanted, dict) or all(isinstance(key, str) for key in wanted):
        return wanted
    return [{"group": list(k) if isinstance(k, tuple) else k, "new": v} for k, v in wanted.items()]
