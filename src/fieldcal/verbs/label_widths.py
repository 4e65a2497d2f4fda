"""How wide intervals will be with labels that nobody has yet: what both kinds of plan say of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fieldcal.errors import InputTypeError
from fieldcal.options import check_whole
from fieldcal.types import Design

_MOST_LABELS = 1_000_000


@dataclass(frozen=True)
class MoreLabels:
    """How wide intervals will be, on average, with so many labels more.

    Attributes
    ----------
    design : how the rows are chosen: at random, by `rows_to_label` ("by_score"), or as many of each class ("by_class")
    width : of the interval of the whole field
    group_width : of that of a typical group, the median; None without groups
    """

    labels: int
    design: Design
    width: float
    group_width: float | None


def checked_labels(labels: Any) -> tuple[int, ...]:
    """Numbers of labels to plan for."""
    if not isinstance(labels, (list, tuple, np.ndarray)):
        raise InputTypeError(
            f"labels must be a list of whole numbers, such as [50, 100], but got {labels!r:.60}."
        )
    for number in labels:
        check_whole("labels", number, least=1, most=_MOST_LABELS)
    return tuple(int(number) for number in labels)


def label_lines(more_labels: tuple[MoreLabels, ...]) -> Iterator[str]:
    """A table of widths, for people."""
    if not more_labels:
        return
    groups = more_labels[0].group_width is not None
    yield "  with more labels the interval will be about so wide" + (
        ", and that of a typical group:" if groups else ":"
    )
    designs = dict.fromkeys(more.design for more in more_labels)
    yield f"{'labels':>12}" + "".join(f"{_DESIGN_WORDS[design]:>24}" for design in designs)
    for n in dict.fromkeys(more.labels for more in more_labels):
        cells = {more.design: more for more in more_labels if more.labels == n}
        yield f"{n:>12,}" + "".join(f"{_widths(cells[design]):>24}" for design in designs)


_DESIGN_WORDS: dict[Design, str] = {
    "random": "drawn at random",
    "by_score": "by rows_to_label",
    "by_class": "as many of each class",
}


def _widths(more: MoreLabels) -> str:
    return f"{more.width:.3f}" + ("" if more.group_width is None else f", {more.group_width:.3f}")
