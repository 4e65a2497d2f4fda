"""What a finding may look at, and words that several of them use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fieldcal.core import guards
from fieldcal.core.partition import Edges
from fieldcal.core.reweight import Step
from fieldcal.core.trust import Evidence, Trust
from fieldcal.errors import Option
from fieldcal.objects import Field, Lab, WholeField
from fieldcal.types import Floats

#: Groups that a finding names, at most.
MOST_NAMED = 20
#: Options that texts speak of. A finding is stored, in Python's spelling; a warning carries the option itself.
CLASSES, GROUPS = Option("classes"), Option("groups", verb="learn")
SIGMOID, PROTECTED = Option("calibration", "sigmoid"), Option("protected", True)
DESIGN = Option("design_effect")
BALANCED = Option("goal", "balanced", verb="decide")
#: Faults by the finding that speaks of them.
_FAULTS = dict.fromkeys(("percent", "probit", "sigmoid_twice", "slope"), "other_units")


@dataclass(frozen=True)
class Seen:
    """Everything a finding may look at."""

    lab: Lab
    field: Field
    evidence: Evidence
    trust: Trust
    protected: bool = False
    whole: WholeField | None = None
    design_effect: float = 1.0
    width: Floats | None = None  # (G, K) of the intervals
    steps: tuple[Step, ...] = ()  # that predictions of the whole field take
    V: Floats | None = None  # (G, m) as effective rows

    @cached_property
    def suspicions(self) -> dict[str, guards.Suspicion]:
        """Faults of two classes that explain the field better than any mixture, by name."""
        partition = self.lab.partition
        if len(self.lab.classes) != 2 or not isinstance(partition, Edges):
            return {}
        V = np.asarray(self.field.V, dtype=np.float64) if self.V is None else self.V
        scores = guards.Scores(
            self.lab.M, self.lab.n_effective, self.lab.p_lab, np.asarray(partition.edges), V
        )
        return {
            _FAULTS.get(s.fault, s.fault): s for s in guards.suspicions(scores, grouped=self.field.grouped)
        }
