"""fieldcal on a trial: everything that this benchmark calls of it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from benchmarks.few_labels.files import LEVEL
from benchmarks.judges.tally import Answer
from benchmarks.judges.trial import Trial

import fieldcal


def shares(trial: Trial, *, sliced: bool = False) -> tuple[Answer, Answer | None]:
    """The whole share, and that of each slice, of the classes that are asked; nothing where it refuses."""
    asked = list(trial.asked)
    try:
        lab, field = counted(trial, sliced=sliced)
    except fieldcal.FieldcalError:  # a class without a label
        return Answer.none((len(asked),)), Answer.none((len(trial.slice_truth), len(asked)))
    prev = fieldcal.estimate(lab, field, level=LEVEL)
    whole = Answer(*(np.asarray(part)[asked] for part in parts(prev.whole)))
    if not sliced:
        return whole, None
    order = [prev.groups.index(g) for g in range(len(trial.slice_truth))]
    return whole, Answer(*(np.asarray(part)[np.ix_(order, asked)] for part in parts(prev)))


def counted(trial: Trial, *, sliced: bool) -> tuple[fieldcal.Lab, fieldcal.Field]:
    """A lab of all values with the labels there are, and the rows in question; random labels are some of these."""
    rows = trial.rows + trial.beside
    known = np.concatenate([trial.human, trial.beside.y])
    lab = fieldcal.learn(
        rows.values,
        known,
        kind="values",
        design=trial.design,
        classes=range(len(trial.truth)),
        groups=rows.slices if sliced else None,
    )
    y = trial.human if trial.design == "random" or not len(trial.beside.y) else None
    return lab, fieldcal.count(lab, trial.rows.values, groups=trial.rows.slices if sliced else None, y=y)


def parts(found: Any) -> tuple[Any, Any, Any]:
    return found.estimate, found.lower, found.upper


def contrasts(
    values: np.ndarray, human: np.ndarray, systems: np.ndarray, items: np.ndarray
) -> dict[str, Answer]:
    """System 1 less system 0, with and without the knowledge of which rows are of one item."""
    lab = fieldcal.learn(values, human, kind="values", design="random", classes=range(2), groups=systems)
    field = fieldcal.count(lab, values, groups=systems, y=human)
    prev = fieldcal.estimate(lab, field, level=LEVEL)
    pairs = fieldcal.pairs(lab, values, systems, items, y=human)
    found = {"fieldcal paired": prev.contrast(1, 0, pairs=pairs), "fieldcal unpaired": prev.contrast(1, 0)}
    return {name: Answer.of([parts(interval)]) for name, interval in found.items()}


def survey(
    sensitivity: float, specificity: float, n: tuple[int, int], values: np.ndarray
) -> tuple[Answer, float]:
    """Prevalence by a test of these rates, measured on so many rows of each class; and the mode under a flat prior."""
    lab = fieldcal.Lab.from_rates(sensitivity=sensitivity, specificity=specificity, n=n, classes=range(2))
    field = fieldcal.count(lab, values)
    prev = fieldcal.estimate(lab, field, level=LEVEL)
    mode = fieldcal.estimate(lab, field, prior="flat", point="mode")
    return Answer.of([tuple(part[1] for part in parts(prev.whole))]), float(mode.urc[0, 1])


def quiet() -> None:
    """Warnings of so few labels are no news here."""
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
