"""scikit-learn estimators: the four verbs as `fit`, `adapt` and `predict_proba`.

    fit              adapt, partial_adapt             predict_proba, predict
    learn        ──► count ──► estimate           ──► recalibrate
    = lab_           = field_    = prevalence_

`Recalibrator` takes probabilities, `RecalibratedClassifier` features: it fits the classifier itself, or takes a fitted
one as scikit-learn's `FrozenEstimator`. Before `adapt`, both return the predictions of the model itself.
"""

from fieldcal.estimators.classifier import RecalibratedClassifier
from fieldcal.estimators.cross_fitting import AdaptedScorer
from fieldcal.estimators.recalibrator import Recalibrator

__all__ = ["AdaptedScorer", "RecalibratedClassifier", "Recalibrator"]
