"""The paper's local experiment: two subpopulations whose base rates are moved apart.

    python experiments/subpopulations.py [--quick] [--out DIR] [--jobs N] [--predictions DIR]

Images at full resolution, as many of one class as of the other, are dealt to two groups at random: group 1 gets a
share r of the beetles and 1 − r of the butterflies, group 2 the rest, so that the base rates are r and 1 − r. The
classifier is calibrated for the whole, so that only the groups can teach anything. The lab is an evaluation set of 200
other images of each class, without groups. Local URC per group as in the paper (4 bins, maximum likelihood), fieldcal
with trust 1, and fieldcal as it comes, which has to find out from two histograms whether groups differ in their mix or
in something else.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import images
import numpy as np
import pandas as pd
import paper
from harness import Cell, Row, Study, command
from matplotlib.figure import Figure
from tell import (
    COLOURS,
    Claim,
    claims,
    legend_below,
    markdown,
    mean_error,
    percent,
    plain,
    ribbons,
)

import fieldcal

REPLICAS = 100
PER_CLASS = 200
RATES = tuple(round(r, 2) for r in np.linspace(0, 1, 21).tolist())
#: Where the paper says "close to 0".
CLOSE = 0.005
#: Where "never hurts" fails: one unit of the last digit in the paper's tables.
HARMLESS = 0.001
RAW, PAPER, TRUSTING, DEFAULTS = "raw", "URC (4 bins)", "fieldcal, trust 1", "fieldcal"
#: How to learn and how to estimate.
METHODS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    PAPER: (paper.learn(4), paper.ESTIMATE),
    TRUSTING: ({}, {"trust": 1}),
    DEFAULTS: ({}, {}),
}
LOOKS: dict[str, dict[str, Any]] = {
    RAW: {"color": COLOURS["vermilion"], "linestyle": "--"},
    PAPER: {"color": COLOURS["sky"], "linewidth": 5},  # wide, as the next lies on it
    TRUSTING: {"color": COLOURS["ink"], "marker": "x"},
    DEFAULTS: {"color": COLOURS["blue"], "marker": "^"},
}
MEASURES = {
    "brier": "Brier score",
    "calibration": "calibration part",
    "refinement": "refinement part",
    "log_loss": "log loss",
}


def study(*, quick: bool = False, predictions: Path | None = None) -> Study:
    """Every evaluation set is a cell."""
    found = images.digits() if predictions is None else images.read(predictions)
    name = "subpopulations" if predictions is None else "subpopulations_predictions"
    replicas, rates = (3, (0.0, 0.1, 0.5, 1.0)) if quick else (REPLICAS, RATES)
    settings = {
        "replicas": replicas,
        "rates": rates,
        "per_class": PER_CLASS,
        "images": images.digest(found),
    }
    return Study(
        name,
        "Subpopulations",
        settings,
        [{"replica": replica} for replica in range(replicas)],
        partial(run_cell, found=found, rates=rates),
        lambda table: {name: figure(table)},
        summary,
        captions={name: caption(stand_in=predictions is None)},
    )


def caption(*, stand_in: bool) -> str:
    """What the figure has of the paper's."""
    other = (
        "ribbons hold half of the evaluation sets; two lines more, fieldcal with trust 1 and with nothing set"
    )
    if stand_in:
        other = f"digits instead of photographs, 1,382 images instead of 12,894; {other}"
    return (
        "The paper's figure of local recalibration. Same as the paper's: two groups with base rates r and "
        "1 − r, dealt at random from a balanced set at full resolution, URC with 4 bins per group, the "
        "Brier score with its parts by deciles. Not the same: a panel for each part, means over "
        f"{REPLICAS} evaluation sets (the paper's code has one per base rate, "
        f"and 65 base rates, not {len(RATES)}); {other}."
    )


def run_cell(cell: Cell, *, found: images.Predictions, rates: Sequence[float]) -> list[Row]:
    """One evaluation set, all base rates, all methods."""
    rng = np.random.default_rng(cell["replica"])
    lab_rows, field_rows = images.draw(found, rng, per_class=PER_CLASS, base_rate=0.5)
    proba, truth = found.full[field_rows], found.truth[field_rows]
    labs = {
        method: fieldcal.learn(found.full[lab_rows], found.truth[lab_rows], **learning)
        for method, (learning, _) in METHODS.items()
    }
    rows = []
    for rate in rates:
        groups = deal(truth, rate, rng)
        rows.append({"rate": rate, "method": RAW, **row(proba, truth)})
        for method, (_, options) in METHODS.items():
            prev = fieldcal.estimate(
                labs[method], fieldcal.count(labs[method], proba, groups=groups), **options
            )
            new = fieldcal.recalibrate(prev, proba, groups=groups)
            rows.append({"rate": rate, "method": method, **row(new, truth)})
    return rows


def row(proba: images.Floats, truth: images.Codes) -> Row:
    """What is kept."""
    scores = images.scores_of(proba, truth)
    return {measure: scores[measure] for measure in (*MEASURES, "accuracy")}


def deal(truth: images.Codes, rate: float, rng: np.random.Generator) -> images.Codes:
    """Groups 1 and 2, at random but of exact base rates: ``rate`` and ``1 − rate``."""
    groups = np.full(len(truth), 2)
    for k, share in ((1, rate), (0, 1 - rate)):
        rows = rng.permutation(np.flatnonzero(truth == k))
        groups[rows[: round(share * len(rows))]] = 1
    return groups


def figure(table: pd.DataFrame) -> Figure:
    """The Brier score and its parts against the base rate, with the middle half of the evaluation sets."""
    made = Figure(figsize=(9.5, 3.5), layout="constrained")
    shown = ("brier", "calibration", "refinement")
    for ax, measure in zip(made.subplots(1, 3, sharey=True), shown, strict=True):
        ribbons(ax, table, LOOKS, x="rate", y=measure, inside=0.5)
        ax.set_ylim(bottom=0)
        plain(ax, x="base rate of group 1 (of group 2: 1 − it)", title=MEASURES[measure])
    legend_below(made)
    return made


def summary(table: pd.DataFrame) -> str:
    """The Brier score and its parts at some base rates, and what they say of the paper's claims."""
    rates = sorted(table.rate.unique())
    shown = [rate for rate in (0.0, 0.05, 0.1, 0.25, 0.4, 0.5) if rate in rates]
    parts = [
        f"{table.replica.nunique()} evaluation sets; means over them. Base rates above one half are the same with the "
        "groups' names exchanged.",
    ]
    for measure, title in MEASURES.items():
        found = table.groupby(["method", "rate"])[measure].mean()
        lines = [[method, *(f"{found[method, rate]:.4f}" for rate in shown)] for method in LOOKS]
        parts += [f"**{title}**", markdown(["base rate", *map(percent, shown)], lines)]
    return "\n\n".join([*parts, "**The paper's claims**", claims(judge(table))])


def judge(table: pd.DataFrame) -> list[Claim]:
    """The paper's statements on local recalibration, each with its figures."""
    harmless = [
        never_worse(table, method, measure) for method in METHODS for measure in ("brier", "log_loss")
    ]
    return [*harmless, strongest(table), refinement_falls(table), calibration_stays(table)]


def never_worse(table: pd.DataFrame, method: str, measure: str) -> Claim:
    """At no base rate worse than raw, in the mean over evaluation sets."""
    wide = table.pivot_table(index=["rate", "replica"], columns="method", values=measure)
    worse = (wide[method] - wide[RAW]).groupby("rate")
    mean = worse.mean()
    worst, hurt = mean.idxmax(), mean[mean > 0]
    evidence = f"worst at {percent(worst)}: {mean_error(worse.get_group(worst), digits=5, sign=True)}"
    if len(hurt):
        evidence += f"; worse at {', '.join(map(percent, hurt.index))}"
    return Claim(
        f"{method} never hurts: {MEASURES[measure]}",
        hurt.empty,
        evidence,
        "never hurts (one run per base rate)" if method == PAPER else "not in the paper; judged likewise",
        (f"by no more than {HARMLESS}", bool(mean.max() <= HARMLESS)),
    )


def strongest(table: pd.DataFrame) -> Claim:
    """Most is gained where the groups differ most."""
    wide = table.pivot_table(index="rate", columns="method", values="brier")
    gain = wide[RAW] - wide[PAPER]
    left, right = gain[gain.index <= 0.5], gain[gain.index >= 0.5]
    return Claim(
        "the benefit is the stronger the more unbalanced the groups are",
        bool(left.is_monotonic_decreasing and right.is_monotonic_increasing),
        f"Brier score {gain.iloc[0]:.4f} lower at {percent(gain.index[0])}, {gain[0.5]:+.4f} at 50 %",
    )


def refinement_falls(table: pd.DataFrame) -> Claim:
    """The further the groups are apart, the better the refinement; 0 where the group is the class."""
    mean = table[table.method == PAPER].groupby("rate").refinement.mean()
    left, right = mean[mean.index <= 0.5], mean[mean.index >= 0.5]
    falls = left.is_monotonic_increasing and right.is_monotonic_decreasing
    ends = max(mean.iloc[0], mean.iloc[-1])
    return Claim(
        "the refinement part falls towards base rates of 0 and 1, where it is almost 0",
        bool(falls and ends < HARMLESS),
        f"{mean[0.5]:.4f} in the middle, at most {ends:.4f} at the ends",
        "approaches 0 only there",
    )


def calibration_stays(table: pd.DataFrame) -> Claim:
    """The classifier was calibrated, and stays so."""
    mean = table.groupby(["method", "rate"]).calibration.mean()
    return Claim(
        "the calibration part stays close to 0 at all base rates",
        bool(mean[PAPER].max() < CLOSE),
        f"at most {mean[PAPER].max():.4f}, raw {mean[RAW].max():.4f}",
        f"(close to) 0; judged by {CLOSE}",
    )


if __name__ == "__main__":
    sys.exit(command(study, __doc__, takes_predictions=True))
