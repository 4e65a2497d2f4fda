"""The options: one row for each, whichever functions and commands have it.

A row has what the signature of a function does not: the flag, how its text is read, which values are allowed, which
predictions it goes with, and one line of help. From rows are made: the command line (`cli.signature`), the checks of
arguments (`check_options`, `check_goes_with`), the flags in messages (`flag_of`) and the parameters of the estimators
(`documented`).
"""

from __future__ import annotations

import contextlib
import math
import numbers
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeGuard, TypeVar

from fieldcal import texts
from fieldcal.errors import InputError, InputTypeError, named, option, spelled

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Class = TypeVar("Class", bound=type)

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
    flag : on the command line; by default the name, None where the command line does not have it
    read : its text as a value; raises ValueError
    valid : whether a value is allowed
    must : what a value must, in words: "be a whole number"
    choices : the words that are allowed
    goes_with : the predictions that it goes with
    unset : the value that says nothing
    instead : the way out where it does not go with the predictions
    kind : of its values, in the documentation of parameters
    many : the flag may be repeated, and its text may hold commas
    """

    help: str
    metavar: str | None = None
    flag: str | None = ""
    read: Callable[[Any], Any] | None = None
    valid: Callable[[Any], bool] | None = None
    must: str = ""
    choices: tuple[str, ...] = ()
    goes_with: tuple[str, ...] = tuple(PREDICTED)
    unset: Any = None
    instead: str | Mapping[str, str] = "Leave it out."
    kind: str = ""
    many: bool = False


def is_auto(value: object) -> bool:
    """Whether the choice is left to us."""
    return isinstance(value, str) and value == "auto"


def is_number(value: object) -> TypeGuard[float]:
    """Whether this is a number, also numpy's; true and false are none."""
    return isinstance(value, numbers.Real) and not is_flag(value)


def is_flag(value: object) -> bool:
    """Whether this is true or false, also numpy's."""
    return isinstance(value, bool) or getattr(getattr(value, "dtype", None), "kind", "") == "b"


def check_whole(name: str, value: Any, *, least: int, most: int | None = None) -> None:
    """Refuse what is no whole number from ``least`` on."""
    if not whole(least)(value):
        raise refused(name, value, f"be a whole number, {least} or more")
    if most is not None and value > most:
        raise refused(name, value, f"be at most {most:,}")


def whole(least: int) -> Callable[[Any], bool]:
    """A test for whole numbers from ``least`` on."""
    return lambda value: not is_flag(value) and isinstance(value, numbers.Integral) and int(value) >= least


def between(low: float, high: float, *, words: tuple[Any, ...] = ("auto",)) -> Callable[[Any], bool]:
    """A test for numbers within these bounds, or one of the words."""
    return lambda value: (
        any(type(value) is type(word) and value == word for word in words)
        or (is_number(value) and low <= value <= high)
    )


def _is_level(value: Any) -> bool:
    return is_number(value) and 0 < value < 1


_AS_TYPED = {
    predicted: f"Name the columns with {option(name)}." for predicted, (_, name) in PREDICTED.items()
}
_EACH_WINDOW = f"Count every window by itself, with {option('batch')}, and merge."
_OF_A_NUMBER, _NOT_OF_A_NUMBER = ("distributions",), ("probabilities", "values")
_SHARES = (
    "a share of the second of two classes, 0.05; numbers in the order of the classes, 0.7,0.2,0.1 (shares, rows or "
    "class weights: only ratios count); or by name, cat=70,dog=30"
)
_COLUMNS: dict[str, Any] = {"metavar": "COLUMNS", "many": True}
_FLAG: dict[str, Any] = {"valid": is_flag, "must": "be True or False", "unset": False}
_OF_SHIFT = "a probability from 0 (leave alone) to 1 (label shift holds)"
_OF_GROUPS = (
    "a number from 0 (lab groups say nothing about field groups of the same name) to 1 (they are the same)"
)

#: Every option of a function that the command line or an estimator has as well. Where the text differs in a command,
#: the name of the command stands before the name of the option.
# fmt: off
OPTIONS: dict[str, Row] = {
    "scores": Row(
        f"The columns with the predictions: the probability of one of two classes (see {option('positive')}), 'p_*' "
        "where * is the class, or p_a,p_b with one name per class. May be repeated; quote names with a comma: "
        "'\"a,b\",c'. Later steps know them.",
        read=texts.one_or_more, must="name columns, such as p, 'p_*' or p_a,p_b", goes_with=("probabilities",),
        instead=_AS_TYPED, **_COLUMNS),
    "quantiles": Row(
        f"In place of {option('scores')}: columns with quantiles of a number, 'q_*' where * is the level (0.05) or a "
        "percentage (5), or each level with its column: 0.1=low,0.9=high. Later steps know them.",
        read=texts.quantile_columns, goes_with=_OF_A_NUMBER, instead=_AS_TYPED, **_COLUMNS,
        must="be a pattern such as 'q_*', or each level between 0 and 1 once with its column: 0.1=low,0.9=high"),
    "predictions": Row(
        f"In place of {option('scores')}: the column with the values of a judge or a test, such as pass, 4 or true; "
        f"several, a,b, of several judges. Needs {option('design')}; {option('label')} may then be empty in most "
        "rows. "
        "Later steps know them.",
        read=texts.some_names, must="name columns, such as verdict", goes_with=("values",), instead=_AS_TYPED,
        **_COLUMNS),
    "by": Row(
        "The column of the groups; repeat it, or use commas, for several. Later steps know it.",
        read=texts.names, must="be names such as a,b,c", **_COLUMNS),
    "label": Row("The column with the true class.", "COLUMN"),
    "design": Row(
        "How the rows with labels were chosen: at random, by looking at predictions or groups, or by their class. "
        "With "
        f"{option('predictions')} it must be said; else by default random."),
    "classes": Row(
        "The classes in the order of the columns of predictions: a,b. Of published rates, by default "
        "negative,positive; "
        f"of {option('confusion')} 0,1,…",
        "NAMES", read=texts.names, must="be names such as a,b,c", many=True, goes_with=_NOT_OF_A_NUMBER,
        instead=f"Use {option('intervals')}."),
    "positive": Row(
        f"With one column of {option('scores')}: the class that it is the probability of, such as yes. By default the "
        "second in sorted order.", "CLASS", goes_with=("probabilities",),
        instead={"distributions": "Leave it out.",
                 "values": f"Give the order of the classes with {option('classes')}."}),
    "method": Row(
        "What 'auto' means: fieldcal's choice; what the paper does; or what its authors' R code does. Learn and "
        "estimate "
        "by the same.", choices=("default", "paper", "reference"), goes_with=("probabilities", "distributions"),
        unset="default"),
    "partition": Row(
        "How predictions are sent to bins: the number of bins; where to cut the score of two classes, 0.2,0.5; or "
        "how, "
        f"with their number: quantiles:8, simplex:24, expected:8. given:8 where {option('scores')} holds numbers of "
        "bins, "
        "from 0 to 7. Or those of another lab: lab.json. By default chosen by the data.", "BINS", flag="bins",
        kind='"auto", int, Quantiles, Edges, Simplex or Expected'),
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
        "the "
        "same way. Or as another lab of the same classes is calibrated, to merge the two: lab.json.", "METHOD",
        goes_with=("probabilities",), kind='None, "sigmoid", "isotonic" or "temperature"'),
    "intervals": Row(
        f"With {option('quantiles')}: into how many intervals to cut the numbers, or where: 0,10,20; by default "
        "chosen by "
        f"the data. With {option('sensitivity')}, in place of {option('n')}: the intervals of the two rates, "
        "'0.85,0.96;0.95,0.98'.", "N|EDGES|ENDS", read=texts.intervals, goes_with=_OF_A_NUMBER, unset="auto",
        must="be a whole number or edges such as 0,10,20"),
    "atoms": Row(
        f"With {option('quantiles')}: numbers with an interval of their own: 0,100; none for none. By default those "
        "of a "
        "twentieth of the rows or more.", "NUMBERS", read=texts.atoms, goes_with=_OF_A_NUMBER, unset="auto",
        must="be numbers such as 0,100, or none"),
    "crossing": Row(
        "Rows whose quantiles cross: refuse, or sort their quantiles.", choices=("error", "sort"),
        goes_with=_OF_A_NUMBER, unset="error"),
    "random_state": Row(
        "Seed of whatever is drawn at random.", "N", flag="seed", valid=whole(0), must="be a whole number, 0 or more",
        kind="int, RandomState instance or None"),
    "sensitivity": Row("Without LAB_TABLE: P(test positive | positive), such as 0.92.", "RATE", read=float,
                       must="be a number"),
    "specificity": Row("Without LAB_TABLE: P(test negative | negative), such as 0.97.", "RATE", read=float,
                       must="be a number"),
    "confusion": Row(
        "In place of the two: a row per true class and a column per category, as numbers of rows, '388,12;10,110', "
        "or as "
        f"shares with {option('n')}.", "TABLE", read=texts.number_rows, must="be numbers such as '1,2' or '1,2;3,4'"),
    "n": Row(
        f"The rows behind the rates: positive and negative ones, 120,400; with {option('confusion')} one number per "
        "class.", "ROWS", read=texts.number_list, must="be one row of numbers, such as 120,400"),
    "values": Row(
        f"The results of the test in the order of the columns of {option('confusion')}: -,+. By default the classes.",
        "NAMES", flag="categories", read=texts.names, must="be names such as a,b,c", many=True),
    "missing": Row("Rows without a prediction: refuse, leave out (drop), or leave as they are (keep).",
                   goes_with=_NOT_OF_A_NUMBER, unset="error", instead="Drop rows without a prediction first."),
    "batch": Row("A name for these rows; they can be counted only once.", "ID"),
    "time": Row("A column of times, to count by window.", "COLUMN", goes_with=_NOT_OF_A_NUMBER, instead=_EACH_WINDOW),
    "every": Row(f"The length of a window of {option('time')}, such as 1d.", "LENGTH", goes_with=_NOT_OF_A_NUMBER,
                 instead=_EACH_WINDOW),
    "trust": Row(
        "Probability that label shift holds: auto, estimated; or from 0, leave predictions alone, to 1.", "TRUST",
        read=texts.number_or("auto"), valid=between(0, 1), must=f"be 'auto' or {_OF_SHIFT}", kind='"auto" or float'),
    "prior": Row(
        "What is believed about the prevalences before the field is seen: auto, flat, pooled, smooth; kl, dirichlet, "
        "continuity, kl_bins with a strength: kl:10; or a sum of these: kl:10+continuity:5.", "PRIOR",
        kind='"auto", str or a prior'),
    "point": Row("The point estimate: the mean of the posterior, or its mode, as in the paper.",
                 choices=("auto", "mean", "mode")),
    "level": Row(
        f"Probability content of the intervals; none for none, with {option('point', 'mode')}.", "LEVEL",
        read=texts.number_or("none"), must="lie between 0 and 1, for instance 0.9", kind="float",
        valid=lambda value: value is None or _is_level(value)),
    "design_effect": Row(
        "How many times larger the field's variance is than that of independent rows: 1 + (m - 1)·r for clusters of m "
        "rows with a correlation of r.", "NUMBER"),
    "persistence": Row(
        "How far the field's groups are those of the same name in the lab: auto, estimated; or from 0, not at all, "
        "to 1.",
        "NUMBER", read=texts.number_or("auto"), valid=between(0, 1), must=f"be 'auto' or {_OF_GROUPS}"),
    "protected": Row("Decisions must be blind to the groups: estimate, do not apply.", **_FLAG),
    "max_iter": Row(f"With {option('point', 'mode')}: iterations of the solver, at most.", "N", valid=whole(1),
                    must="be a whole number, 1 or more"),
    "unseen": Row(
        "Groups never counted: treat as the whole field, do not correct (calibrate only, where the lab is "
        "calibrated), or "
        "refuse.", choices=("global", "raw", "error"), kind='"global", "raw" or "error"'),
    "change-prevalence.unseen": Row(f"Groups that are not in the table of {option('new')}: refuse, or leave alone."),
    "acknowledge": Row("Apply an estimate over protected groups, or one with 'do not use'.", **_FLAG),
    "shape": Row(
        "With labels of the field: weights of the row's group alone, or of its bin too, for scores that are off.",
        choices=("auto", "tilt", "bins")),
    "name": Row("The name of the new column; of several columns a pattern, where {} is the old name.", "PATTERN"),
    "goal": Row(
        "accuracy: the most probable class. balanced: the best mean recall. Or what mistakes cost, a row per true "
        "class "
        "and a column per decision, in the order of the classes that `fieldcal show` tells: '0,1;20,0', or a file "
        "costs.csv, costs.json, whose names of classes, where it has them, say the order.", "GOAL"),
    "recalibrated": Row("Names of the columns of recalibrated predictions; {} is the old name.", "PATTERN"),
    "weights": Row("Where `fieldcal sql weights` was loaded; without it, they are written out.", "TABLE"),
    "dialect": Row("Of the warehouse: postgres, snowflake, bigquery, duckdb, spark …", "NAME"),
    "old": Row(f"The mix that the predictions assume: {_SHARES}.", "SHARES", must=f"be {_SHARES}"),
    "new": Row(
        f"The mix of the rows, written in the same way. With {option('by')}, a table with the columns of the groups "
        "and "
        "one of shares per class, named after it, or one of the second of two.", "SHARES|TABLE", must=f"be {_SHARES}"),
    "of": Row("The class it is about; by default the last, and in a report the one corrected most.", "CLASS"),
    "assume": Row("Rest on the estimate after trust, or on label shift, whatever the trust.",
                  choices=("trust", "label_shift")),
    "kind": Row("How to compare the two shares.", choices=("difference", "ratio")),
    "errors": Row(
        "When all groups are compared: of the differences found, the expected share with a wrong sign, at most.",
        "SHARE"),
    "labels": Row(
        "With an estimate: how many more labels to predict the interval for; by default 50,100,200. 0 leaves it out.",
        "NUMBERS", read=texts.whole_numbers, must="be whole numbers, such as 50,100,200"),
    "width": Row("Of values: how many labels an interval of this width takes; of a typical group where there are any.",
                 "WIDTH", read=float, must="be a number"),
    "apart": Row("Of values: how many labels it takes to tell these two groups apart.", "A,B"),
    "prevalence": Row(
        "With a lab: the shares of the classes to plan for, in their order: 0.7,0.3. By default the lab's.", "SHARES",
        read=texts.number_list, must="have numbers, such as 0.7,0.3"),
    "title": Row("The headline.", "TEXT"),
    "data": Row("The name of the data, shown in the report.", "TEXT"),
    "model": Row("The name of the model, shown in the report.", "TEXT"),
    "period": Row("The time it covers; by default from batches named by dates.", "TEXT"),
    "reference": Row("Compare all groups with this one.", "GROUP"),
    "totals": Row(
        "The share in a population of groups of other sizes: York=100,Leeds=50, or a CSV file of groups and sizes.",
        "SIZES"),
    "item": Row(
        "Of values: what a row is about, such as the id of a question, so that groups are compared on the same items.",
        read=texts.names, must="be names such as a,b,c", **_COLUMNS),
    # Of Python alone, where an option of the command line does the same.
    "groups": Row("The group of each row.", flag="by"),
    "y": Row("The true class of each row.", flag="label"),
    "pairs": Row("Which rows are about the same item.", flag="item"),
    "wide": Row("One row per group.", flag=None, **_FLAG),
    "repair": Row("Straighten and rescale rows.", flag=None, **_FLAG),
    "before": Row("Just before each number.", flag=None, **_FLAG),
    "check": Row("Look at the predictions first.", flag=None, **_FLAG),
    "only_labels": Row("Take nothing but the labels.", flag="labelled", **_FLAG),
}
# fmt: on


def flag_of(name: str) -> str | None:
    """The flag of an option, without the dashes; None where the command line has none.

    Examples
    --------
    >>> from fieldcal.options import flag_of
    >>> flag_of("missing"), flag_of("partition"), flag_of("design_effect"), flag_of("family")
    ('missing', 'bins', 'design-effect', None)
    """
    row = OPTIONS.get(name)
    return None if row is None or row.flag is None else row.flag or name.replace("_", "-")


def check_options(**given: Any) -> None:
    """Refuse values that no option could have, each by its name."""
    for name, value in given.items():
        row = OPTIONS[name]
        if row.choices and (not isinstance(value, str) or value not in row.choices):
            raise refused(name, value, f"be {_either(row.choices)}")
        if row.valid is not None and not row.valid(value):
            kind = InputTypeError if row.valid is is_flag else InputError
            raise kind(f"{named(name)} must {row.must}, but got {value!r:.60}.")


def check_goes_with(predicted: Predicted, **given: Any) -> None:
    """Refuse options that do not go with such predictions, where somebody gave them."""
    words, _ = PREDICTED[predicted]
    for name, value in given.items():
        row = OPTIONS[name]
        if predicted in row.goes_with or value is row.unset:
            continue
        if (not is_flag(value) and not isinstance(value, str)) or value != row.unset:
            way_out = row.instead if isinstance(row.instead, str) else row.instead[predicted]
            raise InputError(
                f"{option(name, value)} does not go with {words}, which this is about. {way_out}"
            )


def check_level(level: Any) -> None:
    """Refuse what is no probability of an interval."""
    if not _is_level(level):
        raise refused("level", level, OPTIONS["level"].must)


def refused(name: str, value: object, must: str) -> InputError:
    """What an option must, and what it is."""
    return InputError(f"{named(name)} must {must}, but got {value!r:.60}.")


def _either(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:-1])) + f" or {words[-1]!r}"


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Refuse what is none of several words."""
    if not isinstance(value, str) or value not in choices:
        raise refused(name, value, f"be {_either(choices)}")


def as_number(
    name: str,
    value: Any,
    *,
    least: float | None = None,
    most: float = math.inf,
    words: str = "a finite number",
) -> float:
    """A finite number, from ``least`` to ``most`` where there are such; true and false are none."""
    if is_number(value):
        with contextlib.suppress(OverflowError):  # a whole number beyond every float
            number = float(value)
            if math.isfinite(number) and (least is None or least <= number) and number <= most:
                return number
    bounds = ("" if least is None else f", at least {least:g}") + (
        "" if most == math.inf else f", at most {most:g}"
    )
    raise refused(name, value, f"be {words}{bounds}")


def as_array(name: str, values: Any) -> NDArray[np.float64]:
    """Numbers as float64."""
    import numpy as np

    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputTypeError(
            f"{named(name)} must be numbers in rows of equal length, but got {values!r:.60}."
        ) from None


#: Predictions that are values, such as the verdicts of a judge; on the command line, by the option that names them.
AS_VALUES = option("kind", "values", flag="predictions COLUMN")
#: Where each artefact comes from.
MADE_BY = {
    "Lab": "fieldcal.learn(predictions, y)",
    "Field": "fieldcal.count(lab, predictions)",
    "Prevalence": "fieldcal.estimate(lab, field)",
    "Pairs": "fieldcal.pairs(lab, predictions, groups, items)",
}


def check_kind(name: str, value: Any, kind: type[Any]) -> None:
    """Refuse an object of another class."""
    if not isinstance(value, kind):
        what = kind.__name__
        comes = f" It comes from {MADE_BY[what]}." if what in MADE_BY else ""
        raise InputTypeError(f"{name} must be a {what}, but got {type(value).__name__}.{comes}")


def column_names(name: str, given: Any) -> tuple[str, ...]:
    """One name or several; none where nothing is given."""
    listed = () if given is None else (given,) if isinstance(given, str) else given
    without_length = getattr(listed, "ndim", 1) == 0
    if isinstance(listed, Iterable) and not isinstance(listed, (bytes, Mapping)) and not without_length:
        found = tuple(listed)
        if all(isinstance(each, str) for each in found):
            return found
    raise no_name(name, given)


def no_name(name: str, given: object) -> InputTypeError:
    """Names are text: files and most engines know no others."""
    return InputTypeError(
        f"{option(name, given)} does not name a column by text. Rename columns that are named by numbers or tuples "
        "first: frame.columns = [str(c) for c in frame.columns]."
    )


def documented(made: Class) -> Class:
    """An estimator whose docstring has the parameters of its options, where it says ``{options}``.

    Each is written with its kind, its default and its line of help.
    """
    import inspect

    lines = [
        f"    {p.name} : {_kind(p.name)}, default={p.default!r}\n        {spelled(OPTIONS[p.name].help)}"
        for p in inspect.signature(made).parameters.values()
        if p.name in OPTIONS
    ]
    if made.__doc__:
        made.__doc__ = made.__doc__.replace("    {options}", "\n".join(lines))
    return made


def _kind(name: str) -> str:
    row = OPTIONS[name]
    return row.kind or _either(row.choices).replace("'", '"')
