"""`compare`: how the shares of two estimates differ, group by group."""

from __future__ import annotations

from collections.abc import Hashable

import numpy as np

from fieldcal.errors import InputError
from fieldcal.objects import Prevalence, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.objects.derived import Comparison, differences, level_of
from fieldcal.objects.outcome import place_of_class
from fieldcal.options import as_number


def compare(
    before: Prevalence,
    after: Prevalence,
    *,
    of: Hashable = None,
    errors: float = 0.05,
    level: float | None = None,
) -> Comparison:
    """How the share of a class differs between two estimates, in every group that both have: after minus before.

    The estimates must be of different rows, and are compared as independent: of one lab, whose noise both share,
    intervals are somewhat too wide. For windows of one field `Prevalence.over_time` has changes without that noise.

    Parameters
    ----------
    before, after : Prevalence
        Of last month and this month, or of two versions of a model (from labs of their own), by the same groups.
    of : class, optional
        By default the last.
    errors : float
        Largest expected share of wrong signs among the differences that are found.
    level : float, optional
        Probability content of the intervals; by default that of ``after``.

    Returns
    -------
    Comparison
        A difference for each group: ``a`` is the group, ``b`` is "before".

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, field, prev = fieldcal.datasets.example()
    >>> first = fieldcal.count(lab, data.proba_field[:2000], groups=data.groups_field[:2000])
    >>> then = fieldcal.count(lab, data.proba_field[2000:], groups=data.groups_field[2000:])
    >>> changed = fieldcal.compare(fieldcal.estimate(lab, first), fieldcal.estimate(lab, then))
    >>> len(changed.differences), changed.found
    (2, ())
    """
    check_call("fieldcal.compare(before, after)", (before, Prevalence), (after, Prevalence))
    errors = as_number("errors", errors, least=0, most=1, words="a share from 0 to 1")
    k, earlier = place_of_class(after.classes, of), place_of_class(before.classes, of)
    if before.classes != after.classes:
        raise InputError(
            f"The estimates have different classes, {before.classes!r:.80} and {after.classes!r:.80}, so that shares "
            "cannot be compared."
        )
    at = group_keys.positions(before.groups, after.groups)
    both = [group for group, place in zip(after.groups, at, strict=True) if place >= 0]
    if not both:
        raise InputError("The two estimates have no group in common. Count both by the same columns.")
    draws = after.draws(both)[..., k], before.draws(both)[..., earlier]
    n = min(d.shape[1] for d in draws)
    order = np.random.default_rng([after.seed, 89]).permutation(
        n
    )  # else both would have the same random numbers
    points = [p.estimate[[p.row_of(group) for group in both]][:, k] for p in (after, before)]
    found = differences(
        [(group, "before") for group in both],
        np.asarray(points[0] - points[1]),
        draws[0][:, :n] - draws[1][:, order],
        level=level_of(after, level),
        errors=errors,
    )
    worst = max((before.verdict.level, after.verdict.level), key=("ok", "care", "do_not_use").index)
    return Comparison(found, after.classes[k], level_of(after, level), errors, worst)
