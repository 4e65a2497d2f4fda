"""Prevalence: the answer, per group."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot

from fieldcal import keys
from fieldcal.artefacts import Artefact, Counts, Flags, Frozen, Numbers, Texts
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab


class Fit(Frozen):
    """How the estimate was reached, per group."""

    gap: Numbers  # (G,) optimality gap of the mode, per row
    n_iter: Counts  # (G,)
    converged: Flags  # (G,)
    novel: Counts  # (G,) rows in bins that the lab never filled


class Prevalence(Artefact):
    """Class prevalences per group: naive, URC's, and the one to use, with an interval.

    Made by `fieldcal.estimate`; handed to `fieldcal.recalibrate`.

    Attributes
    ----------
    groups : the G group keys; the single key None when the field has no groups
    classes : the K classes
    n : (G,) rows per group
    naive : (G, K) mean prediction
    urc : (G, K) URC's estimate, whatever the trust
    value : (G, K) the prevalence after recalibration: naive at trust 0, URC's at trust 1
    lower, upper : (G, K) interval of ``value`` at ``level``
    trust : (G,) how far URC's estimate is followed
    status : (G,) "ok", or what to know about the group
    fit : how the estimate was reached
    """

    kind: ClassVar[str] = "prevalence"

    lab: Lab
    field: Field
    prior: dict[str, float | str]
    point: str
    level: float = Slot(gt=0, lt=1)
    urc: Numbers
    value: Numbers
    lower: Numbers
    upper: Numbers
    trust: Numbers
    weights: Numbers  # (G, K) what predictions are multiplied with
    overall_weights: Numbers  # (K,) the same for groups that were never seen
    status: Texts
    fit: Fit

    @property
    def groups(self) -> keys.Keys:
        """The group keys, in the order of the rows."""
        return self.field.groups

    @property
    def classes(self) -> keys.Keys:
        """The classes, in the order of the columns."""
        return self.lab.classes

    @property
    def n(self) -> NDArray[Any]:
        """Rows per group."""
        return self.field.n

    @property
    def naive(self) -> NDArray[np.float64]:
        """Mean prediction per group and class."""
        return self.field.naive
