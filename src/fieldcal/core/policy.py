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
    #: A shift, or what label shift leaves of it, must be this improbable as noise before it means anything. (1)
    noise: float = 0.01
    #: Lower bounds are one standard error below: this point of Student's t, or of a noncentral chi-square. (1)
    one_se: float = 0.8413
    #: The bound that a rehearsed exponent must meet where the field is plainly another population. (1)
    sure: float = 0.95
    #: Rate of false discoveries among groups that are called inconsistent.
    false_discoveries: float = 0.05

    # Trust -----------------------------------------------------------------------------------------------
    #: Explained share (lower bound) below which nothing is believed, and above which everything is. (1)
    explained: tuple[float, float] = (0.85, 0.95)
    #: The same for one population, on the most that its misfit leaves possible. (8)
    explained_alone: tuple[float, float] = (0.9, 1.0)
    #: The most that evidence without labels can earn for groups. (1)
    most_unrehearsed: float = 0.9
    #: Harm in log loss that may be risked on weak evidence. (1)
    tolerated_harm: float = 0.002
    #: A rehearsal vouches for corrections up to this many times the size that it has seen. (1)
    rehearsed_reach: float = 2.0
    #: Mean and standard deviation of an exponent before any rehearsal. (1)
    exponent_prior: tuple[float, float] = (0.5, 0.5)
    #: Lab groups with fewer rows say nothing about how far group prevalences miss. (2)
    rows_of_a_miss: int = 20

    # The lab ---------------------------------------------------------------------------------------------
    #: Lab rows of a class up to which its predictions are mostly a guess.
    few_class_rows: int = 5
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
    #: Lab groups differ in what a class looks like: beyond this Cramér's V, with this p-value.
    heterogeneity_p: float = 1e-3
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
    #: Field rows of a group below which it leans on the others.
    few_group_rows: int = 20
    #: Standard errors below zero that a free prevalence must reach to be called impossible.
    impossible: float = 3.0
    #: Share of the rows without a prediction that deserves care; or of those, or of groups, that nothing is known of.
    many_dropped: float = 0.05
    #: A trust below this share of what the rehearsal earned is told.
    withheld: float = 0.75
    #: Width of an interval that leaves four fifths of all that is possible, and so says next to nothing.
    wide: float = 0.8
    #: A class whose recall falls below this share of what it was, from at least so much, is lost from hard decisions.
    recall_kept: float = 0.5
    recall_before: float = 0.1

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
    #: A factor of the logits up to this, or one over it, is another version of the model; beyond, another link.
    slight_slope: float = 1.25
    #: Gain from which no doubt is left: odds of a million to one.
    certain: float = 14.0
    #: More than two classes: decisions and mean predictions that disagree by this much (Euclidean distance; fields that
    #: obey label shift stay below .02 from a few thousand rows on, most permuted ones are above .05), of which a swap
    #: must leave no more than this share.
    disagree: float = 0.025
    swap_leaves: float = 0.33


POLICY = Policy()
