"""Rows that a judge marked, in groups, some of them with a label: fieldcal and its peers on the share of class 1."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from benchmarks.judges.contest import wilson
from benchmarks.judges.tally import Answer
from scipy.stats import norm

import fieldcal

LEVEL = 0.9


@dataclass(frozen=True)
class Judged:
    """Every row with its label; methods see the labels of some rows only."""

    category: np.ndarray  # what the judge says: a verdict or a rating
    verdict: np.ndarray  # the same as 0 or 1, for methods that need a prediction of the label
    human: np.ndarray  # 0 or 1
    group: np.ndarray  # 0 to G − 1

    @property
    def n_groups(self) -> int:
        return int(self.group.max()) + 1

    def __getitem__(self, rows: np.ndarray) -> Judged:
        return Judged(self.category[rows], self.verdict[rows], self.human[rows], self.group[rows])

    def rows(self) -> np.ndarray:
        return np.bincount(self.group, minlength=self.n_groups)

    def mean(self, values: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Mean over some rows of each group; NaN for a group without any."""
        n = np.bincount(self.group[rows], minlength=self.n_groups)
        total = np.bincount(self.group[rows], values[rows], minlength=self.n_groups)
        return np.divide(total, n, out=np.full(self.n_groups, np.nan), where=n > 0)


@dataclass(frozen=True)
class Found:
    """fieldcal's answer with the status of each group, the verdict's level and seconds of processor time."""

    answer: Answer
    status: np.ndarray
    verdict: str
    seconds: float


def fieldcal_shares(judged: Judged, labelled: np.ndarray) -> Found:
    """Shares of class 1 by group from all categories and the labels of some rows, drawn at random."""
    human = np.full(len(judged.human), np.nan)
    human[labelled] = judged.human[labelled]
    start = time.process_time()
    lab = fieldcal.learn(
        judged.category, human, groups=judged.group, kind="values", design="random", classes=range(2)
    )
    field = fieldcal.count(lab, judged.category, groups=judged.group, y=human)
    prev = fieldcal.estimate(lab, field, level=LEVEL)
    seconds = time.process_time() - start
    order = [prev.groups.index(g) for g in range(judged.n_groups)]
    parts = (np.asarray(part)[order, 1] for part in (prev.estimate, prev.lower, prev.upper))
    return Found(Answer(*parts), np.array(prev.status)[order], prev.verdict.level, seconds)


def labels_only(judged: Judged, labelled: np.ndarray) -> Answer:
    """Share of the labels of each group, of all labels where a group has none; Wilson's intervals."""
    n = np.bincount(judged.group[labelled], minlength=judged.n_groups)
    hits = np.bincount(judged.group[labelled], judged.human[labelled], minlength=judged.n_groups)
    return Answer(*wilson(np.where(n > 0, hits, hits.sum()), np.where(n > 0, n, n.sum())))


def judge_rate(judged: Judged, labelled: np.ndarray) -> Answer:
    """Share of the judge's verdicts, over rows without a label; Wilson's intervals."""
    rest = ~labelled
    n = np.bincount(judged.group[rest], minlength=judged.n_groups)
    hits = np.bincount(judged.group[rest], judged.verdict[rest], minlength=judged.n_groups)
    return Answer(*wilson(np.where(n > 0, hits, hits.sum()), np.where(n > 0, n, n.sum())))


def power_tuned(judged: Judged, labelled: np.ndarray) -> Answer:
    """PPI++ of each group by itself (Angelopoulos et al. 2023), its power λ tuned and kept in [0, 1].

    With fewer than two labels λ is 0, as ppi-python has it; without labels the labels of all groups stand in.
    """
    G, f, y = judged.n_groups, judged.verdict.astype(float), judged.human.astype(float)
    alone, rest = labels_only(judged, labelled), ~labelled
    n, N = (np.bincount(judged.group[rows], minlength=G) for rows in (labelled, rest))
    means = {name: judged.mean(values, labelled) for name, values in (("y", y), ("f", f))}
    elsewhere, overall = judged.mean(f, rest), judged.mean(f, np.ones(len(f), dtype=bool))
    at = judged.group[labelled]
    product = (y[labelled] - means["y"][at]) * (f[labelled] - means["f"][at])
    with np.errstate(divide="ignore", invalid="ignore"):
        covariance = np.bincount(at, product, minlength=G) / (n - 1)
        power = np.clip(covariance / ((1 + n / N) * overall * (1 - overall)), 0, 1)
        power = np.where(np.isfinite(power) & (n > 1), power, 0.0)
        residual = y[labelled] - power[at] * f[labelled]
        centre = np.bincount(at, residual, minlength=G) / n
        noise = np.bincount(at, (residual - centre[at]) ** 2, minlength=G) / n
        moved = np.where(N > 0, power * elsewhere, 0.0)
        spread = np.where(N > 0, power**2 * elsewhere * (1 - elsewhere) / N, 0.0)
        half = norm.ppf((1 + LEVEL) / 2) * np.sqrt(noise / n + spread)
    estimate = moved + centre
    few = n < 2
    return Answer(
        np.where(few, alone.estimate, estimate),
        np.where(few, alone.lower, estimate - half),
        np.where(few, alone.upper, estimate + half),
    )


def scores(answer: Answer, truth: np.ndarray) -> dict[str, float]:
    """Errors, coverage and width over groups."""
    error = answer.estimate - truth
    return {
        "mse": float((error**2).mean()),
        "error": float(np.abs(error).mean()),
        "covered": float(covers(answer, truth).mean()),
        "width": float((answer.upper - answer.lower).mean()),
    }


def covers(answer: Answer, truth: np.ndarray) -> np.ndarray:
    return np.asarray((answer.lower - 1e-12 <= truth) & (truth <= answer.upper + 1e-12))


PEERS = {"labels only": labels_only, "judge's rate": judge_rate, "PPI++ by group": power_tuned}
