"""What every estimator here does after its model has spoken: learn the lab, adapt to the field, predict."""

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
    """Everything after the model: learn the lab, adapt to the field, predict.

    A subclass fits ``model_``, whatever turns its input into probabilities, and says in `_input` how the input is
    checked.
    """

    method: MethodName
    partition: PartitionLike
    smoothing: float | Literal["auto"]
    ordered: bool
    prior: PriorLike
    trust: float | Literal["auto"]
    point: PointLike
    level: float
    unseen: Unseen
    calibration: Calibration | None
    random_state: Any

    model_: Any
    classes_: NDArray[Any]
    lab_: Lab
    field_: Field
    prevalence_: Prevalence

    def adapt(
        self,
        X: Any,
        *,
        groups: Any = None,
        sample_weight: Any = None,
        y: Any = None,
        design: Design = "random",
    ) -> Self:
        """Adapt to the field, given as rows without labels, or with a few. An earlier field is forgotten.

        Parameters
        ----------
        X : array-like (n, n_features)
            Rows from the field, as given to `fit`.
        groups : array-like (n,), optional
            The subpopulation of each row: one prevalence for each. `predict_proba` needs them then, too.
        sample_weight : array-like (n,), optional
            Sampling weights, as in `fieldcal.count`: equal weights say the same as none.
        y : array-like (n,), optional
            The classes of the rows whose class is known, missing elsewhere.
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
        """Adapt to more of the field: its rows are counted with those seen since `fit` or `adapt`.

        Batches in any order give what one `adapt` with all rows gives, exactly.

        Parameters
        ----------
        X, groups, sample_weight, y, design : as in `adapt`
        only_labels : bool
            Whether these rows were counted before and only their labels are new.
        batch : str, optional
            A name for these rows. A name that was counted before is refused, so that no row counts twice.

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
        """Check the options that no verb looks at during `fit`; forget the old lab, and the field counted with it."""
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
        # The predictions are whole: what can be missing is a bin, of scores of 0, where the authors' code has none.
        missing: Literal["error", "drop"] = "error" if self.lab_.partition.counts_zeros else "drop"
        return count(
            self.lab_, scores, groups=groups, sample_weight=sample_weight, y=y, missing=missing, **options
        )

    def _settle(self, field: Field) -> Self:
        """Estimate, and only then remember: a refused field leaves everything as it was."""
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
    """Labels by scikit-learn's rules."""
    y = validate_data(estimator, y=y)
    check_classification_targets(y)
    return np.asarray(y)


def distinct(y: NDArray[Any]) -> NDArray[Any]:
    """The classes, at least two."""
    classes = np.unique(y)
    if len(classes) == 1:
        raise InputError(
            f"The labels hold only one class, {classes.tolist()[0]!r}. At least two are needed to tell them apart."
        )
    return classes


def checked_proba(proba: Any, n_classes: int, classes: NDArray[Any] | None = None) -> Floats:
    """Probabilities with one column per class; the columns of a table matched by name if classes are given."""
    names = None if classes is None else classes.tolist()
    return as_columns(as_scores(proba, classes=names, n_classes=n_classes).values)


def verb_shape(proba: Floats) -> Floats:
    """The verbs take the score of the second of two classes."""
    return proba[:, 1] if proba.shape[1] == 2 else proba


def seed(random_state: Any) -> int:
    """The verbs take a number; scikit-learn's users may give a generator."""
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except (ValueError, TypeError):
        raise InputError(
            f"random_state must be a whole number, a generator or None, but got {random_state!r:.60}."
        ) from None
