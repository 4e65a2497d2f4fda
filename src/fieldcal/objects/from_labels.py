"""FromLabels: what labelled rows of the field made of an estimate."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.core.explanations import Belief
from fieldcal.core.labelled_rows import KINDS, Foretold, Kind
from fieldcal.core.labels import Learnt
from fieldcal.core.partition import Partition
from fieldcal.core.policy import POLICY
from fieldcal.core.reweight import BinStep, Step, matched_tilt
from fieldcal.core.trust import Trust
from fieldcal.objects import show
from fieldcal.objects.artefact import Frozen, Numbers, record
from fieldcal.types import Design, Floats

#: The explanations in words, where room is short.
EXPLANATIONS: dict[Kind, str] = {"label_shift": "label shift", "same": "same", "other": "other"}


class Told(Frozen):
    """What an explanation foretold of labels before it saw them."""

    expected: Numbers  # (K,) shares of the classes
    chance: float  # p-value of so large a difference to what came

    @classmethod
    def of(cls, found: Foretold | None) -> Told | None:
        """From core; None where there is nothing to compare."""
        return None if found is None else cls(expected=found.expected, chance=found.chance)

    @property
    def rarity(self) -> str:
        """In how many cases chance makes so large a difference."""
        return "fewer than one in 1,000" if self.chance < 1e-3 else f"{self.chance:.1%}"


class FromLabels(Frozen):
    """The weights of the explanations after labels were seen, and what predictions are reweighted by."""

    rows: dict[Design, float]  # labelled, by their design
    before: record(Trust)  # type: ignore[valid-type]  # trust without labels
    believed: Numbers  # (3,) the explanations label shift, same and other, before labels were seen
    weights: Numbers  # (3,) the same after labels were seen
    unchanged: float  # the probability that a prediction means what it meant in the lab, in every group
    off: float  # how far the scores themselves are off in the field, beside any tilt, on the logit scale
    off_for_sure: float  # the probability that they clearly are
    observed: Numbers | None  # (K,) shares of the classes of labelled rows; None if all were chosen by class
    label_shift: Told | None  # what it foretold of these, given their predictions; None where not asked
    same: Told | None  # likewise
    looks_random: float | None  # p-value of "random" rows being so, by their predictions; None without any
    beyond: int  # groups with more labels in a bin than rows: their labels cannot all be rows of the field
    urc_sd: Numbers  # (G, K) standard deviation of the prevalences under label shift
    whole_sd: Numbers  # (K,)
    tilt: Numbers  # (G, K) logarithms of class weights of each group
    whole_tilt: Numbers  # (K,) of a group that was never seen
    bins: Numbers  # (m, K) logarithms of class weights of every bin, for ``shape="bins"``
    bins_tilt: Numbers  # (G, K) what comes on top of these
    whole_bins_tilt: Numbers  # (K,)

    @classmethod
    def of(
        cls,
        learnt: Learnt,
        belief: Belief,
        rates: Floats,
        whole: Floats,
        *,
        looks_random: float | None,
        rows: dict[Design, float],
    ) -> FromLabels:
        """From the posterior: predictions are tilted until their mean is the rate (G, K), of the whole field (K,)."""
        centres, V = learnt.model.base.centres, learnt.model.V
        corrected = learnt.bins()
        total = V.sum(axis=0)
        V = np.where(V.sum(axis=1, keepdims=True) > 0, V, total)
        foretold = {kind: learnt.foretold(kind) for kind in ("label_shift", "same")}
        seen = next((found for found in foretold.values() if found is not None), None)
        beyond = int((~learnt.model.among).sum())
        believed = [sum(x.weight for x in learnt.told if x.kind == kind) for kind in KINDS]
        return cls(
            rows=rows,
            before=belief.trust,
            believed=np.array(believed) / sum(believed),
            weights=np.array([learnt.weight(kind) for kind in KINDS]),
            unchanged=learnt.unchanged,
            off=learnt.off,
            off_for_sure=learnt.off_for_sure,
            observed=None if seen is None else seen.observed,
            label_shift=Told.of(foretold["label_shift"]),
            same=Told.of(foretold["same"]),
            looks_random=looks_random,
            beyond=beyond,
            urc_sd=belief.sd,
            whole_sd=belief.whole_sd,
            tilt=matched_tilt(centres, V, rates),
            whole_tilt=matched_tilt(centres, total[None], whole[None])[0],
            bins=_logs(corrected) - _logs(centres),
            bins_tilt=matched_tilt(corrected, V, rates),
            whole_bins_tilt=matched_tilt(corrected, total[None], whole[None])[0],
        )

    def fits(self, *, n_groups: int, n_bins: int, n_classes: int) -> bool:
        """Whether the tables are of so many groups, bins and classes, and finite."""
        shapes = {
            "urc_sd": (n_groups, n_classes),
            "tilt": (n_groups, n_classes),
            "bins_tilt": (n_groups, n_classes),
            "bins": (n_bins, n_classes),
            "whole_sd": (n_classes,),
            "whole_tilt": (n_classes,),
            "whole_bins_tilt": (n_classes,),
        }
        tables = {name: getattr(self, name) for name in shapes}
        told = [found.expected for found in (self.label_shift, self.same) if found is not None]
        if any(len(table) != n_classes for table in (self.observed, *told) if table is not None):
            return False
        return all(tables[n].shape == shape and np.isfinite(tables[n]).all() for n, shape in shapes.items())

    def weight(self, kind: Kind) -> float:
        """Of an explanation, after labels were seen."""
        return float(self.weights[KINDS.index(kind)])

    def summary(self) -> dict[str, Any]:
        """Rows by design, and the explanations before labels were seen and after, as plain data."""
        return {
            "rows": dict(self.rows),
            "before": dict(zip(KINDS, self.believed.tolist(), strict=True)),
            "after": dict(zip(KINDS, self.weights.tolist(), strict=True)),
        }

    def __str__(self) -> str:
        weights = (f"{EXPLANATIONS[kind]} {self.weight(kind):.2f}" for kind in KINDS)
        return f"{show.amount(sum(self.rows.values()))} labelled rows: {', '.join(weights)}"

    @property
    def steps(self) -> tuple[Step, ...]:
        """That predictions of every group take."""
        return self._step(self.tilt)

    @property
    def steps_unseen(self) -> tuple[Step, ...]:
        """That those of a group take that was never seen."""
        return self._step(self.whole_tilt)

    def _step(self, tilt: Floats) -> tuple[Step, ...]:
        """As far as the classes of a prediction are not the lab's; nothing where the caller wants nothing changed."""
        if self._nothing:
            return ()
        return (Step(1 - POLICY.same_left_alone * self.unchanged, _weights(tilt)),)

    def steps_by_bin(self, partition: Partition, *, unseen: bool) -> tuple[BinStep | Step, ...]:
        """The same where predictions are corrected bin by bin, in whole; of a group that was seen or not."""
        if self._nothing:
            return ()
        tilt = self.whole_bins_tilt if unseen else self.bins_tilt
        return BinStep(partition, _weights(self.bins)), Step(1.0, _weights(tilt))

    @property
    def _nothing(self) -> bool:
        return bool(self.before.set_by_caller and self.before.nothing)

    def trust(self, learnt: Learnt, *, grouped: bool) -> Trust:
        """How probable label shift is now."""
        before, left = self.before, learnt.model.labels.believed_without
        overall = left * before.overall + (1 - left) * self.weight("label_shift")
        between = left * before.between + (1 - left) * learnt.between if grouped else overall
        return Trust(min(overall, 1.0), min(between, 1.0), before.set_by_caller, before.rehearsed)


def _weights(logs: Floats) -> Floats:
    """From logarithms; the largest of each row is one."""
    return np.asarray(np.exp(logs - logs.max(axis=-1, keepdims=True)))


def _logs(p: Floats) -> Floats:
    return np.asarray(np.log(np.maximum(p, 1e-9)))
