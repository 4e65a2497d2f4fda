"""The main job on real data: ``python -m fieldcal.demo``.

Rodents of the Portal Project. A small classifier tells the species from the measurements; it is trained and
learnt on captures before 1988 and used on later ones. The trap plots differ in their species, and so do the
years, but a kangaroo rat looks like a kangaroo rat: the consistency assumption is plausible here. The later
labels are used for one thing only, to say at the end whether it helped.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import fieldcal
from fieldcal.datasets import Portal, portal
from fieldcal.metrics import log_loss

LAST_LAB_YEAR = 1987
SHOWN = "DM"  # Merriam's kangaroo rat, the most frequent species


@dataclass(frozen=True)
class Split:
    """Predictions of the classifier for lab and field, with labels and trap plots."""

    proba_lab: NDArray[np.float64]
    species_lab: NDArray[np.str_]
    plots_lab: NDArray[np.int64]
    proba_field: NDArray[np.float64]
    species_field: NDArray[np.str_]
    plots_field: NDArray[np.int64]
    unknown: int  # field captures of species that the lab never saw


def predictions(captures: Portal, *, random_state: int = 0) -> Split:
    """Train on 60 % of the early captures; predict the others (lab) and the later ones (field)."""
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
    return Split(
        model.predict_proba(features[lab]),
        captures.species[lab],
        captures.plot[lab],
        model.predict_proba(features[field]),
        captures.species[field],
        captures.plot[field],
        int((~early & ~known).sum()),
    )


def run(*, random_state: int = 0) -> tuple[fieldcal.Lab, fieldcal.Prevalence, Split, NDArray[np.float64]]:
    """The four verbs on the captures."""
    data = predictions(portal(), random_state=random_state)
    lab = fieldcal.learn(data.proba_lab, data.species_lab, groups=data.plots_lab)
    field = fieldcal.count(lab, data.proba_field, groups=data.plots_field)
    prev = fieldcal.estimate(lab, field)
    new = fieldcal.recalibrate(prev, data.proba_field, groups=data.plots_field)
    return lab, prev, data, new


def table(prev: fieldcal.Prevalence, data: Split, new: NDArray[np.float64]) -> str:
    """Group, n, naive, estimate, trust, and log loss before and after, one line per plot."""
    k = prev.classes.index(SHOWN)
    y = np.searchsorted(np.array(prev.classes), data.species_field)
    lines = [
        f"{'plot':>5}{'n':>7}  {'naive':>6} {'estimate':>9} {'90 % interval':>15} {'true':>6}"
        f" {'trust':>6}   {'log loss before':>15} → after",
    ]
    for g, plot in enumerate(prev.groups):
        rows = data.plots_field == plot
        before, after = log_loss(data.proba_field[rows], y[rows]), log_loss(new[rows], y[rows])
        interval = prev.interval_text(g, k)
        lines.append(
            f"{plot:>5}{prev.n[g]:>7}  {prev.naive[g, k]:>6.3f} {prev.value[g, k]:>9.3f} {interval:>15} "
            f"{(y[rows] == k).mean():>6.3f} {prev.trust[g]:>6.2f}   {before:>15.3f} → {after:.3f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Print what happened."""
    lab, prev, data, new = run()
    y = np.searchsorted(np.array(prev.classes), data.species_field)
    print(lab)
    print(prev.field)
    print(f"(left out: {data.unknown:,} captures of a species that came after {LAST_LAB_YEAR})\n")
    print(
        f"Share of {SHOWN} (Merriam's kangaroo rat) among the captures of each plot. Naive: the mean prediction;"
    )
    print("trust: how far the estimate follows URC, as the lab's own plots taught it.\n")
    print(table(prev, data, new))
    print(f"\n{prev.verdict}")
    print(
        f"\nLog loss of all {len(y):,} field captures: {log_loss(data.proba_field, y):.3f} before, ", end=""
    )
    print(f"{log_loss(new, y):.3f} after. No label of the field was used.")


if __name__ == "__main__":
    main()
