"""What the options that every command has say."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from fieldcal.errors import InputError

if TYPE_CHECKING:
    from fieldcal.core.priors import PriorLike


@dataclass
class Settings:
    """Filled while the arguments are parsed; every command has it as ``ctx.obj``."""

    json: bool = False
    quiet: bool = False
    debug: bool = False
    memory_limit: str | None = None
    threads: int | None = None
    warnings: list[str] = field(default_factory=list)  # those shown so far, for --json


#: The options that may stand before or after the command.
EVERYWHERE = tuple(f.name for f in dataclasses.fields(Settings) if f.name != "warnings")

#: Options that go with probabilities of classes alone, or with quantiles alone: what they are when not given, and what
#: to do instead.
_OF_CLASSES = {
    "scores": (None, "Name the columns with --quantiles."),
    "classes": (None, "Use --intervals."),
    "bins": (None, "Use --intervals."),
    "ordered": (False, "Intervals of a number are in order anyway: leave it out."),
    "normalize": (False, "Leave it out."),
    "missing": ("error", "Drop rows without a prediction first."),
    "time": (None, "Count every window by itself, with --batch, and merge."),
    "every": (None, "Count every window by itself, with --batch, and merge."),
}
_OF_NUMBERS = {
    "quantiles": (None, "Name the columns with --scores."),
    "intervals": (None, "Leave it out."),
    "crossing": ("error", "Leave it out."),
}

LabFile = Annotated[Path, typer.Argument(metavar="LAB.json", help="The lab that `fieldcal learn` made.")]
FieldFile = Annotated[
    Path,
    typer.Argument(
        metavar="FIELD.json", help="What `fieldcal count` made, or a table of counts of a warehouse."
    ),
]
PrevalenceFile = Annotated[
    Path, typer.Argument(metavar="PREVALENCE.json", help="What `fieldcal estimate` made.")
]
_TABLE = "A file or glob (Parquet, CSV, also compressed), or - for standard input."
LabTable = Annotated[str, typer.Argument(metavar="LAB_TABLE", help=f"Predictions with labels. {_TABLE}")]
FieldTable = Annotated[str, typer.Argument(metavar="FIELD_TABLE", help=f"Predictions in the field. {_TABLE}")]
AnyTable = Annotated[str, typer.Argument(metavar="TABLE", help=f"Predictions to recalibrate. {_TABLE}")]

Output = Annotated[
    Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write.", show_default=False)
]
TableOutput = Annotated[
    Path,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Where to write: .parquet, .csv, or - for standard output.",
        show_default=False,
    ),
]
Label = Annotated[
    str, typer.Option(metavar="COLUMN", help="The column with the true class.", show_default=False)
]
Scores = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="The columns with the predictions: the probability of the second class, 'p_*' where * is the class, or "
        "p_a,p_b with one name per class. May be repeated; quote names with a comma: '\"a,b\",c'.",
        show_default=False,
    ),
]
FieldScores = Annotated[
    list[str] | None,
    typer.Option(
        "--scores",
        metavar="COLUMNS",
        help="The columns with the predictions, in the order of the classes; by default those of the lab.",
    ),
]
_QUANTILES = (
    "columns with quantiles of a number, 'q_*' where * is the level (0.05) or a percentage (5), or each level with its "
    "column: 0.1=low,0.9=high"
)
Quantiles = Annotated[
    list[str] | None,
    typer.Option(
        "--quantiles", metavar="COLUMNS", help=f"In place of --scores: {_QUANTILES}.", show_default=False
    ),
]
FieldQuantiles = Annotated[
    list[str] | None,
    typer.Option(
        "--quantiles", metavar="COLUMNS", help=f"Of a regression: {_QUANTILES}; by default those of the lab."
    ),
]
Intervals = Annotated[
    str | None,
    typer.Option(
        metavar="N|EDGES",
        help="With --quantiles: into how many intervals to cut the numbers, or where: 0,10,20. By default chosen by "
        "the data.",
        show_default=False,
    ),
]
CrossingRows = Annotated[
    Literal["error", "sort"],
    typer.Option("--crossing", help="Rows whose quantiles cross: refuse, or sort their quantiles."),
]
CountedBy = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="COLUMNS", help="With a table of counts: the names of its group columns."),
]
By = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="The column of the groups; repeat it, or use commas, for several. Later steps know it.",
        show_default=False,
    ),
]
Classes = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAMES", help="The classes in the order of the score columns: a,b.", show_default=False
    ),
]
BinCount = Annotated[
    int | None,
    typer.Option("--bins", metavar="N", min=1, help="The number of bins; by default chosen by the data."),
]
Ordered = Annotated[
    bool, typer.Option("--ordered", help="The order of the classes means something, as in grades.")
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Rescale each row's predictions to sum to one.")]
MissingRows = Annotated[
    Literal["error", "drop"], typer.Option("--missing", help="Rows without a prediction.")
]
Batch = Annotated[
    str | None, typer.Option(metavar="ID", help="A name for these rows; they can be counted only once.")
]
Time = Annotated[str | None, typer.Option(help="A column of times, to count by window.", metavar="COLUMN")]
Every = Annotated[
    str | None, typer.Option(help="The length of a window of --time, such as 1d.", metavar="LENGTH")
]
Trust = Annotated[
    str, typer.Option(metavar="TRUST", help="How far to follow the estimate: auto, or a number from 0 to 1.")
]
Prior = Annotated[
    str,
    typer.Option(
        metavar="PRIOR",
        help="auto, flat, pooled, smooth, or kl, dirichlet, reference with a strength: kl:10.",
    ),
]
Level = Annotated[float, typer.Option(metavar="LEVEL", help="Probability content of the intervals.")]
Protected = Annotated[
    bool, typer.Option("--protected", help="Decisions must be blind to the groups: estimate, do not apply.")
]
Csv = Annotated[
    Path | None, typer.Option("--csv", metavar="FILE", help="Also write the table of prevalences here.")
]
UnseenGroups = Annotated[
    Literal["global", "raw", "error"],
    typer.Option("--unseen", help="Groups never counted: treat as the whole field, leave alone, or refuse."),
]
KeptRows = Annotated[
    Literal["error", "keep"],
    typer.Option("--missing", help="Rows without a prediction: refuse, or keep as is."),
]
NewName = Annotated[
    str, typer.Option("--name", metavar="PATTERN", help="Names of the new columns; {} is the old name.")
]
Acknowledge = Annotated[
    bool, typer.Option("--acknowledge", help="Apply an estimate over protected groups all the same.")
]


def names(given: Sequence[str] | None) -> list[str] | None:
    """Column names from options that may be repeated and may hold commas; ``"a,b"`` in quotes is one name."""
    if given is None:
        return None
    found = [name for text in given for name in next(csv.reader([text], skipinitialspace=True), [])]
    if "" in found:
        raise InputError(f"There is an empty name in {', '.join(given)!r:.80}. Write names as a,b,c.")
    return found


def fitting_options(options: Mapping[str, Any], *, of_number: bool) -> dict[str, Any]:
    """The options that fit probabilities of classes, or quantiles of a number; one that does not must not be given."""
    for name, (unset, way_out) in (_OF_CLASSES if of_number else _OF_NUMBERS).items():
        if options.get(name, unset) != unset:
            kind = "quantiles of a number" if of_number else "probabilities of classes"
            raise InputError(f"--{name} does not go with {kind}, which this is about. {way_out}")
    return {k: v for k, v in options.items() if k not in (_OF_CLASSES if of_number else _OF_NUMBERS)}


def quantile_columns(given: Sequence[str]) -> str | dict[float, str]:
    """A pattern as it is; ``0.1=low,0.9=high`` as the column of each level."""
    found = names(given) or []
    if not found:
        raise InputError("--quantiles names no column. Write --quantiles 'q_*'.")
    if len(found) == 1 and "*" in found[0]:
        return found[0]
    columns: dict[float, str] = {}
    for text in found:
        level, _, column = text.partition("=")
        try:
            number = float(level)
        except ValueError:
            number = -1.0
        if not 0.0 < number < 1.0 or not column or number in columns:
            raise InputError(
                f"--quantiles does not tell the level of {text!r:.60}. Write a pattern such as 'q_*', or each level "
                "between 0 and 1 once with its column: 0.1=low,0.9=high."
            )
        columns[number] = column
    return columns


def intervals_of(text: str | None) -> int | Literal["auto"] | list[float]:
    """auto, how many, or edges with commas; ``5,`` is one edge.

    Examples
    --------
    >>> from fieldcal.cli.options import intervals_of
    >>> intervals_of("12"), intervals_of("0,10,20"), intervals_of(None)
    (12, [0.0, 10.0, 20.0], 'auto')
    """
    if text is None or text == "auto":
        return "auto"
    try:
        return [float(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    except ValueError:
        raise InputError(
            f"--intervals must be a whole number or edges such as 0,10,20, but got {text!r:.60}."
        ) from None


def score_names(given: Sequence[str]) -> str | list[str]:
    """One name, or a pattern, as it is; several as a list."""
    found = names(given) or []
    if not found:
        raise InputError("--scores names no column. Write --scores p, or --scores 'p_*'.")
    return found[0] if len(found) == 1 else found


def trust_of(text: str) -> float | Literal["auto"]:
    """auto, or a number in [0, 1]."""
    if text == "auto":
        return "auto"
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value <= 1.0:
        raise InputError(f"--trust must be auto or a number from 0 to 1, but got {text!r:.60}.")
    return value


def prior_of(text: str) -> PriorLike:
    """A prior by its name, with a strength where it has one: ``kl:10``."""
    from fieldcal.core.priors import KL, Dirichlet, as_prior

    name, colon, strength = text.partition(":")
    if name == "auto" and not colon:
        return "auto"  # what it means depends on the lab
    if not colon:
        return as_prior(name)  # type: ignore[arg-type]  # it refuses what it does not know
    kinds: dict[str, type[KL | Dirichlet]] = {
        "kl": KL,
        "dirichlet": Dirichlet,
    }
    try:
        return kinds[name](float(strength))
    except (KeyError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"--prior must be a name, or {', '.join(kinds)} with a strength such as kl:10, but got {text!r:.60}."
        ) from None
