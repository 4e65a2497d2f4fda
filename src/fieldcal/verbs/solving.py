"""URC's estimate of every group, under the prior that was chosen: the stage of `estimate` before trust."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from fieldcal.core import likelihood
from fieldcal.core.ordered import NO_STRENGTH, Shape, smooth_draws, smooth_prior, smooth_solution
from fieldcal.core.posterior import (
    Summary,
    pooled_posterior,
    response_draws,
    summarise,
    summarise_draws,
)
from fieldcal.core.priors import Continuity, Dirichlet, Penalty, Pooled, Prior, Smooth
from fieldcal.core.solve import Solution, solve
from fieldcal.objects import UNNAMED, Batch, Field, Lab
from fieldcal.types import Floats, Point

#: Draws of M behind every interval.
N_DRAWS = 64
DEFAULT_LEVEL = 0.9
_BLOCK = 1_000_000  # draws times classes that are held at once


@dataclass(frozen=True)
class Task:
    """What is asked."""

    lab: Lab
    field: Field
    prior: Prior
    point: Point
    level: float | None
    labelled: Floats | None  # (G, K)
    random_state: int
    max_iter: int
    progress: Callable[[int, int], None] | None
    beside_groups: bool = False  # whether the field is the sum of groups that it will be compared with

    def report(self) -> Callable[[int], None] | None:
        """How the posterior tells of groups that are done."""
        if self.progress is None:
            return None
        tell, done, total = self.progress, 0, len(self.field.groups)

        def more(finished: int) -> None:
            nonlocal done
            done += finished
            tell(done, total)

        return more

    @property
    def V(self) -> Floats:
        """Field counts as floats."""
        return np.asarray(self.field.V, dtype=np.float64)

    def total(self) -> Task:
        """The whole field as one population."""
        everyone = Batch(
            groups=(None,),
            V=self.field.V.sum(axis=0, keepdims=True),
            # As floats: over all groups the units can pass 64 bits.
            score_sums=self.field.score_sums.sum(axis=0, keepdims=True, dtype=np.float64),
        )
        whole = Field(
            lab=self.field.lab,
            classes=self.field.classes,
            n_bins=self.field.n_bins,
            grouped=False,
            batches={UNNAMED: everyone},
        )
        labelled = None if self.labelled is None else self.labelled.sum(axis=0, keepdims=True)
        grouped = self.field.grouped
        return replace(self, field=whole, level=None, labelled=labelled, progress=None, beside_groups=grouped)


@dataclass(frozen=True)
class Answer:
    """URC's estimate of every group."""

    urc: Floats  # (G, K)
    sd: Floats | None  # (G, K)
    lower: Floats | None
    upper: Floats | None
    alpha: Floats  # (S, K) Dirichlet parameters behind the intervals, one row per draw of M
    mode: Solution
    prior: dict[str, float | str]
    edge: str


def solve_task(task: Task) -> Answer:
    """Point, spread and interval under the chosen prior."""
    lab, V = task.lab, task.V
    if not len(V):
        return _nothing(task)
    if isinstance(task.prior, Pooled):
        return _solve_pooled(task)
    if isinstance(task.prior, (Smooth, Continuity)):
        return _solve_ordered(task, task.prior)
    penalty = _with_labels(task.prior.penalty(lab.M, lab.p_lab), task.labelled)
    mode = solve(lab.M, V, penalty, max_iter=task.max_iter)
    strength = getattr(task.prior, "strength", 0.0)
    recipe: dict[str, float | str] = {"name": task.prior.name, "strength": float(strength)}
    alpha = np.ones((N_DRAWS, len(lab.classes)))
    if isinstance(task.prior, Dirichlet):
        alpha = alpha + task.prior.strength * lab.p_lab
    if task.level is None and task.point == "mode":
        return Answer(mode.p, None, None, None, alpha, mode, recipe, "")
    summary = _summary(task, V + penalty.bins, alpha, penalty)
    urc = mode.p if task.point == "mode" else summary.mean
    lower, upper = np.minimum(summary.lower, urc), np.maximum(summary.upper, urc)
    return Answer(urc, summary.sd, lower, upper, alpha, mode, recipe, "")


def _summary(task: Task, V: Floats, alpha: Floats, penalty: Penalty) -> Summary:
    """The posterior of every group under a given prior."""
    rng = np.random.default_rng(task.random_state)
    level = task.level or DEFAULT_LEVEL
    M, counts = likelihood.with_labels(response_draws(task.lab.A, N_DRAWS, rng), V, task.labelled)
    return summarise(
        M,
        counts,
        alpha,
        level=level,
        rng=rng,
        entropy=penalty.entropy,
        centre=penalty.centre,
        progress=task.report(),
    )


def _nothing(task: Task) -> Answer:
    """No groups, no answers: tables without rows."""
    K = len(task.lab.classes)
    empty, none = np.zeros((0, K)), np.zeros(0)
    mode = Solution(empty, none, none, np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    return Answer(empty, empty, empty, empty, np.ones((N_DRAWS, K)), mode, {"name": task.prior.name}, "")


def _solve_pooled(task: Task) -> Answer:
    """All groups inform each other."""
    lab, V = task.lab, task.V
    rng = np.random.default_rng(task.random_state)
    M, counts = likelihood.with_labels(response_draws(lab.A, N_DRAWS, rng), V, task.labelled)
    pooled = pooled_posterior(
        lab.A,
        counts,
        p_lab=lab.p_lab,
        level=task.level or DEFAULT_LEVEL,
        random_state=task.random_state + 1,  # not the stream that M was drawn from
        grouped=task.field.grouped,
        cut=task.beside_groups,
        M=M,
        progress=task.report(),
    )
    strength = pooled.kappa * pooled.mu
    penalty = _with_labels(Penalty(np.zeros(lab.n_bins), strength, 0.0, lab.p_lab), task.labelled)
    mode = solve(lab.M, V, penalty, max_iter=task.max_iter)
    recipe: dict[str, float | str] = {"name": "pooled", "kappa": pooled.kappa, "edge": pooled.edge}
    if task.level is None and task.point == "mode":
        return Answer(mode.p, None, None, None, pooled.alpha, mode, recipe, pooled.edge)
    summary = Summary(pooled.point, pooled.sd, pooled.lower, pooled.upper)
    urc = mode.p if task.point == "mode" else summary.mean
    lower, upper = np.minimum(summary.lower, urc), np.maximum(summary.upper, urc)
    return Answer(urc, summary.sd, lower, upper, pooled.alpha, mode, recipe, pooled.edge)


def _solve_ordered(task: Task, prior: Smooth | Continuity) -> Answer:
    """Neighbours inform each other, and so do groups."""
    lab, V, rng = task.lab, task.V, np.random.default_rng(task.random_state)
    M, counts = likelihood.with_labels(response_draws(lab.A, N_DRAWS, rng), V, task.labelled)
    best, _ = likelihood.with_labels(lab.M[None], V, task.labelled)
    recipe: dict[str, float | str] = {"name": prior.name}
    if isinstance(prior, Continuity):
        alpha, shape = (
            np.full((N_DRAWS, 1), NO_STRENGTH) * lab.p_lab,
            Shape(continuity=float(prior.strength)),
        )
    else:
        labels = None if task.labelled is None else task.labelled.sum(axis=0)
        grouped = task.field.grouped
        found = smooth_prior(
            lab.A, M[..., : lab.n_bins], V, p_lab=lab.p_lab, grouped=grouped, rng=rng, labelled=labels
        )
        alpha, shape = found.alpha, found.shape
        recipe["sigma"] = found.sigma
    recipe |= shape._asdict()
    strength = np.median(alpha.sum(axis=1)) * alpha.mean(axis=0) / alpha.mean(axis=0).sum()
    mode = smooth_solution(best, counts, strength, shape, max_iter=task.max_iter)
    if task.level is None and task.point == "mode":
        return Answer(mode.p, None, None, None, alpha, mode, recipe, "")
    parts, report = [], task.report()
    step = max(1, _BLOCK // (N_DRAWS * len(lab.classes)))
    for i in range(0, len(V), step):
        draws = smooth_draws(M, counts[i : i + step], alpha, rng, shape=shape)
        parts.append(summarise_draws(draws, task.level or DEFAULT_LEVEL))
        if report is not None:
            report(len(draws))
    mean, sd, lower, upper = (
        np.concatenate([getattr(part, name) for part in parts]) for name in ("mean", "sd", "lower", "upper")
    )
    urc = mode.p if task.point == "mode" else mean
    return Answer(urc, sd, np.minimum(lower, urc), np.maximum(upper, urc), alpha, mode, recipe, "")


def _with_labels(penalty: Penalty, labelled: Floats | None) -> Penalty:
    if labelled is None:
        return penalty
    return Penalty(penalty.bins, penalty.classes + labelled, penalty.entropy, penalty.centre)


def whole_field(task: Task, answer: Answer) -> Floats:
    """The estimate for the field as one population, (K,); the lab's where no row says anything."""
    if len(task.field.groups) == 1:
        return np.asarray(answer.urc[0])
    if not task.V.sum():
        return np.asarray(task.lab.p_lab)
    return np.asarray(solve_task(task.total()).urc[0])
