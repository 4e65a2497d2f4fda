"""report: a page that a person reads, from a lab, a field and an estimate."""

from __future__ import annotations

import html
import json
import os
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fieldcal import files
from fieldcal.errors import InputError, InputTypeError
from fieldcal.extras import require
from fieldcal.objects import Field, Lab, Prevalence
from fieldcal.reporting.content import content
from fieldcal.reporting.evaluation import evaluate
from fieldcal.reporting.markdown import markdown
from fieldcal.reporting.page import page
from fieldcal.reporting.pictures import pictures

_HEIGHT = 800  # of the frame in a notebook, in pixels


@dataclass(frozen=True)
class Report:
    """What was found, for people: as a page, as Markdown, or as data.

    Made by `fieldcal.report`. Equal inputs give equal bytes.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=2000, n_groups=5, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    >>> field = fieldcal.count(lab, data.proba_field, groups=data.groups_field)
    >>> found = fieldcal.report(lab, field, fieldcal.estimate(lab, field))
    >>> found
    Report: ...
    >>> found.html().startswith("<!doctype html>"), found.markdown().startswith("# Recalibration report")
    (True, True)
    >>> sorted(found.dict())[:3]
    ['changes', 'checklist', 'digests']
    """

    content: dict[str, Any] = field(repr=False)

    def dict(self) -> dict[str, Any]:
        """Everything on the page as plain data, pictures as the tables behind them; a copy."""
        copy: dict[str, Any] = json.loads(self.json())
        return copy

    def json(self) -> str:
        """The same as JSON text, in one spelling."""
        return files.canonical(self.content).decode("ascii")

    def markdown(self) -> str:
        """The words and the table as Markdown, without pictures."""
        return markdown(self.content)

    def html(self) -> str:
        """The page: complete in itself, nothing is fetched."""
        return self._page

    @cached_property
    def _page(self) -> str:
        require("matplotlib", "report", purpose="to draw a report")
        return page(self.content, pictures(self.content))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to a file, atomically; its ending says what: .html, .md or .json."""
        ending = Path(path).suffix.lower()
        kinds = {".html": self.html, ".htm": self.html, ".md": self.markdown, ".json": self.json}
        if ending not in kinds:
            raise InputError(
                f"A report is saved as .html, .md or .json, but the file is {os.fspath(path)!r}. Add an ending."
            )
        files.write_atomically(path, kinds[ending]().encode("utf-8"))

    def _repr_html_(self) -> str:
        """In a frame of its own, so that page and notebook leave each other alone."""
        return (
            f'<iframe srcdoc="{html.escape(self.html())}" width="100%" height="{_HEIGHT}" '
            'sandbox="allow-scripts allow-downloads" title="fieldcal report"></iframe>'
        )

    def __repr__(self) -> str:
        verdict, summary = self.content["verdict"], self.content["summary"]
        groups = "" if summary["groups"] is None else f", {summary['groups']:,} groups"
        return f"Report: {verdict['headline']}; {summary['field_rows']:,.0f} field rows{groups}"


def report(
    lab: Lab,
    field: Field,
    prev: Prevalence,
    *,
    of: Hashable = None,
    proba: Any = None,
    y: Any = None,
    groups: Any = None,
    title: str | None = None,
) -> Report:
    """A page for people: may I use this, where did it change, how sure is it?

    Parameters
    ----------
    lab, field, prev : Lab, Field, Prevalence
        ``prev`` must be the estimate of this lab and field.
    of : class, optional
        The class that pictures and table are about; by default the second of two, or the one that is corrected most.
    proba, y, groups : array-like, optional
        Field rows whose labels are known: predictions, labels, and the group of each row if there are groups. The
        report then shows predictions before and after against the truth. They change no estimate.
        Of a lab of `fieldcal.regression`: predictive distributions, and numbers.
    title : str, optional

    Returns
    -------
    Report
        With ``html()``, ``markdown()``, ``json()``, ``dict()`` and ``save(path)``.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, data.proba_field)
    >>> prev = fieldcal.estimate(lab, field, trust=1)
    >>> found = fieldcal.report(lab, field, prev, proba=data.proba_field, y=data.y_field, title="Week 12")
    >>> found.dict()["labelled"]["rows"]
    2000
    """
    _check(lab, field, prev)
    if (proba is None) != (y is None):
        missing = "y" if y is None else "proba"
        raise InputError(
            f"Labelled rows need predictions and labels: {missing} is missing. Give both or none."
        )
    found = None if y is None else evaluate(prev, proba, y, groups)
    return Report(content(lab, field, prev, of=of, found=found, title=title))


def _check(lab: Lab, field: Field, prev: Prevalence) -> None:
    given = tuple(type(x).__name__ for x in (lab, field, prev))
    if given != ("Lab", "Field", "Prevalence"):
        raise InputTypeError(f"report takes a Lab, a Field and a Prevalence, in this order, but got {given}.")
    if prev.lab is not lab and prev.lab.digest != lab.digest:
        raise InputError("This estimate was made with another lab. Pass prev.lab, or estimate again.")
    if prev.field is not field and prev.field.digest != field.digest:
        raise InputError("This estimate is of another field. Pass prev.field, or estimate again.")
