"""cross_validate: whether labelled rows of the field say that recalibration helps, by rows that did not teach it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fieldcal.core.cross_validation import Fold, folds, paired
from fieldcal.core.reweight import BinStep, Step
from fieldcal.errors import InputError
from fieldcal.objects import Prevalence, show
from fieldcal.options import check_kind, check_options, check_whole
from fieldcal.types import Design, Floats, Ints
from fieldcal.verbs.recalibrate import RowScores
from fieldcal.verbs.reweighting import reweighting_with

#: Rows that were chosen by class are not the field's mix of classes, and cannot judge.
JUDGES: tuple[Design, ...] = ("random", "by_score")
FOLDS = 5
#: Fewer rows judge nothing.
LEAST = 10


@dataclass(frozen=True)
class Compared:
    """The log loss of new predictions, and how it differs from that before recalibration.

    Attributes
    ----------
    log_loss : mean over the rows; less is better
    change : the same less that before recalibration: below zero it is better
    se : standard error of the change, rows as the unit
    """

    log_loss: float
    change: float
    se: float

    @property
    def word(self) -> str:
        """What the change says, beyond two standard errors."""
        if self.change < -2 * self.se:
            return "better"
        return "worse" if self.change > 2 * self.se else "no different beyond noise"


@dataclass(frozen=True)
class CrossValidation:
    """What labelled rows of the field say of predictions that these rows did not teach.

    Attributes
    ----------
    rows, folds : how many rows judge, in how many parts, each held out once
    not_judging : labelled rows that were chosen by class: they teach, but cannot judge
    log_loss : before recalibration: of the model's predictions, as calibrated where the lab is
    tilt, bins : of recalibrated ones, by ``shape`` of `fieldcal.recalibrate`
    """

    rows: int
    folds: int
    not_judging: float
    log_loss: float
    tilt: Compared
    bins: Compared

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        lines = [
            f"Cross-validation over {self.rows:,} labelled rows in {self.folds} folds: log loss before "
            f"recalibration {self.log_loss:.4f}",
            f"  recalibrated by group (tilt): {_words(self.tilt)}",
            f"  recalibrated bin by bin (bins): {_words(self.bins)}",
        ]
        if self.not_judging:
            lines.append(f"  {show.amount(self.not_judging)} rows chosen by class teach, but cannot judge")
        return "\n".join(lines)


def _words(found: Compared) -> str:
    return f"{found.log_loss:.4f}, changed by {found.change:+.4f} ± {found.se:.4f}: {found.word}"


def cross_validate(prev: Prevalence, *, folds: int = FOLDS, random_state: int = 0) -> CrossValidation:
    """Does recalibration help, by the field's own labels? The same rows never judge what they taught.

    The labelled rows are dealt into folds. For each, the posterior is learnt from the others, and what it makes of the
    predictions of the rows that were held out is compared with their labels. A field holds counts: every row stands at
    the mean prediction of its bin in the lab. Rows that were chosen by class teach in every fold and judge in none.

    Parameters
    ----------
    prev : Prevalence
        Of a field with labels: ``fieldcal.count(…, y=…)``.
    folds : int
        As many as there are rows leave one out at a time.
    random_state : int
        Seed of the dealing.

    Returns
    -------
    CrossValidation
        The means are over the labelled rows. Where these were chosen by score, they are not means over the field.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(prevalence=[[0.9, 0.1]], n_field=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> y = [label if i < 200 else None for i, label in enumerate(data.y_field)]
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=y))
    >>> found = fieldcal.cross_validate(prev)
    >>> found.rows, found.tilt.word
    (200, 'better')
    """
    check_kind("prev", prev, Prevalence)
    check_options(random_state=random_state)
    if (reason := cannot_judge(prev)) is not None:
        raise InputError(reason)
    counts = _judging(prev)
    n = int(counts.sum())
    check_whole("folds", folds, least=2, most=n)
    losses = np.concatenate(list(_losses(prev, counts, folds, np.random.default_rng([random_state, 4]))))
    own, tilt, bins = losses.T
    worth = float(prev.posterior.model.counts.field.sum()) / n
    compared = [Compared(float(new.mean()), *paired(new - own, worth)) for new in (tilt, bins)]
    return CrossValidation(n, folds, _not_judging(prev), float(own.mean()), *compared)


def cannot_judge(prev: Prevalence) -> str | None:
    """Why there is nothing to cross-validate; None where there is."""
    if prev.labels is None:
        return "No row of this field has a label, so that none can judge. Count some rows with their labels."
    n = sum(prev.labels.rows.get(design, 0.0) for design in JUDGES)
    if n < LEAST:
        aside = "" if not _not_judging(prev) else " Rows that were chosen by class cannot judge."
        few = f"{show.amount(n)} labelled rows are too few to judge predictions by"
        return f"{few}: {LEAST} are the least.{aside} Label more."
    if any(found.counts.dtype.kind != "i" for found in prev.field.labelled.values()):
        return (
            "Labelled rows were counted with weights, of which only the sums are known: they cannot be dealt into "
            "those that teach and those that judge. Evaluate on other labelled rows, in a report."
        )
    return None


def _not_judging(prev: Prevalence) -> float:
    return 0.0 if prev.labels is None else prev.labels.rows.get("by_class", 0.0)


def _judging(prev: Prevalence) -> Ints:
    """Rows that can judge, (L, K, m), of the groups that have any labels."""
    counts = np.zeros(prev.posterior.model.counts.field[: len(prev.groups)].shape, dtype=np.int64)
    for design in JUDGES:
        if design in prev.field.labelled:
            found = prev.field.labelled[design]
            counts[found.at] += found.counts
    return counts


def _losses(prev: Prevalence, counts: Ints, n_folds: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Of the rows of each fold, (n, 3): by the predictions as the lab reads them, and recalibrated in both shapes."""
    for fold in folds(prev.posterior, counts, n_folds, rng):
        made = reweighting_with(prev, fold.posterior)
        unseen = not prev.field.grouped
        steps = made.steps(unseen=unseen), made.steps_by_bin(prev.lab.partition, unseen=unseen)
        own = np.maximum(prev.lab.bin_means, 1e-6)[fold.bins]
        yield np.column_stack([fold.losses(proba) for proba in _predictions(steps, fold, own)])


def _predictions(shapes: Iterable[tuple[BinStep | Step, ...]], fold: Fold, own: Floats) -> tuple[Floats, ...]:
    """Predictions of the rows as the lab reads them, (n, K), those of their bins, and new ones in both shapes."""
    rows = RowScores(own / own.sum(axis=1, keepdims=True), binary=False, bins=fold.bins)
    return rows.values, *(rows.after([step.of(fold.groups) for step in steps]) for steps in shapes)
