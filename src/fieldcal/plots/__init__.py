"""Pictures of a lab and of an estimate, as functions that return matplotlib's axes.

Each is drawn from a table: ``fieldcal.plots.tables`` has a function of the same name that returns it, and the picture
takes it in place of the lab or the estimate. Matplotlib is loaded when something is drawn, not before.

Group and class names are shown as they are, cut to one short line. Characters that the font does not have become
boxes, and matplotlib warns of them when it draws; ``with fieldcal.plots.quiet(): …`` keeps it silent.
"""

from fieldcal.plots import tables as tables
from fieldcal.plots.draw import (
    bins,
    changes,
    coverage,
    curve,
    distribution,
    explanations,
    forest,
    pit,
    reliability,
    reliability_of,
    response,
    trust,
)
from fieldcal.plots.style import quiet

__all__ = [
    "bins",
    "changes",
    "coverage",
    "curve",
    "distribution",
    "explanations",
    "forest",
    "pit",
    "quiet",
    "reliability",
    "reliability_of",
    "response",
    "trust",
]
