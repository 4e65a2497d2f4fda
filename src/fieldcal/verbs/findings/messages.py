"""Every finding in words: its question, the states it can have, its text and its remedy.

A rule gives the code and the values; `wording` fills them in. Where a text or remedy has several versions, the rule
names one. docs/explanation/verdicts.md lists this table: tools/verdicts.py writes it.
"""

from __future__ import annotations

from fieldcal.objects import Finding
from fieldcal.verbs.findings import wording
from fieldcal.verbs.findings.messages_shift import JUDGES, LABEL_SHIFT, LABELS
from fieldcal.verbs.findings.wording import (
    ASK,
    CARE,
    CARE_OR_ASK,
    CARE_OR_WORSE,
    DO_NOT_USE,
    OK,
    OK_OR_CARE,
    Message,
    Raised,
)

_CHECK_SCORES = "Check that lab and field were scored by the same version of the model, in the same units."
_CHECK_COLUMNS = (
    "Check the order of the columns in lab and field, and which class a single column belongs to."
)
_COUNT_RAW = "Count the model's original predictions; a correction that is made twice is wrong."
_DECISIONS = "Use {BALANCED} if every class matters, or give costs of errors as the goal."
_INHERITED = "Prevalences remain valid; recalibrated probabilities inherit the error."
_RATIO = "(likelihood ratio {ratio:,} or more)"
_KISH = (
    "{weighted:The effective sample size of the weights, {total:amount} in total, is {rows:,.0f} rows of equal weight "
    "(Kish). |}"
)
_UNEQUAL = {
    "equal": "equal predictions stay equal in all groups, since differences between groups are not corrected",
    "unequal": "a prediction of {before:.0%} for class {name:name} becomes {low:.0%} in {first:name} and {high:.0%} "
    "in {second:name}",
}
_UNDECIDED = {
    "number": "Does not apply: a number is predicted, and nothing is decided.",
    "only_decisions": "Does not apply: predictions of 0 and 1 do not change.",
    "no_rows": "Does not apply: there are no rows.",
    "unchanged": "Does not apply: predictions are not {calibrated:recalibrated|changed}.",
}
_ERRORS = (
    "In hard decisions for class {name:name}, recalibrated predictions make false alarms (type I errors) in "
    "{new_alarms:.1%} of the rows of other classes instead of {alarms:.1%}, and misses (type II errors) in "
    "{new_misses:.1%} of its own rows instead of {misses:.1%}."
)

# fmt: off
_LAB = {
    "Are predictions for a class higher on its own rows?": {
        "better_than_chance": OK("Yes, for every class."),
        "worse_than_chance": DO_NOT_USE(
            "Predictions for class {name!r} are lower on rows of that class than on others: worse than chance.",
            {
                "columns": "Are the columns in the order of the classes {classes!r:.200}? If not, pass {CLASSES} in "
                "their order.",
                "two": "{named:The column {column!r:.60}|A single column} is read as the probability of "
                "{second!r:.60}. If it is that of {first!r:.60}, learn again and name that class with {POSITIVE}. "
                "Two columns are read in the order {classes!r:.200}, or in that of {CLASSES}.",
            }),
    },
    "Does the lab have enough rows of every class?": {
        "enough_class_rows": OK("The rarest class, {name:name}, has {n:amount} lab rows."),
        "some_class_rows": CARE_OR_ASK(
            "The lab has only {n:amount} rows of class {name!r}: checks of this class have little power.",
            "Label more rows of class {name:name}."),
        "few_class_rows": CARE(
            "The lab has only {n:g} {n:row|rows} of class {name!r}: how its predictions are distributed is mostly a "
            "guess, and the intervals will be wide.",
            "Label more rows of this class."),
    },
    "Do the predictions distinguish the classes?": {
        "told_apart": OK(
            "The condition number of the response matrix is {number:.3g}; below {limit:,.0f} is good enough."),
        "confusable_classes": CARE(
            "The bins hardly distinguish {named:{first!r} and {second!r}|some classes}: the condition number of the "
            "response matrix is {number:.3g}. Estimates depend mostly on the prior.",
            "Use more bins or a better model, or merge classes."),
        "one_bin": DO_NOT_USE(
            "All lab predictions fall into one bin, so that every field looks the same.",
            "Use a model whose predictions vary."),
    },
    "Were the lab rows kept out of training?": {
        "held_out": OK("Their log loss, {loss:.3g}, is plausible for held-out rows."),
        "maybe_held_out": ASK("Only you know. On rows it was trained on, a model errs less than elsewhere."),
        "too_good": CARE(
            "The lab's log loss, {loss:.2g}, is implausibly low. Are these rows the model was trained on?",
            "Use held-out rows, or the field will appear to have shifted."),
    },
    "Is the model calibrated on the lab?": {
        "calibrated": OK(
            {
                "raw": "Predictions and observed shares in the lab differ by {error:.3f} on average.",
                "fitted": "After calibration on the lab ({method}), predictions and observed shares differ by "
                "{error:.3f} on average, on rows that each fit had not seen.",
            }),
        "uncalibrated": CARE_OR_ASK(
            "{fitted:After calibration on the lab ({method}), the model is still|The model is} not calibrated on the "
            "lab: predictions and observed shares differ by {error:.3f} on average"
            f"{{fitted:, on rows that each fit had not seen|}}. {_INHERITED}",
            {
                "sigmoid": "Calibrate on the lab: {SIGMOID}.",
                "isotonic": "Calibrate by steps: {ISOTONIC}.",
                "distributions": "Calibrate the model's distributions first, on rows of their own.",
                "labels": "Label more rows, or improve the model.",
                "bins": "Recalibrate each bin by its labels: {BINS}.",
            }),
    },
    "Are the predictions probabilities?": {
        "hard_decisions": CARE(
            "All lab predictions are exactly 0 or 1: these are hard decisions, not probabilities. Prevalences can be "
            "estimated from them (adjusted count), but label shift cannot be tested, and recalibrated predictions "
            "remain 0 and 1.",
            "Pass the model's probabilities: predict_proba, not predict. If there are none, as from a judge or a "
            "test, pass the predictions as categories: {CATEGORIES}."),
    },
    "Do the predictions separate the classes at all?": {
        "cannot_separate": CARE_OR_WORSE(
            "The predictions hardly separate {first:name} and {second:name}: AUC {auc:.2f} ± {error:.2f}, where 0.5 "
            "is chance. Estimates of their prevalences are mostly noise.",
            "Use a model that separates them better, or label more rows if there are few; of more than two classes, "
            "merge these."),
    },
    "Does the lab have enough rows for its bins?": {
        "many_bins": CARE(
            "There are {bins:,} bins, but the lab's rows support {most:,} at most: noise in the bins blurs the "
            "classes and biases the estimate towards the lab.",
            "{categories:Merge categories|Cut at fewer edges}, to {most:,} bins at most, or label more rows."),
    },
}

_FIELD = {
    "Does the field look like a mixture of the lab's classes?": {
        "looks_alike": OK("Yes, as far as can be tested: Cohen's w is {effect:.2f} beyond noise; below 0.1 is small."),
        "mixture_untestable": ASK("Cannot be tested: there are no more bins than classes, or no rows."),
        "misfit": CARE_OR_ASK(
            "The field does not look like any mixture of the classes (Cohen's w {effect:.2f}; 0.1 is small, 0.5 "
            "large).",
            _CHECK_SCORES),
        "unlike_any_mixture": DO_NOT_USE(
            "The field does not look like any mixture of the lab's classes (Cohen's w {effect:.2f}): another model, "
            "a fault in scoring, or another population.",
            _CHECK_SCORES),
    },
    "Does every group look like a mixture of the classes?": {
        "groups_fit": OK("Yes, no group stands out."),
        "groups_inconsistent": CARE(
            "{n:,} of {total:,} groups ({share:.0%}) {n:does|do} not look like any mixture of the classes.",
            "Find out what is different about the groups with the status 'inconsistent'."),
    },
    "Are the differences between groups possible for prevalences?": {
        "overdispersed": CARE(
            "The groups differ more than class prevalences can (overdispersion): misfit is estimated as variance "
            "between groups.",
            "Look at the groups that do not fit any mixture of the classes before you use the estimates."),
    },
    "Did the solver converge?": {
        "not_converged": CARE(
            "{n:,} of {total:,} groups stopped at the iteration limit; the largest optimality gap is {gap:.2g} per "
            "row.",
            "Raise the limit: {MAX_ITER}."),
    },
    "Does every field row have a prediction?": {
        "complete": OK("{n:,} of {total:,.0f} rows had no prediction and were dropped."),
        "rows_dropped": CARE(
            "{n:,} of {total:,.0f} rows ({share:.0%}) had no prediction and were dropped.",
            "Find out why their predictions are missing: the estimate holds for the other rows alone."),
    },
    "Does the lab have every category of the field?": {
        "values_known": OK("{n:,} of {total:,.0f} rows have a category that is not in the lab."),
        "values_unseen": CARE_OR_WORSE(
            "{n:,} of {total:,.0f} rows ({share:.1%}) have a category that is not in the lab: {counted:they are "
            "counted with the nearest category, or with other rare ones|they are left out}, and their classes are a "
            "guess.",
            "Correct the spelling of these categories, or label rows that have them and learn again."),
    },
    "Are field rows independent of each other?": {
        "maybe_dependent": ASK(
            _KISH
            + "Independence is assumed. If rows share a person, a place or a day, estimate with {DESIGN_EFFECT}; "
            "otherwise the intervals are too narrow."),
        "design_effect": ASK(
            _KISH + "Independence is not assumed: with a design effect of {effect:g}, the effective sample size is "
            "{effective:,.0f} independent rows."),
    },
    "Could the field contain a class that the lab does not have?": {
        "maybe_new_class": ASK("Only you know. No row falls into a bin that is empty in the lab."),
        "novel": CARE("{n:amount} {n:row falls|rows fall} into bins that are empty in the lab."),
    },
    "Are the intervals informative?": {
        "says_nothing": OK_OR_CARE(
            {
                "groups": "The intervals of {n:,} of {total:,} groups span more than {limit:.0%} of the possible "
                "range: the data carry next to no information there.",
                "field": "The interval spans more than {limit:.0%} of the possible range: the data carry next to no "
                "information.",
            },
            "Do not act on these estimates; count more rows, merge small groups, or label some rows."),
    },
    "Does every group have labelled rows?": {
        "groups_without_labels": OK_OR_CARE(
            "{n:,} of {total:,} groups {n:has|have} no labelled row ({named:names}): {n:its estimate assumes|their "
            "estimates assume} that the {judged:judge|model} makes the same errors there as in the labelled groups.",
            "Label some rows of {n:this group|each of these groups}, drawn at random."),
    },
    "Are the field's predictions in the lab's units?": {
        "other_units": CARE_OR_WORSE(
            "Predictions divided by 100 would explain the field far better than any mixture of the lab's classes "
            f"{_RATIO}.",
            _CHECK_SCORES),
    },
    "Are the field's classes in the lab's order?": {
        "swapped": CARE_OR_WORSE(
            {
                "two": "Swapped classes (1 − p in place of p) would explain the field far better than any mixture of "
                f"the lab's classes {_RATIO}.",
                "many": "The field does not look like any mixture of the classes, but far more like one if some "
                "columns were in another order: those of {names:names}.",
            },
            _CHECK_COLUMNS),
    },
    "Were raw predictions counted?": {
        "counted_raw": OK("Yes: nothing suggests that the predictions were recalibrated before."),
        "maybe_recalibrated": ASK(
            "Only you know: these bins seldom show it. Recalibrated predictions that are counted again are corrected "
            "twice."),
        "recalibrated_before": CARE_OR_WORSE(
            {
                "two": "Predictions that were already recalibrated, to {prevalence:.0%} of class {name:name}, would "
                f"explain the field far better than any mixture of the lab's classes {_RATIO}.",
                "many": "The field does not look like any mixture of the classes, but far more as if its predictions "
                "had already been recalibrated, to {prevalence:.0%} of class {name:name}.",
            },
            _COUNT_RAW),
    },
}

_GROUPS = {
    "Does a class look the same in all lab groups?": {
        "homogeneous": OK("Yes (Cramér's V {effect:.2f})."),
        "heterogeneous": CARE(
            "The predictions of a class differ between lab groups (Cramér's V {effect:.2f}): groups differ by more "
            "than class prevalences."),
    },
    "Is the model free of bias for these groups?": {
        "not_by_group": OK("Does not apply: without groups, nothing is recalibrated by group."),
        "unbiased": OK(
            "Given the class, none of {tested:,} lab groups shows a clear bias. Recalibrating by group would "
            "multiply any remaining bias by about {factor:factor}."),
        "bias_corrected": OK(
            "Given the class, predictions are biased for {capped:at least |}{n:,} of {tested:,} lab groups. The "
            "estimate corrects each group by its own lab labels, to the extent that groups persist from lab to field."),
        "maybe_biased": ASK(
            {
                "number": "Unknown: bias is not measured for predictions of a number. If they are too high for a "
                "group, given the number, recalibrating by group increases the error.",
                "no_groups": "Unknown: the lab has no groups to measure it. If predictions are too high for a group, "
                "given the class, recalibrating by group multiplies this error by about {factor:factor}. {GROUPS} "
                "measures it.",
            }),
        "biased": CARE(
            "In the lab, predictions for class {name:name} were {bias:.1f} ± {error:.1f} points too {high:high|low} "
            "in group {group:name}, given the class, compared with the whole lab{several:; |}{capped:at least "
            "|}{several:{n:,} of {tested:,} groups are biased like this|}. Recalibrating by group turns this into an "
            "error of about {after:.1f} points in the estimate; the mean prediction is wrong by "
            "{before:.1f}{ignored:, and stays so with a trust of 0 between groups|}{part:, with a trust of "
            "{trust:.2f} the estimate by {mixed:.1f}|}.",
            "Does a feature stand for the group, or were labels of a group wrong? Correct the model, or do not "
            "recalibrate by these groups: count the field without them."),
    },
    "May decisions depend on the group?": {
        "no_groups": OK("Does not apply: there are no groups."),
        "maybe_protected": ASK(
            {
                case: f"Only you know: {effect}. If the group must not matter, estimate with {{PROTECTED}}."
                for case, effect in _UNEQUAL.items()
            }),
        "protected": ASK(
            {
                case: f"No: the groups are declared protected. They are estimated, but not to be applied: {effect}."
                for case, effect in _UNEQUAL.items()
            },
            "Use the prevalences to monitor the groups; do not change predictions by them."),
    },
    "Is every class still predicted in hard decisions?": {
        "recall_kept": OK({"kept": "Yes. Recall changes most for {changes:changes}.", **_UNDECIDED}),
        "recall_lost_in_groups": ASK(
            "Yes in the whole field, but not in {n:,} of {total:,} groups, where a class is rare. In {group:name} "
            "recall falls most: {changes:changes}.",
            _DECISIONS),
        "recall_lost": CARE_OR_ASK(
            "If the largest recalibrated prediction decides, recall falls: {changes:changes}. The probabilities are "
            "right, but a class that has become rare hardly ever has the largest.",
            _DECISIONS),
    },
    "Do hard decisions make the same errors as before?": {
        "errors_kept": OK({"kept": _ERRORS, **_UNDECIDED}),
        "errors_traded": CARE_OR_ASK(
            _ERRORS,
            "Only you know which error costs more: decide with costs of errors as the goal."),
    },
}
# fmt: on

#: The messages by subject, question and code.
TABLE: dict[str, dict[str, dict[str, Message]]] = {
    "The lab": _LAB,
    "Label shift, between groups and overall": LABEL_SHIFT,
    "Labelled rows of the field": LABELS,
    "The field": _FIELD,
    "Groups and decisions": _GROUPS,
    "Judges and tests": JUDGES,
}
_MESSAGES = {
    code: (question, message)
    for questions in TABLE.values()
    for question, messages in questions.items()
    for code, message in messages.items()
}


def in_words(found: Raised) -> Finding:
    """What a rule found, as a finding with options in Python's spelling."""
    return wording.in_words(found, *_MESSAGES[found.code])


def marked(finding: Finding) -> str:
    """The text and remedy of a finding, with options as marked text: so that a command line can spell them as flags."""
    _, message = _MESSAGES.get(finding.code, ("", None))
    return wording.marked(finding, message)
