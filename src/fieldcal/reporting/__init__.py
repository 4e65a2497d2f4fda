"""The report: content (one dict of plain data) → figures (SVG) → page (HTML, Markdown, JSON).

The public function is `fieldcal.report`; the folder has another name to avoid a clash.
"""

from fieldcal.reporting.page import Report, report

__all__ = ["Report", "report"]
