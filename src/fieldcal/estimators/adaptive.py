"""Base class of the estimators: learn the lab, adapt to the field, predict."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fieldcal.alignment import check_alignment
from fieldcal.core.methods import MethodName
from fieldcal.core.partition import PartitionLike, as_columns
from fieldcal.core.priors import PriorLike
from fieldcal.errors import InputError
from fieldcal.objects import Field, Lab, Prevalence, group_keys
from fieldcal.options import check_choice, check_options
from fieldcal.types import Design, Floats, PointLike, Unseen
from fieldcal.validation import as_scores, check_order
from fieldcal.verbs import count, estimate, learn, recalibrate

Calibration = Literal["sigmoid", "isotonic", "temperature"]


class Adaptive(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Learning the lab, adapting to the field and predicting, given a model.

    A subclass fits ``model_``, which turns its input into probabilities, and validates input in `_input`.
    """

    model_: Any
    classes_: NDArray[Any]
    lab_: Lab
    field_: Field
    prevalence_: Prevalence

    def __init__(
        self,
        *,
        method: MethodName = "default",
        partition: PartitionLike = "auto",
        smoothing: float | Literal["auto"] = "auto",
        ordered: bool = False,
        prior: PriorLike = "auto",
        trust: float | Literal["auto"] = "auto",
        point: PointLike = "auto",
        level: float = 0.9,
        unseen: Unseen = "global",
        calibration: Calibration | None = None,
        random_state: Any = 0,
    ) -> None:
        self.method = method
        self.partition = partition
        self.smoothing = smoothing
        self.ordered = ordered
        self.prior = prior
        self.trust = trust
        self.point = point
        self.level = level
        self.unseen = unseen
        self.calibration = calibration
        self.random_state = random_state

    def adapt(
        self,
        X: Any,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        y: Any = None,
        design: Design = "random",
    ) -> Self:
        """Adapt to the field, from rows with few labels or none. Replaces an earlier field.

        Parameters
        ----------
        X : array-like (n, n_features)
            Rows from the field, as given to `fit`.
        groups : array-like (n,), optional
            The subpopulation of each row: one prevalence for each. `predict_proba` then needs them, too.
        sample_weight : array-like (n,), optional
            Sampling weights, as in `fieldcal.count`; equal weights change nothing.
        y : array-like (n,), optional
            The classes of labelled rows, missing elsewhere.
        design : "random", "by_score" or "by_class"
            How those rows were chosen, as in `fieldcal.count`.

        Returns
        -------
        self
        """
        return self._settle(self._count(X, groups=groups, sample_weight=sample_weight, y=y, design=design))

    def partial_adapt(
        self,
        X: Any,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        y: Any = None,
        design: Design = "random",
        only_labels: bool = False,
        batch: str | None = None,
    ) -> Self:
        """Adapt to further rows of the field, in addition to those since `fit` or `adapt`.

        Batches in any order give exactly the result of one `adapt` with all rows.

        Parameters
        ----------
        X, groups, sample_weight, y, design : as in `adapt`
        only_labels : bool
            Whether these rows were counted before and only their labels are new.
        batch : str, optional
            A name for these rows. A name that was used before is refused, so that no row counts twice.

        Returns
        -------
        self
        """
        more = self._count(
            X,
            groups=groups,
            sample_weight=sample_weight,
            y=y,
            design=design,
            only_labels=only_labels,
            batch=batch,
        )
        return self._settle(self.field_ + more if hasattr(self, "field_") else more)

    def predict_proba(self, X: Any, *, groups: Any = None) -> Floats:
        """Recalibrated probabilities; before `adapt`, those of the model.

        Parameters
        ----------
        X : array-like (n, n_features)
            As given to `fit`.
        groups : array-like (n,), optional
            The group of each row; needed if and only if `adapt` had groups. Rows of groups that it did not have
            are treated as ``unseen`` says.

        Returns
        -------
        ndarray (n, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self, "lab_")
        check_alignment(X=X, groups=groups)
        proba = self._model_proba(X)
        if groups is not None:
            group_keys.factorize(groups, n=len(proba))
        if not hasattr(self, "prevalence_"):
            return proba
        new = recalibrate(self.prevalence_, verb_shape(proba), groups=groups, unseen=self.unseen)
        return as_columns(new)

    def predict(self, X: Any, *, groups: Any = None) -> NDArray[Any]:
        """The most probable class of each row after recalibration; arguments as in `predict_proba`."""
        most_probable = self.predict_proba(X, groups=groups).argmax(axis=1)
        return np.asarray(self.classes_[most_probable])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> float:
        """Accuracy of `predict`, given the true classes; ``X`` and ``groups`` as in `predict_proba`."""
        check_alignment(X=X, y=y, sample_weight=sample_weight, groups=groups)
        return float(accuracy_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))

    def _input(self, X: Any) -> Any:
        return X

    def _model_proba(self, X: Any) -> Floats:
        return checked_proba(self.model_.predict_proba(self._input(X)), len(self.classes_))

    def _begin(self) -> None:
        """Check options that only later verbs use; remove an old lab and field."""
        if self.calibration is not None:
            check_choice("calibration", self.calibration, get_args(Calibration))
        check_options(unseen=self.unseen, ordered=self.ordered)
        for stale in ("lab_", "field_", "prevalence_"):
            self.__dict__.pop(stale, None)

    def _learn(self, proba: Floats, y: NDArray[Any], *, groups: Any, sample_weight: Any) -> Self:
        if self.ordered:
            check_order(tuple(self.classes_.tolist()))
        self.lab_ = learn(
            verb_shape(checked_proba(proba, len(self.classes_))),
            y,
            groups=groups,
            classes=self.classes_.tolist(),
            sample_weight=sample_weight,
            method=self.method,
            partition=self.partition,
            smoothing=self.smoothing,
            ordered=self.ordered,
            random_state=seed(self.random_state),
        )
        return self

    def _count(self, X: Any, *, groups: Any, sample_weight: Any, y: Any, **options: Any) -> Field:
        check_is_fitted(self, "lab_")
        check_alignment(X=X, groups=groups, sample_weight=sample_weight, y=y)
        scores = verb_shape(self._model_proba(X))
        # Predictions are never missing here; bins are, for scores of 0 with method="reference".
        missing: Literal["error", "drop"] = "error" if self.lab_.partition.counts_zeros else "drop"
        return count(
            self.lab_, scores, groups=groups, sample_weight=sample_weight, y=y, missing=missing, **options
        )

    def _settle(self, field: Field) -> Self:
        """Estimate, then store: a refused field changes nothing."""
        prevalence = estimate(
            self.lab_,
            field,
            method=self.method,
            prior=self.prior,
            trust=self.trust,
            point=self.point,
            level=self.level,
            random_state=seed(self.random_state),
        )
        self.field_, self.prevalence_ = field, prevalence
        return self


def checked_labels(estimator: Any, y: Any) -> NDArray[Any]:
    """Labels, checked by scikit-learn."""
    y = validate_data(estimator, y=y)
    check_classification_targets(y)
    return np.asarray(y)


def distinct(y: NDArray[Any]) -> NDArray[Any]:
    """The classes, at least two."""
    classes = np.unique(y)
    if len(classes) == 1:
        raise InputError(f"The labels hold only one class, {classes.tolist()[0]!r}. At least two are needed.")
    return classes


def checked_proba(proba: Any, n_classes: int, classes: NDArray[Any] | None = None) -> Floats:
    """Probabilities with one column per class; columns of a table are matched by name if classes are given."""
    names = None if classes is None else classes.tolist()
    return as_columns(as_scores(proba, classes=names, n_classes=n_classes).values)


def verb_shape(proba: Floats) -> Floats:
    """Predictions in the shape that the verbs expect: for two classes, the score of the second."""
    return proba[:, 1] if proba.shape[1] == 2 else proba


def seed(random_state: Any) -> int:
    """The seed as a number; scikit-learn also allows a generator."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except (ValueError, TypeError):
        raise InputError(
            f"random_state must be a whole number, a generator or None, but got {random_state!r:.60}."
        ) from None
