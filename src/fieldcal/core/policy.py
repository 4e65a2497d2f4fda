"""Every threshold that decides trust, or a finding's state, and every prior of the model of the field.

Each has the reason for its value, and in brackets the number of the decision record (docs/decisions) that measured it
where there is one. To try another, ``dataclasses.replace(POLICY, …)`` gives a policy to pass on. Constants of a
numerical method are in its module.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from scipy.special import ndtri


@dataclass(frozen=True)
class Policy:
    """What counts as noise, as enough, as too much, and what is probable before data are seen."""

    # Levels of tests --------------------------------------------------------------------------------------
    #: A shift, and among many groups a misfit, must be this improbable as noise before it is one. (12)
    beyond_noise: float = 0.05
    #: What a hypothesis leaves unexplained must be this improbable as noise before it contradicts anything. (1)
    contradicts: float = 0.01
    #: Where many things are tested, or a claim is grave: odds of a thousand to one. (18, 19)
    beyond_doubt: float = 0.001

    # Sizes of effects, rows and shares --------------------------------------------------------------------
    #: Cohen's w, and Cramér's V, by Cohen's conventions: smaller ones are real in a large group and do not matter.
    small_effect: float = 0.1
    #: A field that missed by this much and moved inexplicably is refused. (12)
    medium_effect: float = 0.3
    #: A field, or a group, that misses every mixture by this much is not of this model. (23)
    large_effect: float = 0.5
    #: Rows of a group, of a class or behind a bin, and groups, below which each says little for itself. Of bins: lab
    #: 2,000, one half positive, field 80 %, classes 1.5 deviations apart: bias −.003 with 16 bins, −.017 with 128
    #: (8 rows), −.034 with 256, −.112 with 1,000. It stops the absurd, and no more; the default has more rows. (4)
    few: int = 10
    #: Rows of a class, or field labels, from which a test or a verdict can rest on them. (19)
    enough: int = 30
    #: Five points: a share of the rows or groups of which nothing is known, or an error of predictions and shares, from
    #: which it deserves care. A few hundred rows leave an error of that size open anyway. (18)
    noticeable: float = 0.05
    #: A share from which something is the rule: of groups that miss every mixture, of rows with a value
    #: that the lab has never seen. An interval that rules out less of what is possible says next to nothing. (23)
    large_share: float = 0.2
    #: The probability of a hypothesis, or the share of a whole, from which a conclusion rests on it. (19)
    decided: float = 0.65
    #: A log loss, or the size of a correction in log loss, that is next to nothing. (19)
    harmless: float = 0.005

    # Trust ------------------------------------------------------------------------------------------------
    #: The most that histograms can support, without a label. (12)
    most_without_labels: float = 0.59
    #: Where each piece of that evidence starts to count and where it is complete: the explained share, the least and
    #: the most that noise leaves of it, and how much of the classes' entropy the lab's predictions explain. (12)
    explained: tuple[float, float] = (0.8, 0.95)
    explained_least: tuple[float, float] = (-0.5, 0.5)
    explained_most: tuple[float, float] = (0.98, 1.0)
    skill: tuple[float, float] = (0.0, 0.3)
    #: Level of the lower bound of the gain that trust must have in cross-validation over lab groups. (12)
    rehearsed: float = 0.8
    #: Cross-validation supports corrections up to this many times the size that it has seen. (12)
    rehearsed_reach: float = 2.0

    #: The break-even of a conclusion from which it is likely to be right although label shift holds only roughly: of
    #: 652 such conclusions on real files 98 % were right, of 1,013 between .02 and .05 95 %, of the rest 81 %. (26)
    break_even: float = 0.05

    # Hypotheses about the whole field ---------------------------------------------------------------------
    #: Label shift has at least this probability in intervals, where the field shifted. So has the lab's calibration
    #: error in groups that the lab never saw; and of differences between groups this share is expected to be label
    #: shift, where no lab group supports another. (12, 23)
    least_label_shift: float = 0.35
    #: The probability of one of two hypotheses between which nothing decides: neither or unchanged, where it is not
    #: label shift; calibration of bins changed or not; predictions left alone or not, if unchanged. (12, 19)
    indifferent: float = 0.5
    #: How far the log-odds of all rows may be off, standard deviation: common calibration error of the lab; calibration
    #: error of a field under a hypothesis; shift of a field that its histogram cannot show. (12, 19, 23)
    shift_sd: float = 0.3
    #: The same where neither label shift nor unchanged predictions hold, beyond half the distance between the two. (19)
    other_sd: float = 0.6
    #: Calibration of a bin between lab and field: its change, standard deviation of log-odds, if it is small and if it
    #: is large. (19)
    calibration_change: tuple[float, float] = (0.05, 0.4)
    #: Rows that the model's own prediction counts for, beside the lab rows of a bin. (19)
    rows_of_a_prediction: float = 30.0
    #: Fewer labels leave what was estimated without any: its weight falls by e with every so many. (19)
    first_labels: float = 6.0

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
    #: Degrees of freedom of the scale of a group's effects: an outlying group frees itself.
    outlying_freedom: float = 5.0
    #: The weight of the normal prior of a group below which it is called unlike the others.
    outlying: float = 0.5
    #: Calibration error beside a shift: a factor of the log-odds less one, and each bin alone.
    calibration_slope: float = 0.4
    calibration_bin: float = 0.15
    #: The same factor between lab and field, where the lab's own counts are the base. (19)
    slope_change: float = 0.15
    #: Where no lab group shows how groups differ: standard deviation of their log-odds under label shift.
    group_spread: float = 1.0
    #: Categories whose classes nobody knows beforehand: standard deviation of their log-odds; how loosely groups follow
    #: label shift, as a share of the difference that it implies; and how far the judge of a group without labels may be
    #: off beyond what labelled groups show (one judge in five is off by 2).
    free_base: float = 3.0
    #: The same of more than 120 log-odds, around the shares of labelled rows: most cells have no row, and a normal
    #: posterior as wide as 3 gives these too much. Twelve and twenty classes: errors with 1, 2 and 3 are alike up to a
    #: quarter, intervals cover .85, .87 and .84. (23)
    free_base_of_many: float = 2.0
    free_looseness: float = 0.4
    free_unlabelled: float = 0.9

    # The lab ----------------------------------------------------------------------------------------------
    #: Condition numbers of M above this: the estimate is mostly prior.
    poor_condition: float = 1e3
    #: One class against the rest, AUC: below the first, a misfit as small as `small_effect`, which nobody would see,
    #: moves a prevalence by more than one half; below the second, by more than a quarter.
    separates: tuple[float, float] = (0.55, 0.6)
    #: Decisions: a class whose recall falls below this share of what it was is lost; a rise of false alarms, of misses,
    #: or a recall before, below which decisions are nearly the same. (18)
    recall_kept: float = 0.5
    errors_traded: float = 0.1

    # Faults -----------------------------------------------------------------------------------------------
    #: The share of the misfit of mixtures that a fault may leave if it is to explain the field.
    fault_leaves: float = 0.5
    #: More than two classes: decisions and mean predictions that disagree by this much (Euclidean distance; fields that
    #: obey label shift stay below .02 from a few thousand rows on, most permuted ones are above .05).
    disagree: float = 0.025

    # Judges (20) -------------------------------------------------------------------------------------------
    #: How far the judge's errors may differ between groups where no label of a group shows it: κ of
    #: ``Dirichlet(κ·M)``. A rate of .9 varies by .054 between groups.
    kappa_elsewhere: float = 30.0
    #: Pseudo-rows of a category, for each class, where rows given their class are the lab. With a half, tests that made
    #: no error on 30 rows were taken to make next to none, and rare classes were missed; with one, intervals of good
    #: judges are a tenth wider.
    rows_of_a_cell: float = 0.75
    #: A judge whose categories differ between two classes in fewer rows than this carries next to no information.
    judge_says_something: float = 0.1
    #: Share of the rows with a category that the lab has never seen, or that nobody checked, that deserves care. (20)
    unseen_categories: float = 0.005
    #: Labelled rows that a category needs to be a bin of its own.
    rows_of_a_value: int = 5

    @property
    def sure(self) -> float:
        """The probability from which a claim is no noise."""
        return 1 - self.beyond_noise

    @property
    def sure_errors(self) -> float:
        """Standard errors by which a number must miss a limit to contradict it."""
        return float(-ndtri(self.contradicts))

    @property
    def doubtless_errors(self) -> float:
        """Standard errors that leave no doubt."""
        return float(-ndtri(self.beyond_doubt))

    def trust_without_labels(self, *, share: float, least: float, most: float, skill: float) -> float:
        """The probability that label shift holds, as far as histograms can tell. (12)"""
        evidence = (
            (share, self.explained),
            (least, self.explained_least),
            (most, self.explained_most),
            (skill, self.skill),
        )
        return self.most_without_labels * prod(_ramp(value, ends) for value, ends in evidence)


def _ramp(value: float, ends: tuple[float, float]) -> float:
    """0 up to the first end, 1 from the second on."""
    return min(max((value - ends[0]) / (ends[1] - ends[0]), 0.0), 1.0)


POLICY = Policy()
