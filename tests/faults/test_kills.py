"""Kills, Ctrl-C and full disks at random moments of a command: faults 38, 43, 54 and 67."""

from __future__ import annotations

import contextlib
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

import fieldcal
from faults.test_writing import RUN, earlier_run, state, write_table

COMMAND = [sys.executable, "-m", "fieldcal", "-q"]
LINE = "run lab.csv field.csv --label y --scores p -o out"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Two tables, what `run` makes of them, and how long it takes."""
    place = tmp_path_factory.mktemp("world")
    data = fieldcal.datasets.label_shift(n_lab=400, n_field=300, random_state=0)
    write_table(place / "lab.csv", p=data.proba_lab, y=data.y_lab)
    write_table(place / "field.csv", p=data.proba_field)
    began = time.monotonic()
    subprocess.run([*COMMAND, *shlex.split(LINE)], cwd=place, check=True, capture_output=True)
    return place, time.monotonic() - began


@pytest.fixture
def place(world, tmp_path):
    """The tables, and a folder of an earlier run with a file of somebody else."""
    shutil.copytree(world[0], tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("out"))
    earlier_run(tmp_path)
    (tmp_path / "tmp").mkdir()
    return tmp_path


def start(place, **more):
    env, pipe = {**os.environ, "TMPDIR": str(place / "tmp")}, subprocess.PIPE
    command = [*COMMAND, *shlex.split(LINE)]
    return subprocess.Popen(command, cwd=place, env=env, stdout=pipe, stderr=pipe, text=True, **more)


def heed_signals():
    """A job in the background would ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def send(number, place, seconds, writing):
    """Signal `run` so many seconds after its start, or after the first sign of its output; code and errors."""
    running = start(place, preexec_fn=heed_signals)
    while writing and running.poll() is None and not any(place.glob(".fieldcal-*")):
        time.sleep(0.0005)
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(seconds)
    running.send_signal(number)
    errors = running.communicate(timeout=60)[1]
    return running.returncode, errors


def check_old_or_new(place, world):
    """The folder is whole: the earlier run, or the new one with the file of somebody else."""
    [out] = [place / "out"] if (place / "out").exists() else place.glob("out.old-*")
    found, new = state(out), state(world[0] / "out")
    assert found.pop("notes.txt") == b"of somebody else"
    assert found == dict.fromkeys(RUN, b"old") or found == new, out
    return "new" if found == new else "old"


def moments(world, n, seed):
    """Half of them while something is written, the others at any time."""
    draw = random.Random(seed)
    for i in range(n):
        yield (10 ** draw.uniform(-4, -0.3), True) if i % 2 else (draw.uniform(0.1, 1.2) * world[1], False)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(6))
def test_fault_38_54_a_run_that_is_killed_leaves_the_old_folder_or_the_new_one(trial, world, place):
    seconds, writing = list(moments(world, 6, seed=1))[trial]
    send(signal.SIGKILL, place, seconds, writing)
    check_old_or_new(place, world)


@pytest.mark.slow
@pytest.mark.parametrize("trial", range(6))
def test_fault_43_67_a_run_that_is_interrupted_says_so_and_leaves_nothing_else(trial, world, place):
    seconds, writing = list(moments(world, 6, seed=2))[trial]
    number = signal.SIGTERM if trial == 3 else signal.SIGINT
    code, errors = send(number, place, seconds, writing)
    made = check_old_or_new(place, world)
    if code == 0:
        assert made == "new"
    elif code == -number:  # before Python has got to fieldcal
        assert (made, errors) == ("old", "")
    else:
        assert (code, errors.splitlines()[-1]) == (130, "Interrupted.")
        assert "Traceback" not in errors
    assert not [*place.glob(".fieldcal-*"), *place.glob("out.old-*"), *(place / "tmp").iterdir()]


#: Where Ctrl-C comes, in place of a command.
INTERRUPTIONS = {
    "in_the_middle": "hit()",
    "terminated": "hit(signal.SIGTERM)",
    "while_it_is_loaded": "",
    "as_the_error_of_something_else": "replaced()",
    "in_a_query": "query()",
    "in_a_function_that_a_query_calls": "function()",
}
WORK = """
import os, signal, sys
from fieldcal.cli import main

def hit(number=signal.SIGINT):
    os.kill(os.getpid(), number)

class Loading:
    def find_spec(self, *args):
        hit()

def replaced():
    try:
        hit()
    except KeyboardInterrupt as error:
        raise ImportError("half imported") from error

def query():
    import threading
    from fieldcal.tables.files.session import Session
    with Session(threads=1) as session:
        threading.Timer(0.3, hit).start()
        session.connection.sql("SELECT sum(random()) FROM range(100_000_000_000)").fetchall()

def function():
    from fieldcal.tables.files.duckdb_errors import translated
    from fieldcal.tables.files.session import Session
    with Session(threads=1) as session, translated("field.csv"):
        session.connection.create_function("hit", lambda x: hit() or x, ["BIGINT"], "BIGINT")
        session.connection.sql("SELECT hit(range) FROM range(10)").fetchall()

class Command:
    def main(self, **options):
        eval(sys.argv[1])

if sys.argv[1]:
    from fieldcal.cli import dispatch
    dispatch.command = Command
else:
    sys.meta_path.insert(0, Loading())  # the first module that `main` loads
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("work", INTERRUPTIONS.values(), ids=[f"fault_67_{name}" for name in INTERRUPTIONS])
def test_ctrl_c_is_one_word_and_exit_code_130(work):
    options = {"capture_output": True, "text": True, "timeout": 60, "preexec_fn": heed_signals}
    done = subprocess.run([sys.executable, "-c", WORK, work], check=False, **options)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "Interrupted.\n")


def test_fault_67_next_to_nothing_is_loaded_before_ctrl_c_is_caught():
    code = "import signal, sys; b = set(sys.modules); import fieldcal.cli; print(*set(sys.modules) - b)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("fieldcal")} == {
        *("fieldcal", "fieldcal.cli", "fieldcal.cli.main")
    }
    assert not loaded & {"typing", "dataclasses", "json", "logging", "pathlib", "traceback", "contextlib"}
