"""The report: content (plain data) → pictures (SVG) → page (HTML), three steps that know nothing of each other's work.

`fieldcal.report` is the function; this folder has another name so that the two cannot be mistaken for each other.
"""

from fieldcal.reporting.page import Report, report

__all__ = ["Report", "report"]
