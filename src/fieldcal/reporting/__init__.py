"""The report: content (one dict of plain data) → figures (SVG) → page (HTML, Markdown, JSON). No step looks back.

`fieldcal.report` is the function; this folder has another name so that the two cannot be mistaken for each other.
"""

from fieldcal.reporting.page import Report, report

__all__ = ["Report", "report"]
