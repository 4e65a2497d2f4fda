"""Table 5: the log loss of the predictions themselves, after what a user would do with each tool."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from benchmarks.peers.data import Column, Table, attempt, progress
from benchmarks.peers.methods import DEFAULT, Codes, Floats, Given, given
from benchmarks.quantification import SCENARIOS, draw
from experiments.quantification_data import QuantificationData
from scipy.special import logit
from sklearn.calibration import CalibratedClassifierCV
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

import fieldcal

ORACLE = "oracle: true prevalence known"
TEXT = """\
The fields of the first table. scikit-learn's calibration is fitted on the lab, as is usual; it cannot know the field.
EMQ: the posteriors of its last step. Log loss is averaged over fields of 50, 100, 500, 1,000 and 3,000 rows; a certain
prediction that is wrong counts as scikit-learn counts it (clipped at the precision of the numbers)."""

#: lab, labels, field → new predictions of the field
Predict = Callable[[Floats, Codes, Floats], Floats]


class Scored(Given):
    """As scikit-learn sees a logistic regression: with a decision function, which it prefers for calibration."""

    def decision_function(self, X: Floats) -> Floats:
        return logit(np.clip(X[:, 1], 1e-12, 1 - 1e-12))


def calibrated(method: str) -> Predict:
    def predict(lab: Floats, y: Codes, field: Floats) -> Floats:
        model = FrozenEstimator(Scored(lab.shape[1]).fit(lab))
        return np.asarray(CalibratedClassifierCV(model, method=method).fit(lab, y).predict_proba(field))

    return predict


def emq(lab: Floats, y: Codes, field: Floats) -> Floats:
    from quapy.method.aggregative import EMQ

    return np.asarray(EMQ(given(lab), fit_classifier=False).fit(lab, y).predict_proba(field))


def emq_bcts(lab: Floats, y: Codes, field: Floats) -> Floats:
    from quapy.method.aggregative import EMQ

    quantifier = EMQ.EMQ_BCTS(given(lab), fit_classifier=False, val_split=(lab, y)).fit(lab, y)
    return np.asarray(quantifier.predict_proba(field))


def ours(**options: object) -> Predict:
    def predict(lab: Floats, y: Codes, field: Floats) -> Floats:
        learnt = fieldcal.learn(lab, y)
        prev = fieldcal.estimate(learnt, fieldcal.count(learnt, field), **options)
        return np.asarray(fieldcal.recalibrate(prev, field))

    return predict


def known(y: Codes, field: Floats, prevalence: Floats) -> Floats:
    weighted = field * prevalence / (np.bincount(y, minlength=field.shape[1]) / len(y))
    return weighted / weighted.sum(axis=1, keepdims=True)


METHODS: dict[str, Predict] = {
    "raw": lambda lab, y, field: field,
    "scikit-learn, sigmoid on the lab": calibrated("sigmoid"),
    "scikit-learn, isotonic on the lab": calibrated("isotonic"),
    "QuaPy EMQ": emq,
    "QuaPy EMQ-BCTS": emq_bcts,
    DEFAULT: ours(),
    "fieldcal, trust 1": ours(trust=1),
}


def mean_loss(task: QuantificationData, new: list[Floats]) -> float:
    return float(np.mean([log_loss(y, p, labels=[0, 1]) for y, p in zip(task.y_fields, new, strict=True)]))


def collect(table: Table, column: Column, task: QuantificationData) -> None:
    def loss(method: Predict) -> float:
        return mean_loss(task, [method(task.proba_lab, task.y_lab, field) for field in task.proba_fields])

    for name, method in METHODS.items():
        column.add(name, attempt(table, name, partial(loss, method)))
    pairs = zip(task.proba_fields, task.prevalence, strict=True)
    column.add(ORACLE, mean_loss(task, [known(task.y_lab, field, p) for field, p in pairs]))


def predictions(replicas: int) -> Table:
    table = Table(
        "log_loss",
        "Log loss of the predictions",
        f"{TEXT} {replicas} replicas.",
        ours=(DEFAULT, "fieldcal, trust 1"),
        oracles=(ORACLE,),
    )
    for scenario in SCENARIOS:
        column = Column(scenario)
        table.columns.append(column)
        for replica in progress(range(replicas), title=f"log loss, {scenario}", total=replicas):
            collect(table, column, draw(scenario, replica))
    return table
