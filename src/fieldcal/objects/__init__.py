"""Lab, Field and Prevalence: the frozen objects that the verbs pass to each other."""

from fieldcal.objects.artefact import SCORE_UNIT
from fieldcal.objects.batches import Batch, Labelled
from fieldcal.objects.derived import Interval, Ranking
from fieldcal.objects.field import UNNAMED, Field
from fieldcal.objects.lab import Lab
from fieldcal.objects.outcome import Classes, Columns, Intervals, Outcome
from fieldcal.objects.prevalence import Prevalence
from fieldcal.objects.prevalence_parts import Correction, Fit, WholeField
from fieldcal.objects.verdict import Finding, Verdict

__all__ = [
    "SCORE_UNIT",
    "UNNAMED",
    "Batch",
    "Classes",
    "Columns",
    "Correction",
    "Field",
    "Finding",
    "Fit",
    "Interval",
    "Intervals",
    "Lab",
    "Labelled",
    "Outcome",
    "Prevalence",
    "Ranking",
    "Verdict",
    "WholeField",
]
