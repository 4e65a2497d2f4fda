"""Do 90 % intervals cover 90 %? ``python benchmarks/coverage.py [--replicas 400] [--quapy]``

Scores of the paper's quantification experiment. Lab 200 and 2,000 rows, field 500 rows, prevalence .05, .3 and .5, two
and three classes; field labels are drawn, so the truth is the prevalence they are drawn from. Contrasts of two groups
are compared with what the two groups' own intervals would imply. QuaPy's bootstrap is run on a part of the replicas.
``--weights`` runs only fields of unequal weights and of clusters (without a design effect these are meant to miss).

At the edge: a class that is absent from the field, and one of 1 % whose odds fall to a quarter (lab 3,000 rows, field
1,000, two and five classes). There an interval that reaches 0 covers more often than it says: only too little counts.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

import fieldcal

FIELD = 500
PREVALENCES = (0.05, 0.3, 0.5)
#: From a generator and the second class's scores: which rows are in the sample, and their weights.
Weigh = Callable[[np.random.Generator, np.ndarray], tuple[np.ndarray, np.ndarray]]
QUARTER = 0.01 / (0.01 + 4 * 0.99)  # 1 % with its odds divided by four


def pool(n_classes: int, seed: int) -> tuple[LogisticRegression, np.ndarray, np.ndarray]:
    """A classifier and the rest of its pool."""
    informative = 2 if n_classes == 2 else 4
    X, y = make_classification(
        n_samples=24_000,
        n_features=informative + 2,
        n_informative=informative,
        n_redundant=0,
        n_classes=n_classes,
        class_sep=0.4 if n_classes == 2 else 0.8,
        flip_y=0.1,
        random_state=seed,
    )
    model = LogisticRegression(max_iter=1000).fit(X[:2000], y[:2000])
    return model, model.predict_proba(X[2000:]), y[2000:]


def draw(rng: np.random.Generator, y: np.ndarray, p: np.ndarray, n: int, used: np.ndarray) -> np.ndarray:
    """Rows with labels drawn from p, none of them used before."""
    labels = rng.choice(len(p), size=n, p=p)
    rows = np.empty(n, dtype=int)
    for k in range(len(p)):
        free = np.flatnonzero((y == k) & ~used)
        rows[labels == k] = rng.choice(free, size=int((labels == k).sum()), replace=False)
    used[rows] = True
    return rows


def field_prevalence(n_classes: int, prevalence: float) -> np.ndarray:
    """The last class has the prevalence; the others share the rest."""
    return np.append(np.full(n_classes - 1, (1 - prevalence) / (n_classes - 1)), prevalence)


def hits(seed: int, p_lab: np.ndarray, truth: np.ndarray, *, lab_rows: int, field_rows: int) -> np.ndarray:
    """Which classes of one population have their prevalence inside the interval."""
    K = len(truth)
    rng = np.random.default_rng([seed, K, lab_rows])
    _, proba, y = pool(K, seed)
    used = np.zeros(len(y), dtype=bool)
    lab_at = draw(rng, y, p_lab, lab_rows, used)
    field_at = draw(rng, y, truth, field_rows, used)
    lab = fieldcal.learn(proba[lab_at], y[lab_at])
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba[field_at]), trust=1, random_state=seed)
    return (prev.lower[0] <= truth) & (truth <= prev.upper[0])


def one_population(n_classes: int, lab_rows: int, prevalence: float, replicas: int) -> list[bool]:
    inside = []
    truth = field_prevalence(n_classes, prevalence)
    for seed in range(replicas):
        hit = hits(seed, np.full(n_classes, 1 / n_classes), truth, lab_rows=lab_rows, field_rows=FIELD)
        inside += [bool(hit[1])] if n_classes == 2 else hit.tolist()
    return inside


def at_the_edge(n_classes: int, lab_share: float, field_share: float, replicas: int) -> float:
    """Coverage of the last class alone."""
    p_lab, truth = (field_prevalence(n_classes, share) for share in (lab_share, field_share))
    return float(
        np.mean([hits(seed, p_lab, truth, lab_rows=3000, field_rows=1000)[-1] for seed in range(replicas)])
    )


def contrasts(lab_rows: int, replicas: int) -> tuple[float, float]:
    """Coverage of the difference of two groups, and its width over what independent marginals imply."""
    inside, ratio = [], []
    for seed in range(replicas):
        rng = np.random.default_rng([seed, lab_rows, 7])
        _, proba, y = pool(2, seed)
        used = np.zeros(len(y), dtype=bool)
        lab_at = draw(rng, y, np.array([0.5, 0.5]), lab_rows, used)
        a, b = (draw(rng, y, np.array([1 - p, p]), FIELD, used) for p in (0.15, 0.3))
        lab = fieldcal.learn(proba[lab_at], y[lab_at])
        field = fieldcal.count(lab, proba[np.append(a, b)], groups=np.repeat(["a", "b"], FIELD))
        prev = fieldcal.estimate(lab, field, trust=1, random_state=seed)
        difference = prev.contrast("b", "a")
        inside.append(difference.lower <= 0.15 <= difference.upper)
        alone = np.sqrt(((prev.upper - prev.lower)[:, 1] ** 2).sum())
        ratio.append((difference.upper - difference.lower) / alone)
    return float(np.mean(inside)), float(np.mean(ratio))


def lognormal(rng: np.random.Generator, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights that have nothing to do with the rows."""
    return np.arange(len(scores)), rng.lognormal(size=len(scores))


def ones_and_tenths(rng: np.random.Generator, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The same, of two sizes."""
    return np.arange(len(scores)), np.where(rng.random(len(scores)) < 0.3, 1.0, 0.1)


def oversampled(rng: np.random.Generator, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """High scores are in the sample, of low ones a fifth, which weigh five times as much."""
    share = np.where(scores > 0.5, 1.0, 0.2)
    kept = np.flatnonzero(rng.random(len(scores)) < share)
    return kept, 1 / share[kept]


def undersampled(rng: np.random.Generator, scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The other way round, which is hard on the rarer class."""
    return oversampled(rng, 1 - scores)


def weighted(weigh: Weigh, prevalence: float, replicas: int, *, lab_too: bool = False) -> list[bool]:
    """One population whose rows have unequal weights; with ``lab_too`` those of the lab as well."""
    inside = []
    for seed in range(replicas):
        rng = np.random.default_rng([seed, 11])
        _, proba, y = pool(2, seed)
        used = np.zeros(len(y), dtype=bool)
        lab_at = draw(rng, y, np.array([0.5, 0.5]), 2000, used)
        field_at = draw(rng, y, np.array([1 - prevalence, prevalence]), FIELD, used)
        kept, weight = weigh(rng, proba[field_at, 1])
        lab_weight = rng.lognormal(size=len(lab_at)) if lab_too else None
        lab = fieldcal.learn(proba[lab_at], y[lab_at], sample_weight=lab_weight)
        field = fieldcal.count(lab, proba[field_at[kept]], sample_weight=weight)
        prev = fieldcal.estimate(lab, field, trust=1, random_state=seed)
        inside.append(bool(prev.lower[0, 1] <= prevalence <= prev.upper[0, 1]))
    return inside


def clustered(size: int, design_effect: float, prevalence: float, replicas: int) -> list[bool]:
    """One population in which every row is there ``size`` times."""
    inside = []
    for seed in range(replicas):
        rng = np.random.default_rng([seed, 13])
        _, proba, y = pool(2, seed)
        used = np.zeros(len(y), dtype=bool)
        lab_at = draw(rng, y, np.array([0.5, 0.5]), 2000, used)
        field_at = draw(rng, y, np.array([1 - prevalence, prevalence]), FIELD, used)
        lab = fieldcal.learn(proba[lab_at], y[lab_at])
        field = fieldcal.count(lab, np.repeat(proba[field_at], size, axis=0))
        prev = fieldcal.estimate(lab, field, trust=1, design_effect=design_effect, random_state=seed)
        inside.append(bool(prev.lower[0, 1] <= prevalence <= prev.upper[0, 1]))
    return inside


def weights_and_clusters(replicas: int) -> None:
    """Rows that say less than rows."""
    for prevalence in PREVALENCES[:2]:
        for weigh in (lognormal, ones_and_tenths, oversampled, undersampled):
            inside = weighted(weigh, prevalence, replicas)
            name = weigh.__name__.replace("_", " ")
            title = f"weights {name}, prevalence {prevalence}"
            report(title, float(np.mean(inside)), len(inside), least=0.86, most=1.0)
        inside = weighted(lognormal, prevalence, replicas, lab_too=True)
        title = f"weights lognormal in the lab too, prevalence {prevalence}"
        report(title, float(np.mean(inside)), len(inside), least=0.86, most=1.0)
        for effect in (5.0, 1.0):
            inside = clustered(5, effect, prevalence, replicas)
            title = f"clusters of 5, design effect {effect:g}, prevalence {prevalence}"
            report(title, float(np.mean(inside)), len(inside), least=0.86, most=1.0)


def quapy_bootstrap(lab_rows: int, prevalence: float, replicas: int) -> tuple[float, float]:
    """Coverage and share of zero-width intervals of QuaPy's bootstrap around ACC, on the same draws."""
    from quapy.data import LabelledCollection
    from quapy.method.aggregative import ACC
    from quapy.method.confidence import AggregativeBootstrap

    inside, empty = [], []
    truth = field_prevalence(2, prevalence)
    for seed in range(replicas):
        rng = np.random.default_rng([seed, 2, lab_rows])
        model, proba, y = pool(2, seed)
        used = np.zeros(len(y), dtype=bool)
        lab_at = draw(rng, y, np.full(2, 0.5), lab_rows, used)
        field_at = draw(rng, y, truth, FIELD, used)
        bootstrap = AggregativeBootstrap(
            ACC(model, fit_classifier=False), n_test_samples=200, confidence_level=0.9
        )
        bootstrap.aggregation_fit(
            model.classes_[proba[lab_at].argmax(axis=1)], LabelledCollection(proba[lab_at], y[lab_at]).labels
        )
        _, region = bootstrap.aggregate_conf(model.classes_[proba[field_at].argmax(axis=1)])
        lower, upper = np.quantile(region.samples[:, 1], [0.05, 0.95])
        inside.append(lower <= prevalence <= upper)
        empty.append(upper - lower < 1e-9)
    return float(np.mean(inside)), float(np.mean(empty))


def report(title: str, share: float, n: int, *, least: float = 0.87, most: float = 0.93) -> None:
    error = np.sqrt(share * (1 - share) / n)
    verdict = "met" if least <= share <= most else "MISSED"
    bar = f"{least:.2f} to {most:.2f}" if most < 1 else f"at least {least:.2f}"
    print(f"{title:58} {share:.3f} ± {error:.3f}  ({bar}) {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replicas", type=int, default=400)
    parser.add_argument("--quapy", action="store_true")
    parser.add_argument("--weights", action="store_true", help="only unequal weights and clusters")
    options = parser.parse_args()
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    warnings.filterwarnings("ignore", module="quapy")
    if options.weights:
        weights_and_clusters(options.replicas)
        return
    for n_classes in (2, 3):
        for lab_rows in (200, 2000):
            for prevalence in PREVALENCES:
                inside = one_population(n_classes, lab_rows, prevalence, options.replicas)
                report(
                    f"K = {n_classes}, lab {lab_rows}, prevalence {prevalence}",
                    float(np.mean(inside)),
                    len(inside),
                )
                if options.quapy and n_classes == 2:
                    share, empty = quapy_bootstrap(lab_rows, prevalence, min(options.replicas, 60))
                    print(
                        f"{'':10}QuaPy's bootstrap of ACC: {share:.3f}, zero width in {empty:.0%}", flush=True
                    )
    for lab_rows in (200, 2000):
        replicas = 5 * options.replicas // 2  # one interval a replica: more of them for the same error
        share, ratio = contrasts(lab_rows, replicas)
        report(f"contrast of two groups, lab {lab_rows}", share, replicas)
        print(f"{'':10}width over that of independent groups: {ratio:.2f}")
    for n_classes in (2, 5):
        for title, lab_share, field_share in (
            ("a class absent from the field", 1 / n_classes, 0.0),
            ("a class of 1 %, absent from the field", 0.01, 0.0),
            ("a class of 1 %, odds divided by four", 0.01, QUARTER),
        ):
            share = at_the_edge(n_classes, lab_share, field_share, options.replicas)
            report(f"K = {n_classes}, {title}", share, options.replicas, least=0.86, most=1.0)


if __name__ == "__main__":
    main()
