"""`learn`: from labelled lab predictions to a Lab."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fieldcal.alignment import check_alignment
from fieldcal.core import partition as parts
from fieldcal.core.methods import MethodName, as_method
from fieldcal.core.partition import PartitionLike
from fieldcal.core.response import (
    auto_smoothing,
    count_cells,
    equal_rows,
    response_counts,
    row_per_weight,
    square_sums,
)
from fieldcal.errors import BinsWarning, InputError, option
from fieldcal.objects import Lab, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.objects.next_lab import class_shares
from fieldcal.objects.outcome import n_labels
from fieldcal.options import AS_VALUES, as_number, check_choice, check_goes_with, check_options, is_auto
from fieldcal.types import Design, Floats, Ints, Keys, Kind
from fieldcal.validation import (
    LAB,
    CheckedScores,
    as_scores,
    as_weights,
    bin_ids,
    is_zero,
    order_of_rows,
)
from fieldcal.verbs.calibrate import CalibrationLike, calibrated, check_calibration
from fieldcal.verbs.count import score_sums
from fieldcal.verbs.findings import warn_about_lab
from fieldcal.verbs.lab_rows import LabRows, are_of_a_number, with_classes, with_numbers, with_values
from fieldcal.verbs.lab_statistics import (
    BinnedRows,
    counts_by_group,
    decisions,
    group_statistics,
    log_loss,
    predictions_of,
)
from fieldcal.verbs.positive import classes_with_positive, refuse_swapped

_SMOOTHING = "'auto' or a number of pseudo-rows"


def learn(
    predictions: Any,
    y: Any,
    *,
    kind: Kind = "probabilities",
    design: Design | None = None,
    groups: Any = None,
    classes: Sequence[Hashable] | None = None,
    positive: Hashable = None,
    sample_weight: Any = None,
    method: MethodName = "default",
    partition: parts.PartitionLike = "auto",
    smoothing: float | Literal["auto"] = "auto",
    ordered: bool = False,
    normalize: bool = False,
    calibration: CalibrationLike = None,
    intervals: int | Literal["auto"] | Sequence[float] = "auto",
    atoms: Sequence[float] | Literal["auto"] = "auto",
    random_state: int = 0,
) -> Lab:
    """Learn from labelled lab data how predictions are distributed within each class (or interval of a number).

    Parameters
    ----------
    predictions : array-like (n,) or (n, K), a table of columns named after the classes, or predictive distributions
        Predictions of the model on rows it was not trained on. Shape (n,): the probability of the second class, or of
        the class named by ``positive``.
        Distributions of a number: made by `fieldcal.regression.from_quantiles` and its like, or objects with ``cdf``
        and ``ppf`` such as scipy's and skpro's.
    y : array-like (n,)
        The true classes; for distributions, the true numbers. Rows are matched by position; pandas objects with
        different indexes are refused. With ``kind="values"``, labels may be missing (None, NaN, null): such rows only
        add to the known categories.
    kind : "probabilities" or "values"
        Whether predictions are probabilities (or distributions), or the categories that a judge or a test reports, such
        as "pass", 4 or true: one column, or one column per judge. Categories need not be classes. Each is a bin; rare
        ones are merged, numbers with the nearest, others together. Blanks and case are ignored.
    design : "random", "by_score" or "by_class"
        With ``kind="values"``, required: how the labelled rows were chosen. At random among the rows of interest; by
        their categories or groups; or by their class, such as half of each. Labels from elsewhere count as "by_class":
        then only the judge's error rates within each class carry over.
    groups : array-like (n,), optional
        Any grouping of the lab rows, ideally the one of the field. With it, `learn` cross-validates over the lab groups
        (the rehearsal): ``Lab.rehearsal`` holds how much recalibration improved predictions on held-out groups.
    classes : sequence, optional
        The classes in the order of the columns. By default the sorted labels.
    positive : class, optional
        With predictions of shape (n,): the class whose probability they are. By default the second in sorted order.
    sample_weight : array-like (n,), optional
        Sampling weights: how many rows of the population each row represents. Only their ratios count: equal weights
        change nothing, unequal ones reduce the effective sample size (`Lab.n_effective`). A row that was observed twice
        is given twice.
    method : "default", "paper" or "reference"
        What "auto" means. "paper": for two classes 4 intervals that are equally likely in the lab (equation 11), for
        more classes the regions of the predicted class, for ordered classes and numbers as many quantiles of the
        expected value as there are classes or intervals (Section 5); no smoothing (equation 9); and no limit on the
        number of bins. "reference": the same as the authors' R code implements it, for two classes; scores of exactly 0
        are in no bin. Estimate with the same method.
    partition : "auto", int, Quantiles, Edges, Simplex, Expected, Bins or Values
        How predictions are assigned to bins; distributions by default by their means. The number of bins is limited so
        that each has ten rows of the rarer of two classes (of an average class, if there are more).
        With ``kind="values"``: the largest number of bins, or `fieldcal.partitions.Values`.
    smoothing : "auto" or float
        Pseudo-rows per class that keep every cell of M above zero; 0 for none. By default half a row per cell for
        two classes, one row per class for more.
    ordered : bool
        Whether the order of the classes is meaningful, as in grades or age bands; pass text labels in order with
        ``classes``. Bins are then of the expected rank, and `estimate` uses a prior that smooths over neighbours.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one.
    calibration : None, "sigmoid", "isotonic" or "temperature"
        Calibrate the predictions on the lab. Probabilities, here and in the field, are then the calibrated ones; bins
        still use the original predictions. "sigmoid" (Platt scaling) and "isotonic" fit each class against the rest,
        "temperature" is one number for all. Lab rows are calibrated out of fold. To merge two labs, pass the
        ``calibration_map`` of the other one.
    intervals : "auto", int or edges
        For distributions: the number of intervals, equally filled by the lab's numbers, or their edges. By default 20,
        fewer if rows are few or predictions cannot separate neighbours. An explicit request that cannot be separated
        is refused.
    atoms : "auto" or values
        For distributions: values with an interval of their own, by default those of at least a twentieth of the rows.
    random_state : int
        Seed of all random choices.

    Returns
    -------
    Lab
        For distributions, its classes are the ordered intervals; ``lab.outcome`` holds their edges.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.example().data
    >>> fieldcal.learn(data.proba_lab, data.y_lab)
    Lab: 2,000 rows, 2 classes (0 ...%, 1 ...%), 8 bins
    """
    check_call("fieldcal.learn(predictions, y)", (predictions, "predictions"), (y, "labels"))
    check_choice("kind", kind, get_args(Kind))
    if kind != "values":
        refuse_swapped(predictions, y)
    check_options(ordered=ordered, normalize=normalize, random_state=random_state)
    check_alignment(predictions=predictions, y=y, groups=groups, sample_weight=sample_weight)
    weight = as_weights(sample_weight, n=n_labels(y))
    preset = as_method(method)
    if kind == "values":
        check_goes_with(
            "values",
            normalize=normalize,
            calibration=calibration,
            intervals=intervals,
            atoms=atoms,
            method=method,
            positive=positive,
        )
        given = with_values(
            predictions,
            y,
            preset,
            design=design,
            classes=classes,
            ordered=ordered,
            weight=weight,
            partition=partition,
        )
        groups, weight = given.of_labelled(groups, weight)
    elif design is not None:
        raise InputError(
            f"{option('design', design)} describes labelled rows of the field, which `count` takes, or of a lab of "
            f"values. Leave it out, or pass {AS_VALUES}."
        )
    elif are_of_a_number(predictions, intervals=intervals, atoms=atoms):
        check_goes_with(
            "distributions",
            classes=classes,
            positive=positive,
            ordered=ordered,
            normalize=normalize,
            calibration=calibration,
        )
        given = with_numbers(
            predictions, y, preset, intervals=intervals, atoms=atoms, weight=weight, partition=partition
        )
    else:
        check_calibration(calibration, given_bins=parts.gives_bins(partition))
        classes = classes_with_positive(predictions, y, positive=positive, classes=classes)
        given = with_classes(predictions, y, preset, classes=classes, ordered=ordered, partition=partition)
    smoothing = preset.smoothing if is_auto(smoothing) else smoothing
    options: dict[str, Any] = {
        "normalize": normalize,
        "calibration": calibration,
        "random_state": random_state,
    }
    lab = _learn(given, groups, weight, smoothing, **options)
    warn_about_lab(lab)
    return lab


def _learn(
    given: LabRows,
    groups: Any,
    weight: Floats | None,
    smoothing: float | Literal["auto"],
    *,
    normalize: bool,
    calibration: CalibrationLike,
    random_state: int,
) -> Lab:
    names, y = given.outcome.labels, given.y
    ids = parts.gives_bins(given.partition)  # in place of predictions
    scores = _scores(given, normalize=normalize)
    grouped = None if groups is None else group_keys.factorize(groups, n=len(y))
    if weight is not None:  # sums of fractions depend on the order in which they are added
        order = order_of_rows(scores.values, y, weight=weight)
        scores, y, weight = scores.take(order), y[order], weight[order]
        grouped = None if grouped is None else (grouped[0], grouped[1][order])
    fitted = _fitted(replace(given, y=y), scores.values, equal_rows(weight))
    left_out = None
    if not fitted.counts_zeros and (zero := is_zero(scores.values)).any():
        left_out, rows_left = _left_out(y, zero, weight, len(names)), np.flatnonzero(~zero)
        scores, y = scores.take(rows_left), y[rows_left]
        weight = None if weight is None else weight[rows_left]
        grouped = None if grouped is None else _with_rows(grouped[0], grouped[1][rows_left])
    bins = fitted.assign(scores.values)
    F = response_counts(bins, y, n_classes=len(names), n_bins=fitted.m, weight=weight)
    _refuse_weightless(F, names, left_out)
    dealt: dict[str, Any] = {"weight": weight, "groups": grouped and grouped[1], "random_state": random_state}
    calibration_map, read = calibrated(calibration, scores, y, names, **dealt)
    rows = BinnedRows(predictions_of(read.values, bins, F, ids), y, bins, weight)
    amount = _smoothing(smoothing, F)
    return Lab(
        outcome=given.outcome,
        partition=fitted,
        F=F,
        weight_squares=square_sums(y, size=len(names), weight=weight),
        smoothing=amount,
        bin_scores=score_sums(bins, fitted.m, read, weight, shares=class_shares(F).T if ids else None),
        n=len(y),
        left_out=left_out,
        clipped=scores.clipped,
        decisions=decisions(rows, n_bins=fitted.m),
        loss=log_loss(rows),
        design=given.design,
        calibration_map=calibration_map,
        **counts_by_group(rows, grouped, None if ids else read, n_bins=fitted.m),
        **group_statistics(
            rows,
            grouped,
            n_bins=fitted.m,
            smoothing=amount,
            ordered=given.outcome.ordered,
            rehearsed=given.design is None,
            random_state=random_state,
        ),
    )


def _scores(given: LabRows, *, normalize: bool) -> CheckedScores:
    names = given.outcome.labels
    scores = (
        bin_ids(given.masses, given.partition)
        if parts.gives_bins(given.partition)
        else as_scores(given.masses, classes=names, n_classes=len(names), normalize=normalize, name=LAB)
    )
    if len(scores.values) != len(given.y):
        raise InputError(
            f"There are {len(scores.values):,} predictions but {len(given.y):,} labels. Give one label per row."
        )
    return scores


def _smoothing(asked: float | Literal["auto"], F: Any) -> float:
    return auto_smoothing(F) if is_auto(asked) else as_number("smoothing", asked, least=0, words=_SMOOTHING)


def _fitted(given: LabRows, values: Floats, weight: Floats | None) -> parts.Partition:
    K, ordered = given.outcome.size, given.outcome.ordered

    def fit(partition: PartitionLike) -> parts.Partition:
        return parts.fit_partition(partition, values, given.y, K, weight=weight, ordered=ordered)

    rows = np.bincount(given.y, weights=weight, minlength=K).astype(np.float64)
    rows = rows * row_per_weight(rows, square_sums(given.y, size=K, weight=weight))
    if not given.limited:
        return fit(given.partition)
    most = parts.most_bins(rows, ordered=ordered) if rows.any() else len(given.y)
    # As many bins as rows, at first: ties may leave few of them.
    fitted = fit(parts.with_fewer_bins(given.partition, max(most, len(given.y))))
    fewer = parts.with_fewer_bins(given.partition, most)
    if fitted.m <= most or fewer is given.partition:
        return fitted
    warnings.warn(
        BinsWarning(
            f"{fitted.m:,} bins are more than the lab's {len(given.y):,} rows can fill: noise in them would draw "
            f"every estimate to the lab. {most:,} are used. Ask for that many at most, with "
            f"{option('partition', most)}, or label more rows."
        ),
        stacklevel=5,
    )
    return fit(fewer)


def _with_rows(names: Keys, codes: Ints) -> tuple[Keys, Ints]:
    """Names of the groups that have rows, and the position of each row's group among them."""
    present, codes = np.unique(codes, return_inverse=True)
    return tuple(names[g] for g in present), codes


def _left_out(y: Ints, zero: NDArray[np.bool_], weight: Floats | None, n_classes: int) -> NDArray[Any]:
    """Rows per class that fall in no bin, with a warning."""
    warnings.warn(
        f"{int(zero.sum()):,} of {len(y):,} lab rows have a score of exactly 0. The authors' code has no bin for them: "
        "they enter the class prevalences only.",
        BinsWarning,
        stacklevel=4,
    )
    rows = y[zero]
    return count_cells(
        rows, np.zeros_like(rows), shape=(n_classes, 1), weight=None if weight is None else weight[zero]
    )[:, 0]


def _refuse_weightless(F: Any, names: Keys, left_out: Any) -> None:
    empty = ~F.any(axis=1)
    if left_out is not None and (empty & (left_out > 0)).any():
        raise InputError(
            f"All rows of class {names[int(empty.argmax())]!r} have a score of exactly 0, for which the authors' code "
            f"has no bin. Use {option('method', 'paper')}."
        )
    if empty.any():
        raise InputError(
            f"All rows of class {names[int(F.any(axis=1).argmin())]!r} have weight zero, so its response "
            "cannot be estimated. Give them weight, or leave the class out."
        )
