"""RecalibratedRegressor: features in, predictive distributions out."""

from __future__ import annotations

import inspect
from typing import Any, Literal, Self

import numpy as np
from sklearn.base import BaseEstimator, MetaEstimatorMixin, RegressorMixin, clone, is_classifier
from sklearn.metrics import r2_score
from sklearn.utils import _safe_indexing, indexable
from sklearn.utils.validation import _check_y, check_is_fitted

from fieldcal.alignment import check_alignment
from fieldcal.core.methods import MethodName
from fieldcal.core.priors import PriorLike
from fieldcal.errors import InputTypeError
from fieldcal.estimators.adaptive import seed
from fieldcal.estimators.cross_fitting import (
    check_fit_or_frozen,
    is_frozen,
    splits_of,
    take_features,
    tested_once,
    unfrozen,
    with_input_of,
)
from fieldcal.objects import Field, Lab, Prevalence
from fieldcal.options import as_array
from fieldcal.regression.parametric import from_moments
from fieldcal.regression.piecewise import from_quantiles
from fieldcal.regression.predictions import Predictions
from fieldcal.types import Design, Floats, Unseen
from fieldcal.verbs import count, estimate, learn, recalibrate

#: Quantile levels that represent a distribution.
LEVELS = np.arange(1, 40) / 40


class RecalibratedRegressor(MetaEstimatorMixin, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """A regressor that predicts distributions, and adapts them to the field without labels from it.

    Parameters
    ----------
    estimator : regressor
        With ``predict_quantiles(X, alpha)``, or ``predict(X, return_std=True)``, its own distributions are used. Any
        other regressor gets the distribution of its errors on rows that it was not fitted on, the same for all rows.
        Pass a regressor fitted on other rows as `sklearn.frozen.FrozenEstimator`.
    cv : None, int, cross-validation splitter or iterable, default=None
        Folds of the lab's out-of-fold predictions; the final model is fitted on all rows. None is 5 folds.
        A `FrozenEstimator` needs none.
    method : "default", "paper" or "reference", default="default"
        What 'auto' means: fieldcal's choice; what the paper does; or what its authors' R code does. Learn and
        estimate by the same.
    intervals : "auto", int or edges, default="auto"
        Intervals of the number; see `fieldcal.learn`.
    prior : "auto", str or a prior, default="auto"
        What is known about the prevalences before the field is seen; see `fieldcal.estimate`.
    trust : "auto" or float, default="auto"
        Probability that label shift holds: auto, estimated; or from 0, leave predictions alone, to 1.
    level : float, default=0.9
        Probability content of the intervals in ``prevalence_``.
    unseen : "global", "raw" or "error", default="global"
        Groups never counted: treat as the whole field (global), do not correct (raw; calibrate only, where the
        lab is calibrated), or refuse (error).
    random_state : int, RandomState instance or None, default=0
        Seed of whatever is drawn at random.

    Attributes
    ----------
    model_ : regressor
        The fitted regressor.
    errors_ : ndarray or None
        Quantiles of its errors, if it predicts no distributions.
    lab_ : Lab
    field_ : Field
    prevalence_ : Prevalence
        The last two after `adapt`.

    Examples
    --------
    >>> import numpy as np
    >>> from fieldcal import RecalibratedRegressor
    >>> from sklearn.linear_model import LinearRegression
    >>> rng = np.random.default_rng(0)
    >>> y = rng.normal(size=6000)
    >>> y[3000:] += 1  # in the field the numbers are larger
    >>> X = (y + 0.8 * rng.normal(size=6000))[:, None]
    >>> model = RecalibratedRegressor(LinearRegression(), trust=1).fit(X[:3000], y[:3000])
    >>> model.score(X[3000:], y[3000:]) < model.adapt(X[3000:]).score(X[3000:], y[3000:])
    True
    >>> model.predict_interval(X[:2], coverage=0.9).shape
    (2, 2)
    """

    errors_: Floats | None
    lab_: Lab
    field_: Field
    prevalence_: Prevalence

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = None,
        method: MethodName = "default",
        intervals: Any = "auto",
        prior: PriorLike = "auto",
        trust: float | Literal["auto"] = "auto",
        level: float = 0.9,
        unseen: Unseen = "global",
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.method = method
        self.intervals = intervals
        self.prior = prior
        self.trust = trust
        self.level = level
        self.unseen = unseen
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None) -> Self:
        """Learn the lab from out-of-fold predictions.

        Parameters
        ----------
        X : array-like (n, n_features)
        y : array-like (n,)
            The true numbers. Unlike scikit-learn, pandas objects whose indexes disagree are refused.
        groups : array-like (n,), optional
            Any grouping of the lab rows, ideally the one of the field: used for cross-validation over lab groups.

        Returns
        -------
        self
        """
        for name in ("field_", "prevalence_"):
            self.__dict__.pop(name, None)
        # skpro's regressors have no scikit-learn tags, and are no classifiers.
        wrapped = unfrozen(self.estimator)
        if hasattr(wrapped, "__sklearn_tags__") and is_classifier(wrapped):
            raise InputTypeError(
                f"{type(wrapped).__name__} is a classifier, but this estimator predicts numbers. Use "
                "RecalibratedClassifier, or a regressor."
            )
        check_fit_or_frozen(self.estimator, {})
        check_alignment(X=X, y=y, groups=groups)
        X, y = indexable(X, y)
        y = np.asarray(_check_y(y, y_numeric=True, estimator=self), dtype=np.float64)
        if is_frozen(self.estimator):
            self.model_ = self.estimator
            raw = self._raw(self.model_, X)
        else:
            self.model_ = clone(self.estimator).fit(X, y)
            raw = self._out_of_fold(X, y, groups)
        take_features(self, self.model_)
        self.errors_ = np.quantile(y - raw[0], LEVELS) if len(raw) == 1 else None
        self.lab_ = learn(
            self._distribution(raw),
            y,
            groups=groups,
            method=self.method,
            intervals=self.intervals,
            random_state=seed(self.random_state),
        )
        return self

    def adapt(self, X: Any, *, groups: Any = None, y: Any = None, design: Design = "random") -> Self:
        """Adapt to the field, from rows with few labels or none. Replaces an earlier field.

        Parameters
        ----------
        X, groups, design : as in `RecalibratedClassifier.adapt`
        y : array-like (n,), optional
            The true numbers of labelled rows, missing elsewhere.

        Returns
        -------
        self
        """
        check_is_fitted(self, "lab_")
        check_alignment(X=X, groups=groups, y=y)
        self.field_ = count(self.lab_, self._predicted(X), groups=groups, y=y, design=design)
        self.prevalence_ = estimate(
            self.lab_,
            self.field_,
            method=self.method,
            prior=self.prior,
            trust=self.trust,
            level=self.level,
            random_state=seed(self.random_state),
        )
        return self

    def predict_distribution(self, X: Any, *, groups: Any = None) -> Predictions:
        """Recalibrated distributions; before `adapt`, those of the model. Groups are needed if `adapt` had some."""
        check_is_fitted(self, "lab_")
        check_alignment(X=X, groups=groups)
        predicted = self._predicted(X)
        if not hasattr(self, "prevalence_"):
            return predicted
        return recalibrate(self.prevalence_, predicted, groups=groups, unseen=self.unseen)

    def predict(self, X: Any, *, groups: Any = None) -> Floats:
        """The mean of the recalibrated distribution of each row."""
        return self.predict_distribution(X, groups=groups).mean()

    def predict_interval(self, X: Any, coverage: float = 0.9, *, groups: Any = None) -> Floats:
        """Central intervals, (n, 2)."""
        return self.predict_distribution(X, groups=groups).interval(coverage)

    def predict_quantiles(self, X: Any, alpha: Any, *, groups: Any = None) -> Floats:
        """Quantiles at the levels ``alpha``, (n, len(alpha))."""
        return self.predict_distribution(X, groups=groups).ppf(np.atleast_1d(as_array("alpha", alpha)))

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> float:
        """R² of `predict`."""
        check_alignment(X=X, y=y, sample_weight=sample_weight, groups=groups)
        return float(r2_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))

    def __sklearn_tags__(self) -> Any:
        return with_input_of(super().__sklearn_tags__(), self.estimator)

    def _raw(self, model: Any, X: Any) -> tuple[Floats, ...]:
        """Predictions of the model: quantiles at LEVELS, or mean and standard deviation, or the point alone."""
        if hasattr(model, "predict_quantiles"):
            return np.asarray(model.predict_quantiles(X, LEVELS.tolist()), dtype=np.float64), np.empty(0)
        if "return_std" in inspect.signature(model.predict).parameters:
            mean, sd = model.predict(X, return_std=True)
            return np.asarray(mean, dtype=np.float64).ravel(), np.asarray(sd, dtype=np.float64).ravel()
        return (np.asarray(model.predict(X), dtype=np.float64).ravel(),)

    def _distribution(self, raw: tuple[Floats, ...]) -> Predictions:
        if self.errors_ is not None:
            return from_quantiles(raw[0][:, None] + self.errors_, LEVELS)
        first, second = raw
        return from_moments(first, second) if len(second) else from_quantiles(first, LEVELS, crossing="sort")

    def _predicted(self, X: Any) -> Predictions:
        return self._distribution(self._raw(self.model_, X))

    def _out_of_fold(self, X: Any, y: Floats, groups: Any) -> tuple[Floats, ...]:
        splits = splits_of(self.cv, X, y, groups, classifier=False)
        tests = tested_once(splits, len(y))
        parts = []
        for train, test in splits:
            fold = clone(self.estimator).fit(_safe_indexing(X, train), y[train])
            parts.append(self._raw(fold, _safe_indexing(X, test)))
        back = np.argsort(tests)
        return tuple(
            whole[back] if len(whole) else whole
            for whole in (np.concatenate(column) for column in zip(*parts, strict=True))
        )
