"""The verbs on arrays and predictive distributions, one file each.

    learn            count             estimate                  recalibrate
    lab scores  ──►  field scores ──►  prevalence per group ──►  new predictions
    + labels         (any size)        + interval + verdict      (same rows, order and kind)
      = Lab            = Field           = Prevalence

The lab's outcome holds what predictions and labels are: probabilities and classes, or distributions and numbers.
"""

from fieldcal.verbs.change_prevalence import change_prevalence
from fieldcal.verbs.compare import compare
from fieldcal.verbs.count import count
from fieldcal.verbs.cross_validate import CrossValidation, cross_validate
from fieldcal.verbs.estimate import check, estimate
from fieldcal.verbs.learn import learn
from fieldcal.verbs.pairs import pairs
from fieldcal.verbs.plan import Plan, plan
from fieldcal.verbs.recalibrate import decide, recalibrate
from fieldcal.verbs.rows_to_label import rows_to_label

__all__ = [
    "CrossValidation",
    "Plan",
    "change_prevalence",
    "check",
    "compare",
    "count",
    "cross_validate",
    "decide",
    "estimate",
    "learn",
    "pairs",
    "plan",
    "recalibrate",
    "rows_to_label",
]
