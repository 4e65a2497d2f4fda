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

    # The field -------------------------------------------------------------------------------------------
    #: Cohen's w: smaller misfits are real in a large group and do not matter.
    small_effect: float = 0.1
    #: A field that misses every mixture by this much is not of this model.
    large_effect: float = 0.5
    #: Field rows of a group below which it leans on the others.
    few_group_rows: int = 20
    #: Standard errors below zero that a free prevalence must reach to be called impossible.
    impossible: float = 3.0
    #: Share of the rows without a prediction that deserves care.
    many_dropped: float = 0.05
    #: A trust below this share of what the rehearsal earned is told.
    withheld: float = 0.75


POLICY = Policy()
