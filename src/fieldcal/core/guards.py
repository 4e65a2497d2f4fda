"""Faults that look like label shift: percentages, swapped classes, predictions that were recalibrated before.

Two classes: each fault is a known map of the score, so that the histogram it would give follows from the lab's
class-conditional distributions, which are known at the edges of the bins and interpolated between them. A fault has
one free prevalence, as the mixture has, so that the two log likelihoods can be compared as they are. The rest are
small questions: how well a lab separates, and what a correction does to hard decisions and to groups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations

import numpy as np
from scipy.special import expit, logit

from fieldcal.core.policy import POLICY
from fieldcal.core.reweight import Step, class_weights, taken
from fieldcal.types import Floats

#: Prevalences of the second class that are tried; closer to each other near 0 and 1.
_TRIED = expit(np.linspace(-7.0, 7.0, 141))
#: Trusts with which a field may have been recalibrated.
_TRUSTS = (1.0, 0.75, 0.5)
#: Bins without which a fault cannot be distinguished from a mixture.
FEWEST_BINS = 4
#: Up to so many classes all their orders are tried.
_ALL_ORDERS = 5
#: Gain of log likelihood by which a fault must explain a field better than any mixture does: the odds of a likelihood
#: ratio, which noise alone reaches with at most their inverse as probability.
CLEARLY_BETTER = float(-np.log(POLICY.beyond_doubt))
#: Gain from which no doubt is left: odds of a million to one.
CERTAIN = 2 * CLEARLY_BETTER
#: Faults that are less likely than the likeliest by no more than this are named with it.
_AS_LIKELY = float(-np.log(POLICY.contradicts))
#: The same as a share of the gain: distributions between the edges of bins are known about as well as this.
_INTERPOLATED = 0.1
_FEW, _TINY, _FAR = 1e-12, 1e-300, 40.0
_SUM = 1e3  # how much it counts that prevalences sum to one
_ROUNDS = 50  # until recalibrated predictions have the mean that is asked for
_HALVINGS = 50  # until a threshold is found
_SCORES = np.arange(1, 100) / 100  # that are compared between groups
_ALIKE = 1e-9


# How well the lab separates ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Separation:
    """Of two classes from each other, for every pair of them."""

    pairs: tuple[tuple[int, int], ...]
    auc: Floats  # area under the curve of their predictions, from bins: ties count half
    error: Floats  # standard errors


def separation(F: Floats, bin_means: Floats) -> Separation:
    """Every pair of classes, in the order of what the mean predictions of the bins say of the two alone.

    References
    ----------
    DeLong, E., DeLong, D. and Clarke-Pearson, D. (1988). Comparing the areas under two or more correlated receiver
    operating characteristic curves. Biometrics 44.
    """
    pairs = tuple(combinations(range(len(F)), 2))
    found = []
    for a, b in pairs:
        odds = bin_means[:, b] / np.maximum(bin_means[:, a] + bin_means[:, b], _FEW)
        rank = np.unique(odds, return_inverse=True)[1]  # bins of one mean are tied
        low, high = (np.bincount(rank, weights=F[k]) for k in (a, b))
        won = (low.cumsum() - low / 2) / low.sum()  # how many of the one class a row of the other beats
        lost = 1 - (high.cumsum() - high / 2) / high.sum()
        auc = float(high @ won / high.sum())
        variance = high @ (won - auc) ** 2 / high.sum() ** 2 + low @ (lost - auc) ** 2 / low.sum() ** 2
        found.append((auc, float(np.sqrt(variance))))
    auc, error = np.array(found).T
    return Separation(pairs, auc, error)


# What a correction does to hard decisions, and to groups ------------------------------------------------------


@dataclass(frozen=True)
class HardDecisions:
    """What is decided where the largest prediction decides."""

    rows: Floats  # (K,) of each class, in the whole field
    shares: Floats  # (K, K) of the rows of a class, those for which each class is decided
    recall: Floats  # (G, K) of each group

    @property
    def misses(self) -> Floats:
        """Of the rows of each class, those decided for another (type II), (K,)."""
        return np.asarray(1 - np.diag(self.shares))

    @property
    def false_alarms(self) -> Floats:
        """Of the rows of other classes, those decided for each (type I), (K,)."""
        wrong = self.rows @ self.shares - self.rows * np.diag(self.shares)
        return np.asarray(wrong / np.maximum(self.rows.sum() - self.rows, _TINY))


def hard_decisions(
    M: Floats, bin_means: Floats, steps: tuple[Step, ...], *, rows: Floats, edges: Floats | None = None
) -> HardDecisions:
    """Decisions after the steps, in a field with so many rows of each class, (G, K).

    Two classes with the edges of their bins: a threshold for each group, and the shares beyond it, interpolated inside
    its bin. Otherwise a bin is decided as a whole, by its mean prediction.
    """
    K, recall = len(M), np.empty(rows.shape)
    decided, chunk = np.zeros((K, K)), max(1, 2_000_000 // bin_means.size)
    for start in range(0, len(rows), chunk):
        part = slice(start, start + chunk)
        here = tuple(step.of(part) for step in steps)
        shares = (
            _by_bin(M, bin_means, here, len(rows[part]))
            if edges is None
            else _by_threshold(M, bin_means, edges, here, len(rows[part]))
        )
        recall[part] = np.einsum("gkk->gk", shares)
        decided += np.einsum("gi,gid->id", rows[part], shares)
    total = rows.sum(axis=0)
    return HardDecisions(total, decided / np.maximum(total, _TINY)[:, None], recall)


def _by_bin(M: Floats, bin_means: Floats, steps: tuple[Step, ...], G: int) -> Floats:
    """Shares of each group, (G, K, K)."""
    largest = taken(steps, np.broadcast_to(bin_means, (G, *bin_means.shape))).argmax(axis=2)
    return np.asarray(np.einsum("ij,gjd->gid", M, np.eye(len(M))[largest]))


def _by_threshold(M: Floats, bin_means: Floats, edges: Floats, steps: tuple[Step, ...], G: int) -> Floats:
    """The same of two classes: where the steps take a score across one half is found by halving."""
    low, high = np.zeros(G), np.ones(G)
    for _ in range(_HALVINGS):
        middle = new = (low + high) / 2
        for step in steps:
            new = step.apply_binary(new)
        low, high = np.where(new > 0.5, low, middle), np.where(new > 0.5, middle, high)
    below = _below(high, M, bin_means[:, 1], edges)
    return np.stack([below, 1 - below], axis=2)


def _below(score: Floats, M: Floats, bin_means: Floats, edges: Floats) -> Floats:
    """Of each class, the share of rows with lower scores, (G, 2).

    Inside a bin from 0 to 1 the distribution is taken to be ``u ↦ u^(μ / (1 − μ))``, whose mean is the bin's, μ.
    """
    ends = np.concatenate([[0.0], edges, [1.0]])
    at = np.searchsorted(edges, score)
    start, width = ends[at], np.maximum(np.diff(ends), _FEW)
    inside = np.clip((score - start) / width[at], 0.0, 1.0)
    mean = np.clip((bin_means - ends[:-1]) / width, _FEW, 1 - _FEW)[at]
    part = inside ** (mean / (1 - mean))
    return np.asarray((M.cumsum(axis=1) - M)[:, at] + M[:, at] * part).T


@dataclass(frozen=True)
class Unequal:
    """One prediction that two groups are given different ones for."""

    of: int  # the class
    before: float  # its prediction
    groups: tuple[int, int]
    after: tuple[float, float]  # in these groups, the lower first


def most_unequal(steps: tuple[Step, ...], bin_means: Floats) -> Unequal | None:
    """The largest difference that the steps make between groups for the same prediction; None where they make none.

    Of two classes any score may be it, of more the mean predictions of the bins. It is looked for among the groups
    whose weight of a class is the lowest or the highest, where it is if there are two classes.
    """
    own = [step.weights for step in steps if step.weights.ndim == 2 and len(step.weights) > 1]
    if not own:
        return None
    K = bin_means.shape[1]
    weights = own[-1] / own[-1].sum(axis=1, keepdims=True)
    groups = np.unique([weights.argmin(axis=0), weights.argmax(axis=0)])
    same = np.column_stack([1 - _SCORES, _SCORES]) if K == 2 else bin_means
    new = taken((step.of(groups) for step in steps), np.broadcast_to(same, (len(groups), *same.shape)))
    apart = np.ptp(new, axis=0)
    apart[:, 0] = -1.0 if K == 2 else apart[:, 0]  # of two classes the second is spoken of
    at, k = (int(i) for i in np.unravel_index(apart.argmax(), apart.shape))
    if apart[at, k] <= _ALIKE:
        return None
    ends = int(new[:, at, k].argmin()), int(new[:, at, k].argmax())
    low, high = (float(new[g, at, k]) for g in ends)
    return Unequal(k, float(same[at, k]), (int(groups[ends[0]]), int(groups[ends[1]])), (low, high))


# Two classes: faults against mixtures -----------------------------------------------------------------------


@dataclass(frozen=True)
class Suspicion:
    """A fault, and how much better than any mixture of the classes it explains the field."""

    fault: str
    gain: float  # of log likelihood, the noise of the lab allowed for
    effect: float  # Cohen's w by which the field still misses what the fault would give
    prevalence: float  # of the second class, if the fault is real
    by_group: bool = False  # whether every group was looked at by itself


@dataclass(frozen=True)
class Scores:
    """How the score of two classes is distributed in the lab, given the class, and the field's histograms."""

    M: Floats  # (2, m)
    rows: Floats  # (2,) lab rows behind it
    p_lab: Floats  # (2,) prevalences in the lab: by weight, where rows have weights
    edges: Floats  # (m − 1,) inside (0, 1)
    V: Floats  # (G, m)

    @cached_property
    def total(self) -> Floats:
        """The field as one population, (1, m)."""
        return np.asarray(self.V.sum(axis=0, keepdims=True))

    @cached_property
    def mixtures(self) -> Floats:
        """What the field looks like without any fault, for every prevalence tried, (P, m)."""
        return _mix(self.M)

    def after(self, before: Floats, *, falling: bool = False) -> Floats:
        """The same where a fault brought these logits, (…, m − 1), to where the edges are."""
        before = np.clip(before, -_FAR, _FAR)
        cdf = np.stack([curve(before) for curve in self._curves], axis=-2)
        cdf = 1 - cdf if falling else cdf
        ends = np.zeros((*cdf.shape[:-1], 1))
        return _mix(np.diff(np.concatenate([ends, cdf, ends + 1], axis=-1)))

    @cached_property
    def _curves(self) -> list[Callable[[Floats], Floats]]:
        """The distribution function of each class in the lab, as a function of logits."""
        known = np.clip(self.M.cumsum(axis=1)[:, :-1], _FEW, 1 - _FEW)
        return [_through(logit(self.edges), logit(row)) for row in known]

    def compare(self, fault: str, Q: Floats, *, by_group: bool = False) -> Suspicion:
        """A fault that would give the histograms Q (P, m), one for each prevalence tried."""
        V = self.V if by_group else self.total
        ours, theirs = _loglik(V, self.mixtures), _loglik(V, Q)
        gain = float((theirs.max(axis=1) - ours.max(axis=1)).sum())
        best = [float(_TRIED[int(found.sum(axis=0).argmax())]) for found in (ours, theirs)]
        noise = max(self._noise(p) for p in best)
        effect = self._effect(V, Q[theirs.argmax(axis=1)], noise)
        return Suspicion(fault, gain / noise, effect, best[1], by_group)

    def most(self, *, by_group: bool) -> float:
        """The most that any fault could gain: the field's own histograms in place of the nearest mixtures."""
        V = self.V if by_group else self.total
        own = V * np.log(np.maximum(V / np.maximum(V.sum(axis=1, keepdims=True), _FEW), _FEW))
        ours = _loglik(V, self.mixtures)
        p = float(_TRIED[int(ours.sum(axis=0).argmax())])
        return float(own.sum() - ours.max(axis=1).sum()) / self._noise(p)

    def _noise(self, p: float) -> float:
        """How much larger the variance of a histogram is than by the field's rows alone, at most: M is estimated."""
        return 1 + float(self.V.sum()) * float(max((1 - p) / self.rows[0], p / self.rows[1]))

    def _effect(self, V: Floats, Q: Floats, noise: float) -> float:
        n = V.sum(axis=1)
        distance = np.square(V / np.maximum(n, _FEW)[:, None] - Q) / np.maximum(Q, _FEW)
        by_chance = len(V) * (V.shape[1] - 2) + noise - 1
        return float(np.sqrt(max(n @ distance.sum(axis=1) - by_chance, 0.0) / max(n.sum(), _FEW)))


def suspicions(scores: Scores, *, grouped: bool) -> tuple[Suspicion, ...]:
    """Faults that explain the field clearly better than any mixture, the likeliest first; none in most fields.

    A field recalibrated by group is looked at by group, all other faults in the field as a whole.
    """
    most = max(scores.most(by_group=by_group) for by_group in {False, grouped})
    if scores.M.shape[1] < FEWEST_BINS or not scores.V.sum() or most < CLEARLY_BETTER:
        return ()
    found = [swapped(scores), other_units(scores)]
    found.append(max((recalibrated(scores, by_group=g) for g in {False, grouped}), key=lambda s: s.gain))
    best = max(suspicion.gain for suspicion in found)
    least = max(CLEARLY_BETTER, best - max(_AS_LIKELY, _INTERPOLATED * best))
    likely = [suspicion for suspicion in found if suspicion.gain >= least and _fits(scores, suspicion)]
    return tuple(sorted(likely, key=lambda s: -s.gain))


def _fits(scores: Scores, suspicion: Suspicion) -> bool:
    """A fault that explains most of the misfit, of the field and of its groups; else it is none of those known here."""
    ways = (False, True) if suspicion.by_group else (False,)
    without = min(scores.compare("none", scores.mixtures, by_group=way).effect for way in ways)
    return suspicion.effect < min(POLICY.large_effect, POLICY.fault_leaves * without)


def swapped(scores: Scores) -> Suspicion:
    """The field's score is that of the first class."""
    return scores.compare("swapped", scores.after(-logit(scores.edges), falling=True))


def recalibrated(scores: Scores, *, by_group: bool) -> Suspicion:
    """The field's scores were already reweighted by its own prevalences, in full or with a trust; the likeliest."""
    odds = np.exp(logit(_TRIED) - logit(scores.p_lab[1]))[:, None]
    return max(
        (
            scores.compare(
                "recalibrated", scores.after(logit(_before(scores.edges, odds, trust))), by_group=by_group
            )
            for trust in _TRUSTS
        ),
        key=lambda suspicion: suspicion.gain,
    )


def _before(score: Floats, odds: Floats, trust: float) -> Floats:
    """The score c that ``(1 − ω) c + ω · reweight(c)`` made this one: a quadratic equation."""
    a = (1 - trust) * (odds - 1)
    b = (1 - trust) + trust * odds - score * (odds - 1)
    return np.asarray(2 * score / (b + np.sqrt(b**2 + 4 * a * score)))


def other_units(scores: Scores) -> Suspicion:
    """The field's scores were divided by 100."""
    with np.errstate(divide="ignore"):
        return scores.compare("other_units", scores.after(logit(np.minimum(100 * scores.edges, 1.0))))


def _mix(M: Floats) -> Floats:
    """The histograms of all prevalences that are tried, (P, m)."""
    return np.asarray((1 - _TRIED)[:, None] * M[..., 0, :] + _TRIED[:, None] * M[..., 1, :])


def _loglik(V: Floats, Q: Floats) -> Floats:
    """Of every histogram under every mixture, (G, P)."""
    return np.asarray(V @ np.log(np.maximum(Q, _FEW)).T)


def _through(x: Floats, y: Floats) -> Callable[[Floats], Floats]:
    """A distribution function that is known at x, as logits: monotone between them, straight lines beyond.

    Where both axes are logits, normal scores lie near a line, and tails go on as they were.
    """
    first, last = (y[1] - y[0]) / (x[1] - x[0]), (y[-1] - y[-2]) / (x[-1] - x[-2])
    from scipy.interpolate import PchipInterpolator

    inside = PchipInterpolator(x, y)

    def curve(at: Floats) -> Floats:
        beyond = np.minimum(at - x[0], 0) * first + np.maximum(at - x[-1], 0) * last
        return np.asarray(expit(inside(np.clip(at, x[0], x[-1])) + beyond))

    return curve


# More classes: decisions against mean predictions -----------------------------------------------------------


@dataclass(frozen=True)
class Disagreement:
    """Decisions and mean predictions that no one mix of the classes explains, and faults that would."""

    given: float  # distance from the nearest mixture
    order: tuple[int, ...]  # of the columns, in which least is left
    reordered: float  # what is left in that order
    prevalence: Floats  # (K,) to which predictions would have been recalibrated
    recalibrated: float  # what is left if they were

    def explained_by(self, left: float) -> bool:
        """Whether a fault that leaves this much explains it, and no other does so clearly better."""
        best = min(self.reordered, self.recalibrated)
        return left < POLICY.fault_leaves * self.given and left < best + POLICY.disagree


def disagreement(
    M: Floats, bin_means: Floats, *, p_lab: Floats, v: Floats, mean: Floats
) -> Disagreement | None:
    """What is decided, and what is predicted on average, both follow from the prevalences; None where they agree.

    They are known for any order of the columns: all orders of a few classes are tried; of more, two change places as
    long as that helps. They are known, bins decided as a whole, for predictions that were recalibrated before, too.

    Parameters
    ----------
    M, bin_means, p_lab : (K, m), (m, K), (K,)
    v, mean : the field's histogram (m,), and its mean prediction (K,)
    """
    K, top = len(M), bin_means.argmax(axis=1)
    decided = np.array([np.bincount(top, weights=row, minlength=K) for row in (*M, v / v.sum())])
    expected = np.hstack([decided[:-1], M @ bin_means])

    def apart(order: tuple[int, ...]) -> float:
        at = list(order)
        return _distance(expected, np.append(decided[-1, at], mean[at]))

    same = tuple(range(K))
    given = apart(same)
    if given < POLICY.disagree:
        return None
    order = min(permutations(same), key=apart) if K <= _ALL_ORDERS else _descended(same, apart)
    tried = [_as_recalibrated(M, bin_means, p_lab, mean, trust) for trust in _TRUSTS]
    left = [float(np.linalg.norm(np.append(decided[-1], mean) - found)) for _, found in tried]
    best = int(np.argmin(left))
    return Disagreement(given, order, apart(order), tried[best][0], left[best])


def _as_recalibrated(
    M: Floats, bin_means: Floats, p_lab: Floats, mean: Floats, trust: float
) -> tuple[Floats, Floats]:
    """The prevalences with which recalibrated predictions have this mean, and decisions and mean as they then are."""
    p = np.maximum(mean, _FEW)
    for _ in range(_ROUNDS):
        p = p / p.sum()
        new = taken((Step(trust, class_weights(p, p_lab)),), bin_means)
        h = p @ M
        p = p * mean / np.maximum(h @ new, _FEW)
    return p, np.append(np.bincount(new.argmax(axis=1), weights=h, minlength=len(M)), h @ new)


def _descended(order: tuple[int, ...], cost: Callable[[tuple[int, ...]], float]) -> tuple[int, ...]:
    """Two places are exchanged as long as that helps."""
    for _ in order:
        following = min((_exchanged(order, a, b) for a, b in combinations(order, 2)), key=cost)
        if cost(following) >= cost(order):
            break
        order = following
    return order


def _exchanged(order: tuple[int, ...], a: int, b: int) -> tuple[int, ...]:
    return tuple({a: b, b: a}.get(k, k) for k in order)


def _distance(rows: Floats, to: Floats) -> float:
    """From a point to the nearest mixture of the rows."""
    from scipy.optimize import nnls

    _, distance = nnls(np.vstack([rows.T, np.full(len(rows), _SUM)]), np.append(to, _SUM))
    return float(distance)
