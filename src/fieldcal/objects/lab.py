"""Lab: the distribution of predictions within each class, from labelled rows."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field as Slot
from pydantic import SerializerFunctionWrapHandler, model_serializer, model_validator

from fieldcal.core.calibration import CalibrationMap
from fieldcal.core.goodness_of_fit import Calibration, Homogeneity, bin_calibration
from fieldcal.core.group_bias import GroupBias
from fieldcal.core.response import Conditioning, conditioning, in_class_rows, row_per_weight, smoothing_cells
from fieldcal.core.trust import Rehearsal
from fieldcal.core.values import Values
from fieldcal.errors import InputError, InputTypeError
from fieldcal.objects import group_keys, lab_groups, next_lab, rates, show
from fieldcal.objects.artefact import (
    LARGEST,
    MOST,
    SCORE_UNIT,
    Artefact,
    Counts,
    KeyTuple,
    PartitionField,
    check_shapes,
    record,
    sealed,
)
from fieldcal.objects.lab_groups import GroupCounts
from fieldcal.objects.outcome import Columns, Outcome
from fieldcal.options import Predicted
from fieldcal.types import Design, Keys

if TYPE_CHECKING:
    from rich.console import Group

    from fieldcal.objects.field import Field

#: Fields that are left out of the file when unused, so that digests of older labs stay the same.
_LEFT_OUT_IF_EMPTY = ("calibration_map", "groups", "by_group")


class Lab(Artefact):
    """The distribution of predictions within each class, learned from labelled data.

    Made by `fieldcal.learn`. Holds the counts `F` behind `M`, the partition, and diagnostics. `Lab + Lab` merges labs
    with the same bins, exactly and in any order; of two rehearsals, which need the rows, that of the larger lab is
    kept.

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, *_ = fieldcal.datasets.example()
    >>> lab.M.shape, lab.classes, lab.conditioning.rank
    ((2, 8), (0, 1), 2)
    >>> fieldcal.Lab.from_json(lab.to_json()) == lab
    True
    >>> more = fieldcal.learn(data.proba_lab[:900], data.y_lab[:900], partition=lab.partition)
    >>> (lab + more).n, lab + more == more + lab
    (2900, True)
    """

    kind: ClassVar[str] = "lab"

    outcome: Outcome  # classes, or intervals of a number
    partition: PartitionField
    F: Counts  # (K, m) rows per class and bin, or sums of weights
    weight_squares: Counts  # (K,) sums of the squared weights; numbers of rows if unweighted
    smoothing: float = Slot(ge=0, le=LARGEST)
    bin_scores: Counts  # (m, K) sums of the predictions in each bin, in units of SCORE_UNIT
    n: int = Slot(ge=1, lt=MOST)
    left_out: Counts | None = None  # (K,) rows in no bin, or sums of weights
    clipped: int = Slot(default=0, ge=0, lt=MOST)
    loss: Counts | None = None  # (K,) sums of −log of the class's prediction, in SCORE_UNIT; None: infinite
    decisions: Counts  # (K, m, K) lab rows by class, bin and largest prediction
    rehearsal: record(Rehearsal) | None = None  # type: ignore[valid-type]
    homogeneity: record(Homogeneity) | None = None  # type: ignore[valid-type]
    bias: record(GroupBias) | None = None  # type: ignore[valid-type]
    bias_groups: KeyTuple = ()  # the groups of `bias`
    groups: KeyTuple = ()  # groups of the lab rows; empty without groups
    by_group: GroupCounts | None = None  # rows of each of `groups` by class and bin
    columns: Columns | None = None  # column names, if learnt from a table
    design: Design | None = None  # for categories: how the labelled rows were chosen
    calibration_map: record(CalibrationMap) | None = None  # type: ignore[valid-type]  # what predictions are read as

    @model_serializer(mode="wrap")
    def _without_unused(self, content: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]
        """Leave unused optional fields out of the file, so that digests of older labs stay the same.

        Without a return type, so that the JSON schema is that of the fields.
        """
        return {k: v for k, v in content(self).items() if v or k not in _LEFT_OUT_IF_EMPTY}

    @model_validator(mode="after")
    def _shapes(self) -> Self:
        K, m = self.outcome.size, self.partition.m
        tables = {"F": (K, m), "bin_scores": (m, K), "decisions": (K, m, K)}
        check_shapes(self, {**tables, **dict.fromkeys(("left_out", "loss", "weight_squares"), (K,))})
        if (rehearsal := self.rehearsal) is not None:
            grid = (rehearsal.grid.size,)
            by_trust = dict.fromkeys(("grid", "change_by_trust", "change_by_trust_se"), grid)
            check_shapes(rehearsal, {**by_trust, "excess_variance": (*grid, K)}, "rehearsal: ")
        if self.bias is not None:
            columns = ("group", "of", "bias", "error", "adjusted", "miss", "after")
            check_shapes(self.bias, dict.fromkeys(columns, (len(self.bias_groups),)), "bias of bias_groups: ")
        if self.by_group is not None:
            self.by_group.check(len(self.groups), K, m)
        if self.columns is not None:
            self._check_columns(self.columns)
        fault = None if self.calibration_map is None else self.calibration_map.fault(self.classes)
        if fault is not None:
            raise ValueError(f"calibration_map: {fault}")
        return self

    def _check_columns(self, columns: Columns) -> None:
        """Check that columns fit the outcome: probabilities, quantiles, or categories with one column per judge."""
        if not isinstance(self.partition, Values):
            self.outcome.check_columns(columns)
        elif columns.levels is not None or len(columns.scores) != self.partition.judges:
            raise ValueError(
                f"columns of values must be {self.partition.judges}, one per judge, without levels"
            )

    @cached_property
    def classes(self) -> Keys:
        """The classes in order; for a number, the labels of its intervals."""
        return self.outcome.labels

    @property
    def ordered(self) -> bool:
        """Whether the order of the classes is meaningful."""
        return self.outcome.ordered

    @cached_property
    def M(self) -> NDArray[np.float64]:
        """The response matrix: `M[i, j]` is the probability of bin `j` given class `i`."""
        return sealed(self.A / self.A.sum(axis=1, keepdims=True))

    @cached_property
    def A(self) -> NDArray[np.float64]:
        """Smoothed counts behind M: the Dirichlet parameters of its posterior."""
        return sealed(in_class_rows(self.F, self.n_effective) + smoothing_cells(self.F, self.smoothing))

    @cached_property
    def n_effective(self) -> NDArray[np.float64]:
        """Effective sample size per class: Kish's ``(Σ w)² / Σ w²``."""
        rows = self.F.sum(axis=1)
        return sealed(rows * row_per_weight(rows, self.weight_squares))

    @cached_property
    def F_effective(self) -> NDArray[np.float64]:
        """`F` in effective rows of the whole lab; class and bin shares are those of the weights."""
        return sealed(self.F * self.effective_per_row)

    @cached_property
    def effective_per_row(self) -> float:
        """Effective rows per row (or unit of weight) in `F` and `group_counts`; exactly 1 without weights."""
        return float(row_per_weight(self.F.sum(), self.weight_squares.sum()))

    def group_counts(self, groups: Any = None) -> NDArray[np.float64]:
        """Rows by class and bin of each group, (n, K, m), in the units of `F`.

        Summed over all groups they equal `F`, until `extended` adds rows without a group, or rows that carry no
        information on the class frequencies of a group.

        Parameters
        ----------
        groups : positions among `Lab.groups`, as from `row_of_group`, by default all; −1 means a group without rows
        """
        places = np.arange(len(self.groups)) if groups is None else np.asarray(groups, dtype=np.intp)
        if len(places) and not -1 <= places.min() <= places.max() < len(self.groups):
            raise InputError(
                f"groups must be positions from -1 to {len(self.groups) - 1}, but got {groups!r:.60}."
            )
        if self.by_group is None:
            return np.zeros((len(places), *self.F.shape))
        return lab_groups.dense(self.by_group, places, self._cells_shape)

    def row_of_group(self, key: Hashable) -> int:
        """The position of a group among `Lab.groups`; −1 if the lab has no rows of it."""
        return self._place_of_group.get(group_keys.identity(group_keys.normalize(key)), -1)

    @cached_property
    def group_rows(self) -> NDArray[np.float64]:
        """(G,) labelled rows of each of `groups`, or sums of weights."""
        return sealed(self._sums_by_group(np.ones((self.n_bins, 1)))[:, 0])

    @cached_property
    def group_mean_predictions(self) -> NDArray[np.float64]:
        """(G, K) mean prediction of each of `groups`; for bins or categories, mean of `bin_predictions`."""
        given = None if self.by_group is None else self.by_group.prediction_sums
        sums = self._sums_by_group(self.bin_predictions) if given is None else given.astype(np.float64)
        equal = np.full(sums.shape, 1.0 / sums.shape[1])
        total = sums.sum(axis=1, keepdims=True)
        return sealed(np.divide(sums, total, out=equal, where=total > 0))

    def _sums_by_group(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.by_group is None:
            return np.zeros((len(self.groups), values.shape[1]))
        return lab_groups.cells_of(self.by_group, self._cells_shape).sums(len(self.groups), values)

    @cached_property
    def _place_of_group(self) -> dict[Hashable, int]:
        return {group_keys.identity(key): i for i, key in enumerate(self.groups)}

    @property
    def _cells_shape(self) -> tuple[int, int]:
        return self.outcome.size, self.n_bins

    @cached_property
    def p_lab(self) -> NDArray[np.float64]:
        """Class prevalences in the lab, including rows in no bin."""
        rows = self.F.sum(axis=1) + (0 if self.left_out is None else self.left_out)
        return sealed(rows / rows.sum())

    @cached_property
    def conditioning(self) -> Conditioning:
        """Rank, condition number and smallest singular value of M."""
        return conditioning(self.M)

    @cached_property
    def confusion(self) -> NDArray[Any]:
        """Lab rows by class and by the largest prediction, (K, K)."""
        return sealed(self.decisions.sum(axis=1))

    @property
    def accuracy(self) -> float:
        """The share of lab rows whose largest prediction is their class."""
        return float(np.trace(self.confusion) / self.confusion.sum())

    @property
    def log_loss(self) -> float | None:
        """Log loss of the lab's predictions; None if it is infinite."""
        return None if self.loss is None else float(self.loss.sum() * SCORE_UNIT / self.F.sum())

    @cached_property
    def bin_means(self) -> NDArray[np.float64]:
        """The mean prediction in each bin, (m, K); the overall mean for an empty bin."""
        total = self.bin_scores.sum(axis=1, keepdims=True).astype(np.float64)
        overall = self.bin_scores.sum(axis=0) / max(float(self.bin_scores.sum()), 1e-300)
        empty = np.broadcast_to(overall, self.bin_scores.shape).copy()
        return sealed(np.divide(self.bin_scores, total, out=empty, where=total > 0))

    @property
    def of_values(self) -> bool:
        """Whether predictions are categories, such as the verdicts of a judge, rather than probabilities."""
        return self.partition.takes == "values"

    @property
    def predicted(self) -> Predicted:
        """The kind of predictions: probabilities, distributions of a number, or values."""
        return "values" if self.of_values else self.outcome.predicted

    @cached_property
    def bin_predictions(self) -> NDArray[np.float64]:
        """For bins or categories: the class probabilities that a row of each contributes to a mean prediction, (m, K).

        The lab's class shares in the bin; for a category that is the name of a class, that class.
        """
        rows = self.F.sum(axis=0)[:, None]
        shares = self.F.T / np.maximum(rows, 1e-300)
        if isinstance(self.partition, Values):
            shares = np.where(rows > 0, shares, self.p_lab)
            for j, k in self.partition.says(self.classes).items():
                shares[j] = np.eye(len(self.F))[k]
        return sealed(shares)

    @cached_property
    def bin_classes(self) -> NDArray[np.float64]:
        """P(class | bin) in the lab, (m, K), with the smoothing of M; the lab's class shares in an empty bin."""
        joint = (self.p_lab[:, None] * self.M).T
        total = joint.sum(axis=1, keepdims=True)
        return sealed(np.divide(joint, total, out=np.tile(self.p_lab, (len(joint), 1)), where=total > 0))

    @property
    def positive_column(self) -> str | None:
        """The single column with the probability of the second class; None if there are several columns."""
        held = self.columns
        single = held is not None and len(held.scores) == 1 and held.levels is None and len(self.classes) == 2
        return held.scores[0] if held is not None and single and self.partition.takes_probabilities else None

    @property
    def only_decisions(self) -> bool:
        """Whether every prediction was exactly 0 or 1."""
        means = self.bin_means[self.bin_scores.any(axis=1)]
        return self.partition.takes_probabilities and bool(np.isin(means, (0.0, 1.0)).all())

    @cached_property
    def calibration(self) -> Calibration:
        """Calibration of the predictions against the labels, by bin."""
        return bin_calibration(self.F_effective, self.bin_means)

    @cached_property
    def miscalibration(self) -> NDArray[np.float64]:
        """Share of each class in the lab minus its mean prediction there, (K,)."""
        rows = self.F.sum(axis=0)
        return sealed(self.p_lab - rows @ self.bin_means / rows.sum())

    @property
    def n_bins(self) -> int:
        """The number of bins of the partition."""
        return int(self.partition.m)

    @classmethod
    def from_rates(
        cls,
        *,
        sensitivity: float | None = None,
        specificity: float | None = None,
        confusion: Any = None,
        n: Any = None,
        intervals: Any = None,
        level: float = 0.95,
        classes: Sequence[Hashable] | None = None,
        values: Sequence[Any] | None = None,
    ) -> Lab:
        """A lab without rows, from published error rates of a test or a judge.

        Parameters
        ----------
        sensitivity, specificity : float
            Share of positive results among positive rows, and of negative results among negative rows.
        confusion : array-like (K, values), instead of the two
            For each class, the share of its rows with each result, or their number: whole numbers are rows.
        n : rows behind the rates
            Of the positive and the negative class, ``(120, 400)``; for more classes one number each, in order. Not
            with numbers of rows.
        intervals : instead of ``n``
            Of sensitivity and specificity, ``((.85, .96), (.95, .98))``: converted to the number of rows that gives
            intervals of this width (Beta).
        level : probability content of these intervals
        classes : by default ``("negative", "positive")``; for a confusion matrix ``0, 1, …``
        values : the results of the test, by default the names of the classes; one for every column

        Returns
        -------
        Lab
            Of categories, with the design "by_class": the error rates carry over to the field, the class shares do not.
            With ``estimate(…, prior="flat", point="mode")`` it gives Rogan and Gladen's estimator.

        References
        ----------
        Rogan, W. J. and Gladen, B. (1978). Estimating prevalence from the results of a screening test. Am. J.
        Epidemiol. 107.

        Examples
        --------
        >>> import fieldcal
        >>> lab = fieldcal.Lab.from_rates(sensitivity=0.92, specificity=0.97, n=(120, 400))
        >>> field = fieldcal.count(lab, ["positive"] * 90 + ["negative"] * 910)
        >>> prev = fieldcal.estimate(lab, field, prior="flat", point="mode")
        >>> round(float(prev.urc[0, 1]), 4)  # (.09 + .97 - 1) / (.92 + .97 - 1)
        0.0674
        """
        return cls(
            **rates.lab_of_rates(
                sensitivity=sensitivity,
                specificity=specificity,
                confusion=confusion,
                n=n,
                intervals=intervals,
                level=level,
                classes=classes,
                values=values,
            )
        )

    def extended(self, field: Field) -> Lab:
        """A new lab: this one extended by the labelled rows of a field.

        How a labelled row enters depends on its design. A row of a *random* sample is a lab row like any other. A row
        chosen *by score* informs the class probabilities of its bin, assumed equal in all groups: rows are weighted to
        the field's histogram, and bins without a label keep the lab's class shares. A row chosen *by class* informs the
        bins of its class, but not the frequency of the class: `p_lab` stays, and `M` gets more rows.

        Parameters
        ----------
        field : Field
            Counted with this lab, with labels. For a lab of categories: with labels that are not yet in the lab.

        Returns
        -------
        Lab
            With the same bins. Count fields again with it, so that no label is used twice.

        Notes
        -----
        Predictions of labelled rows are known by bin only, so the lab's mean of the bin stands in. The rehearsal needs
        rows, so it is that of the original lab.
        """
        return Lab(**next_lab.extended(self, field))

    def __add__(self, other: object) -> Lab:
        """A lab of the rows of both, which must have the same bins; exact and in any order."""
        if isinstance(other, Artefact) and not isinstance(other, Lab):
            raise InputTypeError(
                f"A Lab and a {type(other).__name__} cannot be added. Add labs to labs and fields to "
                "fields; labelled rows of a field "
                "become lab rows with lab.extended(field)."
            )
        return Lab(**next_lab.merged(self, other)) if isinstance(other, Lab) else NotImplemented

    def __radd__(self, other: object) -> Lab:
        """Supports ``sum(labs)``, which starts from 0."""
        return self if other == 0 else NotImplemented

    def __repr__(self) -> str:
        classes = ", ".join(
            f"{group_keys.show(c, width=20)} {p:.1%}"
            for c, p in zip(self.classes[:6], self.p_lab, strict=False)
        )
        more = ", …" if len(self.classes) > 6 else ""
        rehearsal = show.rehearsal_text(self)
        return show.lab_title(self, f" ({classes}{more})") + (f"\n  {rehearsal}" if rehearsal else "")

    def __rich__(self) -> Group:
        return show.stacked(show.lab_sheet(self).parts())

    def _repr_html_(self) -> str:
        return show.lab_sheet(self).page()
