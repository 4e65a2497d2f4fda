"""Lab, Field and Prevalence: the small frozen objects that pass between the verbs, and nothing else does."""

from fieldcal.objects.batch import Batch
from fieldcal.objects.field import SCORE_UNIT, Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.outcome import Columns, Support
from fieldcal.objects.prevalence import Fit, Interval, Prevalence
from fieldcal.objects.verdict import Finding, Verdict

__all__ = [
    "SCORE_UNIT",
    "Batch",
    "Columns",
    "Field",
    "Finding",
    "Fit",
    "Interval",
    "Lab",
    "Prevalence",
    "Support",
    "Verdict",
]
