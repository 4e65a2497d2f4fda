"""Groups of the real world: does recalibration per group help, and who should not be trusted?

    python experiments/real_groups.py [--quick] [--out DIR] [--jobs N]

Rodents of the Portal project by trap plot: the species causes the measurements, the plots differ in their species, the
assumption is plausible. Flights from New York by destination: what makes flights late differs from one destination to
the other, so that the classifier is biased there, and the assumption is broken. Lab and field are drawn from the same
years and months (random), or the field comes from later ones (moved). Several random splits; the classifier never sees
the group.

Methods: raw; global, one estimate for the whole field; local, every group on its own with a flat prior, by the mode of
the posterior (maximum likelihood, as in the paper) or its mean; pooled, fieldcal with trust 1; trusted, fieldcal as it
comes; oracle, the true prevalences of every group.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import pandas as pd
import paper
from harness import HERE, Cell, Row, Study, command
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import accuracy_score
from tell import COLOURS, Claim, claims, markdown, mean_error, plain, standard_error

import fieldcal
from fieldcal import metrics
from fieldcal.datasets import portal

REPLICAS = 10
RANDOM, MOVED = "random", "moved"
#: For the log loss no prediction is nearer to 0, before and after: an estimate of exactly 0 makes certain predictions.
CERTAIN = 1e-6
#: Field rows of a group whose prevalence is judged.
SMALLEST = 50
RAW, ORACLE = "raw", "oracle"
#: How to estimate, and whether per group.
METHODS: dict[str, tuple[dict[str, Any], bool]] = {
    "global": ({"trust": 1}, False),
    "local (mode)": (paper.ESTIMATE, True),
    "local (mean)": ({"prior": "flat", "trust": 1}, True),
    "pooled": ({"trust": 1}, True),
    "trusted": ({}, True),
}
CAPTION = (
    "Not in the paper, whose groups are dealt at random: real groups, where nobody knows whether the "
    "assumption holds. Dots are the change of log loss against raw, bars two standard errors over the "
    "splits."
)
OURS = "not in the paper"
ORDER = (*METHODS, ORACLE)
#: In the figure all but the mode: its certain predictions are so costly that nothing else could be seen.
SHOWN = tuple(method for method in ORDER if method != "local (mode)")
MEASURES = {
    "log_loss": "log loss",
    "brier": "Brier score",
    "accuracy": "accuracy",
    "prevalence": "prevalence MAE",
}

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


@dataclass(frozen=True)
class Data:
    """Features, classes as codes, groups, and which rows come early."""

    features: pd.DataFrame
    y: Codes
    groups: NDArray[Any]
    early: NDArray[np.bool_]


@cache
def captures() -> Data:
    """Species of rodents by trap plot; lab until 1987, field from 1988 on."""
    found = portal()
    features = pd.DataFrame(
        {
            "hindfoot_length": found.hindfoot_length,
            "weight": found.weight,
            "female": found.sex == "F",
            "male": found.sex == "M",
            "month": found.month,
        }
    )
    return Data(features, np.unique(found.species, return_inverse=True)[1], found.plot, found.year <= 1987)


@cache
def flights() -> Data:
    """Late arrivals by destination; lab until June, field from July on. The month itself is no feature."""
    found = pd.read_parquet(HERE / "data" / "flights.parquet")
    features = found.drop(columns=["month", "dest", "late"])
    dest = found.dest.astype(str).to_numpy(dtype=str)
    return Data(features, found.late.to_numpy(np.intp), dest, (found.month <= 6).to_numpy())


SOURCES = {"Portal captures by plot": captures, "flights by destination": flights}


def study(*, quick: bool = False) -> Study:
    """Every data set, kind of field and split is a cell."""
    replicas, share, trees = (1, 0.1, 8) if quick else (REPLICAS, 1.0, 60)
    cells = [
        {"data": data, "field": field, "replica": replica}
        for data in SOURCES
        for field in (RANDOM, MOVED)
        for replica in range(replicas)
    ]
    settings = {
        "replicas": replicas,
        "share": share,
        "trees": trees,
        "certain": CERTAIN,
        "smallest": SMALLEST,
    }
    run = partial(run_cell, share=share, trees=trees)
    caption = {"real_groups": CAPTION}
    return Study("real_groups", "Real groups", settings, cells, run, figures, summary, captions=caption)


def run_cell(cell: Cell, *, share: float, trees: int) -> list[Row]:
    """One split: train, predict lab and field, and recalibrate in every way."""
    data = SOURCES[cell["data"]]()
    rng = np.random.default_rng(cell["replica"])
    train, lab, field = split(data, cell["field"], rng, share)
    model = HistGradientBoostingClassifier(
        max_iter=trees,
        max_leaf_nodes=15,
        min_samples_leaf=30,
        categorical_features="from_dtype",
        random_state=0,
    ).fit(data.features.iloc[train], data.y[train])
    # Who is unknown to the classifier cannot be predicted: such rows are left out of lab and field.
    lab, field = (rows[np.isin(data.y[rows], model.classes_)] for rows in (lab, field))
    y = np.searchsorted(model.classes_, data.y)
    proba = {
        name: model.predict_proba(data.features.iloc[rows]) for name, rows in (("lab", lab), ("field", field))
    }
    learnt = fieldcal.learn(proba["lab"], y[lab], groups=data.groups[lab], classes=range(len(model.classes_)))
    ways = {
        RAW: proba["field"],
        **{m: applied(learnt, proba["field"], data.groups[field], m) for m in METHODS},
    }
    ways[ORACLE] = oracle(learnt, proba["field"], data.groups[field], y[field])
    return [{"method": m, **scores(new, y[field], data.groups[field])} for m, new in ways.items()]


def split(data: Data, kind: str, rng: np.random.Generator, share: float) -> tuple[Codes, Codes, Codes]:
    """Rows for training, lab and field: 40, 30 and 30 % of all; or 60 and 40 % of the early ones, and the others."""
    rows = rng.permutation(len(data.y))[: int(share * len(data.y))]
    if kind == RANDOM:
        first, second = int(0.4 * len(rows)), int(0.7 * len(rows))
        return rows[:first], rows[first:second], rows[second:]
    early, late = rows[data.early[rows]], rows[~data.early[rows]]
    first = int(0.6 * len(early))
    return early[:first], early[first:], late


def applied(lab: fieldcal.Lab, proba: Floats, groups: NDArray[Any], method: str) -> Floats:
    """Count, estimate, recalibrate."""
    options, grouped = METHODS[method]
    where: dict[str, Any] = {"groups": groups} if grouped else {}
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba, **where), **options)
    return fieldcal.recalibrate(prev, proba, **where)


def oracle(lab: fieldcal.Lab, proba: Floats, groups: NDArray[Any], y: Codes) -> Floats:
    """The known-bias lemma with prevalences that nobody knows: C'_i ∝ C_i · p_i / p_lab_i."""
    group, inside = np.unique(groups, return_inverse=True)
    weighted = proba * shares(y, inside, len(group), proba.shape[1])[inside] / lab.p_lab
    return np.asarray(weighted / weighted.sum(axis=1, keepdims=True))


def shares(y: Codes, inside: Codes, n_groups: int, n_classes: int) -> Floats:
    """The class shares of every group."""
    table = np.zeros((n_groups, n_classes))
    np.add.at(table, (inside, y), 1.0)
    return np.asarray(table / table.sum(axis=1, keepdims=True))


def scores(proba: Floats, y: Codes, groups: NDArray[Any]) -> Row:
    """Log loss, Brier score summed over the classes, accuracy, and how far the mean predictions of groups are off."""
    own = np.clip(proba[np.arange(len(y)), y], CERTAIN, 1.0)
    hit = np.eye(proba.shape[1])[y]
    group, inside = np.unique(groups, return_inverse=True)
    n = np.bincount(inside)
    mean = np.zeros((len(group), proba.shape[1]))
    np.add.at(mean, inside, proba)
    judged = n >= SMALLEST
    apart = metrics.absolute_error(mean / n[:, None], shares(y, inside, len(group), proba.shape[1]))
    return {
        "log_loss": float(-np.log(own).mean()),
        "brier": float(((proba - hit) ** 2).sum(axis=1).mean()),
        "accuracy": float(accuracy_score(y, proba.argmax(axis=1))),
        "prevalence": float(apart[judged].mean()),
    }


def change(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """The difference to raw, one row per split, one column per method."""
    wide = table.pivot_table(index=["data", "field", "replica"], columns="method", values=measure, sort=False)
    return wide[list(ORDER)].sub(wide[RAW], axis=0)


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """Change of log loss against raw, ± two standard errors: a panel per data set and field, a dot per method."""
    figure = Figure(figsize=(8.5, 4.6), layout="constrained")
    axes = figure.subplots(len(SOURCES), 2, sharey=True, squeeze=False)
    found = change(table, "log_loss")
    for (data, field), part in found.groupby(["data", "field"], sort=False):
        ax = axes[list(SOURCES).index(data), (RANDOM, MOVED).index(field)]
        mean, error = part.mean(), part.apply(standard_error)
        ax.axvline(0, color=COLOURS["ink"], linewidth=1)
        for y, method in enumerate(SHOWN):
            colour, marker = (COLOURS["green"], "D") if method == ORACLE else (COLOURS["blue"], "o")
            bar = 2 * error[method]
            ax.errorbar(mean[method], y, xerr=bar, color=colour, marker=marker, capsize=3, linestyle="none")
        ax.set_yticks(range(len(SHOWN)), SHOWN)
        ax.set_ylim(len(SHOWN) - 0.5, -0.5)
        ax.margins(x=0.12)
        ax.locator_params(axis="x", nbins=6)
        plain(ax, x="change of log loss (left is better)", title=f"{data}, {field} field", grid="x")
    return {"real_groups": figure}


def summary(table: pd.DataFrame) -> str:
    """Raw figures and the change by every method, per data set and kind of field."""
    parts = [
        f"{table.replica.nunique()} random splits; ± is a standard error over them, for what the splits change only: "
        f"they share rows. For the log loss no prediction is nearer to 0 than {CERTAIN:g}, before and after. "
        "Brier score: summed over the classes. Prevalence MAE: mean prediction of a group "
        f"against its true shares, over classes and groups of at least {SMALLEST} rows.",
    ]
    changes = {measure: change(table, measure) for measure in MEASURES}
    for (data, field), part in table.groupby(["data", "field"], sort=False):
        raw = part[part.method == RAW]
        lines = [[RAW, *(f"{raw[measure].mean():.4f}" for measure in MEASURES)]]
        for method in ORDER:
            own = [changes[measure].loc[(data, field), method] for measure in MEASURES]
            lines.append([method, *(mean_error(values, digits=4, sign=True) for values in own)])
        header = ["raw, then change", *MEASURES.values()]
        parts += [f"**{data}, {field} field**", markdown(header, lines)]
    return "\n\n".join([*parts, "**Statements**", claims(judge(changes["log_loss"]))])


def judge(changes: pd.DataFrame) -> list[Claim]:
    """What a user wants to know, per data set and kind of field."""
    mean = changes.groupby(["data", "field"], sort=False).mean()
    error = changes.groupby(["data", "field"], sort=False).agg(standard_error)
    worst = mean.trusted.idxmax()
    made = [
        Claim(
            "trusted never makes the log loss worse (within two standard errors)",
            bool((mean.trusted <= 2 * error.trusted).all()),
            f"worst {mean.trusted.max():+.4f}: {worst[0]}, {worst[1]}",
            OURS,
        )
    ]
    for method in ("global", "local (mode)", "local (mean)", "pooled"):
        harmed = mean[method][mean[method] > 2 * error[method]]
        places = ", ".join(f"{data}, {field} {value:+.4f}" for (data, field), value in harmed.items())
        made.append(
            Claim(f"{method} never makes the log loss worse", harmed.empty, places or "no case", OURS)
        )
    return made


if __name__ == "__main__":
    sys.exit(command(study, __doc__))
