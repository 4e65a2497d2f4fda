"""The table of options: one row for each, whichever functions and commands have it.

A row has what the signature of a function does not: the flag, how its text is read, which values are allowed, which
predictions it goes with, and one line of help. From rows are made: the command line (`cli.signature`), the checks of
arguments and the flags in messages (`options`). The documentation of the estimators is compared with them.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeGuard

from fieldcal import texts
from fieldcal.errors import option

#: More than a table in memory has rows, groups or bins; asked for, it is a slip of the keyboard.
MOST = 10**8

#: What predictions can be, and the option that names their columns.
Predicted = Literal["probabilities", "distributions", "values"]
PREDICTED: dict[str, tuple[str, str]] = {
    "probabilities": ("probabilities of classes", "scores"),
    "distributions": ("distributions of a number", "quantiles"),
    "values": ("values, such as the verdicts of a judge", "predictions"),
}


@dataclass(frozen=True)
class Row:
    """One option.

    Parameters
    ----------
    help : one line for people, with other options marked
    metavar : what stands for its value in the help of a command
    flag : on the command line; by default the name, None if it is an argument there, or of Python alone
    also : other names of the flag
    read : its text as a value; raises ValueError
    valid : whether a value is allowed
    must : what a value must, in words: "be a whole number"
    choices : the words that are allowed
    goes_with : the predictions that it goes with
    unset : the value that says nothing
    instead : the way out where it does not go with the predictions
    kind : of its values, in the documentation of the estimators
    doc : the first sentence there; by default the help
    many : the flag may be repeated, and its text may hold commas
    """

    help: str
    metavar: str | None = None
    flag: str | None = ""
    also: tuple[str, ...] = ()
    read: Callable[[Any], Any] | None = None
    valid: Callable[[Any], bool] | None = None
    must: str = ""
    choices: tuple[str, ...] = ()
    goes_with: tuple[str, ...] = tuple(PREDICTED)
    unset: Any = None
    instead: str | Mapping[str, str] = "Leave it out."
    kind: str = ""
    doc: str = ""
    many: bool = False


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a number, also numpy's; true and false are none."""
    return isinstance(value, numbers.Real) and not is_flag(value)


def is_flag(value: object) -> bool:
    """Whether this is true or false, also numpy's."""
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def is_level(value: Any) -> bool:
    """Whether this can be the probability content of an interval."""
    return is_number(value) and 0 < value < 1


def whole(least: int) -> Callable[[Any], bool]:
    """A test for whole numbers from ``least`` on."""
    return lambda value: not is_flag(value) and isinstance(value, numbers.Integral) and int(value) >= least


def between(low: float, high: float, *, words: tuple[Any, ...] = ("auto",)) -> Callable[[Any], bool]:
    """A test for numbers within these bounds, or one of the words."""
    return lambda value: (
        any(type(value) is type(word) and value == word for word in words)
        or (is_number(value) and low <= value <= high)
    )


_AS_TYPED = {
    predicted: f"Name the columns with {option(name)}." for predicted, (_, name) in PREDICTED.items()
}
_EACH_WINDOW = f"Count every window by itself, with {option('batch')}, and merge."
_OF_A_NUMBER, _NOT_OF_A_NUMBER = ("distributions",), ("probabilities", "values")
_SHARES = (
    "a share of the second of two classes, 0.05; numbers in the order of the classes, 0.7,0.2,0.1 (shares, rows or "
    "class weights: only ratios count); or by name, cat=70,dog=30"
)
_NAMES: dict[str, Any] = {"read": texts.names, "must": "be names such as a,b,c", "many": True}
_COLUMNS: dict[str, Any] = {"metavar": "COLUMNS", "many": True}
_FLAG: dict[str, Any] = {"valid": is_flag, "must": "be True or False", "unset": False}
_OF_SHIFT = "a probability from 0 (leave alone) to 1 (label shift holds)"
_OF_GROUPS = (
    "a number from 0 (lab groups say nothing about field groups of the same name) to 1 (they are the same)"
)
_TABLE = "A file or glob (Parquet, CSV, JSON Lines, also compressed), or - for standard input."
_QUANTILES = (
    "columns with quantiles of a number, 'q_*' where * is the level (0.05) or a percentage (5), or each level with its "
    "column: 0.1=low,0.9=high"
)
_LATER = "Later steps know them."
_KEPT = "Rows without a prediction: refuse, or leave as they are (keep)."
_UNSEEN_IN_SQL = (
    "Groups never counted: treat as the whole field (global), or do not correct (raw; calibrate only, where the lab is "
    "calibrated)."
)
_TO_TABLE = "Where to write: .parquet, .csv, or - for standard output."

#: Every option of a function that the command line or an estimator has as well. Where the help of a command differs,
#: the name of the command stands before the name of the option.
# fmt: off
OPTIONS: dict[str, Row] = {
    "scores": Row(
        "The columns with the predictions, in the order of the classes; by default those of the lab.",
        read=texts.one_or_more, must="name columns, such as p, 'p_*' or p_a,p_b", goes_with=("probabilities",),
        instead=_AS_TYPED, **_COLUMNS),
    "quantiles": Row(
        f"Of a regression: {_QUANTILES}; by default those of the lab.", read=texts.quantile_columns,
        goes_with=_OF_A_NUMBER, instead=_AS_TYPED, **_COLUMNS,
        must="be a pattern such as 'q_*', or each level between 0 and 1 once with its column: 0.1=low,0.9=high"),
    "predictions": Row(
        "Of values: the column, or one per judge; by default those of the lab.", read=texts.some_names,
        must="name columns, such as verdict", goes_with=("values",), instead=_AS_TYPED, **_COLUMNS),
    "by": Row(
        "The column of the groups; repeat it, or use commas, for several. Later steps know it.", "COLUMNS", **_NAMES),
    "estimate.by": Row("With a table of counts or of labels: the names of its group columns."),
    "label": Row(
        "The true class of the field rows whose class is known, empty elsewhere. With --labelled, a column of that "
        "table; by default as in the lab.", "COLUMN"),
    "learn.label": Row("The column with the true class."),
    "run.label": Row("The column with the true class."),
    "report.label": Row(f"Of {option('labelled')}: the true class; by default as in the lab."),
    "plan.label": Row(
        "With TABLE: the column of the true classes, to be filled in; rows that have one are not chosen. By default "
        "as in the lab."),
    "sql count.label": Row(
        "The true class of the rows whose class is known, null elsewhere. How they were chosen is said to `fieldcal "
        f"estimate`, by {option('design')}."),
    "labelled": Row(
        "Rows of the field, some with labels, in a table of their own: only the labels are taken. Its columns are "
        "named as in the field; one named fieldcal_design may say the design of each row.", "TABLE"),
    "report.labelled": Row("Field rows, some with labels: predictions before and after are compared."),
    "field_label": Row(
        f"The true class of the field rows whose class is known, empty elsewhere. With {option('labelled')}, a column "
        f"of that table; by default as {option('label')}.", "COLUMN"),
    "design": Row(
        "How the rows with labels were chosen: at random, by looking at predictions or groups, or by their class. "
        f"With {option('predictions')} it must be said; else by default random.",
        choices=("random", "by_score", "by_class")),
    "classes": Row("The classes in the order of the columns of predictions: a,b.", "NAMES", **_NAMES,
                   goes_with=_NOT_OF_A_NUMBER, instead=f"Use {option('intervals')}."),
    "learn.classes": Row(
        "The classes in the order of the columns of predictions: a,b. Of rates, by default negative,positive; of "
        f"{option('confusion')} 0,1,…"),
    "positive": Row(
        f"With one column of {option('scores')}: the class that it is the probability of, such as yes. By default the "
        "second in sorted order.", "CLASS", goes_with=("probabilities",),
        instead={"distributions": "Leave it out.",
                 "values": f"Give the order of the classes with {option('classes')}."}),
    "method": Row(
        "What 'auto' means: fieldcal's choice; what the paper does; or what its authors' R code does. Learn and "
        "estimate by the same.", choices=("default", "paper", "reference"), unset="default",
        kind='"default", "paper" or "reference"',
        goes_with=("probabilities", "distributions")),
    "partition": Row(
        "How predictions are assigned to bins: the number of bins; where to cut the score of two classes, 0.2,0.5; or "
        f"how, with their number: quantiles:8, simplex:24, expected:8. given:8 where {option('scores')} holds numbers "
        "of bins, from 0 to 7. Or those of another lab: lab.json. By default chosen by the data.", "BINS", flag="bins",
        kind='"auto", int, Quantiles, Edges, Simplex or Expected',
        doc="How predictions are assigned to bins; see `fieldcal.learn`.",
        must="be a whole number, 1 or more, cuts such as 0.2,0.5, or quantiles, simplex, expected or given with a "
             "number, such as quantiles:8"),
    "smoothing": Row(
        "Pseudo-rows per class that keep every count above zero: auto, or from 0, none.", "ROWS",
        read=texts.number_or("auto"), valid=between(0, MOST**2), must="be 'auto' or a number of rows, 0 or more",
        kind='"auto" or float'),
    "ordered": Row(
        "The order of the classes means something, as in grades.", **_FLAG, kind="bool", goes_with=_NOT_OF_A_NUMBER,
        instead="Intervals of a number are in order anyway: leave it out."),
    "normalize": Row("Rescale each row's predictions to sum to one.", **_FLAG, goes_with=("probabilities",)),
    "calibration": Row(
        "Calibrate the predictions on the lab first: sigmoid, isotonic or temperature. The field's are then read in "
        "the same way. Or as another lab of the same classes is calibrated, to merge the two: lab.json.", "METHOD",
        goes_with=("probabilities",), kind='None, "sigmoid", "isotonic" or "temperature"',
        doc="Calibrate the predictions on the lab first, with scikit-learn's `CalibratedClassifierCV`."),
    "intervals": Row(
        f"With {option('quantiles')}: into how many intervals to cut the numbers, or where: 0,10,20; by default chosen "
        "by the data.", "N|EDGES", read=texts.intervals, goes_with=_OF_A_NUMBER, unset="auto",
        must="be a whole number or edges such as 0,10,20", kind='"auto", int or edges',
        doc="Intervals of the number; see `fieldcal.learn`."),
    "learn.intervals": Row(
        f"With {option('quantiles')}: into how many intervals to cut the numbers, or where: 0,10,20; by default chosen "
        f"by the data. With {option('sensitivity')}, in place of {option('n')}: the intervals of the two rates, "
        "'0.85,0.96;0.95,0.98'.", "N|EDGES|ENDS"),
    "atoms": Row(
        f"With {option('quantiles')}: numbers with an interval of their own: 0,100; none for none. By default those of "
        "a twentieth of the rows or more.", "NUMBERS", read=texts.atoms, goes_with=_OF_A_NUMBER, unset="auto",
        must="be numbers such as 0,100, or none"),
    "crossing": Row(
        "Rows whose quantiles cross: refuse, or sort their quantiles.", choices=("error", "sort"),
        goes_with=_OF_A_NUMBER, unset="error"),
    "random_state": Row(
        "Seed of whatever is drawn at random; 0 or more.", "N", flag="seed", valid=whole(0),
        must="be a whole number, 0 or more", kind="int, RandomState instance or None",
        doc="Seed of whatever is drawn at random."),
    "plan.random_state": Row("With TABLE: other rows of the same kind; 0 or more."),
    "sensitivity": Row("Without LAB_TABLE: P(test positive | positive), such as 0.92.", "RATE"),
    "specificity": Row("Without LAB_TABLE: P(test negative | negative), such as 0.97.", "RATE"),
    "confusion": Row(
        "In place of the two: a row per true class and a column per category, as numbers of rows, '388,12;10,110', "
        f"or as shares with {option('n')}.", "TABLE", read=texts.number_rows,
        must="be numbers such as '1,2' or '1,2;3,4'"),
    "n": Row(
        f"The rows behind the rates: positive and negative ones, 120,400; with {option('confusion')} one number per "
        "class.", "ROWS", read=texts.number_list, must="be one row of numbers, such as 120,400"),
    "plan.n": Row(
        "With TABLE: choose so many rows to label. With a lab alone: plan a field of so many rows.", "N", flag="rows",
        valid=whole(1), must="be a whole number, 1 or more"),
    "values": Row(
        f"The results of the test in the order of the columns of {option('confusion')}: -,+. By default the classes.",
        "NAMES", flag="categories", also=("values",), **_NAMES),
    "missing": Row("Rows without a prediction: refuse, or leave out (drop).", goes_with=_NOT_OF_A_NUMBER, unset="error",
                   instead="Drop rows without a prediction first."),
    "recalibrate.missing": Row(_KEPT),
    "decide.missing": Row(_KEPT),
    "change-prevalence.missing": Row(_KEPT),
    "batch": Row("A name for these rows; they can be counted only once.", "ID"),
    "time": Row("A column of times, to count by window.", "COLUMN", goes_with=_NOT_OF_A_NUMBER, instead=_EACH_WINDOW),
    "every": Row(f"The length of a window of {option('time')}, such as 1d.", "LENGTH", goes_with=_NOT_OF_A_NUMBER,
                 instead=_EACH_WINDOW),
    "trust": Row(
        "Probability that label shift holds: auto, estimated; or from 0, leave predictions alone, to 1.", "TRUST",
        read=texts.number_or("auto"), valid=between(0, 1), must=f"be 'auto' or {_OF_SHIFT}", kind='"auto" or float'),
    "prior": Row(
        "What is known about the prevalences before the field is seen: auto, flat, pooled, smooth; kl, dirichlet, "
        "continuity, kl_bins with a strength: kl:10; or a sum of these: kl:10+continuity:5.", "PRIOR",
        kind='"auto", str or a prior', doc="What is known about the prevalences before the field is seen; see "
        "`fieldcal.estimate`."),
    "point": Row("The point estimate: the mean of the posterior, or its mode, as in the paper.",
                 choices=("auto", "mean", "mode"), kind='"auto", "mean" or "mode"'),
    "level": Row(
        f"Probability content of the intervals; none for none, with {option('point', 'mode')}.", "LEVEL",
        read=texts.number_or("none"), must="lie between 0 and 1, for instance 0.9", kind="float",
        doc="Probability content of the intervals in ``prevalence_``.",
        valid=lambda value: value is None or is_level(value)),
    "learn.level": Row(f"Probability content of the {option('intervals')} of rates."),
    "contrast.level": Row("Probability content of the intervals; by default the estimate's."),
    "plan.level": Row("Probability content of the interval; by default the estimate's, or with a lab 0.9."),
    "design_effect": Row(
        "How many times larger the field's variance is than that of independent rows: 1 + (m - 1)·r for clusters of m "
        "rows with a correlation of r.", "NUMBER"),
    "persistence": Row(
        "How far the field's groups are those of the same name in the lab: auto, estimated; or from 0, not at all, "
        "to 1.", "NUMBER", read=texts.number_or("auto"), valid=between(0, 1), must=f"be 'auto' or {_OF_GROUPS}"),
    "protected": Row("Decisions must be blind to the groups: estimate, do not apply.", **_FLAG),
    "max_iter": Row(f"With {option('point', 'mode')}: iterations of the solver, at most.", "N", valid=whole(1),
                    must="be a whole number, 1 or more"),
    "unseen": Row(
        "Groups never counted: treat as the whole field (global), do not correct (raw; calibrate only, where the lab "
        "is calibrated), or refuse (error).", choices=("global", "raw", "error"), kind='"global", "raw" or "error"'),
    "sql recalibrate.unseen": Row(_UNSEEN_IN_SQL),
    "sql decide.unseen": Row(_UNSEEN_IN_SQL),
    "change-prevalence.unseen": Row(f"Groups that are not in the table of {option('new')}: refuse, or leave alone."),
    "acknowledge": Row("Apply an estimate over protected groups, or one with 'do not use'.", **_FLAG),
    "shape": Row(
        "With labels of the field: weights of the row's group alone, or of its bin too, for scores that are off.",
        choices=("auto", "tilt", "bins")),
    "name": Row("The names of the new columns; {} is the old name.", "PATTERN"),
    "decide.name": Row("The name of the new column.", "NAME"),
    "sql decide.name": Row("The name of the new column.", "NAME"),
    "goal": Row(
        "accuracy: the most probable class. balanced: the best mean recall. Or what mistakes cost, a row per true "
        "class and a column per decision, in the order of the classes that `fieldcal show` lists: '0,1;20,0', or a "
        "file costs.csv, costs.json, whose names of classes, where it has them, determine the order.", "GOAL"),
    "recalibrated": Row("The names of the columns of recalibrated predictions; {} is the old name.", "PATTERN"),
    "weights": Row("Where `fieldcal sql weights` was loaded; without it, they are written out.", "TABLE"),
    "dialect": Row("Of the warehouse: postgres, snowflake, bigquery, duckdb, spark …", "NAME"),
    "old": Row(f"The mix that the predictions assume: {_SHARES}.", "SHARES", must=f"be {_SHARES}"),
    "new": Row(
        f"The mix of the rows, written in the same way. With {option('by')}, a table with the columns of the groups "
        "and one of shares per class, named after it, or one of the second of two.", "SHARES|TABLE",
        must=f"be {_SHARES}"),
    "of": Row("The class; by default the last.", "CLASS"),
    "report.of": Row("The class it is about; by default the one corrected most."),
    "assume": Row("Rest on the estimate after trust, or on label shift, whatever the trust.",
                  choices=("trust", "label_shift")),
    "kind": Row("How to compare the two shares.", choices=("difference", "ratio")),
    "errors": Row(
        f"With --all and {option('reference')}: of the differences found, the expected share with a wrong "
        "sign, at most.", "SHARE"),
    "labels": Row(
        "With an estimate: how many more labels to predict the interval for; by default 50,100,200. 0 leaves it out.",
        "NUMBERS", read=texts.whole_numbers, must="be whole numbers, such as 50,100,200"),
    "width": Row("Of values: how many labels an interval of this width takes; of a typical group where there are any.",
                 "WIDTH"),
    "apart": Row("Of values: how many labels it takes to distinguish these two groups.", "A,B"),
    "prevalence": Row(
        "With a lab: the shares of the classes to plan for, in their order: 0.7,0.3. By default the lab's.", "SHARES",
        read=texts.number_list, must="have numbers, such as 0.7,0.3"),
    "margin": Row("How far a share may move without an alarm: 0.05 for five points.", "SHARE",
                  valid=between(0, 1, words=()), must="be a share from 0 to 1"),
    "rate": Row("Probability of a false alarm of a kind over all groups and windows, at most.", "PROBABILITY",
                valid=between(1e-9, 1, words=()), must="be a probability above 0, such as 0.05"),
    "watch.source": Row(f"The log of predictions: a file, or a folder that gets new files. {_TABLE}", "LOG"),
    "log_format": Row("Lines on standard error: text, or an object of JSON each.", choices=("text", "json")),
    "watch.output": Row("The folder for the state and the results; made if missing.", "FOLDER"),
    "since": Row("The window from which on alarms are looked for, as 2026-03-02.", "WINDOW"),
    "alarms.table": Row("Also write the alarms here: .csv, .parquet, .json or .jsonl.", "FILE", flag="table"),
    "title": Row("The headline.", "TEXT"),
    "data": Row("The name of the data, shown in the report.", "TEXT"),
    "model": Row("The name of the model, shown in the report.", "TEXT"),
    "period": Row("The time it covers; by default from batches named by dates.", "TEXT"),
    "reference": Row("Compare all groups with this one.", "GROUP"),
    "totals": Row(
        "The share in a population of groups of other sizes: York=100,Leeds=50, or a CSV file of groups and sizes.",
        "SIZES", must="be sizes such as York=100,Leeds=50"),
    "item": Row(
        "Of values: what a row is about, such as the id of a question, so that groups are compared on the same items.",
        "COLUMNS", **_NAMES),
    # Of the command line alone.
    "output": Row("Where to write.", "FILE", also=("o",)),
    "recalibrate.output": Row(_TO_TABLE),
    "decide.output": Row(_TO_TABLE),
    "change-prevalence.output": Row(_TO_TABLE),
    "report.output": Row("Where to write: .html, .md or .json."),
    "run.output": Row("The folder for the results; made if missing.", "FOLDER"),
    "demo.output": Row("The folder for the page.", "FOLDER"),
    "plan.output": Row("With TABLE: where to write the rows to label: .csv, .parquet, or - for standard output."),
    "lab_file": Row("The lab that `fieldcal learn` made.", "LAB.json", flag=None),
    "field_file": Row("What `fieldcal count` made, or a table of counts of a warehouse.", "FIELD.json", flag=None),
    "prevalence_file": Row("What `fieldcal estimate` made.", "PREVALENCE.json", flag=None),
    "plan.artefact": Row("An estimate, or with --rows alone a lab.", "PREVALENCE.json | LAB.json"),
    "show.artefact": Row("A lab, a field or an estimate that fieldcal wrote.", "FILE.json"),
    "merge.artefacts": Row("Fields counted with the same lab; or labs with the same bins, which learn --bins "
                           "FIRST.json makes.", "FIELD.json... | LAB.json..."),
    "check.artefacts": Row("An estimate, or what makes one.", "PREVALENCE.json | LAB.json FIELD.json"),
    "learn.table": Row("Predictions with labels; none with published rates of a test, --sensitivity or --confusion. "
                       f"{_TABLE}", "LAB_TABLE"),
    "run.lab_table": Row(f"Predictions with labels; with --predictions, of some rows. {_TABLE}", "LAB_TABLE"),
    "run.field_table": Row("Predictions in the field; with --predictions by default the same table.", "FIELD_TABLE"),
    "count.table": Row(f"Predictions in the field. {_TABLE}", "FIELD_TABLE"),
    "recalibrate.table": Row(f"Predictions to recalibrate. {_TABLE}", "TABLE"),
    "decide.table": Row(f"Predictions to decide. {_TABLE}", "TABLE"),
    "change-prevalence.table": Row(f"Predictions to change. {_TABLE}", "TABLE"),
    "plan.table": Row(f"The field, to choose rows from. {_TABLE}", "TABLE"),
    "table": Row("The table in the warehouse: name, or schema.name.", "TABLE", flag=None),
    "estimate.table": Row("Also write the table of prevalences here: .csv, .parquet, .json or .jsonl.", "FILE",
                          flag="table", also=("csv",)),
    "earlier": Row("The earlier estimate.", "BEFORE.json", flag=None),
    "later": Row("The later one, with the same classes and groups.", "AFTER.json", flag=None),
    "contrast.groups": Row("The groups to compare; of several columns, as a,b or as JSON: '[\"a\", 1]'. One that "
                           "starts with a minus stands after --.", "GROUP_A GROUP_B"),
    "paired": Row(f"Of values: the table that was counted, with the column of {option('item')}.", "TABLE"),
    "retract": Row("Take the batch of this name out again.", "ID"),
    "only": Row("Keep the batch of this name; may be repeated. Others go.", "ID"),
    "start": Row("Only batches named after this time or later.", "TIME", flag="from"),
    "end": Row("Only batches named after a time before this.", "TIME", flag="until"),
    "rank": Row("How likely each group has the highest share."),
    "all_groups": Row("Compare every two groups, and report what holds for all of them together.", flag="all"),
    "run.check": Row("Exit with 2 if the verdict is 'care', with 3 if it is 'do not use'.", flag="check"),
    "run.recalibrated": Row(f"With {option('predictions')}: also write the probability of each class for every row."),
    # Of Python alone; where an option of the command line does the same, its flag.
    "groups": Row("The group of each row.", flag="by"),
    "y": Row("The true class of each row.", flag="label"),
    "pairs": Row("Which rows are about the same item.", flag="item"),
    "wide": Row("One row per group.", flag=None, **_FLAG),
    "repair": Row("Straighten and rescale rows.", flag=None, **_FLAG),
    "before": Row("Just before each number.", flag=None, **_FLAG),
    "check": Row("Look at the predictions first.", flag=None, **_FLAG),
    "only_labels": Row("Take nothing but the labels.", flag="labelled", **_FLAG),
}
_OF_LABELLED_TABLES = {
    "scores": Row(
        f"The columns with the predictions: the probability of one of two classes (see {option('positive')}), 'p_*' "
        "where * is the class, or p_a,p_b with one name per class. May be repeated; quote names with a comma: "
        f"'\"a,b\",c'. {_LATER}"),
    "quantiles": Row(f"In place of {option('scores')}: {_QUANTILES}. {_LATER}"),
    "predictions": Row(
        f"In place of {option('scores')}: the column with the values of a judge or a test, such as pass, 4 or true; "
        f"several, a,b, of several judges. Needs {option('design')}; {option('label')} may then be empty in most rows. "
        f"{_LATER}"),
}
# fmt: on
OPTIONS |= {f"{name}.{of}": row for name in ("learn", "run") for of, row in _OF_LABELLED_TABLES.items()}
OPTIONS["change-prevalence.scores"] = Row(
    "The columns with the predictions: the probability of the second class, 'p_*' where * is the class, or p_a,p_b "
    "with one name per class."
)


_EMPTY = Row("")


def row_of(name: str, command: str = "") -> Row | None:
    """The row of an option, changed as its row in this command says; one with a flag is another option."""
    row, own = OPTIONS.get(name), OPTIONS.get(f"{command}.{name}")
    if row is None or own is None or own.flag:
        return own or row
    return replace(
        row, **{part: value for part, value in vars(own).items() if value != getattr(_EMPTY, part)}
    )
