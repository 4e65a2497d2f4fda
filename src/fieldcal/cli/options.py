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
import string
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

import fieldcal
from fieldcal.cli.output import Settings
from fieldcal.errors import InputError
from fieldcal.storage import DESIGN_COLUMN

if TYPE_CHECKING:
    from fieldcal.core.priors import Prior, PriorLike

#: Every option and argument: its name, its metavar where it is no choice, and its help. Where commands differ in the
#: text of an option, the name of the command or of its group of options follows the name. $WORD stands for `_TEXTS`.
HELP = """
LabFile LAB.json :: The lab that `fieldcal learn` made.
FieldFile FIELD.json :: What `fieldcal count` made, or a table of counts of a warehouse.
PrevalenceFile PREVALENCE.json :: What `fieldcal estimate` made.
LabTable LAB_TABLE :: Predictions with labels; none with published rates of a test, --sensitivity or --confusion. $TABLE
OneOrBothTables LAB_TABLE :: Predictions with labels; with --predictions, of some rows. $TABLE
MaybeFieldTable FIELD_TABLE :: Predictions in the field; with --predictions by default the same table.
FieldTable FIELD_TABLE :: Predictions in the field. $TABLE
AnyTable TABLE :: Predictions to recalibrate. $TABLE
By COLUMNS :: The column of the groups; repeat it, or use commas, for several. Later steps know it.
Crossing :: Rows whose quantiles cross: refuse, or sort their quantiles.
Normalize :: Rescale each row's predictions to sum to one.
MissingRows :: Rows without a prediction.
UnseenGroups :: Groups never counted: treat as the whole field, do not correct (calibrate only, where the lab is
    calibrated), or refuse.
KeptRows :: Rows without a prediction: refuse, or keep as is.
NewName PATTERN :: Names of the new columns; {} is the old name.
WeightShape :: With labels of the field: weights of the row's group alone, or of its bin too, for scores that are off.
Acknowledge :: Apply an estimate over protected groups, or one with 'do not use'.
Method :: What 'auto' means: fieldcal's choice; what the paper does; or what its authors' R code does. Learn and
    estimate by the same.
HowChosen :: How the rows with labels were chosen: at random, by looking at predictions or groups, or by their class.
    With --predictions it must be said; else by default random.
Seed N :: Of whatever is drawn at random.
label COLUMN :: The column with the true class.
scores COLUMNS :: The columns with the predictions: the probability of one of two classes (see --positive), 'p_*' where
    * is the class, or p_a,p_b with one name per class. May be repeated; quote names with a comma: '"a,b",c'.
quantiles COLUMNS :: In place of --scores: $QUANTILES.
predictions COLUMNS :: In place of --scores: the column with the values of a judge or a test, such as pass, 4 or true;
    several, a,b, of several judges. Needs --design; --label may then be empty in most rows.
classes NAMES :: The classes in the order of the score columns: a,b.
positive CLASS :: With one column of --scores: the class that it is the probability of, such as yes. By default the
    second in sorted order.
bins BINS :: The number of bins; where to cut the score of two classes, 0.2,0.5; or how, with their number: quantiles:8,
    simplex:24, expected:8. given:8 where --scores holds numbers of bins, from 0 to 7. Or those of another lab:
    lab.json. By default chosen by the data.
smoothing ROWS :: Pseudo-rows per class that keep every count above zero: auto, or from 0, none.
ordered :: The order of the classes means something, as in grades.
calibration METHOD :: Calibrate the predictions on the lab first: sigmoid, isotonic or temperature. The field's are then
    read in the same way. Or as another lab of the same classes is calibrated, to merge the two: lab.json.
intervals N|EDGES :: With --quantiles: into how many intervals to cut the numbers, or where: 0,10,20. By default chosen
    by the data.
atoms NUMBERS :: With --quantiles: numbers with an interval of their own: 0,100; none for none. By default those of a
    twentieth of the rows or more.
classes.learn NAMES :: The classes in the order of the score columns: a,b. Of rates, by default
    negative,positive; of --confusion 0,1,…
intervals.learn N|EDGES|ENDS :: With --quantiles: into how many intervals to cut the numbers, or where:
    0,10,20; by default chosen by the data. With --sensitivity, in place of --n: the intervals of the two rates,
    '0.85,0.96;0.95,0.98'.
sensitivity RATE :: Without LAB_TABLE: P(test positive | positive), such as 0.92.
specificity RATE :: Without LAB_TABLE: P(test negative | negative), such as 0.97.
confusion TABLE :: In place of the two: a row per true class and a column per category, as numbers of rows,
    '388,12;10,110', or as shares with --n.
n ROWS :: The rows behind the rates: positive and negative ones, 120,400; with --confusion one number per class.
level LEVEL :: Probability content of the --intervals of rates.
categories NAMES :: The results of the test in the order of the columns of --confusion: -,+. By default the classes.
scores.scorecolumns COLUMNS :: The columns with the predictions, in the order of the classes; by default those of the
    lab.
quantiles.quantilecolumns COLUMNS :: Of a regression: $QUANTILES; by default those of the lab.
predictions.classcolumns COLUMNS :: Of values: the column, or one per judge; by default those of the lab.
batch ID :: A name for these rows; they can be counted only once.
time COLUMN :: A column of times, to count by window.
every LENGTH :: The length of a window of --time, such as 1d.
trust TRUST :: Probability that label shift holds: auto, estimated; or from 0, leave predictions alone, to 1.
prior PRIOR :: auto, flat, pooled, smooth; kl, dirichlet, continuity, kl_bins with a strength: kl:10; or a sum of these:
    kl:10+continuity:5.
point :: Of the posterior: its mean, or its mode, as in the paper.
level.estimating LEVEL :: Probability content of the intervals; none for none, with --point mode.
design_effect NUMBER :: How many times larger the field's variance is than that of independent rows: 1 + (m - 1)·r for
    clusters of m rows with a correlation of r.
persistence NUMBER :: How far the field's groups are those of the same name in the lab: auto, estimated; or from 0, not
    at all, to 1.
protected :: Decisions must be blind to the groups: estimate, do not apply.
max_iter N :: With --point mode: iterations of the solver, at most.
artefacts FIELD.json... | LAB.json... :: Fields counted with the same lab; or labs with the same bins, which learn
    --bins FIRST.json makes.
retract ID :: Take the batch of this name out again.
only ID :: Keep the batch of this name; may be repeated. Others go.
start TIME :: Only batches named after this time or later.
end TIME :: Only batches named after a time before this.
table FILE :: Also write the table of prevalences here: .csv, .parquet, .json or .jsonl.
by COLUMNS :: With a table of counts or of labels: the names of its group columns.
artefacts.check PREVALENCE.json | LAB.json FIELD.json :: An estimate, or what makes one.
of CLASS :: The class it is about; by default the one corrected most.
title TEXT :: The headline.
data TEXT :: The name of the data, shown in the report.
model TEXT :: The name of the model, shown in the report.
period TEXT :: The time it covers; by default from batches named by dates.
labelled TABLE :: Field rows, some with labels: predictions before and after are compared.
label.report COLUMN :: Of --labelled: the true class; by default as in the lab.
output FOLDER :: The folder for the page.
recalibrated :: With --predictions: also write the probability of each class for every row.
check :: Exit with 2 if the verdict is 'care', with 3 if it is 'do not use'.
Labelled TABLE :: Rows of the field, some with labels, in a table of their own: only the labels are taken. Its columns
    are named as in the field; one named $DESIGN_COLUMN may say the design of each row.
Item COLUMNS :: Of values: what a row is about, such as the id of a question, so that groups are compared on the same
    items.
label.labels COLUMN :: The true class of the field rows whose class is known, empty elsewhere. With --labelled, a column
    of that table; by default as in the lab.
field_label COLUMN :: The true class of the field rows whose class is known, empty elsewhere. With --labelled, a column
    of that table; by default as --label.
paired TABLE :: Of values: the table that was counted, with the column of --item.
Goal GOAL :: accuracy: the most probable class. balanced: the best mean recall. Or what mistakes cost, a row per true
    class and a column per decision, in the order of the classes that `fieldcal show` tells: '0,1;20,0', or a file
    costs.csv, costs.json, whose names of classes, where it has them, say the order.
DecisionName NAME :: The name of the new column.
scores.known COLUMNS :: The columns with the predictions: the probability of the second class, 'p_*' where * is the
    class, or p_a,p_b with one name per class.
old SHARES :: The mix that the predictions assume: $HOW.
new SHARES|TABLE :: The mix of the rows, written in the same way. With --by, a table with the columns of the groups and
    one of shares per class, named after it, or one of the second of two.
classes.known NAMES :: The classes in the order of the columns: a,b.
unseen :: Groups that are not in the table of --new: refuse, or leave alone.
table.decide TABLE :: Predictions to decide. $TABLE
table.change_prevalence TABLE :: Predictions to change. $TABLE
Of CLASS :: The class; by default the last.
Assume :: Rest on the estimate after trust, or on label shift, whatever the trust.
groups GROUP_A GROUP_B :: The groups to compare; of several columns, as a,b or as JSON: '["a", 1]'. One that starts with
    a minus stands after --.
kind :: How to compare the two shares.
rank :: How likely each group has the highest share.
totals SIZES :: The share in a population of groups of other sizes: York=100,Leeds=50, or a CSV file of groups and
    sizes.
every.contrast :: Compare every two groups, and say what holds of all of them together.
reference GROUP :: Compare all groups with this one.
errors SHARE :: With --all and --reference: of the differences found, the expected share with a wrong sign, at most.
level.contrast LEVEL :: Probability content of the intervals; by default the estimate's.
artefact PREVALENCE.json | LAB.json :: An estimate, or with --rows alone a lab.
table.plan TABLE :: The field, to choose rows from. $TABLE
rows N :: With TABLE: choose so many rows to label. With a lab alone: plan a field of so many rows.
output.plan FILE :: With TABLE: where to write the rows to label: .csv, .parquet, or - for standard output.
label.plan COLUMN :: With TABLE: the column of the true classes, to be filled in; rows that have one are not chosen. By
    default as in the lab.
seed N :: With TABLE: other rows of the same kind.
labels NUMBERS :: With an estimate: how many more labels to foretell the interval for; by default 50,100,200. 0 leaves
    it out.
width WIDTH :: Of values: how many labels an interval of this width takes; of a typical slice where there are any.
apart A,B :: Of values: how many labels it takes to tell these two slices apart.
prevalence SHARES :: With a lab: the shares of the classes to plan for, in their order: 0.7,0.3. By default the lab's.
level.plan LEVEL :: Probability content of the interval; by default the estimate's, or with a lab 0.9.
Dialect NAME :: Of the warehouse: postgres, snowflake, bigquery, duckdb, spark …
TableName TABLE :: The table in the warehouse: name, or schema.name.
Unseen :: Groups never counted: treat as the whole field, or do not correct (calibrate only, where the lab is
    calibrated).
CountedLabel COLUMN :: The true class of the rows whose class is known, null elsewhere. How they were chosen is said to
    `fieldcal estimate`, by --design.
Weights TABLE :: Where `fieldcal sql weights` was loaded; without it, they are written out.
recalibrated.sql_decide PATTERN :: Names of the columns of recalibrated predictions; {} is the old name.
artefact.show FILE.json :: A lab, a field or an estimate that fieldcal wrote.
"""
SHARES = (
    "a share of the second of two classes, 0.05; numbers in the order of the classes, 0.7,0.2,0.1 (shares, rows or "
    "class weights: only ratios count); or by name, cat=70,dog=30"
)
_TEXTS = {
    "TABLE": "A file or glob (Parquet, CSV, JSON Lines, also compressed), or - for standard input.",
    "QUANTILES": "columns with quantiles of a number, 'q_*' where * is the level (0.05) or a percentage (5), or each "
    "level with its column: 0.1=low,0.9=high",
    "HOW": SHARES,
    "DESIGN_COLUMN": DESIGN_COLUMN,
}


def help_of(text: str) -> dict[str, tuple[str | None, str]]:
    """The metavar and the help of every entry; lines that are indented go on with the one before.

    Examples
    --------
    >>> from fieldcal.cli.options import help_of
    >>> help_of("seed N :: Of whatever is drawn\\n    at random.")
    {'seed': ('N', 'Of whatever is drawn at random.')}
    """
    found: dict[str, tuple[str | None, str]] = {}
    for entry in text.strip().replace("\n    ", " ").split("\n"):
        head, _, words = entry.partition(" :: ")
        name, _, metavar = head.partition(" ")
        found[name] = (metavar or None, string.Template(words).safe_substitute(_TEXTS))
    return found


_HELP = help_of(HELP)


def option(name: str, *flags: str, **more: Any) -> Any:
    """An option of this entry of the table."""
    metavar, words = _HELP[name]
    return typer.Option(*flags, metavar=metavar, help=words, **more)


def argument(name: str, **more: Any) -> Any:
    """An argument of this entry of the table."""
    metavar, words = _HELP[name]
    return typer.Argument(metavar=metavar, help=words, **more)


LabFile = Annotated[Path, argument("LabFile")]
FieldFile = Annotated[Path, argument("FieldFile")]
PrevalenceFile = Annotated[Path, argument("PrevalenceFile")]
LabTable = Annotated[str | None, argument("LabTable")]
OneOrBothTables = Annotated[str, argument("OneOrBothTables")]
MaybeFieldTable = Annotated[str | None, argument("MaybeFieldTable")]
FieldTable = Annotated[str, argument("FieldTable")]
AnyTable = Annotated[str, argument("AnyTable")]


def _output(help: str, metavar: str = "FILE") -> Any:
    return typer.Option("-o", "--output", metavar=metavar, help=help, show_default=False)


Output = Annotated[Path, _output("Where to write.")]
TableOutput = Annotated[Path, _output("Where to write: .parquet, .csv, or - for standard output.")]
PageOutput = Annotated[Path, _output("Where to write: .html, .md or .json.")]
Folder = Annotated[Path, _output("The folder for the results; made if missing.", "FOLDER")]

By = Annotated[list[str] | None, option("By")]
Crossing = Annotated[Literal["error", "sort"], option("Crossing")]
Normalize = Annotated[bool, option("Normalize", "--normalize")]
MissingRows = Annotated[Literal["error", "drop"], option("MissingRows")]
UnseenGroups = Annotated[Literal["global", "raw", "error"], option("UnseenGroups")]
KeptRows = Annotated[Literal["error", "keep"], option("KeptRows")]
NewName = Annotated[str, option("NewName")]
WeightShape = Annotated[Literal["auto", "tilt", "bins"], option("WeightShape")]
Acknowledge = Annotated[bool, option("Acknowledge", "--acknowledge")]
Method = Annotated[Literal["default", "paper", "reference"], option("Method")]
HowChosen = Annotated[Literal["random", "by_score", "by_class"] | None, option("HowChosen")]
Seed = Annotated[int, option("Seed", min=0)]


@dataclass(frozen=True, kw_only=True)
class Learning:
    """Options of `learn`."""

    label: Annotated[str, option("label")]
    scores: Annotated[list[str] | None, option("scores")] = None
    quantiles: Annotated[list[str] | None, option("quantiles")] = None
    predictions: Annotated[list[str] | None, option("predictions")] = None
    design: HowChosen = None
    by: By = None
    classes: Annotated[list[str] | None, option("classes")] = None
    positive: Annotated[str | None, option("positive")] = None
    method: Method = "default"
    bins: Annotated[str | None, option("bins")] = None
    smoothing: Annotated[str, option("smoothing")] = "auto"
    ordered: Annotated[bool, option("ordered", "--ordered")] = False
    normalize: Normalize = False
    calibration: Annotated[str | None, option("calibration")] = None
    intervals: Annotated[str, option("intervals", show_default=False)] = "auto"
    atoms: Annotated[str, option("atoms", show_default=False)] = "auto"
    crossing: Crossing = "error"
    seed: Seed = 0


@dataclass(frozen=True, kw_only=True)
class LearningOrRates(Learning):
    """Options of `learn`: those for a table, and those for published rates of a test in place of one."""

    label: Annotated[str | None, option("label")] = None  # type: ignore[assignment]  # a table needs it
    classes: Annotated[list[str] | None, option("classes.learn")] = None
    intervals: Annotated[str, option("intervals.learn", show_default=False)] = "auto"
    sensitivity: Annotated[float | None, option("sensitivity")] = None
    specificity: Annotated[float | None, option("specificity")] = None
    confusion: Annotated[str | None, option("confusion")] = None
    n: Annotated[str | None, option("n")] = None
    level: Annotated[float, option("level")] = 0.95
    categories: Annotated[list[str] | None, option("categories", "--categories", "--values")] = None

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
    scores: Annotated[list[str] | None, option("scores.scorecolumns")] = None


@dataclass(frozen=True, kw_only=True)
class QuantileColumns(ScoreColumns):
    """The same, also for quantiles of a number."""

    quantiles: Annotated[list[str] | None, option("quantiles.quantilecolumns")] = None


@dataclass(frozen=True, kw_only=True)
class ClassColumns(ScoreColumns):
    """The same, also for values."""

    predictions: Annotated[list[str] | None, option("predictions.classcolumns")] = None


@dataclass(frozen=True, kw_only=True)
class FieldColumns(QuantileColumns, ClassColumns):
    """The same for predictions of every kind."""


@dataclass(frozen=True, kw_only=True)
class Counting:
    """Options of `count`, besides the columns."""

    missing: MissingRows = "error"
    batch: Annotated[str | None, option("batch")] = None
    time: Annotated[str | None, option("time")] = None
    every: Annotated[str | None, option("every")] = None
    normalize: Normalize = False
    crossing: Crossing = "error"


@dataclass(frozen=True, kw_only=True)
class Estimating:
    """Options of `estimate`."""

    method: Method = "default"
    trust: Annotated[str, option("trust")] = "auto"
    prior: Annotated[str, option("prior")] = "auto"
    point: Annotated[Literal["auto", "mean", "mode"], option("point")] = "auto"
    level: Annotated[str, option("level.estimating")] = "0.9"
    design_effect: Annotated[float, option("design_effect")] = 1.0
    persistence: Annotated[str, option("persistence")] = "auto"
    protected: Annotated[bool, option("protected", "--protected")] = False
    seed: Seed = 0
    max_iter: Annotated[int, option("max_iter")] = 200


@dataclass(frozen=True, kw_only=True)
class Applying:
    """Options of `recalibrate`, besides the columns."""

    unseen: UnseenGroups = "global"
    missing: KeptRows = "error"
    name: NewName = "{}_recalibrated"
    normalize: Normalize = False
    acknowledge: Acknowledge = False
    crossing: Crossing = "error"
    shape: WeightShape = "auto"


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
    """auto, or a probability."""
    return _auto_or_share(text, "--trust")


def persistence_of(text: str) -> float | Literal["auto"]:
    """auto, or a correlation."""
    return _auto_or_share(text, "--persistence")


def _auto_or_share(text: str, option: str) -> float | Literal["auto"]:
    if text == "auto":
        return "auto"
    value = number(text)
    if value is None or not 0.0 <= value <= 1.0:
        raise InputError(f"{option} must be auto or a number from 0 to 1, but got {text!r:.60}.")
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
        return fieldcal.partitions.Edges(cuts)
    ways: dict[str, Callable[[int], Any]] = {
        "quantiles": fieldcal.partitions.Quantiles,
        "simplex": fieldcal.partitions.Simplex,
        "expected": fieldcal.partitions.Expected,
        "given": fieldcal.partitions.Bins,
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
    "persistence": persistence_of,
    "prior": prior_of,
}
