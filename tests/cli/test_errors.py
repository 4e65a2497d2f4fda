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


#: The fault's name where it has one, the command, and what its error has to say.
REFUSED = """
fault_19_label: learn lab.csv --label yy --scores p -o n.json => 'yy' & Did you mean 'y'?
fault_19_by: learn lab.csv --label y --scores p --by sit -o n.json => 'sit' & 'site'
fault_19_scores: learn lab.csv --label y --scores pp -o n.json => 'pp'
fault_19_misspelt: count lab.json field.csv --by sites -o n.json => 'site'
learn nowhere.csv --label y --scores p -o n.json => nowhere.csv
count nowhere.json field.csv -o n.json => nowhere.json
count field.json field.csv -o n.json => 'field' & 'lab' was expected
estimate lab.json lab.json -o n.json => 'field' was expected
check lab.json => 'prevalence' was expected
check field.csv => is a table & was expected
estimate lab.json field.json --trust 2 -o n.json => --trust must be 'auto' or a probability from 0
estimate lab.json field.json --prior kl:strong -o n.json => kl:10
estimate lab.json field.json --prior nice -o n.json => 'pooled'
estimate lab.json field.json --level 9 -o n.json => 0.9
merge field.json --retract x -o n.json => no batch 'x'
learn lab.csv --label y --scores p --by site,, -o n.json => a,b,c
sql count lab.json leads --dialect klingon => klingon
--memory-limit much learn lab.csv --label y --scores p -o n.json => much
learn --sensitivity 0.9 -o r.json => Give --sensitivity and --specificity
learn --sensitivity 0.9 --specificity 0.9 -o r.json => give --n, the numbers of positive
learn --confusion '1,x;2,3' -o r.json => --confusion must be numbers such as
learn --confusion '1,2;2,3' --n '1,2;3,4' -o r.json => --n must be one row of numbers
learn -o r.json => LAB_TABLE, or published rates of a test: --sensitivity
learn --n 1,2 --by site -o r.json => --by is about a table of predictions, --n about published rates
learn lab.csv --n 1,2 -o r.json => --n is about published rates, without a table
learn lab.csv --scores p -o r.json => Name the column with the true class: --label COLUMN
merge lab.json field.json -o m.json => holds a 'field', but a 'lab' was expected
merge lab.json --retract a -o m.json => are about fields, but these are labs
learn lab.csv --label y --scores p --bins trees:8 -o l.json => quantiles, simplex, expected or given
estimate lab.json field.json --level 2 -o p.json => --level must lie between 0 and 1
estimate lab.json field.json --level none -o p.json => Use --point mode
estimate field.json lab.json -o p.json => holds a 'field', but a 'lab' was expected. Check the order of the files
run field.csv lab.csv --label y --scores p -o out => The table with labels comes first
count field.csv lab.json -o f.json => field.csv is a table, but a 'lab' was expected
recalibrate field.csv prevalence.json -o n.csv => field.csv is a table, but a 'prevalence' was expected
estimate lab.json field.csv -o p.json => A table of predictions is counted first: `fieldcal count`
plan lab.json => lab.json is a lab, which has no field to plan for
contrast prevalence.json 'site 1' 'site 6' --item row => Give both, or neither
contrast prevalence.json => Name two, or use --all, --reference, --rank or --totals
contrast prevalence.json 'site 1' => compares two groups, but got 1
contrast prevalence.json a b c => but got 3
contrast prevalence.json 'site 1' 'site 22' => no group 'site 22'. Did you mean 'site 2'?
contrast prevalence.json 'site 1' 'site 1' => compares two groups, but got 'site 1' twice
contrast prevalence.json 'site 1' 'site 2' --of spam => no class 'spam'
contrast prevalence.json 'site 1' 'site 2' --level 9 => level must lie between 0 and 1
contrast prevalence.json --totals 'site 1' => no group ''
contrast prevalence.json --totals 'site 1=x' => --totals must have numbers
contrast prevalence.json --totals 'site 1=-2' => none negative
contrast prevalence.json --totals 'site 1=1,site 1=2' => twice
contrast prevalence.json --totals 'site 1=0' => not all zero
contrast prevalence.json --totals nowhere.csv => Cannot read 'nowhere.csv'
contrast lab.json a b => 'prevalence' was expected
plan lab.json --rows 10 --prevalence 0.5,x => --prevalence must have numbers
plan lab.json --rows 10 --prevalence 0.5,0.2 => sum to one
plan prevalence.json --prevalence 0.5,0.5 => Add --rows
plan lab.json --rows 0 => --rows must be a whole number, 1 or more, but got 0
show field.csv => field.csv is a table. show takes JSON files
show nowhere.json => Cannot read 'nowhere.json'
show other.json => not a fieldcal artefact
show cut.json => corrupt
decide prevalence.json field.csv -o new.csv --goal acuracy => Did you mean 'accuracy'?
decide prevalence.json field.csv -o new.csv --goal 0,1,2;3 => in the order 0, 1
decide prevalence.json field.csv -o new.csv --goal '0,1;1e999,0' => finite
decide prevalence.json field.csv -o new.csv --name p => --name
decide prevalence.json field.csv -o new.csv --scores q => no column 'q'
decide prevalence.json field.csv -o new.csv --by town => no column 'town'
decide prevalence.json field.csv --json -o - => --json and -o -
decide prevalence.json field.csv -o field.csv => input
decide prevalence.json field.csv -o new.txt => new.txt
estimate lab.json field.json --prior kl:10+pooled -o p.json => stands alone
estimate lab.json field.json --prior kl:x -o p.json => or kl, dirichlet, continuity, kl_bins with a strength
estimate lab.json field.json --prior auto+kl:3 -o p.json => or a sum of these with +
estimate lab.json field.json --prior kl:10+ -o p.json => --prior must be a name
estimate lab.json field.json --prior kl+ -o p.json => but got 'kl+'
estimate lab.json field.json --prior +kl -o p.json => but got '+kl'
learn lab.csv --label y --scores p --bins 0 -o n.json => whole number, 1 or more, cuts such as 0.2,0.5, or quantiles
learn lab.csv --label y --scores p --bins 0.5 -o n.json => --bins must be a whole number
learn lab.csv --label y --scores p --bins 0.5,x -o n.json => --bins must be a whole number
learn lab.csv --label y --scores p --smoothing -1 -o n.json => --smoothing must be 'auto' or a number of rows
""".strip().splitlines()


def refused_cases():
    for case in REFUSED:
        line, _, words = case.partition(" => ")
        name, colon, rest = line.partition(": ")
        known = colon and name.startswith("fault_")
        yield pytest.param(rest if known else line, words.split(" & "), id=name if known else line)


@pytest.mark.parametrize(("line", "words"), [*refused_cases()])
def test_one_line_says_what_and_what_next(line, words, artefacts, call, one_error):
    Path("other.json").write_text('{"fieldcal": "letter"}', encoding="utf-8")
    Path("cut.json").write_bytes(Path("lab.json").read_bytes()[:500])
    before = state(artefacts)
    told = one_error(call(line))
    assert [word for word in words if word not in told] == []
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
