"""show: an artefact in words, and what can be done with it next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command

if TYPE_CHECKING:
    from rich.console import RenderableType

    from fieldcal.objects import Prevalence


@command()
def show(settings: Settings, artefact: Path) -> None:
    """What a file holds, in words, and what can be done with it next.

    Example: fieldcal show out/prevalence.json
    """
    from fieldcal.objects import Field, Lab, Prevalence, describe
    from fieldcal.objects.lookup import load_any

    held, version = load_any(artefact)
    if isinstance(held, Lab):
        data, parts = describe.lab_data(held), describe.lab_parts(held)
        following = f"count {artefact} FIELD_TABLE -o field.json, or fieldcal plan {artefact} --rows N"
    elif isinstance(held, Field):
        data, parts = describe.field_data(held) | {"lab": held.lab}, describe.field_parts(held)
        following = f"estimate lab.json {artefact} -o prevalence.json, or "
        following += f"fieldcal merge {artefact} OTHER.json -o BOTH.json"
    else:
        assert isinstance(held, Prevalence)
        data, parts = _estimate(held)
        following = f"recalibrate {artefact} TABLE -o new.parquet; or decide, contrast, report, check, plan"
    last = f"digest: {held.digest} (file format {version}, read by fieldcal {fieldcal.__version__})"
    data = {"kind": held.kind, "format": version, **data}
    out.result(settings, data, *parts, f"next: fieldcal {following}", last)


def _estimate(prev: Prevalence) -> tuple[dict[str, Any], list[RenderableType]]:
    """An estimate for scripts, and for people."""
    from fieldcal.objects import break_even, describe
    from fieldcal.objects.prevalence_table import shown_class

    decisions, sheet = describe.performance(prev, all_in="the output of --json")
    data = {
        **out.prevalence_data(prev),
        "prior": prev.prior,
        "point": prev.point,
        "design_effect": prev.design_effect,
        "performance": decisions,
        "lab": describe.lab_data(prev.lab),
        "field": describe.field_data(prev.field),
    }
    head = "An estimate: the share of each class in the field, from a lab and a field"
    protected = f"protected groups: {'yes: applied with --acknowledge only' if prev.protected else 'no'}"
    lines = [*describe.estimate_lines(prev), protected, str(prev.lab).partition("\n")[0], str(prev.field)]
    margins = break_even.sheet(prev, shown_class(prev))
    more = [] if margins is None else ["", *margins.parts()]
    return data, [head, *out.table(prev), *lines, *more, "", *sheet, *out.verdict(prev.verdict), ""]
