"""Every error is one line with a way out, exit code 1, and leaves everything as it was."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import fieldcal

LEARN = ["learn", "lab.csv", "--label", "y", "--scores", "p"]


def state(folder):
    return {p: p.read_bytes() for p in Path(folder).rglob("*") if p.is_file()}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        pytest.param(
            ["learn", "lab.csv", "--label", "yy", "--scores", "p", "-o", "n.json"],
            ["'yy'", "Did you mean 'y'?"],
            id="fault_19_label",
        ),
        pytest.param([*LEARN, "--by", "sit", "-o", "n.json"], ["'sit'", "'site'"], id="fault_19_by"),
        pytest.param(
            ["learn", "lab.csv", "--label", "y", "--scores", "pp", "-o", "n.json"],
            ["'pp'"],
            id="fault_19_scores",
        ),
        pytest.param(
            ["count", "lab.json", "field.csv", "--by", "sites", "-o", "n.json"],
            ["'site'"],
            id="fault_19_misspelt",
        ),
        pytest.param(
            ["learn", "nowhere.csv", "--label", "y", "--scores", "p", "-o", "n.json"],
            ["nowhere.csv"],
            id="no-such-table",
        ),
        pytest.param(
            ["count", "nowhere.json", "field.csv", "-o", "n.json"], ["nowhere.json"], id="no-such-lab"
        ),
        pytest.param(
            ["count", "field.json", "field.csv", "-o", "n.json"],
            ["'field'", "'lab' was expected"],
            id="field-for-a-lab",
        ),
        pytest.param(
            ["estimate", "lab.json", "lab.json", "-o", "n.json"],
            ["'field' was expected"],
            id="lab-for-a-field",
        ),
        pytest.param(["check", "lab.json"], ["'prevalence' was expected"], id="lab-for-a-prevalence"),
        pytest.param(["check", "field.csv"], ["is a table", "was expected"], id="table-for-an-artefact"),
        pytest.param(
            ["estimate", "lab.json", "field.json", "--trust", "2", "-o", "n.json"],
            ["--trust", "0 to 1"],
            id="trust",
        ),
        pytest.param(
            ["estimate", "lab.json", "field.json", "--prior", "kl:strong", "-o", "n.json"],
            ["kl:10"],
            id="prior",
        ),
        pytest.param(
            ["estimate", "lab.json", "field.json", "--prior", "nice", "-o", "n.json"],
            ["'pooled'"],
            id="prior-name",
        ),
        pytest.param(
            ["estimate", "lab.json", "field.json", "--level", "9", "-o", "n.json"], ["0.9"], id="level"
        ),
        pytest.param(
            ["merge", "field.json", "--retract", "x", "-o", "n.json"], ["no batch 'x'"], id="retract"
        ),
        pytest.param([*LEARN, "--by", "site,,", "-o", "n.json"], ["a,b,c"], id="empty-name"),
        pytest.param(
            ["sql", "count", "lab.json", "leads", "--dialect", "klingon"], ["klingon"], id="sql-dialect"
        ),
        pytest.param(["--memory-limit", "much", *LEARN, "-o", "n.json"], ["much"], id="memory-limit"),
    ],
)
def test_one_line_says_what_and_what_next(args, words, artefacts, call, one_error):
    before = state(artefacts)
    line = one_error(call(*args))
    for word in words:
        assert word in line
    assert state(artefacts) == before


@pytest.mark.parametrize("damage", ["cut", "flip", "edit"], ids="fault_39_{}".format)
def test_a_damaged_artefact_is_one_line(damage, artefacts, call, one_error):
    data = Path("prevalence.json").read_bytes()
    broken = {
        "cut": data[: len(data) // 2],
        "flip": data[:200] + bytes([data[200] ^ 1]) + data[201:],
        "edit": data.replace(b'"protected":false', b'"protected":true'),
    }[damage]
    Path("broken.json").write_bytes(broken)
    assert "corrupt" in one_error(call("check", "broken.json"))


@pytest.mark.parametrize(
    "args",
    [
        [*LEARN, "-o", "lab.csv"],
        ["count", "lab.json", "field.csv", "-o", "lab.json"],
        ["count", "lab.json", "field.csv", "-o", "field.csv"],
        ["merge", "field.json", "-o", "field.json"],
        ["estimate", "lab.json", "field.json", "-o", "field.json"],
        ["estimate", "lab.json", "field.json", "-o", "n.json", "--csv", "lab.json"],
        ["recalibrate", "prevalence.json", "field.csv", "-o", "field.csv"],
        ["recalibrate", "prevalence.json", "field.csv", "-o", "link.csv"],
        ["recalibrate", "prevalence.json", "f*.csv", "-o", "field.csv"],
        ["decide", "prevalence.json", "field.csv", "-o", "link.csv"],
        ["run", "lab.csv", "field.csv", "--label", "y", "--scores", "p", "-o", "."],
    ],
    ids=lambda args: f"fault_38_{args[0]}-{args[-1].replace('.', '-')}",
)
def test_an_input_is_never_overwritten(args, artefacts, call, one_error):
    Path("link.csv").symlink_to("field.csv")
    before = state(artefacts)
    assert "input" in one_error(call(*args))
    assert state(artefacts) == before


@pytest.mark.skipif(os.geteuid() == 0 or sys.platform == "win32", reason="root writes everywhere")
@pytest.mark.parametrize("case", ["learn"], ids=["fault_38_read_only"])
def test_a_read_only_folder_is_refused_before_the_work(case, artefacts, call, one_error):
    Path("closed").mkdir(mode=0o500)
    assert "read-only" in one_error(call(case, *LEARN[1:], "-o", "closed/lab.json"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, where nobody can write")
@pytest.mark.parametrize("case", ["learn"], ids=["fault_38_cannot_write"])
def test_a_target_that_the_system_refuses_is_one_line(case, artefacts, call, one_error):
    assert "Cannot write" in one_error(call(case, *LEARN[1:], "-o", "/proc/lab.json"))


@pytest.mark.parametrize("target", ["no/such/folder.json", "folder"], ids="fault_38_{}".format)
def test_a_target_that_cannot_be_is_refused_before_the_work(target, artefacts, call, one_error):
    Path("folder").mkdir()
    assert "folder" in one_error(call(*LEARN, "-o", target))


def test_protected_groups_are_not_applied_without_saying_so(artefacts, call, one_error):
    assert call("estimate", "lab.json", "field.json", "--protected", "-o", "blind.json").code == 0
    line = one_error(call("recalibrate", "blind.json", "field.csv", "-o", "new.csv"))
    assert "protected" in line
    assert "--acknowledge" in line
    assert not Path("new.csv").exists()
    assert call("recalibrate", "blind.json", "field.csv", "-o", "new.csv", "--acknowledge").code == 0


def test_ways_out_are_options_and_not_python(folder, call, one_error, write_table):
    write_table("gaps.csv", {"p": ["0.1", "", "0.9", "0.4"] * 9, "site": ["a"] * 36})
    assert call(*LEARN, "-o", "lab.json").code == 0
    line = one_error(call("count", "lab.json", "gaps.csv", "-o", "f.json"))
    assert "--missing drop" in line
    assert call("count", "lab.json", "gaps.csv", "-o", "f.json", "--missing", "drop").code == 0
    assert fieldcal.Field.load("f.json").dropped == 9


def test_a_field_of_another_lab_is_refused(artefacts, call, one_error):
    assert call(*LEARN, "--bins", "4", "-o", "other.json").code == 0
    assert "another lab" in one_error(call("estimate", "other.json", "field.json", "-o", "n.json"))
