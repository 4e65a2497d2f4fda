"""`cross_validate`: whether recalibration lowers the log loss on held-out labelled field rows.

Rows are known by group, class and bin only, so counts are split into folds.

References
----------
Stone, M. (1974). Cross-validatory choice and assessment of statistical predictions. JRSS B 36, 111-147.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fieldcal.core.field_posterior import ModelPosterior
from fieldcal.core.reweight import BinStep, Step, safe_log
from fieldcal.errors import InputError
from fieldcal.objects import Prevalence, show
from fieldcal.options import check_kind, check_options, check_whole
from fieldcal.types import Design, Floats, Ints
from fieldcal.verbs.posteriors import reweighting_with
from fieldcal.verbs.recalibrate import RowScores

#: Rows chosen by class do not have the field's mix of classes, so they cannot be evaluated on.
JUDGES: tuple[Design, ...] = ("random", "by_score")
FOLDS = 5
#: The smallest number of labelled rows to evaluate on.
LEAST = 10


@dataclass(frozen=True)
class LossChange:
    """Log loss of new predictions, and its change by recalibration.

    Attributes
    ----------
    log_loss : mean over the rows
    change : log loss after minus before recalibration; negative is an improvement
    se : standard error of the change, over rows
    """

    log_loss: float
    change: float
    se: float

    @property
    def word(self) -> str:
        """ "better" or "worse" if the change exceeds two standard errors, else "no different beyond noise"."""
        if self.change < -2 * self.se:
            return "better"
        return "worse" if self.change > 2 * self.se else "no different beyond noise"


@dataclass(frozen=True)
class CrossValidation:
    """Log loss of held-out labelled field rows before and after recalibration.

    Attributes
    ----------
    rows, folds : number of rows evaluated and of folds, each held out once
    not_judging : labelled rows that were chosen by class: used for fitting only
    log_loss : before recalibration: of the model's predictions, calibrated if the lab is
    tilt, bins : of recalibrated predictions, by ``shape`` of `fieldcal.recalibrate`
    """

    rows: int
    folds: int
    not_judging: float
    log_loss: float
    tilt: LossChange
    bins: LossChange

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return asdict(self)

    def __repr__(self) -> str:
        lines = [
            f"Cross-validation over {self.rows:,} labelled rows in {self.folds} folds: log loss before "
            f"recalibration {self.log_loss:.4f}",
            f"  recalibrated by group (tilt): {_words(self.tilt)}",
            f"  recalibrated bin by bin (bins): {_words(self.bins)}",
        ]
        if self.not_judging:
            lines.append(
                f"  {show.amount(self.not_judging)} rows chosen by class are used for fitting, not for evaluation"
            )
        return "\n".join(lines)


def _words(compared: LossChange) -> str:
    return f"{compared.log_loss:.4f}, changed by {compared.change:+.4f} ± {compared.se:.4f}: {compared.word}"


def cross_validate(prev: Prevalence, *, folds: int = FOLDS, random_state: int = 0) -> CrossValidation:
    """Does recalibration lower the log loss on the field's labelled rows? Each row is predicted by a fit without it.

    The labelled rows are split into folds. For each fold, the posterior from the other rows recalibrates the held-out
    ones, and the log loss is compared before and after. A field holds counts, so a row's prediction is taken to be the
    mean of its bin in the lab. Rows that were chosen by class are used for fitting in every fold, never for
    evaluation.

    Parameters
    ----------
    prev : Prevalence
        Of a field with labels: ``fieldcal.count(…, y=…)``.
    folds : int
        As many as there are rows is leave-one-out.
    random_state : int
        Seed of the split.

    Returns
    -------
    CrossValidation
        Means over the labelled rows; with labels chosen by score these are not means over the field.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(prevalence=[[0.9, 0.1]], n_field=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> y = [label if i < 200 else None for i, label in enumerate(data.y_field)]
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=y))
    >>> result = fieldcal.cross_validate(prev)
    >>> result.rows, result.tilt.word
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
    effective = float(prev.posterior.model.counts.field.sum()) / n
    compared = [LossChange(float(new.mean()), *paired(new - own, effective)) for new in (tilt, bins)]
    return CrossValidation(n, folds, _not_judging(prev), float(own.mean()), *compared)


def cannot_judge(prev: Prevalence) -> str | None:
    """Why cross-validation is impossible; None if it is possible."""
    if prev.labels is None:
        return "No row of this field has a label. Count some rows with their labels."
    n = sum(prev.labels.rows.get(design, 0.0) for design in JUDGES)
    if n < LEAST:
        aside = "" if not _not_judging(prev) else " Rows chosen by class do not count."
        few = f"{show.amount(n)} labelled rows are too few to evaluate predictions"
        return f"{few}: at least {LEAST} are needed.{aside} Label more."
    if any(labelled.counts.dtype.kind != "i" for labelled in prev.field.labelled.values()):
        return (
            "Labelled rows were counted with weights, of which only the sums are known, so they cannot be split into "
            "folds. Evaluate on other labelled rows, in a report."
        )
    return None


def _not_judging(prev: Prevalence) -> float:
    return 0.0 if prev.labels is None else prev.labels.rows.get("by_class", 0.0)


def _judging(prev: Prevalence) -> Ints:
    """Labelled rows to evaluate on, (L, K, m), of groups that have any."""
    counts = np.zeros(prev.posterior.model.counts.field[: len(prev.groups)].shape, dtype=np.int64)
    for design in JUDGES:
        if design in prev.field.labelled:
            labelled = prev.field.labelled[design]
            counts[labelled.at] += labelled.counts
    return counts


def _losses(prev: Prevalence, counts: Ints, n_folds: int, rng: np.random.Generator) -> Iterator[Floats]:
    """Log losses of each fold, (n, 3): before recalibration, and after it in both shapes."""
    for fold in folds(prev.posterior, counts, n_folds, rng):
        made = reweighting_with(prev, fold.posterior)
        unseen = not prev.field.grouped
        steps = made.steps(unseen=unseen), made.steps_by_bin(prev.lab.partition, unseen=unseen)
        own = np.maximum(prev.lab.bin_means, 1e-6)[fold.bins]
        yield np.column_stack([fold.losses(proba) for proba in _predictions(steps, fold, own)])


def _predictions(shapes: Iterable[tuple[BinStep | Step, ...]], fold: Fold, own: Floats) -> tuple[Floats, ...]:
    rows = RowScores(own / own.sum(axis=1, keepdims=True), binary=False, bins=fold.bins)
    return rows.values, *(rows.after([step.of(fold.groups) for step in steps]) for steps in shapes)


@dataclass(frozen=True)
class Fold:
    """Rows that are held out, and the posterior of the others."""

    posterior: ModelPosterior
    groups: Ints  # (n,) places of the groups of the rows
    classes: Ints  # (n,)
    bins: Ints  # (n,)

    def losses(self, proba: Floats) -> Floats:
        """Log loss of predictions (n, K) for the rows, (n,)."""
        return -safe_log(proba[np.arange(len(self.classes)), self.classes])


def folds(posterior: ModelPosterior, counts: Ints, n_folds: int, rng: np.random.Generator) -> Iterator[Fold]:
    """Every row is held out once.

    Parameters
    ----------
    counts : (G, K, m) labelled rows, as many as the field labels of the model are effective rows of
    """
    model = posterior.model
    labels = np.array(model.counts.field)
    cells = np.repeat(np.arange(counts.size), counts.ravel())
    fold = rng.permutation(len(cells)) % n_folds
    for i in range(n_folds):
        held = cells[fold == i]
        left = counts - np.bincount(held, minlength=counts.size).reshape(counts.shape)
        others = labels.copy()
        others[: len(counts)] *= left / np.maximum(counts, 1)
        at, classes, bins = np.unravel_index(held, counts.shape)
        yield Fold(posterior.with_counts(others, model.counts.by_class), at, classes, bins)


def paired(change: Floats, worth: float) -> tuple[float, float]:
    """Mean change of the loss and its standard error, from those of rows (n,), each worth so many effective rows."""
    n = len(change)
    return float(change.mean()), float(change.std(ddof=1) / np.sqrt(n * worth))
