"""Processes that are killed, interrupted or out of space at random moments, and what they leave: faults 38, 54 and 67.

    python tests/faults/kills.py --kills 200 --signals 200 --full 100

Every trial has its own folder with old outputs in it, starts one command, does something to it, and judges: the outputs
are the old or the new bytes, the inputs are what they were, and nothing is left behind once the next command has
written to the same place. Not collected by pytest; `test_kills.py` runs a small version.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import json
import multiprocessing
import os
import random
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import fieldcal
from fieldcal.cli import main

COMMAND = [sys.executable, "-m", "fieldcal"]
RUN = ("lab.json", "field.json", "prevalence.json", "prevalence.csv", "recalibrated.parquet", "report.html")
#: What each command writes, beside what it is called with.
COMMANDS = {
    "learn": ("learn lab.csv --label y --scores p --by site -o out/made.json", ["made.json"]),
    "count": ("count lab.json field.csv -o out/made.json", ["made.json"]),
    "merge": ("merge field.json other.json -o out/made.json", ["made.json"]),
    "estimate": (
        "estimate lab.json field.json -o out/made.json --csv out/made.csv",
        ["made.json", "made.csv"],
    ),
    "recalibrate-parquet": ("recalibrate prevalence.json field.csv -o out/made.parquet", ["made.parquet"]),
    "recalibrate-csv": ("recalibrate prevalence.json field.csv -o out/made.csv.gz", ["made.csv.gz"]),
    "decide-parquet": ("decide prevalence.json field.csv -o out/made.parquet", ["made.parquet"]),
    "report": ("report prevalence.json -o out/made.html", ["made.html"]),
    "run": ("run lab.csv field.csv --label y --scores p --by site -o out", list(RUN)),
    "run-new": ("run lab.csv field.csv --label y --scores p --by site -o out/deep/er", list(RUN)),
}
SMALL = ("merge", "recalibrate-parquet", "run")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
FOREIGN, OLD = "notes.txt", b"old"


@dataclass(frozen=True)
class World:
    """Inputs, and what each command makes of them."""

    folder: str
    new: dict[str, dict[str, bytes]]
    seconds: dict[str, float]


def make_world(folder: Path, commands: list[str]) -> World:
    """Tables and artefacts, and every command once without disturbance."""
    data = fieldcal.datasets.label_shift(n_lab=1500, n_field=1200, n_groups=4, random_state=3)
    inputs = folder / "inputs"
    (inputs / "tmp").mkdir(parents=True)
    for name, y, groups, p in (
        ("lab.csv", data.y_lab, data.groups_lab, data.proba_lab),
        ("field.csv", None, data.groups_field, data.proba_field),
    ):
        with (inputs / name).open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(["site", "p", *([] if y is None else ["y"])])
            writer.writerows(zip(groups, p, *([] if y is None else [y]), strict=True))
    for line in (
        "learn lab.csv --label y --scores p --by site -o lab.json",
        "count lab.json field.csv --batch one -o field.json",
        "count lab.json field.csv --batch two -o other.json",
        "estimate lab.json field.json -o prevalence.json",
    ):
        assert called(inputs, line) == (0, "")
    new, seconds = {}, {}
    for name in commands:
        place = start_over(folder, name, folder / f"reference-{name}")
        begun = time.monotonic()
        subprocess.run([*COMMAND, *shlex.split(COMMANDS[name][0])], **surroundings(place), check=True)
        seconds[name] = time.monotonic() - begun
        new[name] = outputs(place, name)
    return World(str(folder), new, seconds)


def start_over(world: Path, name: str, place: Path, inside: Path | None = None) -> Path:
    """A folder with the inputs, and with old outputs where there can be any."""
    shutil.copytree(world / "inputs", place)
    target = place / "out"
    if inside is None:
        target.mkdir()
    else:
        target.symlink_to(inside)
    (target / FOREIGN).write_bytes(b"of somebody else")
    if name != "run-new":
        for made in COMMANDS[name][1]:
            (target / made).write_bytes(OLD)
    return place


def surroundings(place: Path, tmp: str = "tmp") -> dict:
    return {"cwd": place, "env": {**os.environ, "TMPDIR": str(place / tmp)}, "capture_output": True}


def outputs(place: Path, name: str) -> dict[str, bytes]:
    folder = place / "out" / ("deep/er" if name == "run-new" else "")
    return {made: (folder / made).read_bytes() for made in COMMANDS[name][1] if (folder / made).exists()}


def old_outputs(name: str) -> dict[str, bytes]:
    return {} if name == "run-new" else dict.fromkeys(COMMANDS[name][1], OLD)


def state_of(place: Path, name: str, world: World) -> str:
    """old, new, or what is wrong."""
    inputs = Path(world.folder) / "inputs"
    if any((place / p.name).read_bytes() != p.read_bytes() for p in inputs.glob("*.*")):
        return "input changed"
    if (place / "out" / FOREIGN).read_bytes() != b"of somebody else":
        return "foreign file changed"
    found = outputs(place, name)
    if found == old_outputs(name) and (name != "run-new" or not (place / "out" / "deep").exists()):
        return "old"
    if found == world.new[name]:
        return "new"
    if any(place.glob("out/.fieldcal-*.redo")):
        return "moving"  # decided, and finished by the next who writes there
    each = [found.get(made) in (OLD, world.new[name][made]) for made in world.new[name]]
    return "mixed" if all(each) else "half"


def strays(place: Path, name: str) -> list[str]:
    """What is there besides inputs and outputs."""
    known = {FOREIGN, "deep", *COMMANDS[name][1]} if name.startswith("run") else {FOREIGN, *COMMANDS[name][1]}
    found = [p for p in (place / "out").rglob("*") if p.name not in known and p.name != "er"]
    return sorted(str(p.relative_to(place)) for p in [*found, *(place / "tmp").iterdir()])


def called(place: Path, line: str) -> tuple[int, str]:
    """A command in this process, and quickly; its code, and the error if there was one."""
    before, tempfile.tempdir = os.getcwd(), str(place / "tmp")
    os.chdir(place)
    told = io.StringIO()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(told):
            main(["--quiet", *shlex.split(line)])
    except SystemExit as done:
        return int(done.code or 0), told.getvalue()
    finally:
        os.chdir(before)
        tempfile.tempdir = None
    raise AssertionError("a command exits")


def settle(place: Path, name: str, world: World) -> list[str]:
    """The next command at the same place, undisturbed; what is left behind all the same."""
    code, told = called(place, COMMANDS[name][0])
    if code != 0:
        return [f"the next command failed: {told}"]
    state = state_of(place, name, world)
    return strays(place, name) if state == "new" else [f"after the next command it is {state}"]


def heed_signals() -> None:
    """A job in the background would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@dataclass(frozen=True)
class Moment:
    """When a signal comes: so many seconds after the start, or after the first sign of something being written."""

    seconds: float
    writing: bool

    def wait(self, running: subprocess.Popen, out: Path) -> None:
        while self.writing and running.poll() is None and not any(out.glob(".fieldcal-*")):
            time.sleep(0.0002)
        with contextlib.suppress(subprocess.TimeoutExpired):
            running.wait(self.seconds)


def disturb(world: World, name: str, number: int, moment: Moment, twice: bool = False) -> dict:
    """One command, one signal (or two), and what became of it."""
    place = start_over(Path(world.folder), name, Path(tempfile.mkdtemp(dir=world.folder)) / "w")
    around = surroundings(place)
    del around["capture_output"]
    running = subprocess.Popen(
        [*COMMAND, *shlex.split(COMMANDS[name][0])],
        **around,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=heed_signals,
    )
    moment.wait(running, place / "out")
    for _ in range(1 + twice):
        running.send_signal(number)
    _, errors = running.communicate(timeout=120)
    told = errors.decode(errors="replace")
    found = {
        "command": name,
        "signal": number,
        "moment": str(moment),
        "code": running.returncode,
        "errors": told,
    }
    found |= {"state": state_of(place, name, world), "left": strays(place, name)}
    found |= {"strays": settle(place, name, world)}
    shutil.rmtree(place.parent)
    return found | {"verdict": verdict(found)}


def verdict(found: dict) -> str:
    """ok, or the first thing that is wrong."""
    if found["state"] not in ("old", "new", "moving")[: 3 if found["signal"] == signal.SIGKILL else 2]:
        return found["state"]
    if found["strays"]:
        return "strays"
    if found["signal"] == signal.SIGKILL:
        return "ok"
    number, told = found["signal"], found["errors"]
    if "Traceback" in told or "Exception ignored" in told or "Fatal" in told:
        return "traceback" if f"{os.sep}fieldcal{os.sep}" in told else "before fieldcal"
    if found["code"] == -number:  # the shell's 128 + number as well; Python has not got to fieldcal
        return "ok" if found["state"] == "old" and not told else "died"
    if found["code"] == 0:
        return "ok" if found["state"] == "new" else "code"
    return "ok" if found["code"] == CODES[number] and not told.startswith("error") else "code"


# Disks that are full.


@contextlib.contextmanager
def small_disk(place: Path, free: int, blocks: int = 4096):
    """A mount with so many bytes left, or None where that is not allowed."""
    place.mkdir()
    size = (1 << 22) + free
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def fill(disk: Path, free: int) -> Path:
    """A file that leaves so many bytes."""
    ballast = disk / "ballast"
    space = os.statvfs(disk)
    with ballast.open("wb") as stream:
        stream.write(bytes(max(0, space.f_bavail * space.f_frsize - free)))
    return ballast


def starve(world: World, name: str, share: float, way: str) -> dict:
    """One command with too little space.

    Parameters
    ----------
    share : of what the outputs and temporary files need
    way : "disk", a mount that is full; "limit", a limit on the size of a file
    """
    needed = sum(map(len, world.new[name].values())) + 40_000
    base = Path(tempfile.mkdtemp(dir=world.folder))
    with contextlib.ExitStack() as stack:
        disk = stack.enter_context(small_disk(base / "disk", 1 << 20)) if way == "disk" else None
        if disk is not None:
            (disk / "out").mkdir()
        place = start_over(Path(world.folder), name, base / "w", disk and disk / "out")
        limit = max(map(len, world.new[name].values()))

        def restrict() -> None:
            if disk is None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (int(share * limit), resource.RLIM_INFINITY))

        ballast = None if disk is None else fill(disk, int(share * needed))
        around = surroundings(place)
        done = subprocess.run(
            [*COMMAND, *shlex.split(COMMANDS[name][0])],
            **around,
            preexec_fn=restrict,
            check=False,
            timeout=120,
        )
        if ballast is not None:
            ballast.unlink()
        told = done.stderr.decode(errors="replace")
        found = {"command": name, "signal": "full", "way": way, "share": share, "code": done.returncode}
        found |= {"errors": told, "state": state_of(place, name, world), "left": strays(place, name)}
        found |= {"strays": found["left"] or settle(place, name, world)}
    shutil.rmtree(base)
    return found | {"verdict": starved(found)}


def starved(found: dict) -> str:
    told = found["errors"].splitlines()
    if found["state"] not in ("old", "new"):
        return found["state"]
    if found["strays"]:
        return "strays"
    if found["code"] == 0:
        return "ok" if found["state"] == "new" else "code"
    one_line = [line for line in told if line.startswith("error: ")]
    fine = len(one_line) == 1 and "bug in fieldcal" not in one_line[0] and "Traceback" not in found["errors"]
    return "ok" if found["code"] == 1 and fine and found["state"] == "old" else "message"


# Many of them.


def plans(world: World, commands: list[str], kills: int, signals: int, full: int, seed: int):
    """What to do, drawn once: half of the moments while something is written, the others at any time."""
    draw = random.Random(seed)

    def moment(name: str) -> Moment:
        if draw.random() < 0.5:
            return Moment(10 ** draw.uniform(-4.0, -0.3), writing=True)
        return Moment(draw.uniform(0.0, 1.3) * world.seconds[name], writing=False)

    for i in range(kills):
        name = commands[i % len(commands)]
        yield disturb, (world, name, signal.SIGKILL, moment(name))
    for i in range(signals):
        name = commands[i % len(commands)]
        number = signal.SIGTERM if i % 4 == 3 else signal.SIGINT
        yield disturb, (world, name, number, moment(name), i % 5 == 4)
    for i in range(full):
        way = "limit" if i % 3 == 2 else "disk"
        yield starve, (world, commands[i % len(commands)], draw.uniform(0.0, 1.2), way)


def tried(
    commands: list[str], *, kills: int, signals: int, full: int, seed: int, jobs: int = 1
) -> list[dict]:
    """All trials."""
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        world = make_world(Path(folder), commands)
        planned = list(plans(world, commands, kills, signals, full, seed))
        if jobs == 1:
            return [act(*args) for act, args in planned]
        with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            waiting = [pool.submit(act, *args) for act, args in planned]
            return [each.result() for each in waiting]


def summary(trials: list[dict]) -> dict:
    """Totals; a signal that came before Python had got to fieldcal is Python's, and counted by itself."""
    kills = [t for t in trials if t["signal"] == signal.SIGKILL]
    full = [t for t in trials if t["signal"] == "full"]
    signals = [t for t in trials if t["signal"] in CODES]
    held = [sum(t["verdict"] == "ok" for t in group) for group in (kills, signals, full)]
    early = sum(t["verdict"] == "before fieldcal" for t in signals)
    return {
        "kills": len(kills),
        "survived": held[0],
        "signals": len(signals),
        "clean": held[1],
        "before_fieldcal": early,
        "full": len(full),
        "held": held[2],
        "failed": len(trials) - sum(held) - early,
    }


def table(trials: list[dict], commands: list[str]) -> str:
    """One line per command."""
    kinds = ("old", "new", "moving", "mixed", "half", "traceback", "strays")
    lines = [f"{'command':<20}{'kills':>7}{'signals':>9}{'full':>6}" + "".join(f"{k:>11}" for k in kinds)]
    for name in commands:
        of = [t for t in trials if t["command"] == name]
        counts = Counter(t["state"] for t in of)
        counts["traceback"] = sum(t["verdict"] in ("traceback", "died", "code", "message") for t in of)
        counts["strays"] = sum(bool(t["strays"]) for t in of)
        done = Counter(
            "full" if t["signal"] == "full" else "kill" if t["signal"] == 9 else "signal" for t in of
        )
        lines.append(
            f"{name:<20}{done['kill']:>7}{done['signal']:>9}{done['full']:>6}"
            + "".join(f"{counts[k]:>11}" for k in kinds)
        )
    return "\n".join(lines)


def run() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("kills", "signals", "full"):
        parser.add_argument(f"--{name}", type=int, default=0)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    commands = list(COMMANDS)
    trials = tried(
        commands, kills=given.kills, signals=given.signals, full=given.full, seed=given.seed, jobs=given.jobs
    )
    found = {**summary(trials), "seed": given.seed}
    lines = [table(trials, commands)]
    for trial in trials:
        if trial["verdict"] != "ok":
            lines += [str({k: v for k, v in trial.items() if k != "errors"}), trial["errors"][-1500:]]
    sys.stdout.write("\n".join([*lines, json.dumps(found), ""]))
    if given.json:
        given.json.write_text(json.dumps(found) + "\n")
    return int(found["failed"] > 0)


if __name__ == "__main__":
    sys.exit(run())
