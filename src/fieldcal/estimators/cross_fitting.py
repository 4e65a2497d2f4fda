"""Out-of-fold predictions of lab rows, by models and by calibrators."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import get_scorer
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import MetadataRequest, get_routing_for_object
from sklearn.utils.validation import check_is_fitted

from fieldcal.errors import InputError, InputTypeError, option
from fieldcal.estimators.adaptive import Calibration
from fieldcal.types import Floats
from fieldcal.validation import as_labels

Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

#: Folds for out-of-fold predictions by a calibrator.
_FOLDS = 5


class GivenProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose features are its probabilities."""

    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    def fit(self, X: Floats, y: Any, sample_weight: Any = None) -> Self:
        """No-op."""
        self.classes_ = self.classes
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """The features themselves."""
        return X

    def predict(self, X: Floats) -> NDArray[Any]:
        """The most probable class."""
        return np.asarray(self.classes_[X.argmax(axis=1)])


class AsItIs(FrozenEstimator):  # type: ignore[misc]
    """A frozen classifier of any library, whose ``fit`` accepts the weights of the calibrators.

    Differs from scikit-learn's `FrozenEstimator`: it does not check whether the classifier is fitted, which only
    scikit-learn's own can answer, and calibrators do not warn about ``sample_weight``.
    """

    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """No-op."""
        return self


def is_frozen(estimator: Any) -> bool:
    """Whether the estimator is a `FrozenEstimator`."""
    return isinstance(estimator, FrozenEstimator)


def unfrozen(estimator: Any) -> Any:
    """The estimator inside a `FrozenEstimator`; any other estimator itself."""
    return estimator.estimator if is_frozen(estimator) else estimator


def check_fit_or_frozen(estimator: Any, fit_params: dict[str, Any]) -> None:
    """Refuse an estimator that neither is fitted nor can be, and fit parameters for a frozen one."""
    kind = type(unfrozen(estimator)).__name__
    if not is_frozen(estimator):
        if not hasattr(estimator, "fit"):
            raise InputTypeError(
                f"{kind} has no fit, so it cannot be fitted here. If it is fitted already, wrap it: "
                "sklearn.frozen.FrozenEstimator(…)."
            )
        return
    if hasattr(unfrozen(estimator), "__sklearn_tags__"):  # others cannot be asked whether they are fitted
        check_is_fitted(
            unfrozen(estimator),
            msg=f"The FrozenEstimator holds a {kind} that is not fitted yet. Fit it first, on other rows than those "
            "of the lab, or pass it without FrozenEstimator to have it fitted here.",
        )
    if fit_params:
        raise InputTypeError(
            f"A FrozenEstimator is not fitted again, but fit was given {sorted(fit_params)} for it. Leave them out, "
            f"or pass the {kind} without FrozenEstimator."
        )


def calibrated(base: Any, method: Calibration, *, fitted: bool) -> CalibratedClassifierCV:
    """A calibrator for the predictions of ``base``, out of fold unless ``base`` is fitted already."""
    if method == "temperature" and tuple(map(int, sklearn.__version__.split(".")[:2])) < (1, 8):
        raise InputError(
            f"{option('calibration', 'temperature')} needs scikit-learn 1.8 or newer, but {sklearn.__version__} is "
            "installed. Upgrade it, or choose 'sigmoid'."
        )
    # A fitted base predicts the same in any fold, so two folds suffice.
    return CalibratedClassifierCV(base, method=method, ensemble=False, cv=KFold(2) if fitted else _FOLDS)


def calibration_splits(X: Any, y: NDArray[Any], classes: NDArray[Any]) -> Splits:
    """Folds for the calibrator, each with every class."""
    names, codes = as_labels(y, classes=classes.tolist())
    rows = np.bincount(codes, minlength=len(names))
    if rows.min() < _FOLDS:
        raise InputError(
            f"Calibration needs at least {_FOLDS} lab rows of each class, but class {names[rows.argmin()]!r} has "
            f"{rows.min()}. Label more rows of it, or leave calibration out."
        )
    return list(check_cv(_FOLDS, y, classifier=True).split(X, y))


def out_of_fold(model: Any, X: Any, y: NDArray[Any], splits: Splits, params: dict[str, Any]) -> Floats:
    """Out-of-fold probabilities.

    scikit-learn's `cross_val_predict` recodes the classes, which a fitted classifier cannot follow.
    """
    tests = tested_once(splits, len(y))
    classes = np.unique(y)
    parts = []
    for train, test in splits:
        if len(np.unique(y[train])) < len(classes):
            absent = np.setdiff1d(classes, y[train]).tolist()[0]
            raise InputError(
                f"A training fold has no row of class {absent!r}. Use fewer folds, or stratify them."
            )
        rows = {name: _rows(value, train, len(y)) for name, value in params.items()}
        fold = clone(model).fit(_safe_indexing(X, train), y[train], **rows)
        parts.append(np.asarray(fold.predict_proba(_safe_indexing(X, test))))
    return np.concatenate(parts)[np.argsort(tests)]


def splits_of(cv: Any, X: Any, y: NDArray[Any], groups: Any, *, classifier: bool) -> Splits:
    """The folds of ``cv``, by default five; by groups if it splits by them."""
    try:
        splitter = check_cv(cv, y, classifier=classifier)
        by_group = bool(get_routing_for_object(splitter).consumes("split", ["groups"]))
        splits = list(splitter.split(X, y, **({"groups": groups} if by_group else {})))
        if not splits:
            raise ValueError("there is no split")
        return [(np.asarray(train, dtype=np.intp), np.asarray(test, dtype=np.intp)) for train, test in splits]
    except (ValueError, TypeError) as error:
        raise InputError(
            f"cv must be a number of folds, a splitter of scikit-learn or a list of splits, but with {cv!r:.60} these "
            f"rows cannot be split: {error}"
        ) from None


def tested_once(splits: Splits, n: int) -> NDArray[np.intp]:
    """Row indices in the order of the folds; each row must occur once."""
    tests = np.concatenate([test for _, test in splits])
    if len(tests) != n or len(np.unique(tests)) != n:
        raise InputError(
            "cv must predict each row exactly once, as KFold does; this one does not. Use such a splitter."
        )
    return tests


def take_features(wrapper: Any, model: Any) -> None:
    """Copies the feature names of its model to a wrapper."""
    for name in ("n_features_in_", "feature_names_in_"):
        wrapper.__dict__.pop(name, None)
        if hasattr(model, name):
            setattr(wrapper, name, getattr(model, name))


def with_input_of(tags: Any, estimator: Any) -> Any:
    """Tags of a wrapper with the input of its estimator."""
    # skpro's regressors and others have no tags.
    if hasattr(unfrozen(estimator), "__sklearn_tags__"):
        taken = get_tags(unfrozen(estimator)).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = taken.sparse, taken.allow_nan
    return tags


def _rows(value: Any, at: NDArray[np.intp], n: int) -> Any:
    """The rows of a parameter with one value per row; other parameters unchanged."""
    if isinstance(value, (str, dict)) or not (hasattr(value, "__len__") or hasattr(value, "__array__")):
        return value
    (values,) = indexable(value)
    return _safe_indexing(values, at) if len(values) == n else value


def without_none(**values: Any) -> dict[str, Any]:
    """The arguments that are not None."""
    return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class AdaptedScorer:
    """A scorer that adapts a copy of the estimator to the scored rows, without their labels, before scoring.

    `GridSearchCV` fits and predicts, but does not adapt, so with any other scorer ``partition``, ``prior`` and
    ``trust`` make no difference. The estimator itself does not change.

    Parameters
    ----------
    scoring : str, default="neg_log_loss"
        The name of one of scikit-learn's scorers.
    groups : bool, default=True
        Whether to request ``groups`` if scikit-learn's metadata routing is enabled.

    Examples
    --------
    >>> import fieldcal
    >>> from sklearn.model_selection import GridSearchCV
    >>> from fieldcal.estimators import AdaptedScorer
    >>> data = fieldcal.datasets.example().data
    >>> search = GridSearchCV(fieldcal.Recalibrator(trust=1), {"partition": [2, 8]}, scoring=AdaptedScorer(), cv=3)
    >>> sorted(search.fit(data.proba_lab.reshape(-1, 1), data.y_lab).best_params_)
    ['partition']
    """

    scoring: str = "neg_log_loss"
    groups: bool = True

    def __call__(self, estimator: Any, X: Any, y: Any, *, groups: Any = None) -> float:
        """The score of a copy of the fitted estimator, adapted to ``X``."""
        adapted = copy.copy(estimator).adapt(X, groups=groups)
        proba = adapted.predict_proba(X, groups=groups)
        return float(get_scorer(self.scoring)(GivenProbabilities(adapted.classes_).fit(proba, y), proba, y))

    def get_metadata_routing(self) -> MetadataRequest:
        """Request ``groups``, or refuse them."""
        request = MetadataRequest(owner=self)
        request.score.add_request(param="groups", alias=self.groups)
        return request
