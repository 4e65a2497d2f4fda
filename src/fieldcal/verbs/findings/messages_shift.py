"""Messages of findings on label shift, on labelled rows and on judges; see `messages`."""

from __future__ import annotations

from fieldcal.verbs.findings.wording import (
    CARE,
    CARE_OR_ASK,
    CARE_OR_WORSE,
    DO_NOT_USE,
    OK,
    OK_OR_ASK,
    OK_OR_CARE,
    Message,
)

_LABEL_SOME = "Labelled rows, drawn at random from the field, would decide; fieldcal plan estimates how many."
_LABEL_MORE = "fieldcal plan estimates how many more labels would decide, and which rows to label."
_LABEL_JUDGED = (
    "Label some rows of this field, drawn at random, and count them with their labels; fieldcal plan estimates how "
    "many."
)
_GROUPS_IN_LAB = (
    "Pass {GROUPS} with the grouping of the field: then cross-validation over lab groups can test it."
)
_SHIFT = "Label shift explains {share:share} of the shift of the whole field"
_RANGE = "{ranged: (between {least:share} and {most:share})|}"
_UNSHIFTED = "The {grouped:whole |}field has not shifted from the lab beyond noise"
_STILL = "The field has not shifted from the lab beyond noise, "
_ODDS = "probabilities: label shift {label_shift:.2f}, unchanged {unchanged:.2f}, neither {other:.2f}"
_OBSERVED = (
    "Of the labelled rows, {observed:.1%} are of class {name:name}; "
    "{shift:label shift predicts|unchanged predictions imply} {expected:.1%}"
)
_CONTRADICTED = _OBSERVED + " (p {p_value:p}){both:, unchanged predictions imply {unchanged:.1%}|}"
_MEASURED = (
    "a rate of 0.9 varies between groups by about {middle:.3f} (90 % interval {low:.3f} to {high:.3f}), estimated from "
    "{labelled:,} labelled groups; the intervals allow for that."
)

# fmt: off
LABEL_SHIFT: dict[str, dict[str, Message]] = {
    "Was the probability of label shift estimated?": {
        "assumed": CARE(
            "Label shift is taken to hold with probability {given:g}, as set by the caller: assumed, not "
            "tested.{updated: Field labels update it to {trust:.2f}.|}",
            {
                "causes": "Does the class cause the features, as a species its measurements or a disease its symptoms? "
                "Then label shift is plausible. Do the features cause the class, as an occupation the income? Then it "
                "is not."
            }),
    },
    "Do the groups differ only in class prevalences?": {
        "one_population": OK("There is one population, without groups."),
        "groups_alike": OK("The groups do not differ beyond noise; differences between them are not corrected."),
        "rehearsed": Message(
            ("ok", "ask", "care", "do_not_use"),
            "Cross-validation over lab groups ({lab_groups:,} groups, {rows:,} rows): {helps:the correction between "
            "groups is expected to change log loss by {change:+.3f} ± {error:.3f}.|no correction between groups "
            "reduced log loss beyond noise}{none:; none is made.|}{some:.|}{harms: The full correction increased log "
            "loss by {worst:.3f} ± {worst_error:.3f}.|}"),
        "not_rehearsed": CARE(
            "By their histograms, label shift explains {share:share} of the differences between groups: {followed:it "
            "is given probability {trust:.2f}|the evidence is too weak, so that these are not corrected}. This is "
            "not cross-validated over lab groups.",
            _GROUPS_IN_LAB),
        "other_populations": DO_NOT_USE(
            "Label shift explains only {share:share} of the differences between groups: they are different "
            "populations, not different mixtures of the classes.",
            _GROUPS_IN_LAB),
        "labels_between": OK("{n:amount} labelled rows support label shift between groups (probability {trust:.2f})."),
        "labels_between_undecided": CARE(
            "{n:amount} labelled rows do not decide: label shift between groups has probability {trust:.2f}.",
            _LABEL_MORE),
        "labels_between_other": CARE(
            "{n:amount} labelled rows reject label shift between groups (probability {trust:.2f}), so that the "
            "estimate does not follow these differences."),
    },
    "Do the model's errors in lab groups carry over to field groups?": {
        "lab_groups": OK_OR_CARE(
            {
                "known": "The model's error per group is learned from {rows:,.0f} lab rows of {known:,} of the "
                "field's {total:,} groups ({share:.0%} of the rows). Its correlation between lab and field is "
                "{persistence:.2f}{given:, as set by the caller|}. Label shift accounts for {between:share} of the "
                "differences between groups.",
                "unknown": "None of the field's groups is in the lab. Judging by the lab's own groups, label shift "
                "accounts for {between:share} of the differences between groups.",
            },
            "{sure:|" + _LABEL_SOME + "}"),
    },
    "Is the field within the range of the cross-validation over lab groups?": {
        "beyond_rehearsal": CARE_OR_ASK(
            "The groups differ more in the field than in the lab: the lab's labels support {reach:.0%} of the "
            "correction between them.",
            _LABEL_SOME),
        "trust_withheld": CARE_OR_ASK(
            "Cross-validation over lab groups supports a trust of {supported:.2f} in label shift between groups; "
            "{trust:.2f} is used, because the whole field shifted in a way that cross-validation did not cover.",
            _LABEL_SOME),
    },
    "Did only the class prevalences of the whole field change?": {
        "unmoved": OK_OR_CARE(
            {
                "unchanged": _UNSHIFTED + "; predictions are left unchanged.",
                "other_corrections": _UNSHIFTED + "; no overall correction is made.",
                "noise": _UNSHIFTED + ": the correction may be noise.",
            }),
        "another_population": CARE_OR_WORSE(
            f"{_SHIFT}: the field is another population, not another mixture of the lab's classes.",
            _LABEL_SOME),
        "shift_untestable": CARE(
            "The field has shifted. With as many bins as classes, label shift cannot be tested.",
            _LABEL_SOME),
        "shift_explained": CARE(f"{_SHIFT}{_RANGE}."),
        "shift_uncertain": CARE(
            {
                "little": f"{_SHIFT}{_RANGE}, too little: it is not corrected.",
                "more": f"{_SHIFT}{_RANGE}, and something else changed too: it is not corrected.",
                "noise": f"{_SHIFT}{_RANGE}, but this may be noise: it is not corrected.",
                "uninformative": f"{_SHIFT}{_RANGE}, but the predictions carry too little information about the "
                "classes to test it: it is not corrected.",
            },
            _LABEL_SOME),
        "shift_believed": CARE(
            f"{_SHIFT}{_RANGE}. Other changes can produce the same histogram: label shift is given probability "
            "{trust:.2f}.",
            _LABEL_SOME),
        "labels_unmoved": OK(
            {
                "little": "The field shifted so little that its {n:amount} labelled rows need not decide why "
                f"({_ODDS}).",
                "still": _STILL + "and its {n:amount} labelled rows agree.",
            }),
        "labels_undecided": CARE(
            {
                "hypotheses": f"{{n:amount}} labelled rows do not decide ({_ODDS}).",
                "classes": _STILL + "but the classes of its {n:amount} "
                "labelled rows differ from those of the same predictions in the lab.",
                "by_class": _STILL + "but most of its {n:amount} "
                "labelled rows were chosen by class and carry no information about prevalences.",
                "noise": _STILL + "but the noise is large: {n:amount} "
                "labelled rows do not rule out a shift.",
            },
            _LABEL_MORE),
        "labels_say_label_shift": OK(
            "{n:amount} labelled rows support label shift (probability {weight:.2f}): class prevalences changed, and "
            "nothing else."),
        "labels_say_same": CARE(
            "{n:amount} labelled rows support unchanged predictions (probability {weight:.2f}): a prediction means "
            "what it meant in the lab, although the predictions shifted."),
        "labels_say_other": CARE(
            "{n:amount} labelled rows support neither label shift nor unchanged predictions (probability of neither "
            "{weight:.2f}): the estimate rests on the labels."),
    },
    "How wrong may label shift be before the conclusion about the whole field changes?": {
        "break_even": OK_OR_ASK(
            "That the share of {name:name} is {above:above|below} the lab's {lab:.1%} holds unless {change:.1%} of "
            "rows are scored differently than in the lab (at least {lower:.1%}, given the noise); in {tenths} of 10 "
            "{reference} fewer are."),
    },
}

LABELS: dict[str, dict[str, Message]] = {
    "Do the labels agree with the predicted class shares?": {
        "labels_agree": OK(
            {
                "agree": _OBSERVED + ".",
                "likeliest": _CONTRADICTED + "; label shift is still the most probable hypothesis.",
                "nothing": "There is nothing to compare with.",
            }),
        "labels_contradict": CARE(_CONTRADICTED + "."),
    },
    "Do the labelled rows look like a random sample of the field?": {
        "labels_random": OK("Yes, by their predictions (p {p_value:p})."),
        "labels_not_random": CARE(
            "No: their predictions are distributed differently from those of the field (p {p_value:p}).",
            "If they were chosen by their predictions, pass {BY_SCORE}, which changes nothing here; if by their "
            "class, {BY_CLASS}, which does."),
        "looks_random": OK("Yes, by their categories."),
        "not_random": CARE(
            "No: their categories are distributed differently from those of the other rows (p {p_value:p}).",
            "If they were chosen by category or by group, pass {BY_SCORE}; if by their class, {BY_CLASS}."),
    },
    "Are the labelled rows rows of this field?": {
        "labels_beyond_rows": CARE(
            {
                "field": "One bin of predictions has more labelled rows than rows: not all of them were counted.",
                "groups": "{n:A group has|{n:,} groups have} more labelled rows than rows in one bin of predictions: "
                "not all of them were counted.",
            },
            "Count the labelled rows too. If they come from elsewhere, extend the lab by them in Python: "
            "lab.extended(field)."),
    },
    "Do scores mean the same in the field, apart from class prevalences?": {
        "scores_hold": OK("Yes, as far as the labels show."),
        "scores_off": CARE(
            "No: beyond any reweighting of the classes, the scores have a calibration error of about {change:.1f} "
            "(standard deviation on the logit scale) with probability {changed:.2f}.",
            "Recalibrate each bin by its labels: {BINS}."),
    },
}

JUDGES: dict[str, dict[str, Message]] = {
    "What are the shares estimated from?": {
        "labelled_here": OK(
            "From {n:amount} labelled rows of this field: {grouped:groups share what their labels show about the "
            "judge, as far as they agree|nothing is assumed about the judge}.{more: {elsewhere:amount} rows chosen "
            "by class, or labelled elsewhere, add information about the judge.|}"),
        "labelled_by_class": OK(
            "From {n:amount} labelled rows of this field that were chosen by class: they show how often the judge "
            "gives each category to each class, if rows were chosen at random within a class."),
        "judge_assumed": CARE(
            {
                "few": "From {n:amount} labelled rows of this field, which are few.",
                "elsewhere": "From the assumption that the judge makes the same errors as where it was checked (on "
                "{elsewhere:amount} rows). No labelled row of this field tests it.",
            },
            _LABEL_JUDGED),
    },
    "Does the judge distinguish the classes?": {
        "judge_tells": OK("Yes: the categories of the two most similar classes differ in {middle:.0%} of rows."),
        "judge_blind": CARE(
            "Hardly, or labels are too few to be sure: the categories of the two most similar classes differ in "
            "{middle:.0%} of rows (at least {low:.0%}). Categories carry little information about the shares, which "
            "rest on the labels alone.",
            "Label more rows, or use a better judge."),
    },
    "Does the judge make the same errors in every group?": {
        "judge_same": OK(f"Yes, nearly: {_MEASURED}"),
        "judges_differ": CARE(
            "No: the judge favours some groups{outlying:; {n:,} of {total:,} are probably outlying|}. In numbers: "
            f"{_MEASURED}",
            "Compare groups by their intervals, not by the judge's categories; label more rows of the groups that "
            "matter."),
        "judge_not_rehearsed": CARE(
            "Not measured: {by_class:labelled rows were chosen by class|fewer than two groups have labels}. It is "
            "assumed that a rate of 0.9 varies between groups by about {middle:.3f}.",
            _LABEL_JUDGED),
    },
    "Was every category checked?": {
        "values_checked": OK("Yes, except for rare ones."),
        "values_unchecked": CARE_OR_WORSE(
            "No row with the category {named} was checked, which {share:.0%} of the rows have: labels that were "
            "chosen by category carry no information about their classes, and the share of the whole is a guess.",
            "Check some rows of every category, or rows drawn at random; if they were chosen by class, pass "
            "{BY_CLASS}."),
    },
}
