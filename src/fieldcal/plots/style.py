"""Colours, sizes, and short names and plain numbers from data."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.errors import InputTypeError
from fieldcal.objects import Lab, group_keys
from fieldcal.plots import style
from fieldcal.storage import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.legend import Legend

# The report's page replaces exactly these for its dark mode; they are always opaque.
INK = "#1f2933"
MUTED = "#7b8794"
GRID = "#d9dee3"
ESTIMATE = "#0072b2"
MEAN_PREDICTION = "#d55e00"
TRUTH = "#009e73"
BAND = "#cfe3f0"
# Cells of a heat map keep their colour in dark mode, so their numbers use none of the colours above.
HEAT = ("#e6eff6", "#0b5f94")
ON_LIGHT, ON_DARK = "#17212b", "#fefefe"

FONT = 9

# Shapes differ as well as colours.
SHAPES: dict[str, dict[str, Any]] = {
    "mean_prediction": {
        "marker": "o",
        "markersize": 7.5,
        "markerfacecolor": "none",
        "color": MEAN_PREDICTION,
    },
    "estimate": {"marker": "o", "markersize": 6, "color": ESTIMATE},
    "truth": {"marker": "D", "markersize": 5, "color": TRUTH},
}
#: Position of a legend above the plot.
ABOVE: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "columnspacing": 1.2}
#: Largest number of labels along an axis.
MOST_LABELS = 40
#: Names are data: matplotlib must not parse mathematics or TeX in them.
VERBATIM: dict[str, Any] = {"parse_math": False, "usetex": False}


def quiet() -> warnings.catch_warnings[None]:
    """A context without matplotlib's warnings about characters that the font lacks."""
    return warnings.catch_warnings(action="ignore", category=UserWarning)


def plain(ax: Axes, *, x: str, y: str = "", grid: str | None = None) -> None:
    """Axes without top and right spines, with small text and optional grid lines."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(MUTED)
    ax.tick_params(labelsize=FONT, labelcolor=INK, color=MUTED)
    ax.set_xlabel(x, fontsize=FONT, color=INK, **VERBATIM)
    ax.set_ylabel(y, fontsize=FONT, color=INK, **VERBATIM)
    if grid is not None:
        ax.grid(axis=grid, color=GRID, linewidth=0.6)  # type: ignore[arg-type]
        ax.set_axisbelow(True)


def name_ticks(axis: Axis, places: Sequence[float], names: Sequence[str], **looks: Any) -> None:
    axis.set_ticks(places, labels=names, **VERBATIM, **looks)


def write(ax: Axes, x: float, y: float, text: str, **looks: Any) -> None:
    """Small text that may contain a name."""
    ax.text(x, y, text, **{"fontsize": FONT, "color": MUTED, **VERBATIM, **looks})


def legend(ax: Axes, handles: Sequence[Any], names: Sequence[str], **place: Any) -> Legend:
    """A small legend without a frame; its title contains no names."""
    # matplotlib drops labels that begin with an underscore, so names are set afterwards.
    box = ax.legend(
        handles,
        ["-"] * len(handles),
        frameon=False,
        fontsize=FONT,
        borderaxespad=0.2,
        handlelength=1.4,
        **place,
    )
    box.get_title().set(fontsize=FONT, color=MUTED)
    for text, name in zip(box.get_texts(), names, strict=True):
        text.set(text=name, color=INK, **VERBATIM)
    return box


def thinned(count: int, most: int) -> range:
    """Positions of at most this many labels, evenly spaced."""
    return range(0, count, max(1, math.ceil(count / most)))


def name_bins(ax: Axes, labels: Sequence[str], places: NDArray[np.float64]) -> None:
    """Labels of bins under an axis: rotated if they are many or long, thinned out if they are too many."""
    shown = thinned(len(labels), MOST_LABELS)
    turn = turn_of(labels)
    looks = {"rotation": turn, **({"ha": "right", "rotation_mode": "anchor"} if turn == 30 else {})}
    name_ticks(ax.xaxis, [float(places[i]) for i in shown], [labels[i] for i in shown], **looks)
    ax.tick_params(axis="x", length=0)


def estimate_words(table: dict[str, Any]) -> str:
    """The estimate in a legend, with its interval."""
    word = "share" if table.get("judged") else "estimate"
    return word if table["level"] is None else f"{word} with {table['level']:.0%} interval"


def floats(column: Sequence[float | None]) -> NDArray[np.float64]:
    """As floats; None becomes NaN, which matplotlib skips."""
    return np.array(column, dtype=np.float64)


def turn_of(labels: Sequence[str]) -> int:
    """Rotation in degrees at which labels under an axis do not overlap."""
    letters = sum(map(len, labels))
    return 0 if letters <= 60 else 30 if letters <= 110 and len(labels) <= 12 else 90


def shortened(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"


def all_shortened(names: Sequence[str], width: int) -> list[str]:
    """The names cut to this width, keeping their ends if beginnings coincide."""
    cut = [shortened(name, width) for name in names]
    alike, end = Counter(cut), width // 2
    return [
        short if alike[short] == 1 or len(name) <= width else f"{name[: width - end - 1]}…{name[-end:]}"
        for name, short in zip(names, cut, strict=True)
    ]


def labels_height(labels: Sequence[str]) -> float:
    """Height of labels under an axis, in inches."""
    longest = max(map(len, labels), default=0)
    return {0: 0.2, 30: 0.25 + 0.04 * longest, 90: 0.2 + 0.075 * longest}[turn_of(labels)]


def lines_height(lines: int) -> float:
    """Height of a plot with one line per group, in inches."""
    return 1.3 + 0.23 * max(lines, 2)


def size(picture: str, table: dict[str, Any]) -> tuple[float, float]:
    """Width and height of a new figure, in inches."""
    if picture == "forest":
        return 7.5, lines_height(table["shown"] + (table["whole"] is not None))
    if picture in ("bins", "distribution"):
        return min(max(5.5, 2.0 + 0.3 * len(table["labels"])), 10.0), 3.0 + labels_height(table["labels"])
    if picture == "response":
        across, down = len(table["labels"]), len(table["classes"])
        return min(max(5.5, 2.0 + 0.38 * across), 10.0), 0.7 + 0.27 * min(max(down, 3), 30) + labels_height(
            table["labels"]
        )
    return {
        "curve": (4.9, 5.2),
        "explanations": (4.4, 2.9),
        "over_time": (4.9, 2.9),
        "reliability": (4.6, 4.2),
    }.get(picture, (6.2, 3.4))


def axes(ax: Axes | None, picture: str, table: dict[str, Any]) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None and not hasattr(ax, "spines"):
        raise InputTypeError(f"ax must be matplotlib's Axes, but got {type(ax).__name__}.")
    require("matplotlib", "report", purpose="to draw")
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size(picture, table), layout="constrained")[1]


def unit_square(ax: Axes) -> Axes:
    """The axes with equal scales from 0 to 1."""
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    return ax


Table = dict[str, Any]


#: Letters of a name from the data.
NAME_WIDTH = 28


_LONGEST_NAME = 200  # letters compared to keep names distinct


_IN_BIN = 12  # letters of a class in the label of a bin


def short_names(given: Sequence[Hashable]) -> list[str]:
    """Keys of groups or classes as short text on one line."""
    whole = [group_keys.show(key, width=_LONGEST_NAME).strip() or '""' for key in given]
    return style.all_shortened(whole, NAME_WIDTH)


def class_labels(lab: Lab) -> list[str]:
    """Classes under an axis; intervals with the fewest digits (at least three) that keep their ends distinct."""
    return list(lab.outcome.short_labels)


def bin_labels(lab: Lab) -> list[str]:
    """One short label per bin of the lab's partition."""
    return lab.partition.labels([group_keys.show(name, width=_IN_BIN) for name in lab.classes])


def numbers(values: ArrayLike) -> list[float | None]:
    """A list of Python floats; None for values that are not finite."""
    return [number(value) for value in np.asarray(values, dtype=np.float64).tolist()]


def number(value: Any) -> float | None:
    return float(value) if math.isfinite(value) else None


def table_of(given: Any, column: str, make: Callable[..., Table], *more: Any, **options: Any) -> Table:
    """The argument itself if it is a table with this column, else the table made from it."""
    return given if isinstance(given, dict) and column in given else make(given, *more, **options)
