"""What columns of scores and of values have in common."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from fieldcal.objects.outcome import Columns
from fieldcal.tables.engines import Table


class OfClasses:
    """Columns that say something of classes: their labels, and what a lab keeps of them."""

    table: Table
    columns: tuple[str, ...]

    def label(self, name: str) -> nw.Expr:
        """The column of the true classes."""
        self.table.require([name], role="label")
        return self.table.column(name)

    def labels(self, read: Any, name: str) -> Any:
        """The true classes of rows that were read, as they are."""
        return read

    def remembered(self, label: str, by: tuple[str, ...]) -> Columns:
        """What a lab keeps of them."""
        return Columns(scores=self.columns, label=label, by=by)
