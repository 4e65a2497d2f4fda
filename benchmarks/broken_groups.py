"""Some broken groups among a hundred, and a favoured system without labels: ``python benchmarks/broken_groups.py``

broken    100 groups that differ in their share and in how a model's predictions are biased there. 0, 1, 3 or 10 of them
          are broken: predictions in other units (logits times 3 plus 2), or a frozen sensor (one prediction for all
          rows). The lab has no groups; groups, broken in the field alone; or groups that are broken in lab and field.
          0 or 300 field labels. Mean absolute error of the shares of the other groups, over that of the same groups
          when none is broken (paired; must be at most 1.10).
favoured  8 systems, 200 labels at random over 7 of them. The judge favours the one without labels: its sensitivity and
          false positive rate are .1 to .2 higher, or no higher. Coverage of that system's 90 % interval (must be at
          least .85), how often its status is "ok" (never), and the levels of the verdict.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    # One core, set before numpy is loaded; modules come from the root, not from this folder.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
import pandas as pd
from benchmarks.field_model.judged import Judged, covers, fieldcal_shares
from benchmarks.field_model.output import save, show
from scipy.special import expit, logit

import fieldcal

GROUPS, LAB_ROWS, FIELD_ROWS = 100, 60, 300  # rows per group
BROKEN, LABELS = (1, 3, 10), (0, 300)
BREAKS = ("other units", "frozen")
LABS = ("no groups", "groups, broken in field", "groups, broken in both")
SHARE, SHARE_SD, BIAS_SD = 0.35, 0.15, 0.15
SYSTEMS, ANSWERS, JUDGE_LABELS = 8, 300, 200
SENSITIVITY, FALSE_POSITIVE = 0.85, 0.2
Record = dict[str, Any]


@dataclass(frozen=True)
class Sample:
    """Predictions of class 1, labels and groups."""

    scores: np.ndarray
    y: np.ndarray
    group: np.ndarray

    def broken(self, groups: np.ndarray, how: str) -> Sample:
        rows = np.isin(self.group, groups)
        spoiled = expit(3 * logit(self.scores) + 2) if how == "other units" else np.full(len(self.y), 0.6)
        return replace(self, scores=np.where(rows, spoiled, self.scores))


def population(rng: np.random.Generator, groups: int) -> tuple[Sample, Sample]:
    """Lab and field: predictions of a model that knows neither a group's share nor its bias there."""
    like = SHARE * (1 - SHARE) / SHARE_SD**2 - 1
    share = rng.beta(SHARE * like, (1 - SHARE) * like, groups)
    bias = rng.normal(0, BIAS_SD, groups)

    def rows(each: int) -> Sample:
        group = np.repeat(np.arange(groups), each)
        y = (rng.random(len(group)) < share[group]).astype(int)
        signal = rng.normal(np.where(y, 0.8, -0.8), 1)  # its log likelihood ratio is 1.6 times it
        return Sample(expit(1.6 * signal + logit(SHARE) + bias[group]), y, group)

    return rows(LAB_ROWS), rows(FIELD_ROWS)


def shares(lab: Sample, field: Sample, labelled: np.ndarray, *, groups: bool) -> tuple[np.ndarray, float]:
    """fieldcal's shares of class 1, and the trust between groups."""
    learned = fieldcal.learn(lab.scores, lab.y, groups=lab.group if groups else None, classes=range(2))
    human = np.full(len(field.y), np.nan)
    human[labelled] = field.y[labelled]
    y = human if len(labelled) else None
    prev = fieldcal.estimate(learned, fieldcal.count(learned, field.scores, groups=field.group, y=y))
    order = [prev.groups.index(g) for g in range(int(field.group.max()) + 1)]
    return np.asarray(prev.estimate)[order, 1], prev.trust_between


def broken(replica: int, groups: int = GROUPS) -> Iterator[Record]:
    """A record for each lab, number of labels, kind of break and number of broken groups."""
    rng = np.random.default_rng([29, replica])
    lab, field = population(rng, groups)
    truth = np.bincount(field.group, field.y) / FIELD_ROWS
    at = rng.permutation(groups)
    rows = rng.permutation(len(field.y))
    for n, where in ((n, where) for n in LABELS for where in LABS):
        named = where != "no groups"
        sound, trust = shares(lab, field, rows[:n], groups=named)
        about = {"part": "broken", "replica": replica, "lab": where, "labels": n}
        yield about | {"how": "none", "broken": 0, "error": np.abs(sound - truth).mean(), "trust": trust}
        for how, k in ((how, k) for how in BREAKS for k in BROKEN if k < groups):
            spoiled = lab.broken(at[:k], how) if where == LABS[2] else lab
            found, trust = shares(spoiled, field.broken(at[:k], how), rows[:n], groups=named)
            error, before = (np.abs(each - truth)[at[k:]].mean() for each in (found, sound))
            yield about | {"how": how, "broken": k, "error": error, "before": before, "trust": trust}


def favoured(replica: int, *, favour: bool) -> Record:
    """The last system has no label; the judge may favour it."""
    rng = np.random.default_rng([6, replica])
    share, more = rng.uniform(0.4, 0.8, SYSTEMS), np.zeros(SYSTEMS)
    more[-1] = rng.uniform(0.1, 0.2) if favour else 0.0
    group = np.repeat(np.arange(SYSTEMS), ANSWERS)
    human = (rng.random(len(group)) < share[group]).astype(int)
    rate = np.where(human == 1, SENSITIVITY, FALSE_POSITIVE) + more[group]
    verdict = (rng.random(len(group)) < np.minimum(rate, 0.99)).astype(int)
    judged = Judged(verdict, verdict, human, group)
    labelled = np.zeros(len(group), dtype=bool)
    labelled[rng.choice((SYSTEMS - 1) * ANSWERS, JUDGE_LABELS, replace=False)] = True
    found = fieldcal_shares(judged, labelled)
    truth = judged.mean(human, np.ones(len(group), dtype=bool))
    held = covers(found.answer, truth)
    return {
        "part": "favoured",
        "replica": replica,
        "favour": favour,
        "covered": bool(held[-1]),
        "covered_others": float(held[:-1].mean()),
        "width": float((found.answer.upper - found.answer.lower)[-1]),
        "error": float(found.answer.estimate[-1] - truth[-1]),
        "status": found.status[-1],
        "verdict": found.verdict,
    }


def report(frame: pd.DataFrame) -> None:
    some = frame[frame.part == "broken"].astype({"labels": int, "broken": int})
    by = some.groupby(["lab", "labels", "how", "broken"], sort=False)
    table = by[["error", "before", "trust"]].mean()
    table["ratio"] = table.error / table.before
    title = f"Error of the other groups, {some.replica.nunique()} populations of groups"
    show(title, table.reset_index())
    some = frame[frame.part == "favoured"]
    by = some.groupby("favour", sort=False)
    table = by[["covered", "covered_others", "width", "error"]].mean()
    table["ok"] = by.status.agg(lambda status: float((status == "ok").mean()))
    for name in ("status", "verdict"):
        table[name] = by[name].agg(
            lambda values: ", ".join(f"{v} {n}" for v, n in values.value_counts().items())
        )
    show(f"A system without labels, {some.replica.nunique()} replicas", table.reset_index())


def main(argv: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--populations", type=int, default=4, help="of groups")
    parser.add_argument("--groups", type=int, default=GROUPS)
    parser.add_argument("--replicas", type=int, default=100, help="of the favoured system")
    parser.add_argument("--csv", type=Path, help="write every run here")
    options = parser.parse_args(None if argv is None else list(argv))
    warnings.simplefilter("ignore")
    records = [r for replica in range(options.populations) for r in broken(replica, options.groups)]
    replicas = range(options.replicas)
    records += [favoured(replica, favour=favour) for favour in (False, True) for replica in replicas]
    report(save(records, options.csv))


if __name__ == "__main__":
    main()
