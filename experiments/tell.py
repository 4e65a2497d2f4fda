"""Words, tables and looks that the experiments share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fieldcal.plots.style import ESTIMATE, FONT, GRID, INK, MEAN_PREDICTION, MUTED, TRUTH

#: Colours that people with any kind of colour vision tell apart (Okabe and Ito).
COLOURS = {
    "ink": INK,
    "muted": MUTED,
    "orange": "#e69f00",
    "vermilion": MEAN_PREDICTION,
    "green": TRUTH,
    "sky": "#56b4e9",
    "blue": ESTIMATE,
    "purple": "#cc79a7",
}


@dataclass(frozen=True)
class Claim:
    """A statement of the paper, what the paper says of it in figures, and what this run says.

    It is judged as the paper has it. Where that fails, ``weaker`` may name a lower bar and whether that one is met: the
    statement is then called relaxed, and both bars are told.
    """

    text: str
    holds: bool
    evidence: str
    paper: str = "no figure"
    weaker: tuple[str, bool] | None = None

    @property
    def judgement(self) -> str:
        """In bold: holds, relaxed (with the lower bar), or does not hold."""
        if self.holds:
            return "**holds**"
        if self.weaker is None:
            return "**does not hold**"
        bar, met = self.weaker
        return f"**relaxed**: {bar}" if met else f"**does not hold**, nor the weaker: {bar}"


def claims(found: Iterable[Claim]) -> str:
    """A table, one line each."""
    lines = [[claim.text, claim.paper, claim.evidence, claim.judgement] for claim in found]
    return markdown(["statement", "in the paper", "here", "judged"], lines)


def markdown(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(map(str, row))} |" for row in lines)


def percent(share: float) -> str:
    """For people."""
    return f"{100 * share:.0f} %"


def standard_error(values: pd.Series) -> float:
    """Of the mean; 0 for a single value."""
    return float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else 0.0


def mean_error(values: pd.Series, *, digits: int = 3, sign: bool = False) -> str:
    """Mean ± standard error."""
    form = f"{'+' if sign else ''}.{digits}f"
    return f"{values.mean():{form}} ± {standard_error(values):.{digits}f}"


def plain(ax: Axes, *, x: str = "", y: str = "", title: str = "", grid: Literal["x", "y"] = "y") -> None:
    """Open at the top and the right, small texts, faint lines across."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(labelsize=FONT, labelcolor=INK, color=MUTED)
    ax.set_xlabel(x, fontsize=FONT, color=INK)
    ax.set_ylabel(y, fontsize=FONT, color=INK)
    ax.set_title(title, fontsize=FONT, color=INK)
    ax.grid(axis=grid, color=GRID, linewidth=0.6)
    ax.set_axisbelow(True)


def ribbons(
    ax: Axes, table: pd.DataFrame, looks: dict[str, dict[str, Any]], *, x: str, y: str, inside: float
) -> None:
    """Per method the mean over replicas as a line, and the range of a share ``inside`` of them as a ribbon."""
    for method, own in looks.items():
        values = table[table.method == method].groupby(x)[y]
        low, high = values.quantile((1 - inside) / 2), values.quantile((1 + inside) / 2)
        ax.fill_between(low.index, low, high, color=own["color"], alpha=0.22, linewidth=0)
        ax.plot(low.index, values.mean(), label=method, markersize=5, **({"linewidth": 1.4} | own))


def legend_below(figure: Figure, handles: Sequence[Artist] = (), labels: Sequence[str] = ()) -> None:
    """One legend for all panels; without handles, that of the first."""
    if not handles:
        handles, labels = figure.axes[0].get_legend_handles_labels()
    place: Any = "outside lower center"
    figure.legend(handles, labels, loc=place, ncols=len(handles), frameon=False, fontsize=FONT)
