"""One thin file per engine: what narwhals leaves open. `open_table` finds the right one."""

from fieldcal.tables.engines.base import Table
from fieldcal.tables.engines.detect import open_table

__all__ = ["Table", "open_table"]
