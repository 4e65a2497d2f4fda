"""AdaptedScorer: choose options by how an estimator does after it has adapted."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from sklearn.metrics import get_scorer
from sklearn.utils.metadata_routing import MetadataRequest

from fieldcal.estimators.cross_fitting import GivenProbabilities


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
        return float(get_scorer(self.scoring)(GivenProbabilities(adapted.classes_).fit(proba, y), proba, y))

    def get_metadata_routing(self) -> MetadataRequest:
        """Ask for ``groups``, or refuse them.

        Returns
        -------
        MetadataRequest
        """
        request = MetadataRequest(owner=self)
        request.score.add_request(param="groups", alias=self.groups)
        return request
