"""Plots of a lab and of an estimate: functions that return matplotlib Axes.

Each plot is drawn from a table: ``fieldcal.plots.tables`` has a function of the same name that returns it, and the
plot also accepts the table instead of the lab or estimate. Matplotlib is imported when something is drawn.

Names of groups and classes are cut to one short line. Characters that the font lacks are drawn as boxes, with a
warning by matplotlib; ``with fieldcal.plots.quiet(): …`` suppresses it.
"""

from fieldcal.plots import tables as tables
from fieldcal.plots.draw import (
    bins,
    breakdown,
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
from fieldcal.plots.draw_over_time import over_time
from fieldcal.plots.style import quiet

__all__ = [
    "bins",
    "breakdown",
    "changes",
    "coverage",
    "curve",
    "distribution",
    "explanations",
    "forest",
    "over_time",
    "pit",
    "quiet",
    "reliability",
    "reliability_of",
    "response",
    "trust",
]
