"""learn: from labelled lab predictions to a Lab."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fieldcal.alignment import check_alignment
from fieldcal.core import partition as parts
from fieldcal.core.goodness_of_fit import homogeneity
from fieldcal.core.group_bias import group_bias
from fieldcal.core.methods import Method, MethodName, as_method
from fieldcal.core.ordered import approximate_ordered_mean
from fieldcal.core.partition import Expected, PartitionLike, as_columns
from fieldcal.core.response import (
    auto_smoothing,
    count_cells,
    equal_rows,
    response_counts,
    response_matrix,
    row_per_weight,
    smoothing_cells,
    square_sums,
    whole,
)
from fieldcal.core.shrinkage import approximate_posterior_mean
from fieldcal.core.trust import rehearse
from fieldcal.core.values import Values
from fieldcal.errors import BinsWarning, InputError, TrustWarning, option
from fieldcal.objects import SCORE_UNIT, Classes, Lab, Outcome, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.objects.lab_groups import GroupCounts, count_by_group
from fieldcal.objects.next_lab import class_shares
from fieldcal.objects.outcome import are_distributions, as_numbers, n_labels
from fieldcal.options import AS_VALUES, as_number, check_choice, check_goes_with, check_options, is_auto
from fieldcal.types import Design, Floats, Ints, Keys, Kind
from fieldcal.validation import (
    LAB,
    Scores,
    as_labels,
    as_scores,
    as_weights,
    bin_ids,
    check_order,
    is_zero,
    order_of_rows,
    score_sums,
)
from fieldcal.verbs.calibrate import CalibrationLike, calibrated, check_calibration
from fieldcal.verbs.count import as_distributions
from fieldcal.verbs.findings import warn_about_lab
from fieldcal.verbs.positive import classes_with_positive, refuse_swapped
from fieldcal.verbs.values import LabValues, design_of_values

#: The largest lab groups that are compared with each other; more would add memory, not knowledge.
_HOMOGENEITY_GROUPS = 2_000
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
    """Learn from labelled lab data how predictions are distributed given the class, or the number.

    Parameters
    ----------
    predictions : array-like (n,) or (n, K), a table of columns named after the classes, or predictive distributions
        Predictions of the model on rows it was not trained on. Shape (n,): the probability of the second class, or of
        the one that ``positive`` names.
        Distributions of a number: made by `fieldcal.regression.from_quantiles` and its like, or objects with ``cdf``
        and ``ppf`` such as scipy's and skpro's.
    y : array-like (n,)
        The true classes; of distributions, the true numbers. Rows are matched by position: pandas objects whose indexes
        disagree are refused, here and wherever several are given. Of values, labels may be missing (None, NaN, null):
        such rows only tell which values there are.
    kind : "probabilities" or "values"
        Whether predictions are probabilities (or distributions), or values: what a judge or a test says, such as
        "pass", 4 or true, in one column, or in one column per judge. Values need not be classes. Each is a bin; those
        with few labelled rows are merged, numbers with the nearest and others together. Blanks and case do not tell
        values apart.
    design : "random", "by_score" or "by_class"
        Of values, and needed there: how the labelled rows were chosen among the rows in question. At random; by looking
        at their values or groups; or by their class, such as half of each, which also stands for labels from elsewhere:
        then only what the judge says of each class carries over.
    groups : array-like (n,), optional
        Any grouping of the lab rows, best the one that the field will have. With it, `learn` rehearses: the lab's own
        groups play the field, and ``Lab.rehearsal`` holds how far the correction helped on labels held out.
    classes : sequence, optional
        The classes in the order of the columns. By default the sorted labels.
    positive : class, optional
        With predictions of shape (n,): which of the two classes they are the probability of. By default the second in
        sorted order.
    sample_weight : array-like (n,), optional
        Sampling weights: how many rows of the population each row stands for. Only their ratios count: equal weights
        say the same as none, and unequal ones are worth fewer rows (`Lab.n_effective`). A row that was seen twice is
        given twice.
    method : "default", "paper" or "reference"
        What "auto" means. "paper" is the paper's: of two classes 4 intervals that are equally likely in the lab
        (equation 11), of more the regions of the predicted class, of ordered classes and numbers as many quantiles of
        the expected value as there are classes or intervals (Section 5); counted as they are, ``smoothing=0``
        (equation 9); as many bins as are asked for, whether the lab can fill them or not. "reference" is the same as
        the authors' R code has it, for two classes: scores of exactly 0 are in no bin. Estimate with the same method.
    partition : "auto", int, Quantiles, Edges, Simplex, Expected, Bins or Values
        How predictions are sent to bins. Distributions are binned by their means by default. More bins than the lab
        can fill, with ten rows of the rarer of two classes (of an average one of more) behind each, are not given.
        Of values: how many bins at most, or `fieldcal.partitions.Values`.
    smoothing : "auto" or float
        Pseudo-rows per class that keep every cell of M above zero; 0 for none. By default half a row per cell for
        two classes, one row per class for more.
    ordered : bool
        Whether the order of the classes means something, as in grades or age bands; give text in its order with
        ``classes``. Bins are then of the expected place in the order, and `estimate` lets neighbours inform each other.
    normalize : bool
        Rescale rows of (n, K) predictions to sum to one.
    calibration : None, "sigmoid", "isotonic" or "temperature"
        Calibrate the predictions on the lab: whatever is read as a probability, here and in the field, is then the
        calibrated prediction, while bins stay those of what the model said. "sigmoid" (Platt's, on the logit) and
        "isotonic" are fitted to each class against the rest, "temperature" is one number for all. The lab's own rows
        are read by fits to the other rows. Also the ``calibration_map`` of another lab of the same classes, to
        merge the two.
    intervals : "auto", int or edges
        Of distributions: how many intervals, equally filled by the lab's numbers; or where to cut. By default 20, fewer
        where rows are few or where predictions cannot tell neighbours apart. Asked for explicitly, intervals that
        cannot be told apart are refused.
    atoms : "auto" or values
        Of distributions: values with an interval of their own, by default those of a twentieth of the rows or more.
    random_state : int
        Seed of whatever is drawn.

    Returns
    -------
    Lab
        Of distributions, its classes are the intervals in order, and ``lab.outcome`` says where they lie.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.example().data
    >>> fieldcal.learn(data.proba_lab, data.y_lab)
    Lab: 2,000 rows, 2 classes (0 ...%, 1 ...%), 8 bins, condition number ...
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
            f"{option('design', design)} is about labelled rows of the field, which `count` takes, or of a lab of "
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
    names, y, partition = given.outcome.labels, given.y, given.partition
    ids = parts.gives_bins(partition)  # in place of predictions
    scores = (
        bin_ids(given.masses, partition)
        if parts.gives_bins(partition)
        else as_scores(given.masses, classes=names, n_classes=len(names), normalize=normalize, name=LAB)
    )
    if len(scores.values) != len(y):
        raise InputError(
            f"There are {len(scores.values)} predictions but {len(y)} labels. Give one label per row."
        )
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
    found, read = calibrated(calibration, scores, y, names, **dealt)
    rows = _Rows(_predictions(read.values, bins, F, ids), y, bins, weight)
    amount = (
        auto_smoothing(F)
        if is_auto(smoothing)
        else as_number("smoothing", smoothing, least=0, words=_SMOOTHING)
    )
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
        decisions=_decisions(rows, n_bins=fitted.m),
        loss=_loss(rows),
        design=given.design,
        calibration_map=found,
        **_counts_of_groups(rows, grouped, None if ids else read, n_bins=fitted.m),
        **_of_groups(
            rows,
            grouped,
            n_bins=fitted.m,
            smoothing=amount,
            ordered=given.outcome.ordered,
            rehearsed=given.design is None,
            random_state=random_state,
        ),
    )


def _fitted(given: LabRows, values: Floats, weight: Floats | None) -> parts.Partition:
    """The partition that was asked for, with no more bins than the lab's rows can fill."""
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
    """The groups that have rows left, and the place of each row's group among them."""
    present, codes = np.unique(codes, return_inverse=True)
    return tuple(names[g] for g in present), codes


def _left_out(y: Ints, zero: NDArray[np.bool_], weight: Floats | None, n_classes: int) -> NDArray[Any]:
    """Rows per class that are in no bin; told, as nothing is dropped in silence."""
    warnings.warn(
        f"{int(zero.sum()):,} of {len(y):,} lab rows have a score of exactly 0. The authors' code has no bin for them: "
        "they count for the classes' prevalences and for nothing else.",
        BinsWarning,
        stacklevel=4,
    )
    rows = y[zero]
    return count_cells(
        rows, np.zeros_like(rows), shape=(n_classes, 1), weight=None if weight is None else weight[zero]
    )[:, 0]


def _refuse_weightless(F: Any, names: Keys, left_out: Any) -> None:
    lost = ~F.any(axis=1)
    if left_out is not None and (lost & (left_out > 0)).any():
        raise InputError(
            f"All rows of class {names[int(lost.argmax())]!r} have a score of exactly 0, for which the authors' code "
            f"has no bin. Use {option('method', 'paper')}."
        )
    if lost.any():
        raise InputError(
            f"All rows of class {names[int(F.any(axis=1).argmin())]!r} have weight zero, so that nothing can be "
            "learnt about it. Give them weight, or leave the class out."
        )


@dataclass(frozen=True)
class _Rows:
    proba: Floats  # (n, K), rows sum to one
    y: Ints
    bins: Ints
    weight: Floats | None

    def in_one_order(self, groups: Ints) -> tuple[_Rows, Ints]:
        """Sorted by what they hold: no fold, sum or digest may depend on the order in which the rows came."""
        order = order_of_rows(self.proba, self.bins, self.y, groups, weight=self.weight)
        return self.take(order), groups[order]

    def take(self, order: Ints) -> _Rows:
        """The same rows in another order."""
        weight = None if self.weight is None else self.weight[order]
        return _Rows(self.proba[order], self.y[order], self.bins[order], weight)


def _predictions(values: Floats, bins: Ints, F: Any, given_ids: bool) -> Floats:
    """One column per class. With given bin ids, the lab's share of each class in the bin stands in."""
    if not given_ids:
        proba = as_columns(values)
        return np.asarray(proba / proba.sum(axis=1, keepdims=True))
    return class_shares(F).T[bins]


def _decisions(rows: _Rows, *, n_bins: int) -> Any:
    K = rows.proba.shape[1]
    decided = rows.bins * K + rows.proba.argmax(axis=1)
    return count_cells(rows.y, decided, shape=(K, n_bins * K), weight=rows.weight).reshape(K, n_bins, K)


def _counts_of_groups(
    rows: _Rows, groups: tuple[Keys, Ints] | None, scores: Scores | None, *, n_bins: int
) -> dict[str, Any]:
    """The lab's groups, those with weight, and their rows by class and bin; without scores no sums of predictions."""
    if groups is None:
        return {}
    names, codes = groups
    if rows.weight is not None:  # as in `_learn`; the order of scores alone leaves that of groups open
        order = order_of_rows(rows.proba, rows.bins, rows.y, codes, weight=rows.weight)
        rows, codes = rows.take(order), codes[order]
        scores = None if scores is None else scores.take(order)
    shape = (rows.proba.shape[1], n_bins)
    cells = count_by_group(codes, rows.y, rows.bins, shape=shape, weight=rows.weight)
    present, place = np.unique(cells.group), np.zeros(len(names), dtype=np.intp)
    place[present] = np.arange(len(present))
    sums = None if scores is None else score_sums(codes, len(names), scores, rows.weight)[present]
    return {
        "groups": tuple(names[g] for g in present),
        "by_group": GroupCounts(cells=cells.moved(place).at, rows=cells.rows, prediction_sums=sums),
    }


def _of_groups(
    rows: _Rows,
    groups: tuple[Keys, Ints] | None,
    *,
    n_bins: int,
    smoothing: float,
    ordered: bool,
    rehearsed: bool,
    random_state: int,
) -> dict[str, Any]:
    """What the lab's own groups say: a rehearsal of the field, and whether classes look alike in all of them.

    Values are not rehearsed: a rehearsal asks what becomes of probabilities.
    """
    if groups is None:
        return {}
    names, codes = groups
    if len(names) > len(rows.y) / 2:
        warnings.warn(
            f"The lab's {len(rows.y):,} rows fall into {len(names):,} groups, hardly two each: nothing can be "
            "rehearsed. Is this an id? Use a coarser grouping.",
            TrustWarning,
            stacklevel=4,
        )
        return {}
    rows, codes = rows.in_one_order(codes)
    rows = replace(rows, weight=equal_rows(rows.weight))
    table = _by_group(rows, codes, len(names), n_bins)
    alike = {"homogeneity": homogeneity(table)}
    if not rehearsed:
        return alike
    K = rows.proba.shape[1]

    def plug(F: Floats, V: Floats) -> tuple[Floats, Floats]:
        p_lab = F.sum(axis=1) / F.sum()
        if ordered and K > 2:
            return approximate_ordered_mean(F + smoothing_cells(F, smoothing), V, p_lab=p_lab)
        return approximate_posterior_mean(F, V, smoothing=smoothing, p_lab=p_lab)

    rehearsal = rehearse(
        rows.proba,
        rows.y,
        codes,
        rows.bins,
        n_bins=n_bins,
        estimate=plug,
        weight=rows.weight,
        random_state=random_state,
    )
    F = count_cells(rows.y, rows.bins, shape=(K, n_bins), weight=rows.weight)
    M = response_matrix(F, smoothing=smoothing)
    bias = group_bias(rows.proba, rows.y, codes, bins=rows.bins, M=M, weight=rows.weight)
    return {
        **alike,
        "rehearsal": rehearsal,
        "bias": bias,
        "bias_groups": () if bias is None else tuple(names[int(g)] for g in bias.group),
    }


def _by_group(rows: _Rows, codes: Ints, n_groups: int, n_bins: int) -> NDArray[Any]:
    K = rows.proba.shape[1]
    size = np.bincount(codes, minlength=n_groups)
    largest = np.argsort(-size, kind="stable")[:_HOMOGENEITY_GROUPS]
    place = np.full(n_groups, -1, dtype=np.intp)
    place[largest] = np.arange(len(largest))
    used = place[codes] >= 0
    table = count_cells(
        place[codes[used]],
        rows.y[used] * n_bins + rows.bins[used],
        shape=(len(largest), K * n_bins),
        weight=None if rows.weight is None else rows.weight[used],
    )
    return table.reshape(-1, K, n_bins)


def _loss(rows: _Rows) -> NDArray[Any] | None:
    """Log loss summed by class, in whole units; None if it is infinite."""
    rows, _ = rows.in_one_order(np.zeros_like(rows.y))
    # A row without weight is no row, however wrong its prediction.
    used = slice(None) if rows.weight is None else rows.weight > 0
    proba, y, weight = rows.proba[used], rows.y[used], None if rows.weight is None else rows.weight[used]
    with np.errstate(divide="ignore"):
        cost = -np.log(proba[np.arange(len(y)), y])
    if np.isinf(cost).any():
        return None
    units = np.floor(cost / SCORE_UNIT + 0.5)  # whole, so that labs add up exactly
    if weight is not None:
        return whole(np.bincount(y, weights=units * weight, minlength=proba.shape[1]))
    total = np.zeros(proba.shape[1], dtype=np.int64)
    np.add.at(total, y, units.astype(np.int64))
    return total


@dataclass(frozen=True)
class LabRows:
    """Lab rows, and what they are of."""

    outcome: Outcome
    masses: Any  # probabilities as they were given (or bin ids in their place), or the masses of intervals
    y: Ints
    partition: PartitionLike
    limited: bool  # whether there may be no more bins than the lab's rows can fill
    design: Design | None = None  # of values
    rows: Ints | None = None  # of values: which of the rows that were given have a label
    given: int = 0  # of values: how many were given

    def of_labelled(self, groups: Any, weight: Floats | None) -> tuple[Any, Floats | None]:
        """The groups and weights of the rows that have a label."""
        if groups is not None:
            names, codes = group_keys.factorize(groups, n=self.given)
            groups = [names[g] for g in codes[self.rows]]
        return groups, None if weight is None else weight[self.rows]


def are_of_a_number(predictions: Any, *, intervals: Any, atoms: Any) -> bool:
    """Whether distributions were given, or what only goes with them."""
    told = not (isinstance(intervals, str) and isinstance(atoms, str) and intervals == atoms == "auto")
    return told or are_distributions(predictions)


def with_classes(
    predictions: Any,
    y: Any,
    method: Method,
    *,
    classes: Sequence[Hashable] | None,
    ordered: bool,
    partition: PartitionLike,
) -> LabRows:
    """Probabilities and the true classes."""
    names, codes = as_labels(y, classes=classes)
    if ordered and classes is None:
        check_order(names)
    method.check(len(names))
    if isinstance(partition, Values):
        raise InputError(f"Values(…) is a partition of values. Pass {AS_VALUES} with it.")
    partition = method.partition(len(names)) if is_auto(partition) else partition
    outcome = Classes(labels=names, ordered=ordered)
    return LabRows(outcome, predictions, codes, method.cut(partition), method.limits_bins)


def with_values(
    predictions: Any,
    y: Any,
    method: Method,
    *,
    design: Any,
    classes: Sequence[Hashable] | None,
    ordered: bool,
    weight: Floats | None,
    partition: PartitionLike,
) -> LabRows:
    """Values of judges and the true classes of some of the rows."""
    chosen = design_of_values(design)
    found = LabValues.of(predictions, y)
    names, codes = as_labels(found.y, classes=classes)
    if ordered and classes is None:
        check_order(names)
    outcome = Classes(labels=names, ordered=ordered)
    used = None if weight is None else weight[found.rows]
    rows = np.bincount(codes, weights=used, minlength=len(names)).astype(np.float64)
    effective = rows * row_per_weight(rows, square_sums(codes, size=len(names), weight=used))
    fitted = found.fitted(partition, effective, ordered=ordered)
    return LabRows(
        outcome,
        found.placed(fitted),
        codes,
        fitted,
        method.limits_bins,
        design=chosen,
        rows=found.rows,
        given=len(found.columns[0]),
    )


def with_numbers(
    predictions: Any,
    y: Any,
    method: Method,
    *,
    intervals: Any,
    atoms: Any,
    weight: Floats | None,
    partition: PartitionLike,
) -> LabRows:
    """Distributions and the true numbers: a classification over intervals, binned by the expected number."""
    from fieldcal.regression.intervals import find_intervals

    known, numbers = as_distributions(predictions), as_numbers(y)
    if len(known) != len(numbers):
        raise InputError(f"There are {len(known)} predictions but {len(numbers)} numbers. Give one each.")
    expected = known.mean()
    order = order_of_rows(expected, numbers, weight=weight)
    rows = equal_rows(None if weight is None else weight[order])
    outcome = find_intervals(expected[order], numbers[order], intervals, atoms, rows)
    codes, size = outcome.codes(numbers), outcome.size
    method.check(size)
    partition = method.partition(size) if is_auto(partition) else partition
    cut = method.cut(_by_mean(partition, numbers, codes, size))
    return LabRows(outcome, outcome.masses(known), codes, cut, method.limits_bins)


def _by_mean(partition: PartitionLike, y: Floats, codes: Ints, size: int) -> PartitionLike:
    """Bins of the expected number, unless something else than their number is asked for."""
    if is_auto(partition):
        partition = int(np.clip(len(y) // 50, 4, max(8, 3 * size // 2))) if size > 2 else partition
    if size == 2 or isinstance(partition, bool) or not isinstance(partition, (int, np.integer)):
        return partition
    order = np.argsort(y)  # a sum of numbers depends on their order
    means = np.bincount(codes[order], weights=y[order]) / np.bincount(codes)
    return Expected(int(partition), tuple(means.tolist()))
