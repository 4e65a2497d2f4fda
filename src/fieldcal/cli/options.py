"""The options: what each is called, what its help says, and how its text is read.

A command takes its options in groups, one dataclass per stage; `flat` makes each field an option of its own. So an
option is written down once, whichever commands have it.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import inspect
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

import fieldcal
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError

if TYPE_CHECKING:
    from fieldcal.core.priors import Prior, PriorLike

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
TABLE = "A file or glob (Parquet, CSV, JSON Lines, also compressed), or - for standard input."
LabTable = Annotated[
    str | None,
    typer.Argument(
        metavar="LAB_TABLE",
        help=f"Predictions with labels; none with published rates of a test, --sensitivity or --confusion. {TABLE}",
        show_default=False,
    ),
]
OneOrBothTables = Annotated[
    str,
    typer.Argument(
        metavar="LAB_TABLE", help=f"Predictions with labels; with --predictions, of some rows. {TABLE}"
    ),
]
MaybeFieldTable = Annotated[
    str | None,
    typer.Argument(
        metavar="FIELD_TABLE",
        help="Predictions in the field; with --predictions by default the same table.",
        show_default=False,
    ),
]
FieldTable = Annotated[str, typer.Argument(metavar="FIELD_TABLE", help=f"Predictions in the field. {TABLE}")]
AnyTable = Annotated[str, typer.Argument(metavar="TABLE", help=f"Predictions to recalibrate. {TABLE}")]


def _output(help: str, metavar: str = "FILE") -> Any:
    return typer.Option("-o", "--output", metavar=metavar, help=help, show_default=False)


Output = Annotated[Path, _output("Where to write.")]
TableOutput = Annotated[Path, _output("Where to write: .parquet, .csv, or - for standard output.")]
PageOutput = Annotated[Path, _output("Where to write: .html, .md or .json.")]
Folder = Annotated[Path, _output("The folder for the results; made if missing.", "FOLDER")]

By = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMNS",
        help="The column of the groups; repeat it, or use commas, for several. Later steps know it.",
        show_default=False,
    ),
]
Crossing = Annotated[
    Literal["error", "sort"],
    typer.Option(help="Rows whose quantiles cross: refuse, or sort their quantiles."),
]
Normalize = Annotated[bool, typer.Option("--normalize", help="Rescale each row's predictions to sum to one.")]
MissingRows = Annotated[Literal["error", "drop"], typer.Option(help="Rows without a prediction.")]
UnseenGroups = Annotated[
    Literal["global", "raw", "error"],
    typer.Option(
        help="Groups never counted: treat as the whole field, do not correct (calibrate only, where the lab "
        "is calibrated), or refuse."
    ),
]
KeptRows = Annotated[
    Literal["error", "keep"], typer.Option(help="Rows without a prediction: refuse, or keep as is.")
]
NewName = Annotated[
    str, typer.Option(metavar="PATTERN", help="Names of the new columns; {} is the old name.")
]
WeightShape = Annotated[
    Literal["tilt", "bins"],
    typer.Option(
        help="With labels of the field: weights of the row's group alone, or of its bin too, for scores that are off."
    ),
]
Acknowledge = Annotated[
    bool,
    typer.Option("--acknowledge", help="Apply an estimate over protected groups, or one with 'do not use'."),
]
Method = Annotated[
    Literal["default", "paper", "reference"],
    typer.Option(
        help="What 'auto' means: fieldcal's choice; what the paper does; or what its authors' R code "
        "does. Learn and estimate by the same.",
    ),
]
HowChosen = Annotated[
    Literal["random", "by_score", "by_class"] | None,
    typer.Option(
        help="How the rows with labels were chosen: at random, by looking at predictions or groups, or by their class. "
        "With --predictions it must be said; else by default random.",
        show_default=False,
    ),
]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Of whatever is drawn at random.")]
_QUANTILES = (
    "columns with quantiles of a number, 'q_*' where * is the level (0.05) or a percentage (5), or each level with its "
    "column: 0.1=low,0.9=high"
)


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Options of `learn`."""

    label: Annotated[
        str, typer.Option(metavar="COLUMN", help="The column with the true class.", show_default=False)
    ]
    scores: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="The columns with the predictions: the probability of one of two classes (see --positive), 'p_*' "
            "where * is the class, or p_a,p_b with one name per class. May be repeated; quote names with a comma: "
            "'\"a,b\",c'.",
            show_default=False,
        ),
    ] = None
    quantiles: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help=f"In place of --scores: {_QUANTILES}.", show_default=False),
    ] = None
    predictions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="In place of --scores: the column with the values of a judge or a test, such as pass, 4 or true; "
            "several, a,b, of several judges. Needs --design; --label may then be empty in most rows.",
            show_default=False,
        ),
    ] = None
    design: HowChosen = None
    by: By = None
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES", help="The classes in the order of the score columns: a,b.", show_default=False
        ),
    ] = None
    positive: Annotated[
        str | None,
        typer.Option(
            metavar="CLASS",
            help="With one column of --scores: the class that it is the probability of, such as yes. By default the "
            "second in sorted order.",
            show_default=False,
        ),
    ] = None
    method: Method = "default"
    bins: Annotated[
        str | None,
        typer.Option(
            metavar="BINS",
            help="The number of bins; where to cut the score of two classes, 0.2,0.5; or how, with their number: "
            "quantiles:8, simplex:24, expected:8. given:8 where --scores holds numbers of bins, from 0 to 7. Or those "
            "of another lab: lab.json. By default chosen by the data.",
            show_default=False,
        ),
    ] = None
    smoothing: Annotated[
        str,
        typer.Option(
            metavar="ROWS",
            help="Pseudo-rows per class that keep every count above zero: auto, or from 0, none.",
        ),
    ] = "auto"
    ordered: Annotated[
        bool, typer.Option("--ordered", help="The order of the classes means something, as in grades.")
    ] = False
    normalize: Normalize = False
    calibration: Annotated[
        str | None,
        typer.Option(
            metavar="METHOD",
            help="Calibrate the predictions on the lab first: sigmoid, isotonic or temperature. The field's are then "
            "read in the same way. Or as another lab of the same classes is calibrated, to merge the two: lab.json.",
            show_default=False,
        ),
    ] = None
    intervals: Annotated[
        str,
        typer.Option(
            metavar="N|EDGES",
            help="With --quantiles: into how many intervals to cut the numbers, or where: 0,10,20. By default chosen "
            "by the data.",
            show_default=False,
        ),
    ] = "auto"
    atoms: Annotated[
        str,
        typer.Option(
            metavar="NUMBERS",
            help="With --quantiles: numbers with an interval of their own: 0,100; none for none. By default those of a "
            "twentieth of the rows or more.",
            show_default=False,
        ),
    ] = "auto"
    crossing: Crossing = "error"
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class LearningOrRates(Learning):
    """Options of `learn`: those for a table, and those for published rates of a test in place of one."""

    label: Annotated[
        str | None,  # type: ignore[assignment]  # needed with a table only
        typer.Option(metavar="COLUMN", help="The column with the true class.", show_default=False),
    ] = None
    classes: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAMES",
            help="The classes in the order of the score columns: a,b. Of rates, by default negative,positive; of "
            "--confusion 0,1,…",
            show_default=False,
        ),
    ] = None
    intervals: Annotated[
        str,
        typer.Option(
            metavar="N|EDGES|ENDS",
            help="With --quantiles: into how many intervals to cut the numbers, or where: 0,10,20; by default chosen "
            "by the data. With --sensitivity, in place of --n: the intervals of the two rates, "
            "'0.85,0.96;0.95,0.98'.",
            show_default=False,
        ),
    ] = "auto"
    sensitivity: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Without LAB_TABLE: P(test positive | positive), such as 0.92."),
    ] = None
    specificity: Annotated[
        float | None,
        typer.Option(metavar="RATE", help="Without LAB_TABLE: P(test negative | negative), such as 0.97."),
    ] = None
    confusion: Annotated[
        str | None,
        typer.Option(
            metavar="TABLE",
            help="In place of the two: a row per true class and a column per category, as numbers of rows, "
            "'388,12;10,110', or as shares with --n.",
        ),
    ] = None
    n: Annotated[
        str | None,
        typer.Option(
            metavar="ROWS",
            help="The rows behind the rates: positive and negative ones, 120,400; with --confusion one number per "
            "class.",
        ),
    ] = None
    level: Annotated[
        float, typer.Option(metavar="LEVEL", help="Probability content of the --intervals of rates.")
    ] = 0.95
    categories: Annotated[
        list[str] | None,
        typer.Option(
            "--categories",
            "--values",
            metavar="NAMES",
            help="The results of the test in the order of the columns of --confusion: -,+. By default the classes.",
            show_default=False,
        ),
    ] = None

    @property
    def of_rates(self) -> str | None:
        """The first given option that is about rates alone."""
        names = ("sensitivity", "specificity", "confusion", "n", "categories")
        return next((f"--{name}" for name in names if getattr(self, name) is not None), None)

    @property
    def of_a_table(self) -> str | None:
        """The first given option that is about a table alone."""
        usual = {f.name: f.default for f in dataclasses.fields(Learning)} | {"label": None}
        both = ("classes", "intervals")
        names = (name for name in usual if name not in both and getattr(self, name) != usual[name])
        return next((f"--{name}" for name in names), None)

    def for_table(self) -> dict[str, Any]:
        """Arguments of `learn`."""
        return arguments(Learning(**{f.name: getattr(self, f.name) for f in dataclasses.fields(Learning)}))

    def for_rates(self) -> dict[str, Any]:
        """Arguments of `Lab.from_rates`."""
        n = None if self.n is None else number_rows(self.n, "--n")
        if n and len(n) > 1:
            raise InputError(f"--n must be one row of numbers, such as 120,400, but got {self.n!r:.60}.")
        return {
            "sensitivity": self.sensitivity,
            "specificity": self.specificity,
            "confusion": None if self.confusion is None else number_rows(self.confusion, "--confusion"),
            "n": n and n[0],
            "intervals": None if self.intervals == "auto" else number_rows(self.intervals, "--intervals"),
            "level": self.level,
            "classes": names(self.classes),
            "values": names(self.categories),
        }


@dataclass(frozen=True, kw_only=True)
class ScoreColumns:
    """Where the groups and the predictions of the field are, if not where the lab has them."""

    by: By = None
    scores: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS",
            help="The columns with the predictions, in the order of the classes; by default those of the lab.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class QuantileColumns(ScoreColumns):
    """The same, also for quantiles of a number."""

    quantiles: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMNS", help=f"Of a regression: {_QUANTILES}; by default those of the lab."),
    ] = None


@dataclass(frozen=True, kw_only=True)
class ClassColumns(ScoreColumns):
    """The same, also for values."""

    predictions: Annotated[
        list[str] | None,
        typer.Option(
            metavar="COLUMNS", help="Of values: the column, or one per judge; by default those of the lab."
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class FieldColumns(QuantileColumns, ClassColumns):
    """The same for predictions of every kind."""


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Options of `count`, besides the columns."""

    missing: MissingRows = "error"
    batch: Annotated[
        str | None, typer.Option(metavar="ID", help="A name for these rows; they can be counted only once.")
    ] = None
    time: Annotated[
        str | None, typer.Option(help="A column of times, to count by window.", metavar="COLUMN")
    ] = None
    every: Annotated[
        str | None, typer.Option(help="The length of a window of --time, such as 1d.", metavar="LENGTH")
    ] = None
    normalize: Normalize = False
    crossing: Crossing = "error"


@dataclass(frozen=True, kw_only=True)
class Estimating:
    """Options of `estimate`."""

    method: Method = "default"
    trust: Annotated[
        str,
        typer.Option(
            metavar="TRUST",
            help="Probability that label shift holds: auto, as far as it was earned; or from 0, leave alone, to 1.",
        ),
    ] = "auto"
    prior: Annotated[
        str,
        typer.Option(
            metavar="PRIOR",
            help="auto, flat, pooled, smooth; kl, dirichlet, continuity, kl_bins with a strength: kl:10; or a sum of "
            "these: kl:10+continuity:5.",
        ),
    ] = "auto"
    point: Annotated[
        Literal["auto", "mean", "mode"],
        typer.Option(help="Of the posterior: its mean, or its mode, as in the paper."),
    ] = "auto"
    level: Annotated[
        str,
        typer.Option(
            metavar="LEVEL", help="Probability content of the intervals; none for none, with --point mode."
        ),
    ] = "0.9"
    design_effect: Annotated[
        float,
        typer.Option(
            metavar="NUMBER",
            help="How many times larger the field's variance is than that of independent rows: 1 + (m - 1)·r for "
            "clusters of m rows with a correlation of r.",
        ),
    ] = 1.0
    protected: Annotated[
        bool,
        typer.Option("--protected", help="Decisions must be blind to the groups: estimate, do not apply."),
    ] = False
    seed: Seed = 0
    max_iter: Annotated[
        int, typer.Option(metavar="N", help="With --point mode: iterations of the solver, at most.")
    ] = 200


@dataclass(frozen=True, kw_only=True)
class Applying:
    """Options of `recalibrate`, besides the columns."""

    unseen: UnseenGroups = "global"
    missing: KeptRows = "error"
    name: NewName = "{}_recalibrated"
    normalize: Normalize = False
    acknowledge: Acknowledge = False
    crossing: Crossing = "error"
    shape: WeightShape = "tilt"


def flat(function: Callable[..., int | None]) -> Callable[..., int | None]:
    """A command as typer takes it: the fields of its dataclasses as options, a field of two of them as one.

    A parameter that is a `Settings` gets those of the call.
    """
    hints = {n: h for n, h in get_type_hints(function, include_extras=True).items() if n != "return"}
    groups: dict[str, Any] = {
        n: h for n, h in hints.items() if dataclasses.is_dataclass(h) and h is not Settings
    }
    takes = {group: [f.name for f in dataclasses.fields(kind)] for group, kind in groups.items()}
    given = [p.replace(annotation=hints[n]) for n, p in inspect.signature(function).parameters.items()]
    found = {p.name: p for p in given if p.name not in groups and p.annotation is not Settings}
    for kind in groups.values():
        for name, param in _parameters(kind).items():
            found.setdefault(name, param)

    @functools.wraps(function)
    def command(ctx: typer.Context, **values: Any) -> int | None:
        own: dict[str, Any] = {n: ctx.obj if h is Settings else values.get(n) for n, h in hints.items()}
        filled = {g: kind(**{n: values[n] for n in takes[g]}) for g, kind in groups.items()}
        return function(**(own | filled))

    context = inspect.Parameter("ctx", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context)
    params = [context, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in found.values())]
    command.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in params}
    return command


def _parameters(kind: Any) -> dict[str, inspect.Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    signature = inspect.signature(kind)
    return {n: p.replace(annotation=hints[n]) for n, p in signature.parameters.items()}


#: The options that may stand before or after the command.
EVERYWHERE = tuple(f.name for f in dataclasses.fields(Settings) if f.name != "warnings")


def _remember(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> None:
    """Into the settings; not given after the command must not undo given before it."""
    if value and param.name:
        setattr(ctx.obj, param.name, value)


def _print_version(value: bool) -> None:
    if value:
        sys.stdout.write(f"fieldcal {fieldcal.__version__}\n")
        raise typer.Exit


def _everywhere(*flags: str, **more: Any) -> Any:
    panel = "Options of every command"
    return typer.Option(
        *flags, callback=_remember, expose_value=False, rich_help_panel=panel, show_default=False, **more
    )


def root(
    ctx: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    json: Annotated[bool, _everywhere("--json", help="One JSON object on standard output.")] = False,
    quiet: Annotated[bool, _everywhere("--quiet", "-q", help="Results and errors only.")] = False,
    debug: Annotated[bool, _everywhere("--debug", help="Show where an error came from.")] = False,
    memory_limit: Annotated[
        str | None,
        _everywhere("--memory-limit", metavar="SIZE", help="Of DuckDB, such as 1GB; more goes to disk."),
    ] = None,
    threads: Annotated[int | None, _everywhere("--threads", metavar="N", min=1, help="Of DuckDB.")] = None,
) -> None:
    """Recalibrate a deployed model from nothing but the predictions it makes in the field.

    learn, count, estimate, recalibrate; or all of it with run.
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


def arguments(options: Any) -> dict[str, Any]:
    """A group of options as arguments of Python: those that are text for something else are read."""
    given = {_PYTHON.get(n, n): v for n, v in vars(options).items()}
    return {n: v if v is None or n not in _READ else _READ[n](v) for n, v in given.items()}


def names(given: Sequence[str] | None) -> list[str] | None:
    """Column names from options that may be repeated and may hold commas; ``"a,b"`` in quotes is one name."""
    if given is None:
        return None
    try:
        found = [name for text in given for name in next(csv.reader([text], skipinitialspace=True), [])]
    except csv.Error:
        raise InputError(
            f"The names {', '.join(given)!r:.80} hold a line break. Put such a name into double quotes, inside of "
            "those for the shell, or rename the column."
        ) from None
    if "" in found:
        raise InputError(f"There is an empty name in {', '.join(given)!r:.80}. Write names as a,b,c.")
    return found


def score_names(given: Sequence[str]) -> str | list[str]:
    """One name, or a pattern, as it is; several as a list."""
    found = names(given) or []
    if not found:
        raise InputError("--scores names no column. Write --scores p, or --scores 'p_*'.")
    return found[0] if len(found) == 1 else found


def value_names(given: Sequence[str]) -> list[str]:
    """One name per judge."""
    found = names(given) or []
    if not found:
        raise InputError("--predictions names no column. Write --predictions verdict.")
    return found


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
        share = number(level)
        if share is None or not 0.0 < share < 1.0 or not column or share in columns:
            raise InputError(
                f"--quantiles does not tell the level of {text!r:.60}. Write a pattern such as 'q_*', or each level "
                "between 0 and 1 once with its column: 0.1=low,0.9=high."
            )
        columns[share] = column
    return columns


def intervals_of(text: str) -> int | Literal["auto"] | list[float]:
    """auto, how many, or edges with commas; ``5,`` is one edge.

    Examples
    --------
    >>> from fieldcal.cli.options import intervals_of
    >>> intervals_of("12"), intervals_of("0,10,20"), intervals_of("auto")
    (12, [0.0, 10.0, 20.0], 'auto')
    """
    if text == "auto":
        return "auto"
    try:
        return [float(part) for part in text.split(",") if part.strip()] if "," in text else int(text)
    except ValueError:
        raise InputError(
            f"--intervals must be a whole number or edges such as 0,10,20, but got {text!r:.60}."
        ) from None


def trust_of(text: str) -> float | Literal["auto"]:
    """auto, or a number in [0, 1]."""
    if text == "auto":
        return "auto"
    value = number(text)
    if value is None or not 0.0 <= value <= 1.0:
        raise InputError(f"--trust must be auto or a number from 0 to 1, but got {text!r:.60}.")
    return value


def smoothing_of(text: str) -> float | Literal["auto"]:
    """auto, or a number of rows."""
    if text == "auto":
        return "auto"
    value = number(text)
    if value is None or not 0.0 <= value < float("inf"):
        raise InputError(f"--smoothing must be auto or a number of rows, 0 or more, but got {text!r:.60}.")
    return value


def level_of(text: str) -> float | None:
    """A number, or none."""
    value = number(text)
    if text != "none" and (value is None or not 0.0 < value < 1.0):
        raise InputError(
            f"--level must lie between 0 and 1, for instance 0.9, or be none, but got {text!r:.60}."
        )
    return value


def atoms_of(text: str) -> list[float] | Literal["auto"]:
    """auto, none, or numbers with commas."""
    if text in ("auto", "none"):
        return "auto" if text == "auto" else []
    found = [number(part) for part in text.split(",") if part.strip()]
    if not found or None in found:
        raise InputError(f"--atoms must be numbers such as 0,100, or none, but got {text!r:.60}.")
    return [value for value in found if value is not None]


def bins_of(text: str) -> Any:
    """How many bins, where to cut, or a way to make so many; ``0.5,`` is one cut.

    Examples
    --------
    >>> from fieldcal.cli.options import bins_of
    >>> bins_of("8"), bins_of("0.2,0.5"), bins_of("quantiles:8")
    (8, Edges(edges=(0.2, 0.5)), Quantiles(n=8))
    """
    if text.lower().endswith(".json"):
        return fieldcal.Lab.load(text).partition
    parts = [part for part in text.split(",") if part.strip()]
    cuts = [cut for part in parts if (cut := number(part)) is not None]
    if "," in text and parts and len(cuts) == len(parts):
        return fieldcal.Edges(cuts)
    ways: dict[str, Callable[[int], Any]] = {
        "quantiles": fieldcal.Quantiles,
        "simplex": fieldcal.Simplex,
        "expected": fieldcal.Expected,
        "given": fieldcal.Bins,
        "": int,
    }
    way, _, size = text.strip().rpartition(":")
    if way not in ways or not (size.isdecimal() and int(size) > 0):
        raise InputError(
            "--bins must be a whole number, 1 or more, cuts such as 0.2,0.5, or quantiles, simplex, expected or given "
            f"with a number, such as quantiles:8, but got {text!r:.60}."
        )
    return ways[way](int(size))


def calibration_of(text: str) -> Any:
    """A way to calibrate, or what another lab is calibrated by."""
    from fieldcal.core.calibration import CALIBRATIONS

    if text in CALIBRATIONS:
        return text
    if not text.lower().endswith(".json"):
        raise InputError(
            f"--calibration must be {', '.join(CALIBRATIONS)}, or the file of a calibrated lab such as lab.json, but "
            f"got {text!r:.60}."
        )
    found = fieldcal.Lab.load(text).calibration_map
    if found is None:
        raise InputError(
            f"The lab in {text!r:.80} is not calibrated, so that --calibration takes nothing from it. Name one that "
            f"is, or {', '.join(CALIBRATIONS)}."
        )
    return found


def prior_of(text: str) -> PriorLike:
    """A prior by its name, with a strength where it has one, ``kl:10``; or a sum of several."""
    if text == "auto":
        return "auto"  # what it means depends on the lab
    return functools.reduce(operator.add, (_one_prior(part.strip(), text) for part in text.split("+")))


def _one_prior(text: str, whole: str) -> Prior:
    from fieldcal.core.priors import KL, Continuity, Dirichlet, KLBins, as_prior

    name, colon, strength = text.partition(":")
    if name and not colon and name != "auto":
        return as_prior(name)  # type: ignore[arg-type]  # it refuses what it does not know
    kinds: dict[str, type[KL | Dirichlet | Continuity | KLBins]]
    kinds = {kind.name: kind for kind in (KL, Dirichlet, Continuity, KLBins)}
    value = number(strength)
    if name not in kinds or value is None:
        raise InputError(
            f"--prior must be a name, or {', '.join(kinds)} with a strength such as kl:10, or a sum of these with +, "
            f"but got {whole!r:.60}."
        )
    return kinds[name](value)


def number(text: str) -> float | None:
    """Of a text that is one."""
    try:
        return float(text)
    except ValueError:
        return None


def number_rows(text: str, option: str) -> list[list[float]]:
    """Numbers: commas between those of a row, semicolons between rows.

    Examples
    --------
    >>> from fieldcal.cli.options import number_rows
    >>> number_rows("388,12;10,110", "--confusion")
    [[388.0, 12.0], [10.0, 110.0]]
    """
    found: list[list[Any]] = [[number(cell) for cell in row.split(",")] for row in text.split(";")]
    if any(value is None for row in found for value in row):
        raise InputError(f"{option} must be numbers such as '1,2' or '1,2;3,4', but got {text!r:.60}.")
    return found


#: Options that Python names otherwise.
_PYTHON = {"bins": "partition", "seed": "random_state"}
#: How the text of an option is read. The others are taken as they are.
_READ: Mapping[str, Callable[[Any], Any]] = {
    "by": names,
    "scores": score_names,
    "classes": names,
    "quantiles": quantile_columns,
    "predictions": value_names,
    "intervals": intervals_of,
    "partition": bins_of,
    "calibration": calibration_of,
    "atoms": atoms_of,
    "level": level_of,
    "smoothing": smoothing_of,
    "trust": trust_of,
    "prior": prior_of,
}
