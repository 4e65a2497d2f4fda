"""The main use case on real data, end to end, as ``fieldcal demo`` shows it.

Rodents of the Portal Project. A small classifier predicts the species from the measurements; it is trained on captures
before 1988, learnt on other ones, and used on later ones. Trap plots and years differ in their species, but each
species looks the same, so label shift is plausible. The later labels are used only at the end, to evaluate the result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import fieldcal
from fieldcal.datasets import Portal, portal
from fieldcal.objects.prevalence_table import interval_text

LAST_LAB_YEAR = 1987
SHOWN = "DM"  # Merriam's kangaroo rat, the most frequent species
#: Number of steps that `run` announces.
STEPS = 6


@dataclass(frozen=True)
class DemoData:
    """Predictions of the classifier for lab and field, with labels and trap plots."""

    proba_lab: NDArray[np.float64]
    species_lab: NDArray[np.str_]
    plots_lab: NDArray[np.int64]
    proba_field: NDArray[np.float64]
    species_field: NDArray[np.str_]
    plots_field: NDArray[np.int64]
    unknown: int  # field captures of species that are not in the lab


def predictions(captures: Portal, *, random_state: int = 0) -> DemoData:
    """Predictions for lab and field: trained on 60 % of the early captures, applied to the others and to the later
    ones.
    """
    from sklearn.ensemble import HistGradientBoostingClassifier

    features = np.column_stack(
        [captures.hindfoot_length, captures.weight, captures.sex == "F", captures.sex == "M", captures.month]
    )
    early = captures.year <= LAST_LAB_YEAR
    known = np.isin(captures.species, np.unique(captures.species[early]))
    train = early & (np.random.default_rng(random_state).random(len(captures)) < 0.6)
    lab, field = early & ~train, ~early & known
    model = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=15, min_samples_leaf=30, random_state=random_state
    )
    model.fit(features[train], captures.species[train])
    return DemoData(
        model.predict_proba(features[lab]),
        captures.species[lab],
        captures.plot[lab],
        model.predict_proba(features[field]),
        captures.species[field],
        captures.plot[field],
        int((~early & ~known).sum()),
    )


@dataclass(frozen=True)
class Demo:
    """Lab, field, estimate and recalibrated predictions, with the labels to compare them with."""

    lab: fieldcal.Lab
    prev: fieldcal.Prevalence
    data: DemoData
    new: NDArray[np.float64]

    @property
    def y(self) -> NDArray[np.intp]:
        """The true class of every field capture, as a code."""
        return np.searchsorted(np.array(self.prev.classes), self.data.species_field)

    def losses(self, rows: NDArray[np.bool_] | slice = slice(None)) -> tuple[float, float]:
        """Mean log loss of these rows before and after."""
        from sklearn.metrics import log_loss

        y, labels = self.y[rows], np.arange(len(self.prev.classes))
        before, after = (
            log_loss(y, proba[rows], labels=labels) for proba in (self.data.proba_field, self.new)
        )
        return float(before), float(after)

    def report(self) -> fieldcal.Report:
        """The report, evaluated on the labels of the field, which the estimate did not use."""
        data = self.data
        return fieldcal.report(
            self.prev,
            of=SHOWN,
            proba=data.proba_field,
            y=data.species_field,
            groups=data.plots_field,
            title=f"Rodents of the Portal project: species by trap plot after {LAST_LAB_YEAR}",
            data="Portal Project Teaching Database",
            model="gradient boosting on hind foot, weight, sex and month",
            period=f"{LAST_LAB_YEAR + 1} to 2002",
        )


def run(*, random_state: int = 0, step: Callable[[str], None] = lambda text: None) -> Demo:
    """The result of the four verbs on the captures; ``step`` is called with a description of each."""
    step("read 32,534 captures")
    captures = portal()
    step("train a classifier on early captures")
    data = predictions(captures, random_state=random_state)
    step("learn: other early captures, and their species")
    lab = fieldcal.learn(data.proba_lab, data.species_lab, groups=data.plots_lab)
    step("count: predictions for later captures, per trap plot")
    field = fieldcal.count(lab, data.proba_field, groups=data.plots_field)
    step("estimate: which species live in each plot")
    prev = fieldcal.estimate(lab, field)
    step("recalibrate")
    new = fieldcal.recalibrate(prev, data.proba_field, groups=data.plots_field)
    return Demo(lab, prev, data, new)


def table(demo: Demo) -> str:
    """Plot, rows, mean prediction, estimate, true share, and log loss before and after, one line per plot."""
    prev, data = demo.prev, demo.data
    k, y = prev.classes.index(SHOWN), demo.y
    lines = [
        f"{'plot':>5}{'rows':>7} {'mean prediction':>16} {'estimate':>9} {'90 % interval':>15} {'true':>6}"
        f"   {'log loss before':>15} {'log loss after':>14}",
    ]
    for g, plot in enumerate(prev.groups):
        rows = data.plots_field == plot
        before, after = demo.losses(rows)
        interval = interval_text(prev, g, k)
        lines.append(
            f"{plot:>5}{prev.n[g]:>7} {prev.mean_prediction[g, k]:>16.3f} {prev.estimate[g, k]:>9.3f} {interval:>15} "
            f"{(y[rows] == k).mean():>6.3f}   {before:>15.3f} {after:>14.3f}"
        )
    return "\n".join(lines)


def introduction(demo: Demo) -> str:
    lab, data = demo.lab, demo.data
    return "\n".join(
        [
            f"{lab}\n{demo.prev.field}",
            f"(left out: {data.unknown:,} captures of a species that came after {LAST_LAB_YEAR})\n",
            f"Share of {SHOWN} (Merriam's kangaroo rat) among the captures of each plot. By cross-validation over the",
            f"lab's own plots, label shift explains their differences with probability {demo.prev.trust_between:.2f}.",
        ]
    )


def errors(demo: Demo) -> tuple[float, float]:
    """Mean absolute error over plots and species: of the mean prediction, and of the estimate."""
    from sklearn.metrics import mean_absolute_error

    prev, y = demo.prev, demo.y
    truth = [np.bincount(y[demo.data.plots_field == g], minlength=len(prev.classes)) for g in prev.groups]
    share = np.array(truth) / np.asarray(prev.n)[:, None]
    before, after = (mean_absolute_error(share, table) for table in (prev.mean_prediction, prev.estimate))
    return float(before), float(after)


def sentences(demo: Demo) -> list[str]:
    prev, (predicted, estimated), (before, after) = demo.prev, errors(demo), demo.losses()
    better = sum(b > a for b, a in (demo.losses(demo.data.plots_field == plot) for plot in prev.groups))
    words = {"ok": "fine to use", "care": "to be used with care", "do_not_use": "not to be used"}
    return [
        f"From {int(prev.n.sum()):,} predictions and no label, the shares of {len(prev.classes)} species in "
        f"{len(prev.groups)} plots are off by {100 * estimated:.1f} percentage points on average; the means of the "
        f"predictions by {100 * predicted:.1f}.",
        f"Recalibrated predictions are better in {better} of {len(prev.groups)} plots: log loss {before:.3f} before, "
        f"{after:.3f} after.",
        "The verdict, without labels of the field, is that the result is "
        f"{words[prev.verdict.level]}; the report says why.",
    ]
