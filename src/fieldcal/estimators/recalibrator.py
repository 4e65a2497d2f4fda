"""Recalibrator: probabilities in, probabilities out."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import validate_data

from fieldcal.alignment import check_alignment
from fieldcal.estimators.adaptive import Adaptive, checked_labels, checked_proba, distinct
from fieldcal.estimators.cross_fitting import (
    GivenProbabilities,
    Splits,
    calibrated,
    calibration_splits,
    out_of_fold,
    without_none,
)
from fieldcal.types import Floats


class Recalibrator(Adaptive):
    """Recalibrate the probabilities of any classifier, from its unlabelled predictions in the field.

    ``fit`` learns from labelled lab predictions how they are distributed given the class, ``adapt`` estimates the
    class prevalences of the field from its predictions, and ``predict_proba`` corrects predictions for them.

    Parameters
    ----------
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
        then learnt from cross-fitted predictions: no calibrator predicts rows that it was fitted on. "isotonic"
        makes exact 0 and 1, which no field data can change.
    random_state : int, RandomState instance or None, default=0
        Seed of whatever is drawn at random.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The classes, sorted: the order of the columns.
    n_features_in_ : int
        Columns of the predictions given to `fit`.
    feature_names_in_ : ndarray (n_features_in_,)
        Their names, if the predictions came as a table with named columns.
    lab_ : Lab
        Response matrix, partition and diagnostics from the labelled rows.
    field_ : Field
        Counts of the field's predictions; after `adapt`.
    prevalence_ : Prevalence
        Class prevalences of the field; after `adapt`.

    See Also
    --------
    RecalibratedClassifier : the same for a classifier and features.
    fieldcal.learn, fieldcal.count, fieldcal.estimate, fieldcal.recalibrate : the stages as functions.

    Notes
    -----
    Predictions have shape (n, n_classes), or (n, 1) or (n,) with the probability of the second of two classes. The
    columns of a table are matched with the classes by name; arrays, and tables with one column, by position.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.example().data
    >>> recalibrator = fieldcal.Recalibrator(trust=1).fit(data.proba_lab, data.y_lab)
    >>> recalibrator.adapt(data.proba_field, groups=data.groups_field)
    Recalibrator(trust=1)
    >>> recalibrator.prevalence_.estimate.shape
    (2, 2)
    >>> bool(recalibrator.predict_proba([0.5], groups=[1])[0, 1] > 0.5)
    True
    """

    def fit(self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learn the lab.

        Parameters
        ----------
        X : array-like (n, n_classes), (n, 1) or (n,)
            Predictions of the model on labelled rows it was not trained on.
        y, groups, sample_weight : as in `RecalibratedClassifier.fit`

        Returns
        -------
        self
        """
        self._begin()
        check_alignment(X=X, y=y, groups=groups, sample_weight=sample_weight)
        y = checked_labels(self, y)
        self.classes_ = distinct(y)
        proba = self._input(X, reset=True)
        check_consistent_length(proba, y)
        model: Any = GivenProbabilities(self.classes_)
        splits: Splits = []
        if self.calibration is not None:
            splits = calibration_splits(proba, y, self.classes_)
            model = calibrated(model, self.calibration, fitted=True)
        params = without_none(sample_weight=sample_weight)
        self.model_ = clone(model).fit(proba, y, **params)
        lab_proba = out_of_fold(model, proba, y, splits, params) if splits else proba
        return self._learn(lab_proba, y, groups=groups, sample_weight=sample_weight)

    def _input(self, X: Any, *, reset: bool = False) -> Floats:
        """Validated probabilities with one column per class."""
        X = _as_matrix(X) if reset or self.n_features_in_ == 1 else X
        validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
        return checked_proba(X, len(self.classes_), self.classes_)


def _as_matrix(X: Any) -> Any:
    dims = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    return np.asarray(X).reshape(-1, 1) if dims == 1 else X
