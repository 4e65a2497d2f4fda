"""The four verbs on arrays, one file each, and what goes with them.

learn            count             estimate                  recalibrate
lab scores  ──►  field scores ──►  prevalence per group ──►  new probabilities
+ labels         (any size)        + interval + verdict      (same rows, same order)
  = Lab            = Field           = Prevalence
"""

from fieldcal.verbs.count import count
from fieldcal.verbs.estimate import check, estimate
from fieldcal.verbs.learn import learn
from fieldcal.verbs.plan import Plan, plan
from fieldcal.verbs.recalibrate import decide, recalibrate

__all__ = ["Plan", "check", "count", "decide", "estimate", "learn", "plan", "recalibrate"]
