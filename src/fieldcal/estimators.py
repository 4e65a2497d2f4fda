"""The scikit-learn contract: the four verbs as `fit`, `adapt` and `predict_proba`. No formulas.

    fit              adapt, partial_adapt             predict_proba, predict
    learn        ──► count ──► estimate           ──► recalibrate
    = lab_           = field_    = prevalence_

`Recalibrator` is fed with probabilities, `RecalibratedClassifier` with features. Before `adapt` no field has been
seen, and both answer what the model itself says.
"""

from __future__ import annotations

import copy
import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import accuracy_score, get_scorer
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import (
    _safe_indexing,
    check_consistent_length,
    check_random_state,
    get_tags,
    indexable,
)
from sklearn.utils.metadata_routing import (
    MetadataRequest,
    MetadataRouter,
    MethodMapping,
    get_routing_for_object,
    process_routing,
)
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, has_fit_parameter, validate_data

from fieldcal.core.partition import PartitionLike, as_columns
from fieldcal.core.priors import PriorLike
from fieldcal.errors import InputError, InputTypeError, WeightWarning
from fieldcal.inputs import Floats, as_labels, as_scores
from fieldcal.objects import Field, Lab, Prevalence
from fieldcal.verbs import count, estimate, learn, recalibrate
from fieldcal.verbs.estimation import Point
from fieldcal.verbs.recalibration import Unseen

__all__ = ["AdaptedScorer", "RecalibratedClassifier", "Recalibrator"]

Calibration = Literal["sigmoid", "isotonic", "temperature"]
_Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

_CALIBRATIONS = ("sigmoid", "isotonic", "temperature")
_UNSEEN = ("global", "raw", "error")
#: Folds for predictions of lab rows by a calibrator that has not seen them.
_FOLDS = 5
_NOT_FITTED = (
    "This %(name)s is not fitted yet, but cv='prefit' says that it is. Fit it first, or pass cv=5 to have it fitted "
    "here. If it was fitted, a clone has lost it, as in GridSearchCV: wrap it in sklearn.frozen.FrozenEstimator."
)


class _Adaptive(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Everything after the model: learn the lab, adapt to the field, predict.

    A subclass fits ``model_``, whatever turns its input into probabilities, and says in `_input` how the input is
    checked.
    """

    partition: PartitionLike
    smoothing: float | Literal["auto"]
    prior: PriorLike
    trust: float | Literal["auto"]
    point: Point
    level: float
    unseen: Unseen
    calibration: Calibration | None
    random_state: Any

    model_: Any
    classes_: NDArray[Any]
    lab_: Lab
    field_: Field
    prevalence_: Prevalence

    def adapt(self, X: Any, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Adapt to the field, given as rows without labels. An earlier field is forgotten.

        Parameters
        ----------
        X : array-like (n, n_features)
            Rows from the field, as given to `fit`.
        groups : array-like (n,), optional
            The subpopulation of each row: one prevalence for each. `predict_proba` needs them then, too.
        sample_weight : array-like (n,), optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        return self._settle(self._count(X, groups=groups, sample_weight=sample_weight))

    def partial_adapt(
        self, X: Any, *, groups: Any = None, sample_weight: Any = None, batch: str | None = None
    ) -> Self:
        """Adapt to more of the field: its rows are counted with those seen since `fit` or `adapt`.

        Batches in any order give what one `adapt` with all rows gives, exactly.

        Parameters
        ----------
        X, groups, sample_weight : as in `adapt`
        batch : str, optional
            A name for these rows. A name that was counted before is refused, so that no row counts twice.

        Returns
        -------
        self
        """
        more = self._count(X, groups=groups, sample_weight=sample_weight, batch=batch)
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
        proba = self._model_proba(X)
        if groups is not None:
            check_consistent_length(proba, groups)
        if not hasattr(self, "prevalence_"):
            return proba
        new = recalibrate(self.prevalence_, _verb_shape(proba), groups=groups, unseen=self.unseen)
        return as_columns(new)

    def predict(self, X: Any, *, groups: Any = None) -> NDArray[Any]:
        """The most probable class of each row after recalibration.

        Parameters
        ----------
        X, groups : as in `predict_proba`

        Returns
        -------
        ndarray (n,) of classes
        """
        most_probable = self.predict_proba(X, groups=groups).argmax(axis=1)
        return np.asarray(self.classes_[most_probable])

    def score(self, X: Any, y: Any, sample_weight: Any = None, *, groups: Any = None) -> float:
        """Accuracy of `predict`.

        Parameters
        ----------
        X, groups : as in `predict_proba`
        y : array-like (n,)
            The true classes.
        sample_weight : array-like (n,), optional

        Returns
        -------
        float
        """
        return float(accuracy_score(y, self.predict(X, groups=groups), sample_weight=sample_weight))

    def _input(self, X: Any) -> Any:
        """What ``model_`` is fed with."""
        return X

    def _model_proba(self, X: Any) -> Floats:
        return _checked(self.model_.predict_proba(self._input(X)), len(self.classes_))

    def _begin(self) -> None:
        """Check the options that no verb looks at during `fit`; forget the old lab, and the field counted with it."""
        if self.calibration is not None and self.calibration not in _CALIBRATIONS:
            raise InputError(
                f"calibration must be None or one of {', '.join(map(repr, _CALIBRATIONS))}, "
                f"but got {self.calibration!r}."
            )
        if self.unseen not in _UNSEEN:
            raise InputError(
                f"unseen must be one of {', '.join(map(repr, _UNSEEN))}, but got {self.unseen!r}."
            )
        for stale in ("lab_", "field_", "prevalence_"):
            self.__dict__.pop(stale, None)

    def _learn(self, proba: Floats, y: NDArray[Any], *, groups: Any, sample_weight: Any) -> Self:
        """Learn the lab from its predictions."""
        self.lab_ = learn(
            _verb_shape(_checked(proba, len(self.classes_))),
            y,
            groups=groups,
            classes=self.classes_.tolist(),
            sample_weight=sample_weight,
            partition=self.partition,
            smoothing=self.smoothing,
            random_state=_seed(self.random_state),
        )
        return self

    def _count(self, X: Any, *, groups: Any, sample_weight: Any, batch: str | None = None) -> Field:
        check_is_fitted(self, "lab_")
        scores = _verb_shape(self._model_proba(X))
        return count(self.lab_, scores, groups=groups, sample_weight=sample_weight, batch=batch)

    def _settle(self, field: Field) -> Self:
        """Estimate, and only then remember: a refused field leaves everything as it was."""
        prevalence = estimate(
            self.lab_,
            field,
            prior=self.prior,
            trust=self.trust,
            point=self.point,
            level=self.level,
            random_state=_seed(self.random_state),
        )
        self.field_, self.prevalence_ = field, prevalence
        return self


class Recalibrator(_Adaptive):
    """Recalibrate the probabilities of any classifier, from its unlabelled predictions in the field.

    ``fit`` learns from labelled lab predictions how they are distributed given the class, ``adapt`` estimates the
    class prevalences of the field from its predictions, and ``predict_proba`` corrects predictions for them.

    Parameters
    ----------
    partition : "auto", int, Quantiles, Edges, Argmax or Tree, default="auto"
        How predictions are sent to bins; see `fieldcal.learn`.
    smoothing : "auto" or float, default="auto"
        Pseudo-rows per class in the lab's counts; see `fieldcal.learn`.
    prior : "auto", str or a prior, default="auto"
        What is believed about the prevalences before the field is seen; see `fieldcal.estimate`.
    trust : "auto" or float, default="auto"
        How far the estimate is followed, from 0 (leave predictions alone) to 1; see `fieldcal.estimate`.
    point : "mean" or "mode", default="mean"
        The point estimate; see `fieldcal.estimate`.
    level : float, default=0.9
        Probability content of the intervals in ``prevalence_``.
    unseen : "global", "raw" or "error", default="global"
        Rows of groups that `adapt` did not have: use the estimate of the whole field (with a warning), leave them
        alone, or refuse.
    calibration : None, "sigmoid", "isotonic" or "temperature", default=None
        Calibrate the predictions on the lab first, with scikit-learn's `CalibratedClassifierCV`. The lab is then
        learnt from cross-fitted predictions: no calibrator speaks about rows it has seen. "isotonic" makes exact
        0 and 1, which nothing that the field shows can move.
    random_state : int, RandomState instance or None, default=0
        Seed of whatever is drawn.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
        The classes, sorted: the order of the columns.
    n_features_in_ : int
        Columns of the predictions given to `fit`.
    feature_names_in_ : ndarray (n_features_in_,)
        Their names, if the predictions came as a table with named columns.
    lab_ : Lab
        What the lab teaches.
    field_ : Field
        Counts of the field's predictions; after `adapt`.
    prevalence_ : Prevalence
        Class prevalences of the field; after `adapt`.

    See Also
    --------
    RecalibratedClassifier : the same around a classifier, fed with features.
    fieldcal.learn, fieldcal.count, fieldcal.estimate, fieldcal.recalibrate : the stages as functions.

    Notes
    -----
    Predictions have shape (n, n_classes), or (n, 1) or (n,) with the probability of the second of two classes. The
    columns of a table are matched with the classes by name. A table with one column, and arrays, go by position.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(prevalence=[[0.9, 0.1], [0.2, 0.8]], random_state=0)
    >>> recalibrator = fieldcal.Recalibrator(trust=1).fit(data.proba_lab, data.y_lab)
    >>> recalibrator.adapt(data.proba_field, groups=data.groups_field)
    Recalibrator(trust=1)
    >>> recalibrator.prevalence_.value.shape
    (2, 2)
    >>> bool(recalibrator.predict_proba([0.5], groups=[1])[0, 1] > 0.5)
    True
    """

    def __init__(
        self,
        *,
        partition: PartitionLike = "auto",
        smoothing: float | Literal["auto"] = "auto",
        prior: PriorLike = "auto",
        trust: float | Literal["auto"] = "auto",
        point: Point = "mean",
        level: float = 0.9,
        unseen: Unseen = "global",
        calibration: Calibration | None = None,
        random_state: Any = 0,
    ) -> None:
        self.partition = partition
        self.smoothing = smoothing
        self.prior = prior
        self.trust = trust
        self.point = point
        self.level = level
        self.unseen = unseen
        self.calibration = calibration
        self.random_state = random_state

    def fit(self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None) -> Self:
        """Learn the lab.

        Parameters
        ----------
        X : array-like (n, n_classes), (n, 1) or (n,)
            Predictions of the model on labelled rows it was not trained on.
        y : array-like (n,)
            The true classes.
        groups : array-like (n,), optional
            Any grouping of the lab rows, best the one that the field will have.
        sample_weight : array-like (n,), optional
            A weight of 2 is the row twice.

        Returns
        -------
        self
        """
        self._begin()
        y = _labels(self, y)
        self.classes_ = _distinct(y)
        proba = self._input(X, reset=True)
        check_consistent_length(proba, y)
        model: Any = _Given(self.classes_)
        splits: _Splits = []
        if self.calibration is not None:
            splits = _calibration_splits(proba, y, self.classes_)
            model = _calibrated(model, self.calibration, fitted=True)
        params = _without_none(sample_weight=sample_weight)
        self.model_ = clone(model).fit(proba, y, **params)
        lab_proba = _out_of_fold(model, proba, y, splits, params) if splits else proba
        return self._learn(lab_proba, y, groups=groups, sample_weight=sample_weight)

    def _input(self, X: Any, *, reset: bool = False) -> Floats:
        """Probabilities with one column per class, checked by scikit-learn's rules and by fieldcal's."""
        X = _as_matrix(X) if reset or self.n_features_in_ == 1 else X
        validate_data(self, X, reset=reset, dtype=None, ensure_all_finite=False)
        return _checked(X, len(self.classes_), self.classes_)


class RecalibratedClassifier(MetaEstimatorMixin, _Adaptive):  # type: ignore[misc]
    """A classifier that adapts to the class prevalences of the field without labels from it.

    Parameters
    ----------
    estimator : classifier
        The classifier with ``predict_proba``; ``decision_function`` will do if ``calibration`` is set.
    cv : "prefit", int, cross-validation splitter or iterable, default="prefit"
        Where the lab's predictions come from.

        - "prefit": the estimator is already fitted, on other rows than those given to `fit`, and is never refitted.
          `clone`, and with it `GridSearchCV`, takes fitted state away; wrap the estimator in
          `sklearn.frozen.FrozenEstimator` to keep it.
        - otherwise: copies of the estimator predict the rows that they were not fitted on, and one copy is fitted on
          all rows and used from then on. Pass `GroupKFold` to keep groups together.
    partition : "auto", int, Quantiles, Edges, Argmax or Tree, default="auto"
        How predictions are sent to bins; see `fieldcal.learn`.
    smoothing : "auto" or float, default="auto"
        Pseudo-rows per class in the lab's counts; see `fieldcal.learn`.
    prior : "auto", str or a prior, default="auto"
        What is believed about the prevalences before the field is seen; see `fieldcal.estimate`.
    trust : "auto" or float, default="auto"
        How far the estimate is followed, from 0 (leave predictions alone) to 1; see `fieldcal.estimate`.
    point : "mean" or "mode", default="mean"
        The point estimate; see `fieldcal.estimate`.
    level : float, default=0.9
        Probability content of the intervals in ``prevalence_``.
    unseen : "global", "raw" or "error", default="global"
        Rows of groups that `adapt` did not have: use the estimate of the whole field (with a warning), leave them
        alone, or refuse.
    calibration : None, "sigmoid", "isotonic" or "temperature", default=None
        Calibrate the classifier on the lab first, with scikit-learn's `CalibratedClassifierCV`. The lab is then
        learnt from cross-fitted predictions: no calibrator speaks about rows it has seen. With a ``cv`` other than
        "prefit" this nests, and fits the estimator six times per fold. "isotonic" makes exact 0 and 1, which nothing
        that the field shows can move.
    random_state : int, RandomState instance or None, default=0
        Seed of whatever is drawn.

    Attributes
    ----------
    model_ : classifier
        What predicts: the estimator, fitted, behind a calibrator if one was asked for.
    classes_ : ndarray (n_classes,)
        The classes: the order of the columns.
    n_features_in_ : int
        Number of features, if the estimator tells.
    feature_names_in_ : ndarray (n_features_in_,)
        Names of the features, if the estimator tells.
    lab_ : Lab
        What the lab teaches.
    field_ : Field
        Counts of the field's predictions; after `adapt`.
    prevalence_ : Prevalence
        Class prevalences of the field; after `adapt`.

    See Also
    --------
    Recalibrator : the same for probabilities, where the model itself is out of reach.
    AdaptedScorer : to choose options with `GridSearchCV`.

    Notes
    -----
    A `Pipeline` has no ``adapt``: put the pipeline inside, ``RecalibratedClassifier(pipeline)``, and not around.

    Examples
    --------
    >>> import fieldcal
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = make_classification(n_samples=3000, random_state=0)
    >>> classifier = LogisticRegression().fit(X[:1000], y[:1000])
    >>> adaptive = fieldcal.RecalibratedClassifier(classifier, trust=1).fit(X[1000:2000], y[1000:2000])
    >>> few = [i for i in range(2000, 3000) if y[i] == 0 or i % 10 == 0]  # a field with few of class 1
    >>> adaptive.score(X[few], y[few]) < adaptive.adapt(X[few]).score(X[few], y[few])
    True
    """

    def __init__(
        self,
        estimator: Any,
        *,
        cv: Any = "prefit",
        partition: PartitionLike = "auto",
        smoothing: float | Literal["auto"] = "auto",
        prior: PriorLike = "auto",
        trust: float | Literal["auto"] = "auto",
        point: Point = "mean",
        level: float = 0.9,
        unseen: Unseen = "global",
        calibration: Calibration | None = None,
        random_state: Any = 0,
    ) -> None:
        self.estimator = estimator
        self.cv = cv
        self.partition = partition
        self.smoothing = smoothing
        self.prior = prior
        self.trust = trust
        self.point = point
        self.level = level
        self.unseen = unseen
        self.calibration = calibration
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, *, groups: Any = None, sample_weight: Any = None, **fit_params: Any
    ) -> Self:
        """Learn the lab from the classifier's predictions of it.

        Parameters
        ----------
        X : array-like (n, n_features)
            Features of labelled rows; with ``cv="prefit"``, rows the estimator was not trained on.
        y : array-like (n,)
            The true classes.
        groups : array-like (n,), optional
            Any grouping of the lab rows, best the one that the field will have. A ``cv`` that splits by groups
            gets them, too.
        sample_weight : array-like (n,), optional
            A weight of 2 is the row twice. The estimator gets them, too, if it is fitted here and takes them.
        **fit_params
            For the estimator's ``fit``, if it is fitted here.

        Returns
        -------
        self
        """
        self._begin()
        self._check_estimator(fit_params)
        X, y = indexable(X, y)
        y = _labels(self, y)
        self.classes_ = self._classes(y)
        splits = _calibration_splits(X, y, self.classes_) if self._prefit and self.calibration else []
        model, params = self._model(groups=groups, sample_weight=sample_weight, fit_params=fit_params)
        self.model_ = clone(model).fit(X, y, **params)
        self._take_features()
        splits = splits if self._prefit else self._splits(X, y, groups)
        lab_proba = _out_of_fold(model, X, y, splits, params) if splits else self.model_.predict_proba(X)
        return self._learn(lab_proba, y, groups=groups, sample_weight=sample_weight)

    def get_metadata_routing(self) -> MetadataRouter:
        """Which metadata go where: ``groups`` and ``sample_weight`` stay here, the estimator's own go to it.

        Returns
        -------
        MetadataRouter
        """
        router = MetadataRouter(owner=self).add_self_request(self)
        if not self._prefit:
            router.add(
                estimator=self.estimator, method_mapping=MethodMapping().add(caller="fit", callee="fit")
            )
        return router

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if hasattr(self.estimator, "__sklearn_tags__"):
            inside = get_tags(self.estimator).input_tags
            tags.input_tags.sparse, tags.input_tags.allow_nan = inside.sparse, inside.allow_nan
        return tags

    @property
    def _prefit(self) -> bool:
        return isinstance(self.cv, str) and self.cv == "prefit"

    def _check_estimator(self, fit_params: dict[str, Any]) -> None:
        if not hasattr(self.estimator, "predict_proba") and self.calibration is None:
            raise InputTypeError(
                f"{type(self.estimator).__name__} has no predict_proba. Set calibration='sigmoid' to make "
                "probabilities of its decision_function."
            )
        if not self._prefit:
            return
        if hasattr(self.estimator, "fit"):  # scikit-learn cannot say whether anything else is fitted
            check_is_fitted(self.estimator, msg=_NOT_FITTED)
        if fit_params:
            raise InputTypeError(
                f"With cv='prefit' the estimator is not fitted, but fit was given {sorted(fit_params)} for it. "
                "Leave them out, or pass cv=5."
            )

    def _classes(self, y: NDArray[Any]) -> NDArray[Any]:
        """The classes that the model's columns stand for."""
        given = getattr(self.estimator, "classes_", None) if self._prefit else None
        return _distinct(y) if given is None else np.asarray(given)

    def _model(
        self, *, groups: Any, sample_weight: Any, fit_params: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        """What is to be fitted, and with which parameters besides X and y."""
        base = _Frozen(self.estimator) if self._prefit else self.estimator
        if self.calibration is not None:
            model = _calibrated(base, self.calibration, fitted=self._prefit)
            return model, _without_none(sample_weight=sample_weight) | fit_params
        if self._prefit:
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
        return base, _without_none(sample_weight=sample_weight) | fit_params

    def _splits(self, X: Any, y: NDArray[Any], groups: Any) -> _Splits:
        splitter = check_cv(self.cv, y, classifier=True)
        by_group = bool(get_routing_for_object(splitter).consumes("split", ["groups"]))
        return list(splitter.split(X, y, **({"groups": groups} if by_group else {})))

    def _take_features(self) -> None:
        """The features are the model's."""
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.model_, name):
                setattr(self, name, getattr(self.model_, name))


@dataclass(frozen=True)
class AdaptedScorer:
    """Score an estimator after it has adapted to the very rows that it is scored on, without their labels.

    `GridSearchCV` fits and predicts, but does not adapt, so that with any other scorer ``partition``, ``prior`` and
    ``trust`` make no difference. The estimator itself is left as it was.

    Parameters
    ----------
    scoring : str, default="neg_log_loss"
        The name of one of scikit-learn's scorers.
    groups : bool, default=True
        Whether to ask for ``groups`` where scikit-learn's metadata routing is enabled.

    Examples
    --------
    >>> import fieldcal
    >>> from sklearn.model_selection import GridSearchCV
    >>> from fieldcal.estimators import AdaptedScorer
    >>> data = fieldcal.datasets.label_shift(random_state=0)
    >>> search = GridSearchCV(fieldcal.Recalibrator(trust=1), {"partition": [2, 8]}, scoring=AdaptedScorer(), cv=3)
    >>> sorted(search.fit(data.proba_lab.reshape(-1, 1), data.y_lab).best_params_)
    ['partition']
    """

    scoring: str = "neg_log_loss"
    groups: bool = True

    def __call__(self, estimator: Any, X: Any, y: Any, *, groups: Any = None) -> float:
        """The score of a copy of the fitted estimator that has adapted to ``X``."""
        adapted = copy.copy(estimator).adapt(X, groups=groups)
        proba = adapted.predict_proba(X, groups=groups)
        return float(get_scorer(self.scoring)(_Given(adapted.classes_).fit(proba, y), proba, y))

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask for ``groups``, or refuse them.

        Returns
        -------
        MetadataRequest
        """
        request = MetadataRequest(owner=self)
        request.score.add_request(param="groups", alias=self.groups)
        return request


class _Given(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose features are its probabilities."""

    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    def fit(self, X: Floats, y: Any, sample_weight: Any = None) -> Self:
        self.classes_ = self.classes
        return self

    def predict_proba(self, X: Floats) -> Floats:
        return X

    def predict(self, X: Floats) -> NDArray[Any]:
        return np.asarray(self.classes_[X.argmax(axis=1)])


class _Frozen(FrozenEstimator):  # type: ignore[misc]
    """A fitted classifier that is not refitted, and takes the weights that the calibrators need without a warning."""

    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        return self


def _calibrated(base: Any, method: Calibration, *, fitted: bool) -> CalibratedClassifierCV:
    """One calibrator on the predictions of ``base``, out of fold unless it is fitted already."""
    # A fitted base predicts the same in any fold: as few as scikit-learn allows.
    return CalibratedClassifierCV(base, method=method, ensemble=False, cv=KFold(2) if fitted else _FOLDS)


def _calibration_splits(X: Any, y: NDArray[Any], classes: NDArray[Any]) -> _Splits:
    names, codes = as_labels(y, classes=classes.tolist())
    rows = np.bincount(codes, minlength=len(names))
    if rows.min() < _FOLDS:
        raise InputError(
            f"Calibration needs at least {_FOLDS} lab rows of each class, but class {names[rows.argmin()]!r} has "
            f"{rows.min()}. Label more rows of it, or leave calibration out."
        )
    return list(check_cv(_FOLDS, y, classifier=True).split(X, y))


def _out_of_fold(model: Any, X: Any, y: NDArray[Any], splits: _Splits, params: dict[str, Any]) -> Floats:
    """Probabilities of each row by a model that was fitted on others.

    scikit-learn's `cross_val_predict` renames the classes on the way, which a fitted classifier cannot follow.
    """
    tests = np.concatenate([test for _, test in splits])
    if len(tests) != len(y) or len(np.unique(tests)) != len(y):
        raise InputError(
            "cv must predict each row exactly once, as KFold and its relatives do; this one does not."
        )
    classes = np.unique(y)
    parts = []
    for train, test in splits:
        if len(np.unique(y[train])) < len(classes):
            lost = np.setdiff1d(classes, y[train]).tolist()[0]
            raise InputError(
                f"A training fold has no row of class {lost!r}. Use fewer folds, or stratify them."
            )
        rows = {name: _rows(value, train, len(y)) for name, value in params.items()}
        fold = clone(model).fit(_safe_indexing(X, train), y[train], **rows)
        parts.append(np.asarray(fold.predict_proba(_safe_indexing(X, test))))
    return np.concatenate(parts)[np.argsort(tests)]


def _rows(value: Any, at: NDArray[np.intp], n: int) -> Any:
    """The rows of a parameter that has one value per row, anything else as it is."""
    if isinstance(value, (str, dict)) or not (hasattr(value, "__len__") or hasattr(value, "__array__")):
        return value
    (values,) = indexable(value)
    return _safe_indexing(values, at) if len(values) == n else value


def _labels(estimator: Any, y: Any) -> NDArray[Any]:
    y = validate_data(estimator, y=y)
    check_classification_targets(y)
    return np.asarray(y)


def _distinct(y: NDArray[Any]) -> NDArray[Any]:
    classes = np.unique(y)
    if len(classes) == 1:
        raise InputError(
            f"The labels hold only one class, {classes.tolist()[0]!r}. At least two are needed to tell them apart."
        )
    return classes


def _as_matrix(X: Any) -> Any:
    """A single score per row as a column; anything else as it is."""
    dims = X.ndim if hasattr(X, "ndim") else np.asarray(X).ndim
    return np.asarray(X).reshape(-1, 1) if dims == 1 else X


def _checked(proba: Any, n_classes: int, classes: NDArray[Any] | None = None) -> Floats:
    """Probabilities with one column per class; the columns of a table matched by name if classes are given."""
    names = None if classes is None else classes.tolist()
    return as_columns(as_scores(proba, classes=names, n_classes=n_classes).values)


def _verb_shape(proba: Floats) -> Floats:
    """The verbs take the score of the second of two classes."""
    return proba[:, 1] if proba.shape[1] == 2 else proba


def _seed(random_state: Any) -> int:
    if isinstance(random_state, (int, np.integer)):
        return int(random_state)
    return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))


def _without_none(**values: Any) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
