"""The paper's first figure: two images that the classifier gets right only at high resolution.

    python experiments/examples.py [--quick] [--out DIR] [--jobs N]

The paper shows a beetle on buds and a moth in a beetle's colours, and the predictions for them at every size. Here an
even and an odd digit of the stand-in (`images.digits`): of all that are taken for the other class at 2, 3 and 4 pixels
and recognised from 6 pixels on, the one of each class whose prediction changes most in between.
"""

from __future__ import annotations

import sys

import images
import numpy as np
import pandas as pd
from harness import Cell, Row, Study, command
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from tell import COLOURS, Claim, claims, markdown, percent, plain

NAMES = {1: "even", 0: "odd"}
LOW, HIGH = (2, 3, 4), (6, 7, images.SIDE)
CAPTION = (
    "The paper's Figure 1. Same as the paper's: one example of each class for which the classifier needs "
    "high resolution, with its predictions, after Platt scaling, at every size. Not the same: digits "
    "instead of a spotted cucumber beetle and a white-streaked prominent; the images are shown at every "
    "size, as the classifier gets them, not at one; the examples are picked by rule, not by eye."
)


def study(*, quick: bool = False) -> Study:
    """One cell per class; the quick version is the same."""
    found = images.digits()
    settings = {"images": images.digest(found), "low": LOW, "high": HIGH}
    cells: list[Cell] = [{"truth": k} for k in NAMES]
    title = "Examples that need high resolution"
    return Study(
        "examples", title, settings, cells, run_cell, figures, summary, captions={"examples": CAPTION}
    )


def run_cell(cell: Cell) -> list[Row]:
    """The example of a class, and how probable its own class and the even ones are at every size."""
    found = images.digits()
    scores = found.small | {images.SIDE: found.full}
    own = {size: score if cell["truth"] else 1 - score for size, score in scores.items()}
    low, high = np.max([own[size] for size in LOW], axis=0), np.min([own[size] for size in HIGH], axis=0)
    fits = (found.truth == cell["truth"]) & (low < 0.5) & (high > 0.5)
    image = int(np.where(fits, high - low, -np.inf).argmax())
    return [
        {
            "image": image,
            "candidates": int(fits.sum()),
            "size": size,
            "even": float(scores[size][image]),
            "own": float(own[size][image]),
        }
        for size in scores
    ]


def figures(table: pd.DataFrame) -> dict[str, Figure]:
    """A column per example: the image at every size, and below it the prediction."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for column, (k, part) in zip(
        figure.subfigures(1, 2, wspace=0.06), table.groupby("truth", sort=False), strict=True
    ):
        sizes = part["size"].tolist()
        layout = column.add_gridspec(2, len(sizes), height_ratios=[1, 2.6])
        for j, size in enumerate(sizes):
            show(column.add_subplot(layout[0, j]), int(part.image.iloc[0]), size)
        ax = column.add_subplot(layout[1, :])
        ax.plot(range(len(sizes)), part.even, color=COLOURS["blue"], marker="o")
        ax.axhline(0.5, color=COLOURS["muted"], linestyle=":", linewidth=1)
        ax.set_xticks(range(len(sizes)), [str(size) for size in sizes[:-1]] + [f"{sizes[-1]} (full)"])
        ax.set(ylim=(-0.03, 1.03), xlim=(-0.5, len(sizes) - 0.5))
        digit = load_digits().target[part.image.iloc[0]]
        plain(
            ax, x=f"an {NAMES[int(k)]} digit ({digit}), image size in pixels", y="predicted chance to be even"
        )
    return {"examples": figure}


def show(ax: Axes, image: int, size: int) -> None:
    """The image as the classifier gets it: averaged over areas, back at the full size."""
    pixels = load_digits().images[image][None]
    ax.imshow(images.resized(pixels, size).reshape(images.SIDE, images.SIDE), cmap="gray_r")
    ax.set_xticks([])
    ax.set_yticks([])
    ax.spines[:].set_color(COLOURS["muted"])


def summary(table: pd.DataFrame) -> str:
    """The predictions, and how common such images are."""
    sizes = sorted(table["size"].unique())
    lines, chosen = [], table.groupby("truth", sort=False)
    for k, part in chosen:
        even = part.set_index("size").even
        lines.append(
            [f"{NAMES[int(k)]} digit, image {part.image.iloc[0]}", *(percent(even[size]) for size in sizes)]
        )
    wrong, right = (table[table["size"].isin(some)].own for some in (LOW, HIGH))
    found = Claim(
        "there are images that the classifier solves at high resolution only",
        bool((wrong < 0.5).all() and (right > 0.5).all()),
        ", ".join(f"{part.candidates.iloc[0]} {NAMES[int(k)]} digits" for k, part in chosen),
        "two examples",
    )
    header = ["chance to be even", *(f"{size} pixels" for size in sizes)]
    return "\n\n".join([markdown(header, lines), "**The paper's claims**", claims([found])])


if __name__ == "__main__":
    sys.exit(command(study, __doc__))
