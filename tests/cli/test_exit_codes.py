"""Every exit code means one thing: 0, 1, 2, 3, 130, 141."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys

import pytest

import fieldcal
from verdicts import verdict_of

COMMAND = [sys.executable, "-m", "fieldcal"]
#: More than a pipe holds: who has sent it knows that somebody reads.
MORE_THAN_A_PIPE_HOLDS = 1 << 21


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("care", 2), ("do_not_use", 3)])
def test_check_exits_with_the_verdict(level, code, artefacts, call):
    verdict = verdict_of(level, "It was said so.")
    prev = fieldcal.Prevalence.load("prevalence.json").model_copy(update={"verdict": verdict})
    prev.save("judged.json")
    done = call("check", "judged.json")
    assert (done.code, done.err) == (code, "")
    assert done.out.splitlines()[1:] == [
        "  - It was said so.",
        "p is the probability of 1, the second class in sorted order",
    ]


@pytest.mark.parametrize(
    "args",
    [
        ["check"],
        ["chekc", "prevalence.json"],
        ["check", "prevalence.json", "--no-such-option"],
        ["learn", "lab.csv", "--label"],
        ["count", "lab.json", "field.csv", "-o", "f.json", "--missing", "maybe"],
        ["--threads", "0", "check", "prevalence.json"],
        ["schema", "lab"],
        ["check", "prevalence.json", "lab.json", "field.json"],
    ],
    ids=" ".join,
)
def test_arguments_that_cannot_be_understood_exit_1_because_2_means_care(args, call, one_error):
    line = one_error(call(*args))
    assert "--help" in line or "check takes" in line


def test_without_a_command_there_is_help(call):
    done = call()
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Usage: fieldcal")


def start(args, folder, **more):
    return subprocess.Popen(
        [*COMMAND, *args], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=False, **more
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM], ids=["fault_43_ctrl_c", "fault_43_terminated"]
)
@pytest.mark.parametrize(
    "args",
    [
        ["count", "lab.json", "-", "-o", "new.json"],
        ["recalibrate", "prevalence.json", "-", "-o", "new.parquet"],
        ["decide", "prevalence.json", "-", "-o", "new.csv"],
    ],
    ids=lambda args: args[0],
)
def test_interrupted_while_it_reads_a_table_it_leaves_nothing(number, args, artefacts, tmp_path_factory):
    before = sorted(os.listdir(artefacts))
    scratch = tmp_path_factory.mktemp("scratch")
    running = start(args, artefacts, stdin=subprocess.PIPE, env={**os.environ, "TMPDIR": str(scratch)})
    running.stdin.write(b"row,site,p\n" + b"1,site 1,0.5\n" * (MORE_THAN_A_PIPE_HOLDS // 13))
    running.stdin.flush()  # it reads
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (130, b"", b"Interrupted.\n")
    assert sorted(os.listdir(artefacts)) == before
    assert not [*scratch.iterdir()]


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        ["--help"],
        ["learn", "--help"],
        ["--version"],
        ["check", "prevalence.json"],
        ["check", "prevalence.json", "--json"],
        ["estimate", "lab.json", "field.json", "-o", "new.json"],
        ["recalibrate", "prevalence.json", "field.csv", "-o", "-"],
        ["decide", "prevalence.json", "field.csv", "-o", "-", "-q"],
        ["contrast", "prevalence.json", "--rank"],
        ["show", "prevalence.json"],
    ],
    ids=lambda args: f"fault_43_closed_pipe_{'-'.join(args[:2]).replace('.', '-')}",
)
def test_output_that_nobody_reads_exits_141_without_a_word(args, artefacts):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        done = subprocess.run(
            [*COMMAND, *args], cwd=artefacts, stdout=writing, stderr=subprocess.PIPE, check=False, timeout=120
        )
    finally:
        os.close(writing)
    assert (done.returncode, done.stderr.replace(b"wrote new.json\n", b"")) == (141, b"")


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_fault_43_a_pipe_that_closes_in_the_middle_exits_141(artefacts, monkeypatch):
    monkeypatch.delenv("PYTHONUNBUFFERED", raising=False)
    verb = f'"{sys.executable}" -m fieldcal -q recalibrate prevalence.json field.csv -o -'
    line = f'{verb} | head -1; exit "${{PIPESTATUS[0]}}"'
    done = subprocess.run(
        ["bash", "-c", line], cwd=artefacts, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stderr) == (141, "")
    assert done.stdout == "row,site,p,p_recalibrated\n"


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("case", ["check"], ids=["fault_38_disk_full"])
def test_a_full_disk_under_the_output_is_one_line(case, artefacts):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [*COMMAND, case, "prevalence.json"],
            cwd=artefacts,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=120,
        )
    assert done.returncode == 1
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    "error", [MemoryError(), ZeroDivisionError("division by zero"), OSError(28, "No space")]
)
def test_what_nobody_foresaw_is_one_line_too(error, artefacts, call, one_error, monkeypatch):
    def fail(path):
        raise error

    monkeypatch.setattr("fieldcal.objects.Prevalence.load", fail)
    line = one_error(call("check", "prevalence.json"))
    assert ("bug in fieldcal" in line) == isinstance(error, ZeroDivisionError)


def test_debug_shows_where_an_error_came_from(folder, call):
    done = call("check", "nowhere.json", "--debug")
    assert done.code == 1
    assert done.err.startswith("Traceback")
    assert done.err.splitlines()[-1].startswith("error: Cannot read 'nowhere.json'")
