"""RecalibratedClassifier: features in, probabilities out."""

from __future__ import annotations

import warnings
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import indexable
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import has_fit_parameter

from fieldcal.alignment import check_alignment
from fieldcal.core.methods import MethodName
from fieldcal.core.partition import PartitionLike
from fieldcal.core.priors import PriorLike
from fieldcal.errors import InputTypeError, WeightWarning, option
from fieldcal.estimators.adaptive import Adaptive, Calibration, checked_labels, distinct
from fieldcal.estimators.cross_fitting import (
    AsItIs,
    calibrated,
    calibration_splits,
    check_fit_or_frozen,
    is_frozen,
    out_of_fold,
    splits_of,
    take_features,
    unfrozen,
    with_input_of,
    without_none,
)
from fieldcal.options import as_array
from fieldcal.types import PointLike, Unseen


class RecalibratedClassifier(MetaEstimatorMixin, Adaptive):  # type: ignore[misc]
    """A classifier that adapts to the class prevalences of the field without labels from it.

    Parameters
    ----------
    estimator : classifier
        The classifier with ``predict_proba``; ``decision_function`` will do if ``calibration`` is set. It is fitted
        on the rows of `fit`. Pass a fitted one as `sklearn.frozen.FrozenEstimator`: it is not refitted, and the
        rows of `fit`, which it must not have been trained on, are the lab.
    cv : None, int, cross-validation splitter or iterable, default=None
        Folds of the lab's out-of-fold predictions; the final model is fitted on all rows. None is 5 folds,
        stratified by class; pass `GroupKFold` to keep groups together. A `FrozenEstimator` needs no folds.
    method : "default", "paper" or "reference", default="default"
        What 'auto' means: fieldcal's choice; what the paper does; or what its authors' R code does. Learn and
        estimate by the same.
    partition : "auto", int, Quantiles, Edges, Simplex or Expected, default="auto"
        How predictions are assigned to bins; see `fieldcal.learn`.
    smoothing : "auto" or float, default="auto"
        Pseudo-rows per class that keep every count above zero: auto, or from 0, none.
    ordered : bool, default=False
        The order of the classes means something, as in grades.
    prior : "auto", str or a prior, default="auto"
        What is known about the prevalences before the field is seen; see `fieldcal.estimate`.
    trust : "auto" or float, default="auto"
        Probability that label shift holds: auto, estimated; or from 0, leave predictions alone, to 1.
    point : "auto", "mean" or "mode", default="auto"
        The point estimate: the mean of the posterior, or its mode, as in the paper.
    level : float, default=0.9
        Probability content of the intervals in ``prevalence_``.
    unseen : "global", "raw" or "error", default="global"
        Groups never counted: treat as the whole field (global), do not correct (raw; calibrate only, where the
        lab is calibrated), or refuse (error).
    calibration : None, "sigmoid", "isotonic" or "temperature", default=None
        Calibrate the predictions on the lab first, with scikit-learn's `CalibratedClassifierCV`. The lab is
        then learnt from cross-fitted predictions: no calibrator predicts rows that it was fitted on. An
        estimator that is fitted here is fitted six times per fold then. "isotonic" makes exact 0 and 1, which
        no field data can change.
    random_state : int, RandomState instance or None, default=0
        Seed of whatever is drawn at random.

    Attributes
    ----------
    model_ : classifier
        The fitted estimator, with its calibrator if one was requested.
    classes_ : ndarray (n_classes,)
        The classes: the order of the columns.
    n_features_in_ : int
        Number of features, if the estimator has them.
    feature_names_in_ : ndarray (n_features_in_,)
        Names of the features, if the estimator has them.
    lab_ : Lab
        Response matrix, partition and diagnostics from the labelled rows.
    field_ : Field
        Counts of the field's predictions; after `adapt`.
    prevalence_ : Prevalence
        Class prevalences of the field; after `adapt`.

    See Also
    --------
    Recalibrator : the same for probabilities, without the model itself.
    AdaptedScorer : to choose options with `GridSearchCV`.

    Notes
    -----
    A `Pipeline` has no ``adapt``: use ``RecalibratedClassifier(pipeline)``, not a pipeline with it inside.

    Examples
    --------
    >>> import fieldcal
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(n_samples=3000, random_state=0)
    >>> adaptive = fieldcal.RecalibratedClassifier(LogisticRegression(), trust=1).fit(X[:2000], y[:2000])
    >>> few = [i for i in range(2000, 3000) if y[i] == 0 or i % 10 == 0]  # a field with few of class 1
    >>> adaptive.score(X[few], y[few]) < adaptive.adapt(X[few]).score(X[few], y[few])
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = None,
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
        super().__init__(
            method=method,
            partition=partition,
            smoothing=smoothing,
            ordered=ordered,
            prior=prior,
            trust=trust,
            point=point,
            level=level,
            unseen=unseen,
            calibration=calibration,
            random_state=random_state,
        )
        self.estimator = estimator
        self.cv = cv

    def fit(
        self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None, **fit_params: Any
    ) -> Self:
        """Learn the lab from out-of-fold predictions of the classifier.

        Parameters
        ----------
        X : array-like (n, n_features)
            Features of labelled rows; for a `FrozenEstimator`, rows that it was not trained on.
        y : array-like (n,)
            The true classes. Unlike scikit-learn, pandas objects whose indexes disagree are refused.
        groups : array-like (n,), optional
            Any grouping of the lab rows, ideally the one of the field. A ``cv`` that splits by groups
            gets them, too.
        sample_weight : array-like (n,), optional
            Sampling weights, as in `fieldcal.learn`: equal weights change nothing. The estimator gets them, too,
            if it is fitted here and accepts them.
        **fit_params
            For the estimator's ``fit``, if it is fitted here.

        Returns
        -------
        self
        """
        self._begin()
        check_alignment(X=X, y=y, groups=groups, sample_weight=sample_weight)
        self._check_estimator(fit_params)
        X, y = indexable(X, y)
        y = checked_labels(self, y)
        if sample_weight is not None:
            as_array("sample_weight", sample_weight)
        self.classes_ = self._classes(y)
        splits = calibration_splits(X, y, self.classes_) if self._frozen and self.calibration else []
        model, params = self._model(groups=groups, sample_weight=sample_weight, fit_params=fit_params)
        self.model_ = clone(model).fit(X, y, **params)
        take_features(self, self.model_)
        splits = splits if self._frozen else splits_of(self.cv, X, y, groups, classifier=True)
        lab_proba = out_of_fold(model, X, y, splits, params) if splits else self.model_.predict_proba(X)
        return self._learn(lab_proba, y, groups=groups, sample_weight=sample_weight)

    def get_metadata_routing(self) -> MetadataRouter:
        """Metadata routing: ``groups`` and ``sample_weight`` are used here, others go to the estimator."""
        router = MetadataRouter(owner=self).add_self_request(self)
        if not self._frozen:
            router.add(
                estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit")
            )
        return router

    def __sklearn_tags__(self) -> Any:
        return with_input_of(super().__sklearn_tags__(), self.estimator)

    @property
    def _frozen(self) -> bool:
        return is_frozen(self.estimator)

    def _check_estimator(self, fit_params: dict[str, Any]) -> None:
        if not hasattr(self.estimator, "predict_proba") and self.calibration is None:
            raise InputTypeError(
                f"{type(unfrozen(self.estimator)).__name__} has no predict_proba. Set "
                f"{option('calibration', 'sigmoid')} to make probabilities of its decision_function."
            )
        check_fit_or_frozen(self.estimator, fit_params)

    def _classes(self, y: NDArray[Any]) -> NDArray[Any]:
        given = getattr(self.estimator, "classes_", None) if self._frozen else None
        return distinct(y) if given is None else np.asarray(given)

    def _model(
        self, *, groups: Any, sample_weight: Any, fit_params: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        base = AsItIs(unfrozen(self.estimator)) if self._frozen else self.estimator
        if self.calibration is not None:
            model = calibrated(base, self.calibration, fitted=self._frozen)
            return model, without_none(sample_weight=sample_weight) | fit_params
        if self._frozen:
            return base, {}
        if get_config()["enable_metadata_routing"]:
            routed = process_routing(self, "fit", groups=groups, sample_weight=sample_weight, **fit_params)
            return base, dict(routed["estimator"]["fit"])
        if sample_weight is not None and not has_fit_parameter(base, "sample_weight"):
            warnings.warn(
                f"{type(base).__name__}.fit takes no sample_weight: the weights count in the lab, but not in the "
                "fit of the estimator. With metadata routing they can be routed into a Pipeline.",
                WeightWarning,
                stacklevel=3,
            )
            return base, fit_params
        return base, without_none(sample_weight=sample_weight) | fit_params
