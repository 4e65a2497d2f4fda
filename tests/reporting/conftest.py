"""What no test of reports should pay for."""

from __future__ import annotations

import warnings

import pytest

import fieldcal
from reporting.real import judged, reported, simple


@pytest.fixture(scope="package", autouse=True)
def _loaded():
    """The libraries are loaded and the estimates that most tests share are made before a test is timed."""
    with warnings.catch_warnings(action="ignore", category=fieldcal.FieldcalWarning):
        reported(simple()[0]).html()
        judged("care")
