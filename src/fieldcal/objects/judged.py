"""Judged: true shares behind values, from the rows of a lab and a field whose class is known, and from all others."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal.core import field_posterior
from fieldcal.core.categories import model_of
from fieldcal.core.intervals import interval_of_mixture
from fieldcal.core.judge import DRAWS, Posterior, Verdicts, spread_of_judges
from fieldcal.core.policy import POLICY
from fieldcal.core.posterior import Summary, summarise_draws
from fieldcal.core.response import in_class_rows
from fieldcal.core.reweight import Step, matched_tilt
from fieldcal.errors import InputError, option
from fieldcal.objects.field import Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.next_lab import has_labels_of
from fieldcal.objects.problem import as_problem, labelled_rows
from fieldcal.types import Floats, Ints

_MOST_EFFECTS = 120  # log-odds of categories: of more, Newton's method takes minutes
_RATES = 512  # draws of the judge's rates
_BLOCK = 1_000  # slices whose draws are in memory at a time
_MOST_ASKED = 2_000  # labelled slices that are asked whether their judge is their own


@dataclass(frozen=True)
class Judged:
    """The posterior of a field of categories, from rows chosen by class, or from a judge that was checked elsewhere."""

    verdicts: Verdicts  # the rows
    n: Floats  # (G,) rows
    seed: int

    @classmethod
    def of(cls, lab: Lab, field: Field, *, design_effect: float = 1.0, seed: int = 0) -> Judged:
        """Learned from all rows; from labels of field rows alone wherever there are some, and nothing else is known."""
        verdicts, n = (
            verdicts_of(lab, field, design_effect=design_effect),
            np.asarray(field.n, dtype=np.float64),
        )
        _, K, m = verdicts.shape
        alone = not verdicts.given_class.any() and verdicts.spread is None and m * (K - 1) <= _MOST_EFFECTS
        return (LabelledRows if verdicts.known.any() and alone else cls)(verdicts, n, seed)

    @cached_property
    def posterior(self) -> Posterior:
        """Under the model of one judge, more or less, for all groups."""
        return Posterior.of(self.verdicts, seed=self.seed)

    def summaries(self, level: float) -> tuple[Summary, Summary]:
        """Of every group, and of the whole field."""
        G, K, _ = self.verdicts.shape
        weight = self.n / self.n.sum()
        whole, each = np.zeros((self.posterior.n_draws, K)), []
        for i in range(0, G, _BLOCK):
            rows = np.arange(i, min(i + _BLOCK, G))
            draws = self.posterior.draws(rows)
            whole += np.einsum("g,gnk->nk", weight[rows], draws)
            each.append(summarise_draws(draws, level, touching=POLICY.touching))
        parts = zip(*((s.mean, s.sd, s.lower, s.upper) for s in each), strict=True)
        together = summarise_draws(whole[None], level, touching=POLICY.touching)
        return Summary(*(np.concatenate(part) for part in parts)), together

    def draws(self, rows: Ints, together: Floats | None = None) -> Floats:
        """Joint draws of some groups, (G, n, K); ``together`` are correlations (G, G) of the noise of their rows."""
        normals = self.posterior.normals(rows)
        if together is not None:
            paired = np.einsum("ngk,hg->nhk", normals[..., :-1], _root(together))
            normals = np.concatenate([paired, normals[..., -1:]], axis=2)
        return self.posterior.draws(rows, normals)

    def together(self, scores: Floats, residuals: Floats, rows: Ints) -> Floats:
        """(G, G) correlations of the noise of rows of some groups, from those of the same items.

        Parameters
        ----------
        scores : (items, G) by how much a row moves the estimate of its group; NaN for items that a group does not have
        residuals : (items, G) of labelled rows, what they differ from ``P(class | category)``; NaN elsewhere
        """
        worth = np.sqrt([self._rows_are_noise(int(row)) for row in rows])
        found = np.eye(len(rows))
        for a in range(len(rows)):
            for b in range(a):
                both = np.isfinite(scores[:, a]) & np.isfinite(scores[:, b])
                norm = np.sqrt(np.nansum(scores[:, a] ** 2) * np.nansum(scores[:, b] ** 2))
                shared = float(scores[both, a] @ scores[both, b]) / norm if norm > 0 else 0.0
                found[a, b] = found[b, a] = np.clip(shared, -0.99, 0.99) * worth[a] * worth[b]
        return found

    def _rows_are_noise(self, row: int) -> float:
        """The share of a group's variance that its rows bring, and not what is unknown of its judge."""
        posterior = self.posterior
        if posterior.phi.kappa is None:
            return 1.0
        n, p = posterior.data.rest[row].sum(), posterior.draws(np.array([row]))[0]
        known = posterior.data.known[row].sum(axis=1)
        q = np.einsum("nk,nkj->nj", p, posterior.phi.M)
        own = (posterior.phi.M * (1 - posterior.phi.M)).sum(axis=2) / (
            posterior.phi.kappa[:, None] + known + 1
        )
        ratio = (q * (1 - q)).sum(axis=1) / np.maximum((p**2 * own).sum(axis=1), 1e-12)
        return float(np.mean(1 / (1 + max(n - 1, 0) / ratio)))

    def classes(self, rows: Ints) -> Floats:
        """(G, m, K) P(class | category) of rows without a label in some groups."""
        joint = self.draws(rows).mean(axis=1)[:, :, None] * self.rates_of(rows)
        return np.asarray((joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)).swapaxes(1, 2))

    @property
    def rates(self) -> Floats:
        """Draws (n, K, m) of how often the judge gives each category, given the class."""
        return self.posterior.phi.M

    def rates_of(self, rows: Ints) -> Floats:
        """The same in some groups, in the mean, (G, K, m)."""
        return self.posterior.judges(rows)

    @property
    def spread(self) -> Floats | None:
        """Draws of how far a rate of .9 varies between groups: standard deviations; None where there is one judge."""
        kappa = self.posterior.phi.kappa
        return None if kappa is None or not self.verdicts.grouped else np.asarray(np.sqrt(0.09 / (kappa + 1)))

    @cached_property
    def unlike_others(self) -> Ints:
        """Labelled groups that probably have a judge of their own, the surest first."""
        rows = np.flatnonzero(self.verdicts.known.any(axis=(1, 2)))[:_MOST_ASKED]
        own = self.posterior.own_judge(rows) if len(rows) else np.zeros(0)
        order = np.argsort(-own, kind="stable")
        return rows[order[own[order] > POLICY.surely_of_its_own]]

    @property
    def separation(self) -> Floats:
        """Draws of how well the judge separates the two most alike classes: half the distance of their categories."""
        M = self.rates
        K = M.shape[1]
        apart = [0.5 * np.abs(M[:, a] - M[:, b]).sum(axis=1) for a in range(K) for b in range(a)]
        return np.asarray(np.min(apart, axis=0))

    def learnt(self) -> dict[str, Any]:
        """What was learned of the judge, for people."""
        found: dict[str, Any] = {"separation": float(self.separation.mean())}
        if self.spread is not None:
            found["spread"] = float(np.median(self.spread))
        return found


@dataclass(frozen=True)
class LabelledRows(Judged):
    """The posterior from labels of field rows that were drawn at random or by category: `core.categories`.

    Its shares are those of the rows that were counted: known classes are exact.
    """

    @cached_property
    def model(self) -> field_posterior.Posterior:
        """The posterior of the multilevel model."""
        known, rest = self.verdicts.known, self.verdicts.rest
        own = known.sum(axis=1)
        V = np.where(self.verdicts.among[:, None], rest + own, rest)
        return field_posterior.posterior_of(model_of(known, V), self.seed)

    def summaries(self, level: float) -> tuple[Summary, Summary]:
        """Of every group, and of the whole field."""
        rows = self.model.model.counts.V.sum(axis=1)
        return (
            _summary(self.model.shares(), rows, level),
            _summary(self.model.whole(), rows.sum(keepdims=True), level),
        )

    def draws(self, rows: Ints, together: Floats | None = None) -> Floats:
        """Joint draws of some groups, (G, n, K); ``together`` are correlations (G, G) of the noise of their rows."""
        n = next(n for most, n in DRAWS if len(self.n) <= most)
        return self.model.draws(rows, n, None if together is None else _root(together))

    def together(self, scores: Floats, residuals: Floats, rows: Ints) -> Floats:
        """The same; what is open in the shares of these rows are classes given categories, and so are the residuals.

        One correlation for all pairs of groups, from items that are labelled in both; ten pairs more have none.
        """
        has = np.isfinite(residuals)
        left, known = np.where(has, residuals, 0.0), has.astype(float)
        products, pairs = left.T @ left, known.T @ known
        squares = (left**2).T @ known
        off = ~np.eye(len(rows), dtype=bool)
        both = 0.5 * (squares + squares.T)[off].sum()
        more = 20 * both / max(pairs[off].sum(), 1.0)  # every pair is there twice
        rho = float(np.clip(products[off].sum() / max(both + more, 1e-300), 0.0, 0.99))
        still = (np.isfinite(scores) & ~has).astype(float)
        n = np.sqrt(np.maximum(still.sum(axis=0), 1.0))
        return np.asarray(np.where(off, rho * (still.T @ still) / (n[:, None] * n), 1.0))

    def classes(self, rows: Ints) -> Floats:
        """(G, m, K) P(class | category) of rows without a label in some groups."""
        return self.model.classes(rows)

    @cached_property
    def rates(self) -> Floats:
        """Draws (n, K, m) of how often the judge gives each category, given the class, from labels of all groups."""
        known, (_, K, _) = self.verdicts.known.sum(axis=0), self.verdicts.shape
        V = self.model.model.counts.V.sum(axis=0)
        rng = np.random.default_rng([self.seed, 47])
        pseudo = (known.sum(axis=1) + 0.5) / (known.sum() + 0.5 * K)
        rows = rng.standard_gamma(known + pseudo[:, None], (_RATES, *known.shape)) + 1e-300
        cells = rows / rows.sum(axis=1, keepdims=True) * (V + 1e-300)
        return np.asarray(cells / cells.sum(axis=2, keepdims=True))

    def rates_of(self, rows: Ints) -> Floats:
        """The same in some groups, in the mean, (G, K, m)."""
        V = self.model.model.counts.V[rows]
        V = np.where(V.sum(axis=1, keepdims=True) > 0, V, 1.0)
        cells = (self.classes(rows) * V[:, :, None]).swapaxes(1, 2)
        return np.asarray(cells / np.maximum(cells.sum(axis=2, keepdims=True), 1e-300))

    @cached_property
    def spread(self) -> Floats | None:
        """Draws of how far a rate of .9 varies between groups: by .09 times the deviation of log-odds."""
        if not self.verdicts.grouped:
            return None
        points = self.model.points
        each = [0.09 * np.sqrt(float(p.components.group[0] + p.components.bins[0])) for p in points]
        times = np.round(np.array([p.weight for p in points]) * _RATES).astype(int)
        return np.repeat(each, np.maximum(times, 1))

    @cached_property
    def unlike_others(self) -> Ints:
        """Labelled groups that differ from the others by far more than these among themselves, the surest first."""
        rows = np.flatnonzero(self.verdicts.known.any(axis=(1, 2)))[:_MOST_ASKED]
        if not self.verdicts.grouped or len(rows) < 3:
            return rows[:0]
        weight = self.model.normality(rows)
        order = np.argsort(weight, kind="stable")
        return rows[order[weight[order] < POLICY.outlying]]


def _summary(shares: field_posterior.Shares, n: Floats, level: float) -> Summary:
    """Means, standard deviations and intervals."""
    lower, upper = interval_of_mixture(
        list(shares.means), list(shares.variances), shares.weights, level, n=n, holds=shares.estimate
    )
    return Summary(shares.estimate, shares.deviation, lower, upper)


def steps_to_shares(lab: Lab, V: NDArray[Any], shares: Floats) -> tuple[Step]:
    """What makes the classes that the lab gives to each value those of slices with values V and shares (G, K)."""
    V = np.asarray(V, dtype=np.float64)
    V = np.where(V.sum(axis=1, keepdims=True) > 0, V, 1.0)
    return (Step(1.0, np.exp(matched_tilt(lab.bin_classes, V, shares))),)


def verdicts_of(lab: Lab, field: Field, *, design_effect: float = 1.0) -> Verdicts:
    """The rows of lab and field, each counted once.

    The labelled rows of a lab whose design is "random" or "by_score" are rows of the field, and are told of by the
    field's own labels. Where it has none, those drawn at random tell of the judge alone, as if from elsewhere; of
    those chosen by value nothing can be told. Rows that were chosen by class tell of the judge, and where lab and
    field have some, one may hold the other's: the larger number of each class and value counts.
    """
    problem = as_problem(lab, field, design_effect=design_effect)
    V, (G, K, m) = problem.V, problem.shape
    known, by_class = np.zeros((G, K, m)), np.zeros((G, K, m))
    if field.labelled:
        labels = labelled_rows(field, problem)
        known[labels.groups], by_class[labels.groups] = labels.given_bin, labels.by_class
    elif lab.design == "by_score":
        raise InputError(
            "The labelled rows of this lab were chosen by their values: they tell of the rows that they were chosen "
            f"from, and these were counted without labels. Count them with their labels, {option('y')}."
        )
    outside = (lab.design == "by_class" and not has_labels_of(lab, field)) or not field.labelled
    given_class = by_class.sum(axis=0)
    if outside or not (known.any() or given_class.any()):
        given_class = np.maximum(in_class_rows(lab.F, lab.n_effective), given_class)
    spread = np.asarray(lab.judge_spread) if outside and lab.judge_spread is not None else None
    if field.grouped and by_class.any(axis=(1, 2)).sum() > 1:
        spread = spread_of_judges(by_class)
    own = known.sum(axis=1)
    # Labels of rows that were not counted are rows besides.
    among = (own <= V + 1e-9).all(axis=1, keepdims=True)
    rest = np.maximum(np.where(among, V - own, V), 0.0)
    by_value = set(field.labelled) == {"by_score"}
    return Verdicts(given_class, known, rest, field.grouped, outside, spread, by_value, among[:, 0])


def _root(correlations: Floats) -> Floats:
    values, vectors = np.linalg.eigh(correlations)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return np.asarray(root / np.sqrt(np.square(root).sum(axis=1, keepdims=True)))
