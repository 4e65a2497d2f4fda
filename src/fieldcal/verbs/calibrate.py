"""Calibration of the lab's predictions; lab rows are calibrated out of fold."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from fieldcal.core.calibration import CALIBRATIONS, CalibrationMap, CalibrationName
from fieldcal.core.response import equal_rows
from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.options import AS_VALUES, check_choice
from fieldcal.types import Floats, Ints, Keys
from fieldcal.validation import CheckedScores, order_of_rows

if TYPE_CHECKING:
    from fieldcal.core.calibration import Curve

CalibrationLike = CalibrationName | CalibrationMap | None
#: Number of folds of the out-of-fold calibration.
FOLDS = 5


def check_calibration(calibration: object, *, given_bins: bool) -> None:
    """Refuse unknown calibrations, and any calibration of bin ids."""
    if calibration is None:
        return
    if not isinstance(calibration, (str, CalibrationMap)):
        raise InputTypeError(
            f"calibration must be {', '.join(map(repr, CALIBRATIONS))}, or the calibration_map of another lab, but got "
            f"{type(calibration).__name__}."
        )
    if given_bins:
        shown = calibration if isinstance(calibration, str) else calibration.method
        raise InputError(
            f"{option('calibration', shown)} needs predictions, but bins were given instead: of these the lab "
            "knows the shares of the classes anyway. Leave it out."
        )
    if isinstance(calibration, str):
        check_choice("calibration", calibration, CALIBRATIONS)


def calibrated(
    calibration: CalibrationLike,
    scores: CheckedScores,
    y: Ints,
    names: Keys,
    *,
    weight: Floats | None,
    groups: Ints | None,
    random_state: int,
) -> tuple[CalibrationMap | None, CheckedScores]:
    """The calibration map (None without one), and the lab's predictions calibrated out of fold.

    A given map was fitted to other rows and is applied as it is. A map that is fitted here is never applied to the
    rows that it was fitted to: each fold is calibrated by curves from the other folds.

    Parameters
    ----------
    names : the classes
    groups : (n,) positions; folds do not depend on the order of the rows
    """
    if calibration is None:
        return None, scores
    values = scores.values
    if isinstance(calibration, CalibrationMap):
        _refuse_foreign(calibration, names)
        return calibration, replace(scores, values=calibration.read(values))
    from fieldcal.core.calibration import read_by, tabulated  # loads scipy.optimize

    lab = _LabRows(calibration, values, y, len(names), _weight(weight, len(y)))
    _refuse_unfit(lab, names)
    curves = lab.curves(np.arange(len(y)))
    _refuse_falling(curves, names)
    order = order_of_rows(values, y, *(() if groups is None else (groups,)), weight=weight)
    part = lab.dealt(order, np.random.default_rng([random_state, 6]))
    read = np.empty_like(values)
    for fold in range(FOLDS):
        read[part == fold] = read_by(lab.curves(np.flatnonzero(part != fold)), values[part == fold])
    return tabulated(calibration, curves, names), replace(scores, values=read)


@dataclass(frozen=True)
class _LabRows:
    method: CalibrationName
    values: Floats  # (n,) or (n, K)
    y: Ints
    n_classes: int
    weight: Floats  # effective sample sizes

    def curves(self, rows: Ints) -> tuple[Curve, ...]:
        """Curves fitted to these rows, without those of weight zero, in an order that depends on their content only."""
        from fieldcal.core.calibration import fit_curves

        rows = rows[self.weight[rows] > 0]
        rows = rows[order_of_rows(self.values[rows], self.y[rows], weight=self.weight[rows])]
        return fit_curves(self.method, self.values[rows], self.y[rows], self.n_classes, self.weight[rows])

    def dealt(self, order: Ints, rng: np.random.Generator) -> Ints:
        """The fold of every row: random, stratified by class and by whether the weight is zero."""
        shuffled = order[rng.permutation(len(order))]
        kinds = 2 * self.y[shuffled] + (self.weight[shuffled] > 0)
        shuffled = shuffled[np.argsort(kinds, kind="stable")]
        part = np.empty(len(order), dtype=np.intp)
        part[shuffled] = np.arange(len(order)) % FOLDS
        return part


def _refuse_foreign(given: CalibrationMap, names: Keys) -> None:
    if (fault := given.fault(names)) is not None:
        raise InputError(
            f"{option('calibration')} does not fit these predictions: {fault}. Pass the map of a lab with the same "
            "classes in the same order, or fit a new one: "
            f"{option('calibration', given.method if given.method in CALIBRATIONS else CALIBRATIONS[0])}."
        )


def _weight(weight: Floats | None, n: int) -> Floats:
    rows = equal_rows(weight)
    return np.ones(n) if rows is None else rows


def _refuse_unfit(lab: _LabRows, names: Keys) -> None:
    rows = np.bincount(lab.y[lab.weight > 0], minlength=lab.n_classes)
    if rows.min() < 2 * FOLDS:
        raise InputError(
            f"Calibration needs at least {2 * FOLDS} lab rows of each class, but class {names[int(rows.argmin())]!r} "
            f"has {rows.min()}. Label more rows of it, or leave {option('calibration', lab.method)} out."
        )
    if np.isin(lab.values, (0.0, 1.0)).all():
        raise InputError(
            "All lab predictions are exactly 0 or 1: these are decisions, which cannot be calibrated to "
            f"probabilities. Pass the model's probabilities, or treat them as categories: {AS_VALUES}."
        )


def _refuse_falling(curves: tuple[Curve, ...], names: Keys) -> None:
    for k, curve in enumerate(curves):
        if not curve.rises:
            shared = len(curves) == 1 and len(names) > 2
            whose = "" if shared else f" for class {names[k if len(curves) > 1 else 1]!r}"
            raise InputError(
                f"The predictions{whose} are no higher on rows of the class than on others, so there is nothing "
                f"to calibrate. Are the columns in the order of the classes {names!r:.200}? If not, pass "
                f"{option('classes')} in their order."
            )
