"""alarms: what happened in a field over time, with an exit code by severity."""

from __future__ import annotations

from pathlib import Path

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import command
from fieldcal.errors import InputError
from fieldcal.storage import write_atomically


@command("objects.over_time:OverTime.alarms", reads=["prevalence_file"], writes=["table"])
def alarms(settings: Settings, prevalence_file: Path, *, table: Path | None = None, **given: object) -> int:
    """What happened over time? Exit code 0: nothing; 2: a share or the volume changed; 3: assumption or input broke.

    Example: fieldcal alarms prevalence.json --margin 0.05

    Each kind of alarm has a false one, over all groups and windows together, with a probability of --rate at most,
    however often this runs.
    """
    from fieldcal.objects.lookup import class_of
    from fieldcal.tables.files.formats import table_format

    write_table = None if table is None else table_format(table)
    prev = fieldcal.Prevalence.load(prevalence_file)
    if prev.over_time is None:
        raise InputError(
            f"{str(prevalence_file)!r} has no windows of time. Count with --time and --every, and estimate again."
        )
    of = given.pop("of")
    found = prev.over_time.alarms(of=None if of is None else class_of(prev, str(of)), **given)  # type: ignore[arg-type]
    if table is not None and write_table is not None:
        write_atomically(table, write_table(found.to_dict()))
    rows = found.to_dict()
    listed = [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]
    data = {"alarms": listed, "rate": found.rate, "margin": found.margin, "exit_code": found.severity}
    out.done(settings, data, [] if table is None else [table], repr(prev.over_time), repr(found))
    return found.severity
