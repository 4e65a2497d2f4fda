"""alarms and watch: what happened in a field over time, once or as a job, with an exit code by severity."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import fieldcal
from fieldcal.cli import output as out
from fieldcal.cli.commands import COUNT, ESTIMATE, count_stage, estimate_stage
from fieldcal.cli.inputs import session
from fieldcal.cli.output import Settings
from fieldcal.cli.pages import PAGE
from fieldcal.cli.signature import command, taken
from fieldcal.errors import InputError
from fieldcal.storage import write_atomically, write_together

if TYPE_CHECKING:
    from fieldcal.objects.alarms import Alarm, Alarms
    from fieldcal.tables.files.watch_state import State


ALARMS = "objects.over_time:OverTime.alarms"


@command(ALARMS, reads=["prevalence_file"], writes=["table"])
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
    data = {
        "alarms": _records(found),
        "rate": found.rate,
        "margin": found.margin,
        "exit_code": found.severity,
    }
    out.done(settings, data, [] if table is None else [table], repr(prev.over_time), repr(found))
    return found.severity


STATE, WATCHED = "state.json", "prevalence.json"
#: What `watch` writes; the state is replaced last.
WATCH_FILES = (STATE, WATCHED, "prevalence.csv", "alarms.csv", "metrics.prom", PAGE)


@command(COUNT, ESTIMATE, ALARMS, reads=["lab_file"], without=("batch", "only_labels"))
def watch(
    settings: Settings,
    lab_file: Path,
    source: str,
    *,
    output: Path,
    log_format: Literal["text", "json"] = "text",
    **given: Any,
) -> int:
    """Count what is new, estimate, look for alarms; to be run again and again. Exit codes as of alarms.

    Example: fieldcal watch lab.json log/ --time at --every 1w --by site -o watched

    New and changed files of the folder are counted under their names, so that running twice
    changes nothing. The output folder has the state, the estimate with its table, alarms, metrics (OpenMetrics) and the
    report. Each file is replaced as a whole and the state last: after a kill, run it again.
    """
    from fieldcal.tables.files.paths import check_results
    from fieldcal.tables.files.watch_state import State, count_new

    if given["time"] is None or given["every"] is None:
        raise InputError(
            "watch follows shares over time: name the column of times with --time, and give --every."
        )
    check_results(output, [source], WATCH_FILES)
    lab = fieldcal.Lab.load(lab_file)
    output.mkdir(parents=True, exist_ok=True)
    before, columns = State.load(output / STATE, lab), taken(COUNT, given)
    start = before.under(columns, taken(ESTIMATE, given) | taken(ALARMS, given))
    with session(settings) as opened:
        state, failed = count_new(
            start,
            source,
            lambda path, name: count_stage(
                settings, lab, opened, opened.open(path), None, **columns, batch=name
            ),
            lambda text: _log(settings, log_format, text),
        )
    done = all((output / name).exists() for name in (STATE, WATCHED))
    if state == before and done and not failed:
        _log(settings, log_format, "nothing new")
        return _told(settings, output, state.severity, None, [])
    if state.field is None:
        raise InputError(
            f"No file of {source!r} could be counted: {failed[0].text if failed else 'none was found.'}"
        )
    return _followed(settings, lab, state, failed, output, log_format, given)


def _followed(
    settings: Settings,
    lab: fieldcal.Lab,
    state: State,
    failed: list[Alarm],
    output: Path,
    log_format: str,
    given: dict[str, Any],
) -> int:
    """Estimate, look for alarms, and write everything."""
    from fieldcal.objects.alarms import metrics
    from fieldcal.objects.lookup import class_of
    from fieldcal.tables.files.formats import safe_csv

    assert state.field is not None
    prev = estimate_stage(settings, lab, state.field, **taken(ESTIMATE, given))
    over = prev.over_time
    assert over is not None
    asked = taken(ALARMS, given) | {"of": None if given["of"] is None else class_of(prev, given["of"])}
    found = over.alarms(**asked)
    found = dataclasses.replace(found, alarms=(*state.broken_files(), *found.alarms))
    state = dataclasses.replace(state, severity=found.severity)
    found = dataclasses.replace(found, alarms=(*failed, *found.alarms))
    contents = {
        output / STATE: state.to_json(),
        output / WATCHED: prev.to_json(),
        output / "prevalence.csv": safe_csv(prev.to_dict()),
        output / "alarms.csv": safe_csv(found.to_dict()),
        output / "metrics.prom": metrics(over, found, asked["of"]),
    }
    try:
        contents[output / PAGE] = fieldcal.report(prev).html().encode()
    except ModuleNotFoundError as error:
        out.warn(settings, f"No {PAGE}: {out.explain(error)}")
    write_together(contents)  # the first, the state, is renamed last
    for alarm in found:
        _log(settings, log_format, alarm.text, kind=alarm.kind, group=alarm.group, window=alarm.window)
    return _told(settings, output, found.severity, found, list(contents))


def _told(settings: Settings, output: Path, severity: int, found: Alarms | None, written: list[Path]) -> int:
    listed = [] if found is None else _records(found)
    data = {"new": found is not None, "alarms": listed, "exit_code": severity, "output": str(output)}
    text = "nothing new" if found is None else repr(found)
    out.result(settings, {**data, "written": list(map(str, written))}, text)
    return severity


def _records(found: Alarms) -> list[dict[str, Any]]:
    rows = found.to_dict()
    return [dict(zip(rows, row, strict=True)) for row in zip(*rows.values(), strict=True)]


def _log(settings: Settings, form: str, text: str, **more: object) -> None:
    """A line on stderr with the time; with JSON, an object."""
    now = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    if form == "json":
        line = json.dumps({"time": now, "message": out.one_line(text), **more}, default=str)
        if not settings.quiet:
            sys.stderr.write(f"{line}\n")
        return
    out.note(settings, f"{now} {text}")
