"""fieldcal: recalibrate a deployed model from its unlabelled predictions in the field.

Four verbs, one direction: `learn`, `count`, `estimate`, `recalibrate`. Everything else is imported on first use.
"""

from __future__ import annotations

import importlib

__version__ = "0.1.0"

TYPE_CHECKING = False  # keeps the import small, so that the command line can handle Ctrl-C early

_WHERE = {
    "learn": "verbs",
    "count": "verbs",
    "estimate": "verbs",
    "recalibrate": "verbs",
    "decide": "verbs",
    "change_prevalence": "verbs",
    "check": "verbs",
    "pairs": "verbs",
    "plan": "verbs",
    "compare": "verbs",
    "cross_validate": "verbs",
    "rows_to_label": "verbs",
    "report": "reporting",
    "Report": "reporting",
    "Verdict": "objects",
    "AdaptedScorer": "estimators",
    "Lab": "objects",
    "Field": "objects",
    "Prevalence": "objects",
    "Recalibrator": "estimators",
    "RecalibratedClassifier": "estimators",
    "RecalibratedRegressor": "estimators.regressor",
    "FieldcalError": "errors",
    "FieldcalWarning": "errors",
}
_MODULES = ("datasets", "errors", "metrics", "partitions", "plots", "priors", "regression", "tables")

__all__ = [
    "AdaptedScorer",
    "Field",
    "FieldcalError",
    "FieldcalWarning",
    "Lab",
    "Prevalence",
    "RecalibratedClassifier",
    "RecalibratedRegressor",
    "Recalibrator",
    "Report",
    "Verdict",
    "__version__",
    "change_prevalence",
    "check",
    "compare",
    "count",
    "cross_validate",
    "datasets",
    "decide",
    "errors",
    "estimate",
    "learn",
    "metrics",
    "pairs",
    "partitions",
    "plan",
    "plots",
    "priors",
    "recalibrate",
    "regression",
    "report",
    "rows_to_label",
    "tables",
]

if TYPE_CHECKING:
    from typing import Any

    from fieldcal import datasets, errors, metrics, partitions, plots, priors, regression, tables
    from fieldcal.errors import FieldcalError, FieldcalWarning
    from fieldcal.estimators import AdaptedScorer, RecalibratedClassifier, Recalibrator
    from fieldcal.estimators.regressor import RecalibratedRegressor
    from fieldcal.objects import Field, Lab, Prevalence, Verdict
    from fieldcal.reporting import Report, report
    from fieldcal.verbs.change_prevalence import change_prevalence
    from fieldcal.verbs.compare import compare
    from fieldcal.verbs.count import count
    from fieldcal.verbs.cross_validate import cross_validate
    from fieldcal.verbs.estimate import check, estimate
    from fieldcal.verbs.learn import learn
    from fieldcal.verbs.pairs import pairs
    from fieldcal.verbs.plan import plan
    from fieldcal.verbs.recalibrate import decide, recalibrate
    from fieldcal.verbs.rows_to_label import rows_to_label


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"fieldcal.{name}")
    if name in _WHERE:
        value = getattr(_module(_WHERE[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'fieldcal' has no attribute {name!r}")


def _module(name: str) -> Any:
    """A submodule; if an optional dependency is missing, the error names the line that installs it."""
    try:
        return importlib.import_module(f"fieldcal.{name}")
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if name != "reporting" or missing == "fieldcal":
            raise
        from fieldcal.storage import require

        return require(missing, "report", purpose="for a report")


def __dir__() -> list[str]:
    return sorted(__all__)
