"""Predictions of lab rows by a model, or a calibrator, that has not seen them."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import KFold, check_cv
from sklearn.utils import _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import get_routing_for_object

from fieldcal.errors import InputError
from fieldcal.estimators.adaptive import Calibration
from fieldcal.types import Floats
from fieldcal.validation import as_labels

Splits = list[tuple[NDArray[np.intp], NDArray[np.intp]]]

#: Folds for predictions of lab rows by a calibrator that has not seen them.
_FOLDS = 5


class GivenProbabilities(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A classifier whose features are its probabilities."""

    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def __init__(self, classes: NDArray[Any]) -> None:
        self.classes = classes

    def fit(self, X: Floats, y: Any, sample_weight: Any = None) -> Self:
        """Nothing to learn."""
        self.classes_ = self.classes
        return self

    def predict_proba(self, X: Floats) -> Floats:
        """The features themselves."""
        return X

    def predict(self, X: Floats) -> NDArray[Any]:
        """The most probable class."""
        return np.asarray(self.classes_[X.argmax(axis=1)])


class NeverRefitted(FrozenEstimator):  # type: ignore[misc]
    """A fitted classifier that is not refitted, and takes the weights that the calibrators need without a warning."""

    __metadata_request__fit: ClassVar = {"sample_weight": True}

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Nothing to learn."""
        return self


def calibrated(base: Any, method: Calibration, *, fitted: bool) -> CalibratedClassifierCV:
    """One calibrator on the predictions of ``base``, out of fold unless it is fitted already."""
    # A fitted base predicts the same in any fold: as few as scikit-learn allows.
    return CalibratedClassifierCV(base, method=method, ensemble=False, cv=KFold(2) if fitted else _FOLDS)


def calibration_splits(X: Any, y: NDArray[Any], classes: NDArray[Any]) -> Splits:
    """Folds for the calibrator: every class in each of them."""
    names, codes = as_labels(y, classes=classes.tolist())
    rows = np.bincount(codes, minlength=len(names))
    if rows.min() < _FOLDS:
        raise InputError(
            f"Calibration needs at least {_FOLDS} lab rows of each class, but class {names[rows.argmin()]!r} has "
            f"{rows.min()}. Label more rows of it, or leave calibration out."
        )
    return list(check_cv(_FOLDS, y, classifier=True).split(X, y))


def out_of_fold(model: Any, X: Any, y: NDArray[Any], splits: Splits, params: dict[str, Any]) -> Floats:
    """Probabilities of each row by a model that was fitted on others.

    scikit-learn's `cross_val_predict` renames the classes on the way, which a fitted classifier cannot follow.
    """
    tests = tested_once(splits, len(y))
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


def splits_of(cv: Any, X: Any, y: NDArray[Any], groups: Any, *, classifier: bool) -> Splits:
    """The folds that ``cv`` stands for, by groups where it splits by them."""
    splitter = check_cv(cv, y, classifier=classifier)
    by_group = bool(get_routing_for_object(splitter).consumes("split", ["groups"]))
    return list(splitter.split(X, y, **({"groups": groups} if by_group else {})))


def tested_once(splits: Splits, n: int) -> NDArray[np.intp]:
    """The rows in the order in which the folds predict them; each must come once."""
    tests = np.concatenate([test for _, test in splits])
    if len(tests) != n or len(np.unique(tests)) != n:
        raise InputError(
            "cv must predict each row exactly once, as KFold and its relatives do; this one does not."
        )
    return tests


def take_features(wrapper: Any, model: Any) -> None:
    """The features of a wrapper are those of its model."""
    for name in ("n_features_in_", "feature_names_in_"):
        wrapper.__dict__.pop(name, None)
        if hasattr(model, name):
            setattr(wrapper, name, getattr(model, name))


def with_input_of(tags: Any, estimator: Any) -> Any:
    """Tags of a wrapper that takes what its estimator takes."""
    if hasattr(estimator, "__sklearn_tags__"):
        inside = get_tags(estimator).input_tags
        tags.input_tags.sparse, tags.input_tags.allow_nan = inside.sparse, inside.allow_nan
    return tags


def _rows(value: Any, at: NDArray[np.intp], n: int) -> Any:
    """The rows of a parameter that has one value per row, anything else as it is."""
    if isinstance(value, (str, dict)) or not (hasattr(value, "__len__") or hasattr(value, "__array__")):
        return value
    (values,) = indexable(value)
    return _safe_indexing(values, at) if len(values) == n else value


def without_none(**values: Any) -> dict[str, Any]:
    """The parameters that were given."""
    return {name: value for name, value in values.items() if value is not None}
