"""Kills, signals and full disks, a few of each (`kills.py` does hundreds): faults 38, 54 and 67."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from faults.kills import SMALL, summary, tried


@pytest.mark.slow
def test_fault_38_and_fault_67_killed_interrupted_or_out_of_space_it_leaves_old_or_new_and_nothing_else():
    trials = tried(list(SMALL), kills=4, signals=4, full=2, seed=1)
    assert [t for t in trials if t["verdict"] not in ("ok", "before fieldcal")] == []
    found = summary(trials)
    assert (found["kills"], found["survived"], found["full"], found["held"]) == (4, 4, 2, 2)


#: The work, in place of a command; what it prints; the exit code.
MOMENTS = {
    "in_the_middle": ("hit()", "", 130),
    "terminated": ("hit(signal.SIGTERM)", "", 143),
    "where_nothing_can_be_raised": ("Collected()", "", 130),
    "in_an_import_that_prints_its_errors": ("printed()", "", 130),
    "while_it_cleans_up_after_the_first": ("cleaning()", "clean", 130),
    "as_the_error_of_something_else": ("replaced()", "", 130),
    "swallowed": ("swallowed()", "went on", 130),
    "at_the_end": ("atexit.register(hit)", "", 130),
    "three_times": ("three_times()", "", 130),
    "never": ("None", "", 0),
}
WORK = """
import atexit, os, signal, sys
from fieldcal.cli import dispatch, main

def hit(number=signal.SIGINT):
    os.kill(os.getpid(), number)

class Collected:
    def __del__(self):
        hit()

def printed():
    try:
        hit()
    except BaseException:
        sys.excepthook(*sys.exc_info())

def cleaning():
    try:
        hit()
    finally:
        hit()
        sys.stdout.write("clean")

def replaced():
    try:
        hit()
    except KeyboardInterrupt:
        raise ImportError("half imported") from None

def swallowed():
    try:
        hit()
    except KeyboardInterrupt:
        sys.stdout.write("went on")

def three_times():
    try:
        hit()
    finally:
        hit()
        hit()
        sys.stdout.write("still here")

def run(args, watch):
    eval(sys.argv[1])
    return watch.exit_code if watch.caught else 0

dispatch.run = run
main()
"""


@pytest.mark.parametrize(
    ("work", "printed", "code"), MOMENTS.values(), ids=[f"fault_67_{m}" for m in MOMENTS]
)
def test_a_signal_at_any_moment_is_an_exit_code_and_no_traceback(work, printed, code):
    done = subprocess.run(
        [sys.executable, "-c", WORK, work],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert (done.stdout, done.stderr, done.returncode) == (printed, "", code)


def test_fault_67_what_is_ignored_stays_ignored():
    done = subprocess.run(
        [sys.executable, "-c", WORK, "hit()"],
        check=False,
        timeout=60,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    assert done.returncode == 0


def test_fault_67_next_to_nothing_is_loaded_before_signals_are_watched_for():
    code = (
        "import runpy, signal, sys; b = set(sys.modules); import fieldcal.cli; print(*set(sys.modules) - b)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.split())
    assert {name for name in loaded if name.startswith("fieldcal")} == {
        *("fieldcal", "fieldcal.cli", "fieldcal.cli.main"),
    }
    assert not loaded & {"typing", "dataclasses", "json", "logging", "pathlib", "traceback", "contextlib"}


def test_fault_67_in_somebody_elses_process_signals_are_theirs_again():
    code = """
import signal, sys
from fieldcal.cli import main
before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)], sys.excepthook, sys.unraisablehook
try:
    main(["--version"])
except SystemExit as ended:
    assert ended.code == 0
assert before == ([signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)], sys.excepthook, sys.unraisablehook)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
