"""Every threshold that decides trust, or a finding's state: nowhere else is one written.

Each has the reason for its value, and in brackets the number of the decision record (docs/decisions) that measured it
where there is one. To try another, ``dataclasses.replace(POLICY, …)`` gives a policy to pass on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Policy:
    """What counts as noise, as enough, as too much."""

    # Noise -----------------------------------------------------------------------------------------------
    #: What label shift leaves of a movement must be this improbable as noise before it contradicts anything. (1)
    noise: float = 0.01
    #: A movement must be this improbable as noise before it is one; otherwise nothing is changed. (12)
    moved: float = 0.05
    #: Lower bounds are one standard error below: this point of Student's t, or of a noncentral chi-square. (1)
    one_se: float = 0.8413
    #: Rate of false discoveries among groups that are called inconsistent.
    false_discoveries: float = 0.05

    # Trust -----------------------------------------------------------------------------------------------
    #: The most that histograms can earn, without a label. (12)
    most_without_labels: float = 0.59
    #: Where each piece of that evidence starts to count and where it is complete: the explained share, the least and
    #: the most that noise leaves of it, and how much of the classes' entropy the lab's predictions explain. (12)
    explained: tuple[float, float] = (0.8, 0.95)
    explained_least: tuple[float, float] = (-0.5, 0.5)
    explained_most: tuple[float, float] = (0.98, 1.0)
    skill: tuple[float, float] = (0.0, 0.3)
    #: The bound that a rehearsed trust must meet, and where the field is plainly another population. (12)
    rehearsed: float = 0.8
    sure: float = 0.95
    #: Standard errors by which the full correction must have harmed in the rehearsal to be refused. (12)
    sure_harm: float = 2.0
    #: A rehearsal vouches for corrections up to this many times the size that it has seen. (12)
    rehearsed_reach: float = 2.0
    #: Lab groups with fewer rows say nothing about how far group prevalences miss. (2)
    rows_of_a_miss: int = 20

    # What an interval holds until labels decide -----------------------------------------------------------
    #: Label shift has at least this weight in it. (12)
    least_label_shift: float = 0.35
    #: Where the field shifted, this share of the rest is that neither label shift nor the model is right. (12)
    share_of_other: float = 0.5
    #: How far that one goes, on the logit scale: this much, and this share of the distance between the other two. (12)
    other_logit: tuple[float, float] = (0.5, 0.6)
    #: How far off the mean prediction may be, on the logit scale, where the field moved and where it did not. (12)
    unchanged_logit: tuple[float, float] = (0.3, 0.05)
    #: A field that has not moved beyond noise may have moved within it: this many times the noise of its labels. (12)
    unseen_movement: float = 2.0

    # What labelled rows of the field are weighed against --------------------------------------------------
    #: Before labels are seen, the weights of label shift, of "the same" and of "other", where the field moved and where
    #: it did not. (19)
    explanations: tuple[tuple[float, float, float], tuple[float, float, float]] = (
        (0.35, 0.3, 0.35),
        (0.02, 0.95, 0.03),
    )
    #: How far the tilt of each may be from what it says, on the logit scale; moved, and not. "Other" goes half as far
    #: as the two others are apart, and this much further. (19)
    label_shift_off: tuple[float, float] = (0.2, 0.02)
    same_off: tuple[float, float] = (0.25, 0.02)
    other_off: tuple[float, float] = (1.0, 0.5)
    #: How much further the first two may be off where all labels were chosen by class: none tells of the shares. (19)
    untested_off: tuple[float, float] = (0.4, 0.1)
    #: What no tilt explains, per bin: its possible scales, and how probable each is; moved, and not. (19)
    bins_off: tuple[float, ...] = (0.02, 0.15, 0.4, 1.0)
    bins_off_weights: tuple[tuple[float, ...], tuple[float, ...]] = (
        (0.15, 0.25, 0.35, 0.25),
        (0.92, 0.05, 0.02, 0.01),
    )
    #: The share of "the same" in which predictions are left alone, not tilted by what labels make of it. (19)
    same_left_alone: float = 0.5
    #: The model may be more, or less, sure of itself than in the lab: the scale of this factor, less one. (19)
    slope: float = 0.15
    #: Rows that the model's own prediction counts for, beside the lab rows of a bin. (19)
    rows_of_a_prediction: float = 30.0
    #: The share of the lab's noise that bins have each for themselves. (19)
    lab_noise: float = 0.5
    #: Fewer labels leave what was believed without any: its weight falls by e with every so many. (19)
    first_labels: float = 6.0
    #: So many labels must have come before a verdict rests on them. (19)
    enough_labels: int = 30
    #: An explanation of at least this probability is what labels decided for. (19)
    decided: float = 0.65
    #: "Other" of this weight is heard, however little the field moved. (19)
    other_heard: float = 0.3
    #: A full correction of this size or less, in log loss, harms little whichever explanation holds. (19)
    harmless: float = 0.005
    #: A p-value below which labels contradict what was foretold, or do not look like a random sample. (19)
    labels_contradict: float = 0.01
    not_random: float = 0.001
    #: Scores that are off by at least this much on the logit scale, beside any tilt, are told from this probability on;
    #: before labels are seen it is .6 where the field moved. (19)
    bins_clearly_off: float = 0.4
    scores_off: float = 0.9
    #: With groups, fewer scales of what no tilt explains. (19)
    group_bins_off: tuple[float, ...] = (0.05, 0.4)
    group_bins_off_weights: tuple[tuple[float, ...], tuple[float, ...]] = ((0.6, 0.4), (0.85, 0.15))

    # The model of lab groups and field labels (23) --------------------------------------------------------
    #: Means and standard deviations, before labels are seen, of how much of the differences between groups is label
    #: shift, of log σ and of log τ: the error of the model for a group, and for a bin of it.
    components: tuple[tuple[float, float], ...] = ((0.2, 0.35), (-1.2, 1.0), (-1.8, 1.0))
    #: The probability that groups differ by label shift alone.
    label_shift_between: float = 0.1
    #: How far groups keep their errors from lab to field: values and how probable they are before histograms are seen.
    persistence: tuple[tuple[float, ...], tuple[float, ...]] = (
        (0.0, 0.25, 0.5, 0.75, 0.95),
        (0.12, 0.08, 0.15, 0.25, 0.40),
    )
    #: Expected persistence, and the share of the field's rows in groups that the lab knows, from which it is "ok".
    persistent: float = 0.6
    known_rows: float = 0.5
    #: Groups that lab and field share, from which their resemblance can support it.
    known_groups: int = 8
    #: Or where groups differ by label shift: at least this much of their differences, and the model's error for a group
    #: no larger than this on the log-odds scale.
    between_label_shift: float = 0.75
    small_group_error: float = 0.35
    #: Degrees of freedom of the scale of a group's effects: an outlying group frees itself.
    outlying_freedom: float = 5.0
    #: The weight of the normal prior of a group below which it is called unlike the others.
    outlying: float = 0.5
    #: Calibration error common to all groups: a shift of all bins, a factor of the log-odds less one, and each bin
    #: alone; where bins are categories whose classes nobody knows beforehand, any.
    calibration_shift: float = 0.3
    calibration_slope: float = 0.4
    calibration_bin: float = 0.15
    free_base: float = 3.0
    #: The same of more than 120 log-odds, around the shares of labelled rows: most cells have no row, and a normal
    #: posterior as wide as 3 gives these too much. Twelve and twenty classes: errors with 1, 2 and 3 are alike up to a
    #: quarter, intervals cover .85, .87 and .84. (23)
    free_base_of_many: float = 2.0
    #: There, the same three components; how far groups' log-odds differ beforehand; and how loosely they follow label
    #: shift, as a share of the difference that it implies.
    free_components: tuple[tuple[float, float], ...] = ((0.35, 0.35), (-1.2, 1.0), (-1.8, 1.0))
    free_spread: float = 1.5
    free_looseness: float = 0.4
    #: How far the judge of a group without labels may be off, on the log-odds scale, beyond what labelled groups show:
    #: one judge in five is off by 2.
    free_unlabelled: float = 0.9
    #: How much the calibration of a bin changes from lab to field, beyond what hypotheses say; moved, and not.
    calibration_change: tuple[float, float] = (0.3, 0.05)
    #: How far a field that has not moved beyond noise may have moved within it, on the log-odds scale.
    unseen_shift: float = 0.3
    #: Variance of the differences between groups, where there are too few to estimate it.
    group_spread: float = 0.25
    #: Where the field moved: the probability that the lab's calibration error is also that of groups it never saw.
    calibration_of_new: float = 0.25

    # The lab ---------------------------------------------------------------------------------------------
    #: Lab rows of a class up to which its predictions are mostly a guess.
    few_class_rows: int = 5
    #: So many values of a single judge keep a bin each, also where the lab has fewer rows than bins of scores need: no
    #: one chose where to cut, and their noise is in the interval.
    values_of_a_judge: int = 12
    #: Lab rows of a class below which little can be put to the test.
    enough_class_rows: int = 30
    #: Condition numbers of M above this: the estimate is mostly prior.
    poor_condition: float = 1e3
    #: Mean distance between predictions and shares, and its p-value, that deserve a warning.
    poor_calibration: float = 0.03
    poor_calibration_p: float = 1e-4
    #: A log loss below this, on at least so many rows, is that of the training set.
    too_good: float = 0.005
    too_good_rows: int = 100
    #: Standard errors by which predictions must be lower on a class's own rows to be worse than chance.
    worse_than_chance: float = 4.0
    #: Lab groups differ in what a class looks like: beyond small_effect (Cramér's V), with this p-value. The same for
    #: one group against the others.
    heterogeneity_p: float = 1e-3
    #: By how much more than before the full correction must miss the share of a biased group to be told: five points,
    #: what a few hundred rows leave open anyway. In none of 1,022 simulated labs and of 9 real models whose groups obey
    #: label shift was a group so far off beyond noise; in 21 of 48 with real groups one was, and of the field's groups
    #: of that name 74 of 75 were missed by more after the correction than before (.27 against .08 on average). (18)
    biased: float = 0.05
    #: Lab rows behind a bin, at least: of the rarer of two classes, of an average one of more. With fewer, noise in M
    #: blurs the classes and draws the estimate to the lab (4). Lab 2,000, one half positive, field 80 %, classes 1.5
    #: deviations apart: bias −.003 with 16 bins, −.017 with 128 (8 rows), −.034 with 256, −.112 with 1,000. It stops
    #: the absurd, and no more: with classes .6 apart, 64 bins (16 rows) are already off by −.089. The default is safer.
    rows_per_bin: int = 10
    #: One class against the rest, AUC: below the first, a misfit as small as `small_effect`, which nobody would see,
    #: moves a prevalence by more than one half; below the second, by more than a quarter.
    separates: tuple[float, float] = (0.55, 0.6)
    #: Standard errors by which an AUC must lie above one half, or below a limit, to be sure of it.
    separates_for_sure: float = 2.0

    # The field -------------------------------------------------------------------------------------------
    #: Cohen's w: smaller misfits are real in a large group and do not matter.
    small_effect: float = 0.1
    #: A field that misses every mixture by this much is not of this model.
    large_effect: float = 0.5
    #: Groups like that are left out where others learn from all, if they are no more than this share. (23)
    outlying_groups: float = 0.2
    #: Field rows of a group below which it leans on the others.
    few_group_rows: int = 20
    #: Standard errors below zero that a free prevalence must reach to be called impossible.
    impossible: float = 3.0
    #: Share of the rows without a prediction that deserves care; or of those, or of groups, that nothing is known of.
    many_dropped: float = 0.05
    #: Share of the rows with a value that the lab has never seen that deserves care, and that refuses the field.
    unseen_values: tuple[float, float] = (0.005, 0.2)
    #: A trust below this share of what the rehearsal earned is told.
    withheld: float = 0.75
    #: Most of a movement that label shift can explain, and Cohen's w of the misfit, at which the field is refused. (12)
    refused: tuple[float, float] = (0.8, 0.3)
    #: Width of an interval that leaves four fifths of all that is possible, and so says next to nothing.
    wide: float = 0.8
    #: A class whose recall falls below this share of what it was, from at least so much, is lost from hard decisions.
    recall_kept: float = 0.5
    recall_before: float = 0.1
    #: A rise of false alarms or of misses that people are asked about, and one that deserves care: of ten rows of a
    #: kind one more is decided wrongly, of four one more. Below that, decisions are nearly the same.
    errors_traded: tuple[float, float] = (0.1, 0.25)

    # Faults ----------------------------------------------------------------------------------------------
    #: Gain of log likelihood by which a fault must explain a field better than any mixture does: odds of a thousand
    #: to one, which a ratio of two given likelihoods reaches by chance in one of a thousand cases at most.
    clearly_better: float = 7.0
    #: Faults that are less likely than the likeliest by no more than this (odds of a hundred) are named with it.
    as_likely: float = 4.6
    #: The same as a share of the gain: distributions between the edges of bins are known about as well as this.
    interpolated: float = 0.1
    #: The share of the mixture's misfit (Cohen's w) that a fault may leave if it is to explain the field.
    fault_leaves: float = 0.5
    #: Gain from which no doubt is left: odds of a million to one.
    certain: float = 14.0
    #: More than two classes: decisions and mean predictions that disagree by this much (Euclidean distance; fields that
    #: obey label shift stay below .02 from a few thousand rows on, most permuted ones are above .05), of which a swap
    #: must leave no more than this share.
    disagree: float = 0.025
    swap_leaves: float = 0.33

    # Judges (20) -------------------------------------------------------------------------------------------
    #: How far judges of groups may differ where no label of a group shows it: κ of ``Dirichlet(κ·M)``. A rate of .9
    #: varies by .054 between groups.
    kappa_elsewhere: float = 30.0
    #: Pseudo-rows of a category, for each class, where rows given their class are the lab. With a half, tests that made
    #: no error on 30 rows were taken to make next to none, and rare classes were missed; with one, intervals of good
    #: judges are a tenth wider.
    rows_of_a_cell: float = 0.75
    #: A judge whose values differ between two classes in fewer rows than this, perhaps, says next to nothing.
    judge_says_something: float = 0.1
    #: By so much a rate of .9 may vary between slices before it is told, and before it deserves care.
    judges_differ: float = 0.03
    judges_differ_much: float = 0.06
    #: Labelled rows that a value needs to be a bin of its own.
    rows_of_a_value: int = 5

    def trust_without_labels(self, *, share: float, least: float, most: float, skill: float) -> float:
        """The probability that label shift holds, as far as histograms can tell. (12)"""
        # fmt: off
        return self.most_without_labels * _ramp(share, self.explained) * _ramp(least, self.explained_least) * _ramp(most, self.explained_most) * _ramp(skill, self.skill)  # noqa: E501
        # fmt: on


def _ramp(value: float, ends: tuple[float, float]) -> float:
    """0 up to the first end, 1 from the second on."""
    return min(max((value - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)


POLICY = Policy()
