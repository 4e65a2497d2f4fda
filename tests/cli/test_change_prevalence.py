"""fieldcal change-prevalence: what arrays do, from files."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from numpy.testing import assert_allclose

from cli.conftest import write_table
from fieldcal import change_prevalence

SCORES = [0.1, 0.5, 0.9, 0.3]
PLACES = ["forest", "meadow", "meadow", "forest"]
CLASSES = {"p_ant": [0.2, 0.6], "p_bee": [0.3, 0.3], "p_fly": [0.5, 0.1]}


@pytest.fixture
def table(folder):
    write_table("scores.csv", {"row": range(4), "place": PLACES, "p": SCORES})
    write_table("classes.csv", CLASSES)
    return folder


def column(path, name):
    with Path(path).open() as lines:
        return [float(row[name]) for row in csv.DictReader(lines)]


def test_one_share_is_of_the_second_class(table, call):
    done = call(
        "change-prevalence", "scores.csv", "--scores", "p", "--old", "0.5", "--new", "0.05", "-o", "new.csv"
    )
    assert done.code == 0, done.err
    assert "4 rows, from 0.5 to 0.05" in done.out
    assert_allclose(column("new.csv", "p_recalibrated"), change_prevalence(SCORES, old=0.5, new=0.05))


def test_class_weights_are_undone_and_classes_are_known_by_name(table, call):
    weights = ["--old", "fly=1,ant=2,bee=4", "--new", "1,1,1"]
    done = call("change-prevalence", "classes.csv", "--scores", "p_*", *weights, "-o", "new.csv", "--json")
    assert json.loads(done.out)["old"] == {"fly": 1, "ant": 2, "bee": 4}
    proba = [list(row) for row in zip(*CLASSES.values(), strict=True)]
    wanted = change_prevalence(proba, old=[2, 4, 1], new=[1, 1, 1])
    for k, name in enumerate(CLASSES):
        assert_allclose(column("new.csv", f"{name}_recalibrated"), wanted[:, k])


def test_groups_have_a_table_of_shares(table, call):
    write_table("known.csv", {"place": ["meadow", "forest"], "share": [0.1, 0.9]})
    options = ["--scores", "p", "--old", "0.5", "--by", "place", "--new", "known.csv"]
    assert call("change-prevalence", "scores.csv", *options, "-o", "new.csv").code == 0
    wanted = change_prevalence(SCORES, old=0.5, new={"meadow": 0.1, "forest": 0.9}, groups=PLACES)
    assert_allclose(column("new.csv", "p_recalibrated"), wanted)


def test_a_table_of_shares_goes_by_the_names_of_its_columns(table, call):
    write_table("m.csv", {"p_b": [0.7, 0.1], "p_a": [0.3, 0.9], "g": ["x", "y"]})
    write_table("nm.csv", {"g": ["x", "y"], "a": [0.9, 0.5], "b": [0.1, 0.5]})
    options = ["--scores", "p_*", "--old", "a=0.5,b=0.5", "--by", "g", "--new", "nm.csv"]
    assert call("change-prevalence", "m.csv", *options, "-o", "q.csv").code == 0
    wanted = change_prevalence([0.7, 0.1], old=0.5, new={"x": 0.1, "y": 0.5}, groups=["x", "y"])
    assert_allclose(column("q.csv", "p_b_recalibrated"), wanted)
    assert_allclose(column("q.csv", "p_a_recalibrated"), 1 - wanted)


@pytest.mark.slow
def test_standard_output_has_the_table_and_nothing_else(table, shell):
    done = shell(
        "change-prevalence", "scores.csv", "--scores", "p", "--old", "1,9", "--new", "1,1", "-o", "-"
    )
    assert done.code == 0, done.err
    assert done.out.splitlines()[0] == "row,place,p,p_recalibrated"
    assert len(done.out.splitlines()) == 5


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--old", "half", "--new", "0.1"], "--old must be a share of the second of two classes"),
        (["--old", "0.5", "--new", "a=1,0.1"], "--new must be a share"),
        (["--old", "a=1,a=2", "--new", "0.1"], "--old names a class twice"),
        (["--old", "50", "--new", "0.1"], "error: --old must be a share, or one number per class"),
        (["--old", "0.5", "--new", "2,-1"], "error: --new must be shares or numbers of rows, none negative"),
        (["--old", "0", "--new", "0.1"], "old is 0 for class number 1"),
        (["--old", "0.5", "--new", "0.1", "--by", "place"], "With --by, --new names a table"),
        (["--old", "0.5", "--new", "lacking.csv", "--by", "place"], "has no column 'place'"),
        (["--old", "0.5", "--new", "twice.csv", "--by", "place"], "has the group 'forest' twice"),
        (["--old", "0.5", "--new", "half.csv", "--by", "place"], "No prevalence was given for"),
        (["--old", "0.2,0.3,0.5", "--new", "1,1,1"], "prevalences of 3 classes, but 1 columns"),
        (["--old", "0.5", "--new", "noted.csv", "--by", "place"], "has 'rough' in its column 'note'"),
        (
            ["--old", "0.5", "--new", "counted.csv", "--by", "place"],
            "names classes, but their order is not known",
        ),
    ],
)
def test_what_cannot_be_is_one_line_and_nothing_is_written(table, call, options, words):
    write_table("lacking.csv", {"town": ["forest"], "share": [0.1]})
    write_table("twice.csv", {"place": ["forest", "forest"], "share": [0.1, 0.2]})
    write_table("noted.csv", {"place": ["forest"], "share": [0.1], "note": ["rough"]})
    write_table("counted.csv", {"place": ["forest"], "n": [1000], "share": [0.1]})
    write_table("half.csv", {"place": ["forest"], "share": [0.1]})
    done = call("change-prevalence", "scores.csv", "--scores", "p", *options, "-o", "new.csv")
    assert done.code == 1
    assert words in done.err
    assert done.err.count("\n") == 1
    assert not Path("new.csv").exists()


# The preset's options -------------------------------------------------------------------------------------


def learnt(call, *options):
    assert call("learn", "lab.csv", "--label", "y", "--scores", "p", *options, "-o", "lab.json").code == 0
    return json.loads(Path("lab.json").read_text())


@pytest.mark.slow
def test_the_papers_method_from_tables_to_predictions(folder, call):
    line = "run lab.csv field.csv --label y --scores p --by site --method paper -o out --json"
    told = json.loads(call(*line.split()).out)
    assert told["whole"]
    prev = json.loads(Path("out/prevalence.json").read_text())["content"]
    assert (prev["point"], prev["prior"], prev["trust"]["overall"]) == ("mode", {"name": "flat"}, 1)


def test_bins_may_be_given_by_their_edges_and_smoothing_by_its_rows(folder, call):
    lab = learnt(call, "--bins", "0.2,0.5", "--smoothing", "3")["content"]
    assert lab["partition"]["edges"] == [0.2, 0.5]
    assert lab["smoothing"] == 3


def test_priors_add_up(artefacts, call):
    line = "estimate lab.json field.json --prior kl:10+continuity:5 --point mode --trust 1 -o p.json"
    assert call(*line.split()).code == 0
    prev = json.loads(Path("p.json").read_text())["content"]
    assert prev["prior"]["name"] == "kl + continuity"
    assert [part["strength"] for part in prev["prior"]["parts"]] == [10, 5]
    assert prev["point"] == "mode"
