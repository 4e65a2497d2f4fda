"""The scikit-learn contract: the four verbs as `fit`, `adapt` and `predict_proba`. No formulas.

    fit              adapt, partial_adapt             predict_proba, predict
    learn        ──► count ──► estimate           ──► recalibrate
    = lab_           = field_    = prevalence_

`Recalibrator` is fed with probabilities, `RecalibratedClassifier` with features: it fits the classifier itself, or
takes one that is fitted as scikit-learn's `FrozenEstimator`. Before `adapt` no field has been seen, and both answer
what the model itself says.
"""

from fieldcal.estimators.classifier import RecalibratedClassifier
from fieldcal.estimators.cross_fitting import AdaptedScorer
from fieldcal.estimators.recalibrator import Recalibrator

__all__ = ["AdaptedScorer", "RecalibratedClassifier", "Recalibrator"]
