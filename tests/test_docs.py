"""Every public name is documented once, with an example that runs."""

from __future__ import annotations

import inspect

import fieldcal


def test_every_public_name_and_metric_has_an_example():
    public = [getattr(fieldcal, name) for name in fieldcal.__all__]
    metrics = [getattr(fieldcal.metrics, name) for name in fieldcal.metrics.__all__ if name.islower()]
    functions = [
        thing
        for thing in (*public, *metrics)
        if callable(thing) and not thing.__name__.endswith(("Error", "Warning"))
    ]
    missing = [thing.__name__ for thing in functions if ">>> " not in (inspect.getdoc(thing) or "")]
    assert len(functions) > 20
    assert not missing
