"""What rules look at: a lab, a field, and what was measured of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import guards
from fieldcal.core.partition import Edges
from fieldcal.core.reweight import Step
from fieldcal.core.trust import Evidence, Trust
from fieldcal.objects import Field, Lab, WholeField, group_keys
from fieldcal.objects.judged import Judged
from fieldcal.objects.prevalence_parts import FieldLabels, FromModel
from fieldcal.types import Floats

#: Groups that a finding names, at most.
MOST_NAMED = 20


@dataclass(frozen=True)
class Context:
    """Everything a rule may look at."""

    lab: Lab
    field: Field
    evidence: Evidence
    trust: Trust
    protected: bool = False
    whole: WholeField | None = None
    design_effect: float = 1.0
    width: Floats | None = None  # (G, K) of the intervals
    steps: tuple[Step, ...] = ()  # that predictions of each group take
    shares: Floats | None = None  # (G, K) estimated, of the classes in each group
    V: Floats | None = None  # (G, m) as effective rows
    by_model: FromModel | None = None  # with labels of lab groups or of field rows
    judged: Judged | None = None  # of a judge or a test

    @property
    def labels(self) -> FieldLabels | None:
        """What labelled rows of the field show; None where there are none."""
        return None if self.by_model is None else self.by_model.labels

    @property
    def by_lab_groups(self) -> FromModel | None:
        """The model, where labels of the lab's groups enter."""
        return None if self.by_model is None or self.by_model.lab_rows is None else self.by_model

    @property
    def judge(self) -> Judged:
        """The judge or test, where predictions are its categories."""
        assert self.judged is not None
        return self.judged

    @cached_property
    def without_labels(self) -> NDArray[np.bool_]:
        """(G,) groups without a labelled row, where other groups have some."""
        labelled = self.field.labelled_rows > 0 if self.field.groups else np.zeros(1, dtype=bool)
        return ~labelled & labelled.any()

    @cached_property
    def not_in_lab(self) -> NDArray[np.bool_]:
        """(G,) groups that the lab has no rows of, where it has groups of the same columns."""
        lab, field = self.lab, self.field
        columns = () if lab.columns is None else lab.columns.by
        same_rows = lab.of_values and bool(field.labelled)  # `without_labels` describes these
        if not lab.groups or not field.grouped or same_rows or (columns and field.by and columns != field.by):
            return np.zeros(len(field.groups) or 1, dtype=bool)
        return np.asarray(group_keys.positions(lab.groups, field.groups) < 0)

    @cached_property
    def decisions(self) -> tuple[guards.HardDecisions, guards.HardDecisions] | None:
        """Hard decisions before and after the steps; None where nothing is decided, or nothing changes."""
        lab, n = self.lab, np.asarray(self.field.n, dtype=np.float64)
        if lab.outcome.kind == "intervals" or lab.only_decisions or not self.steps or not n.sum():
            return None
        # A class that is estimated to be absent is decided for, or not, as if it had a row in a billion.
        rows = n[:, None] * (lab.p_lab if self.shares is None else np.maximum(self.shares, 1e-9))
        edges = None if self.scores is None else self.scores.edges
        if edges is not None and lab.calibration_map is not None:
            edges = lab.calibration_map.read(edges)
        before, after = (
            guards.hard_decisions(lab.M, lab.bin_means, steps, rows=rows, edges=edges)
            for steps in ((), self.steps)
        )
        return before, after

    @cached_property
    def scores(self) -> guards.Scores | None:
        """The score of two classes in lab and field; None where bins are not cut at its edges."""
        lab = self.lab
        if len(lab.classes) != 2 or not isinstance(lab.partition, Edges):
            return None
        V = np.asarray(self.field.V, dtype=np.float64) if self.V is None else self.V
        return guards.Scores(lab.M, lab.n_effective, lab.p_lab, np.asarray(lab.partition.edges), V)

    @cached_property
    def suspicions(self) -> dict[str, guards.Suspicion]:
        """Faults of two classes that explain the field better than any mixture, by name."""
        found = () if self.scores is None else guards.suspicions(self.scores, grouped=self.field.grouped)
        return {suspicion.fault: suspicion for suspicion in found}

    @cached_property
    def disagreement(self) -> guards.Disagreement | None:
        """Of more classes: decisions and mean predictions that no mixture explains."""
        lab = self.lab
        many = len(lab.classes) > 2 and lab.partition.takes_probabilities
        if not many or not self.evidence.overall.contradicted:
            return None
        v, sums = (
            np.asarray(table.sum(axis=0, dtype=np.float64)) for table in (self.field.V, self.field.score_sums)
        )
        return guards.disagreement(lab.M, lab.bin_means, p_lab=lab.p_lab, v=v, mean=sums / sums.sum())
