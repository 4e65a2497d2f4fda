"""The paper's running example: an entomologist's classifier of beetles and butterflies, taken from forest to meadow.

    python experiments/entomologist.py [--quick] [--out DIR] [--jobs N]

Wings and body are small or large; the classifier says how probable a beetle is for each of the four combinations. It
is calibrated in the forest, where it was trained, and 60 % of the insects are beetles; in the meadow 20 % are. Beetles
look alike in both (the consistency axiom). First exactly, with tables of 1,000 insects, the meadow alone: the
classifier believes in too many beetles there, and the known-bias lemma and URC both put it right (global
recalibration). Then a field of both places, as tables and as samples, estimated as one and by place (local
recalibration). The paper gives no numbers; these are ours.
"""

from __future__ import annotations

import sys
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import paper
from harness import Cell, Row, Study, command
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from sklearn.metrics import brier_score_loss, log_loss
from tell import COLOURS, Claim, claims, markdown, mean_error, plain

import fieldcal

REPLICAS = 200
LAB_ROWS, FIELD_ROWS = 2000, 1000
#: Insects of a thousand in the forest, by (wings, body): butterflies, beetles.
FOREST = {
    "small wings, large body": (40, 360),
    "small wings, small body": (100, 150),
    "large wings, large body": (90, 60),
    "large wings, small body": (170, 30),
}
IN_MEADOW = Fraction(1, 5)
EXACT = 0  # the replica that is the tables themselves
#: A bin for each of the four predictions: .15, .4, .6 and .9.
CUTS = fieldcal.partitions.Edges([0.25, 0.5, 0.75])
MEAN, GLOBAL, LOCAL, DEFAULTS = "mean prediction", "URC, both as one", "URC, by place", "fieldcal, by place"
LOOKS = {
    MEAN: (COLOURS["vermilion"], "s"),
    GLOBAL: (COLOURS["sky"], "o"),
    LOCAL: (COLOURS["ink"], "x"),
    DEFAULTS: (COLOURS["blue"], "^"),
}
CAPTION = (
    "The entomologist's example of the paper's introduction and of its section on local recalibration, "
    "which has neither figure nor numbers. Left, exact: what the classifier says for each kind of insect, "
    "what is true in the meadow, and what URC makes of it. Right: the share of beetles in forest and "
    f"meadow by each method, means and 95 % of {REPLICAS} samples. Same as the paper's: the four kinds, "
    "the classifier calibrated in the forest, 90 % for small wings and a large body, too many beetles "
    "seen in the meadow, the axiom, lemma and algorithm. Not the same: all other numbers are ours."
)

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]


def forest() -> NDArray[Any]:
    """Counts (2, 4) of butterflies and beetles."""
    return np.array([[Fraction(n) for n in kind] for kind in FOREST.values()]).T


def meadow() -> NDArray[Any]:
    """As many insects, with other shares of the classes, each looking as in the forest."""
    counts = forest()
    shares = np.array([1 - IN_MEADOW, IN_MEADOW])
    return counts / counts.sum(axis=1, keepdims=True) * shares[:, None] * counts.sum()


def beetles(counts: NDArray[Any]) -> NDArray[Any]:
    """The share of beetles among insects of each kind: in the forest, what the classifier says."""
    return np.asarray(counts[1] / counts.sum(axis=0))


def known_bias() -> Floats:
    """What the lemma makes of the classifier's predictions once the meadow's share of beetles is known."""
    said = beetles(forest()).astype(float)
    return fieldcal.change_prevalence(said, old=float(base_rate(forest())), new=float(IN_MEADOW))


def rows_of(counts: NDArray[Any]) -> tuple[Floats, Codes]:
    """The insects of a table one by one: what the classifier says, and what they are."""
    said = beetles(forest()).astype(float)
    sizes = counts.astype(int)
    kinds = np.concatenate([np.repeat(np.arange(4), sizes[k]) for k in (0, 1)])
    return said[kinds], np.repeat([0, 1], sizes.sum(axis=1))


def sample(counts: NDArray[Any], n: int, rng: np.random.Generator) -> tuple[Floats, Codes]:
    """So many insects caught at random."""
    shares = (counts / counts.sum()).astype(float)
    return rows_of(rng.multinomial(n, shares.ravel()).reshape(shares.shape))


def study(*, quick: bool = False) -> Study:
    """The tables, and every sample, are a cell."""
    replicas = 5 if quick else REPLICAS
    settings = {
        "replicas": replicas,
        "lab": LAB_ROWS,
        "field": FIELD_ROWS,
        "forest": FOREST,
        "meadow": float(IN_MEADOW),
    }
    cells = [{"replica": replica} for replica in range(replicas + 1)]
    title, captions = "The entomologist's example", {"entomologist": CAPTION}
    return Study("entomologist", title, settings, cells, run_cell, figures, summary, captions=captions)


def run_cell(cell: Cell) -> list[Row]:
    """A lab of the forest; a field of both places, estimated as a whole and by place."""
    rng = np.random.default_rng(cell["replica"])
    exact = cell["replica"] == EXACT
    lab_said, lab_y = rows_of(forest()) if exact else sample(forest(), LAB_ROWS, rng)
    places = {
        place: rows_of(counts) if exact else sample(counts, FIELD_ROWS, rng)
        for place, counts in {"forest": forest(), "meadow": meadow()}.items()
    }
    said = np.concatenate([proba for proba, _ in places.values()])
    y = np.concatenate([truth for _, truth in places.values()])
    place_of = np.repeat(list(places), [len(truth) for _, truth in places.values()])
    lab = fieldcal.learn(lab_said, lab_y, **paper.learn(CUTS))
    usual = fieldcal.learn(lab_said, lab_y)
    ways = {
        GLOBAL: (fieldcal.estimate(lab, fieldcal.count(lab, said), **paper.ESTIMATE), None),
        LOCAL: (
            fieldcal.estimate(lab, fieldcal.count(lab, said, groups=place_of), **paper.ESTIMATE),
            place_of,
        ),
        DEFAULTS: (fieldcal.estimate(usual, fieldcal.count(usual, said, groups=place_of)), place_of),
    }
    new = {MEAN: said} | {
        method: fieldcal.recalibrate(prev, said, groups=groups) for method, (prev, groups) in ways.items()
    }
    rows = []
    for place in places:
        here = place_of == place
        shares = {MEAN: said[here].mean()} | {
            method: share(prev, place) for method, (prev, _) in ways.items()
        }
        rows += [
            {
                "place": place,
                "method": method,
                "truth": float(y[here].mean()),
                "beetles": float(shares[method]),
                "log_loss": float(log_loss(y[here], new[method][here], labels=[0, 1])),
                "brier": float(brier_score_loss(y[here], new[method][here])),
            }
            for method in LOOKS
        ]
    return rows


def share(prev: fieldcal.Prevalence, place: str) -> float:
    """Beetles in a place, or in the whole field where it was not counted by place."""
    groups = list(prev.groups)
    return float(prev.estimate[groups.index(place) if place in groups else 0, 1])


def recalibrated_exactly() -> tuple[float, Floats]:
    """URC by the public functions, on the tables of forest (lab) and meadow (field)."""
    lab_said, y = rows_of(forest())
    said, _ = rows_of(meadow())
    lab = fieldcal.learn(lab_said, y, **paper.learn(CUTS))
    prev = fieldcal.estimate(lab, fieldcal.count(lab, said), **paper.ESTIMATE)
    return float(prev.estimate[0, 1]), fieldcal.recalibrate(prev, beetles(forest()).astype(float))


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """What is said and what is true by kind of insect; the share of beetles by place and method."""
    figure = Figure(figsize=(9.6, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1, 1.15])
    by_kind(left)
    by_place(right, table[table.replica != EXACT])
    return {"entomologist": figure}


def by_kind(ax: Axes) -> None:
    """One line of points per kind of insect."""
    y = np.arange(len(FOREST))
    said, true = beetles(forest()).astype(float), beetles(meadow()).astype(float)
    ax.hlines(y, true, said, color=COLOURS["muted"], linewidth=1)
    ax.plot(
        said,
        y,
        linestyle="none",
        marker="s",
        color=COLOURS["vermilion"],
        label="classifier, true in the forest",
    )
    ax.plot(
        true,
        y,
        linestyle="none",
        marker="D",
        color=COLOURS["green"],
        markersize=9,
        label="true in the meadow",
    )
    new = recalibrated_exactly()[1]
    ax.plot(new, y, linestyle="none", marker="x", color=COLOURS["ink"], label="after URC")
    ax.set_yticks(y, [kind.replace(", ", ",\n") for kind in FOREST])
    ax.set(xlim=(0, 1), ylim=(len(FOREST) - 0.5, -0.5))
    plain(ax, x="probability of a beetle", title="the meadow, exactly", grid="x")
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.4, -0.2), ncols=3, frameon=False, fontsize=8, columnspacing=1
    )


def by_place(ax: Axes, samples: pd.DataFrame) -> None:
    """Means and 95 % of the samples."""
    places = samples.place.unique().tolist()
    for i, place in enumerate(places):
        part = samples[samples.place == place]
        ax.hlines(
            part.truth.mean(),
            i - 0.4,
            i + 0.4,
            color=COLOURS["green"],
            linewidth=2,
            label="truth" if i == 0 else None,
        )
        for j, (method, (colour, marker)) in enumerate(LOOKS.items()):
            found = part.beetles[part.method == method]
            x = i + (j - 1.5) * 0.18
            ax.vlines(x, found.quantile(0.025), found.quantile(0.975), color=colour, linewidth=1.2)
            ax.plot(
                x,
                found.mean(),
                linestyle="none",
                marker=marker,
                color=colour,
                label=method if i == 0 else None,
            )
    ax.set_xticks(range(len(places)), [f"{place} as a group" for place in places])
    ax.set_ylim(0, 1)
    plain(ax, y="share of beetles", title="a field of both places, samples")
    ax.legend(
        loc="upper center", bbox_to_anchor=(0.45, -0.1), ncols=3, frameon=False, fontsize=8, columnspacing=1
    )


def summary(table: pd.DataFrame) -> str:
    """The exact tables, the samples, and the paper's statements."""
    said, true = beetles(forest()), beetles(meadow())
    lemma = known_bias()
    estimate, new = recalibrated_exactly()
    lines = [
        [
            kind,
            f"{butterfly} / {beetle}",
            f"{meadow()[0, j]} / {meadow()[1, j]}",
            *(f"{float(value):.3f}" for value in (said[j], true[j], lemma[j], new[j])),
        ]
        for j, (kind, (butterfly, beetle)) in enumerate(FOREST.items())
    ]
    header = [
        "insect",
        "forest: butterflies / beetles",
        "meadow",
        "classifier",
        "true in the meadow",
        "known-bias lemma",
        "URC",
    ]
    samples = table[table.replica != EXACT]
    told = (
        f"Share of beetles: forest {float(base_rate(forest())):.2f}, meadow {float(IN_MEADOW):.2f}; mean prediction in "
        f"the meadow {float(mean_said()):.4f}, URC there {estimate:.4f}."
    )
    parts = ["**Exactly, the meadow alone**", markdown(header, lines), told]
    parts += [f"**A field of both places, {samples.replica.nunique()} samples**", sampled(samples)]
    return "\n\n".join([*parts, "**The paper's claims**", claims(judge(table, lemma, new, estimate))])


def base_rate(counts: NDArray[Any]) -> Fraction:
    """The share of beetles among all."""
    return Fraction(counts[1].sum() / counts.sum())


def mean_said() -> Fraction:
    """The mean prediction in the meadow."""
    counts = meadow().sum(axis=0)
    return Fraction((counts * beetles(forest())).sum() / counts.sum())


def sampled(samples: pd.DataFrame) -> str:
    """By method: estimates per place, and the quality of the predictions over both."""
    lines = []
    for method in LOOKS:
        part = samples[samples.method == method]
        own = [mean_error(part.beetles[part.place == place]) for place in ("forest", "meadow")]
        quality = [
            mean_error(part.groupby("replica")[measure].mean(), digits=4) for measure in ("log_loss", "brier")
        ]
        lines.append([method, *own, *quality])
    return markdown(["", "forest", "meadow", "log loss", "Brier score"], lines)


def judge(table: pd.DataFrame, lemma: Floats, new: Floats, estimate: float) -> list[Claim]:
    """The example's statements."""
    said, true = beetles(forest()), beetles(meadow())
    samples = table[table.replica != EXACT]
    loss = samples.pivot_table(index=["replica"], columns="method", values="log_loss")
    gain = loss[GLOBAL] - loss[LOCAL]
    apart = max(abs(new - true.astype(float)))
    return [
        Claim(
            "the classifier is calibrated in the forest: where it says 90 %, 90 % are beetles",
            bool(said[0] == Fraction(9, 10)),
            "by construction, for all four kinds",
            "90 % for small wings and a large body",
        ),
        Claim(
            "in the meadow it says too much for beetles, for every kind of insect",
            bool((said > true).all()),
            f"by {float(min(said - true)):.3f} to {float(max(said - true)):.3f}",
        ),
        Claim(
            "the mean prediction lies between the meadow's share and the forest's (sandwich theorem)",
            IN_MEADOW < mean_said() < base_rate(forest()),
            f"{float(IN_MEADOW):.2f} < {float(mean_said()):.4f} < {float(base_rate(forest())):.2f}",
        ),
        Claim(
            "with the meadow's share known, the lemma gives the true probabilities",
            bool(np.abs(lemma - true.astype(float)).max() < 1e-12),
            f"off by at most {np.abs(lemma - true.astype(float)).max():.0e}",
        ),
        Claim(
            "URC finds the share, and the true probabilities, without knowing it",
            bool(abs(estimate - float(IN_MEADOW)) < 1e-6 and apart < 1e-6),
            f"share {estimate:.6f}, probabilities off by at most {apart:.0e}",
        ),
        Claim(
            "forest and meadow as groups: estimates by place improve on one for both",
            bool(gain.mean() > 0 and (gain > 0).mean() > 0.95),
            f"log loss lower by {mean_error(gain, digits=4)}, in {(gain > 0).sum()} of {len(gain)} samples",
        ),
    ]


if __name__ == "__main__":
    sys.exit(command(study, __doc__))
