"""Columns: where a table has the predictions, the label and the groups."""

from __future__ import annotations

from pydantic import Field as Slot

from fieldcal.artefacts import Frozen, Texts


class Columns(Frozen):
    """The names of the columns that a lab was learnt from, so that later steps need none.

    ``scores`` holds one name per class in the order of the classes, or the one name of the second of two.
    """

    scores: Texts = Slot(min_length=1)
    label: str
    by: Texts = ()
