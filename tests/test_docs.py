"""Every public name is documented once, with an example that runs."""

from __future__ import annotations

import inspect

import pytest

import fieldcal

PUBLIC = [
    n for n in fieldcal.__all__ if callable(getattr(fieldcal, n)) and not n.endswith(("Error", "Warning"))
]


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example(name):
    assert ">>> " in (inspect.getdoc(getattr(fieldcal, name)) or ""), f"{name} has no doctest"


@pytest.mark.parametrize(
    "name", [n for n in dir(fieldcal.metrics) if n in fieldcal.metrics.__all__ and n.islower()]
)
def test_a_metric_has_an_example(name):
    assert ">>> " in inspect.getdoc(getattr(fieldcal.metrics, name))
