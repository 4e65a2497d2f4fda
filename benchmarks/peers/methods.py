"""Who takes part. A method is fitted on the posteriors and labels of the lab, and then asked for fields one by one.

Every method gets the same posteriors; no classifier is trained again. QuaPy wants a classifier all the same, so it gets
one whose features are the posteriors (`Given`).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin

import fieldcal

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
#: posteriors of a field → prevalences
Ask = Callable[[Floats], Floats]
#: posteriors and labels of the lab → Ask
Method = Callable[[Floats, Codes], Ask]

#: The paper's plain estimator, for the partition given.
FLAT: dict[str, Any] = {"prior": "flat", "point": "mode", "trust": 1, "level": None}


class Given(ClassifierMixin, BaseEstimator):
    """A classifier whose predictions are known: its features are the posteriors themselves."""

    def __init__(self, n_classes: int = 2) -> None:
        self.n_classes = n_classes

    def fit(self, X: Floats, y: Codes | None = None) -> Given:
        self.classes_ = np.arange(self.n_classes)
        return self

    def predict_proba(self, X: Floats) -> Floats:
        return X

    def predict(self, X: Floats) -> Codes:
        return X.argmax(axis=1)


def given(lab: Floats) -> Given:
    return Given(lab.shape[1]).fit(lab)


def quapy(name: str, **options: Any) -> Method:
    def fit(lab: Floats, y: Codes) -> Ask:
        from quapy.method import aggregative

        quantifier = getattr(aggregative, name)(given(lab), fit_classifier=False, **options)
        return quantifier.fit(lab, y).predict

    return fit


def quapy_bcts(lab: Floats, y: Codes) -> Ask:
    from quapy.method.aggregative import EMQ

    # Only as a tuple does it take held-out rows for the calibration together with a classifier that is trained.
    return EMQ.EMQ_BCTS(given(lab), fit_classifier=False, val_split=(lab, y)).fit(lab, y).predict


def mlquantify_class(module: str, name: str) -> Any:
    return getattr(importlib.import_module(f"mlquantify.{module}"), name)


def mlquantify(module: str, name: str) -> Method:
    def fit(lab: Floats, y: Codes) -> Ask:
        quantifier = mlquantify_class(module, name)()
        return lambda field: np.asarray(as_array(lambda: quantifier.aggregate(field, lab, y)))

    return fit


def mlquantify_one_vs_rest(module: str, name: str) -> Method:
    """Those made for two classes take more only by way of a classifier that is fitted already."""

    def fit(lab: Floats, y: Codes) -> Ask:
        quantifier = mlquantify_class(module, name)(estimator=given(lab))
        quantifier.fit(lab, y, estimator_fitted=True)
        return lambda field: np.asarray(as_array(lambda: quantifier.predict(field)))

    return fit


def as_array(call: Callable[[], Any]) -> Any:
    """mlquantify answers with a dictionary unless asked for an array."""
    from mlquantify import config_context

    with config_context(prevalence_return_type="array"):
        return call()


def quantificationlib_edy(lab: Floats, y: Codes) -> Ask:
    from quantificationlib.multiclass.energy import EDy

    quantifier = EDy()
    quantifier.fit(lab, y, predictions_train=lab)
    return lambda field: np.asarray(quantifier.predict(None, predictions_test=field))


def naive(lab: Floats, y: Codes) -> Ask:
    return lambda field: np.asarray(field.mean(axis=0))


def urc(partition: Any = "auto", *, answer: str = "urc", **options: Any) -> Method:
    """fieldcal; without options its defaults."""

    def fit(lab: Floats, y: Codes) -> Ask:
        learnt = fieldcal.learn(lab, y, partition=partition)

        def ask(field: Floats) -> Floats:
            prev = fieldcal.estimate(learnt, fieldcal.count(learnt, field), **options)
            return np.asarray(getattr(prev, answer)[0])

        return ask

    return fit


QUAPY: dict[str, Method] = {
    "QuaPy CC": quapy("CC"),
    "QuaPy ACC": quapy("ACC", val_split=None),
    "QuaPy PACC": quapy("PACC", val_split=None),
    "QuaPy EMQ": quapy("EMQ"),
    "QuaPy EMQ-BCTS": quapy_bcts,
    "QuaPy DMy": quapy("DMy", val_split=None),
    "QuaPy KDEy-ML": quapy("KDEyML", val_split=None),
    "QuaPy EDy": quapy("EDy", val_split=None),
}
#: Methods for two classes only.
QUAPY_BINARY: dict[str, Method] = {"QuaPy HDy": quapy("HDy", val_split=None)}
OTHERS: dict[str, Method] = {
    "quantificationlib EDy": quantificationlib_edy,
    "mlquantify EMQ": mlquantify("likelihood", "EMQ"),
    "mlquantify DyS": mlquantify_one_vs_rest("matching", "DyS"),
    "mlquantify MS2": mlquantify_one_vs_rest("counting", "MS2"),
    "mlquantify EDy": mlquantify("matching", "EDy"),
}
DEFAULT = "fieldcal, defaults"
DEFAULT_ESTIMATE = "fieldcal, defaults, `estimate`"
DEFAULTS: dict[str, Method] = {DEFAULT: urc(), DEFAULT_ESTIMATE: urc(answer="estimate")}
