"""Labels of field rows on the command line: in the field's table, in a table of their own, from a warehouse."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

import fieldcal
from fieldcal import Field, Lab, Prevalence


@pytest.fixture
def known(made, artefacts, labelled):
    """The working directory with the artefacts and tables with labels."""
    return labelled


def read(path):
    with Path(path).open(newline="", encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def by_arrays(rows, *, only_labels=False, **options):
    """The field of rows with labels, as arrays."""
    lab = Lab.load("lab.json")
    p, site = [float(r["p"]) for r in rows], [r["site"] for r in rows]
    y = [int(r["y"]) if r["y"] else None for r in rows]
    field = fieldcal.count(lab, p, groups=site, y=y, only_labels=only_labels, **options)
    return field.model_copy(update={"by": ("site",)})


def counted(call, line):
    done = call(f"count lab.json {line} -o counted.json")
    assert done.code == 0, done.err
    return Field.load("counted.json")


def test_labels_in_the_field_and_beside_it_are_the_same_field(known, call):
    expected = by_arrays(read("partly.csv"), design="by_class")
    assert expected.n_labelled == 300
    assert counted(call, "partly.csv --label y --design by_class") == expected
    assert counted(call, "field.csv --labelled labels.csv --design by_class") == expected
    assert counted(call, "field.csv --labelled partly.csv --label y --design by_class") == expected


def test_a_table_of_labels_says_the_design_of_each_row(known, call, write_table):
    told = read("told.csv")
    parts = [
        by_arrays([r for r in told if r["fieldcal_design"] == design], design=design, only_labels=True)
        for design in ("random", "by_score")
    ]
    expected = Field.load("field.json") + parts[0] + parts[1]
    assert counted(call, "field.csv --labelled told.csv") == expected
    design = {r["row"]: r["fieldcal_design"] for r in told}
    field = read("partly.csv")
    columns = {name: [r[name] for r in field] for name in field[0]}
    write_table("both.csv", columns | {"fieldcal_design": [design.get(r["row"], "") for r in field]})
    assert counted(call, "both.csv --label y") == expected


@pytest.mark.slow
def test_show_says_what_labels_decided(known, call):
    assert call("estimate lab.json field.json --labelled labels.csv --design random -o prev.json").code == 0
    model = Prevalence.load("prev.json").by_model
    assert str(model).startswith("300 labelled rows: label shift ")
    assert str(model) in call("show prev.json").out
    told = json.loads(call("show prev.json --json").out)["labels"]
    assert told == model.summary()
    assert sum(told["hypotheses"].values()) == pytest.approx(1)
    assert json.loads(call("show prevalence.json --json").out)["labels"] is None


@pytest.mark.slow
def test_predictions_are_corrected_bin_by_bin_as_arrays_correct_them(known, call):
    assert (
        call("run lab.csv partly.csv --label y --scores p --by site --field-label y --shape bins -o out").code
        == 0
    )
    prev, rows = Prevalence.load("out/prevalence.json"), read("partly.csv")
    p, site = [float(r["p"]) for r in rows], [r["site"] for r in rows]
    expected = fieldcal.recalibrate(prev, p, groups=site, shape="bins")
    assert call("recalibrate out/prevalence.json partly.csv --shape bins -o new.csv").code == 0
    statement = call("sql recalibrate out/prevalence.json partly --dialect duckdb --shape bins").out
    duckdb.sql("CREATE OR REPLACE TEMP VIEW partly AS SELECT * FROM 'partly.csv'")
    for found in (
        duckdb.sql("SELECT p_recalibrated FROM 'out/recalibrated.parquet' ORDER BY row"),
        duckdb.sql("SELECT p_recalibrated FROM 'new.csv' ORDER BY row"),
        duckdb.sql(f"SELECT p_recalibrated FROM ({statement.rstrip().rstrip(';')}) ORDER BY row"),
    ):
        np.testing.assert_allclose(found.fetchnumpy()["p_recalibrated"], expected, rtol=0, atol=1e-12)
    assert call("decide out/prevalence.json partly.csv --shape bins --goal balanced -o decided.csv").code == 0
    decided = fieldcal.decide(prev, p, groups=site, shape="bins", goal="balanced")
    assert [int(r["decision"]) for r in read("decided.csv")] == decided.tolist()


@pytest.mark.slow
def test_labels_can_be_given_to_estimate(known, call):
    assert call("estimate lab.json field.json --labelled told.csv -o later.json").code == 0
    counted(call, "field.csv --labelled told.csv")
    assert call("estimate lab.json counted.json -o at-once.json").code == 0
    assert Prevalence.load("later.json") == Prevalence.load("at-once.json")


@pytest.mark.slow
def test_run_takes_labels_of_the_field_only_when_asked(known, call):
    line = "run lab.csv partly.csv --label y --scores p --by site --quiet -o"
    assert call(f"{line} plain").code == 0
    assert Field.load("plain/field.json") == Field.load("field.json")
    assert call(f"{line} own --field-label y").code == 0
    assert call(f"{line} beside --labelled labels.csv").code == 0
    expected = by_arrays(read("partly.csv"))
    assert Field.load("own/field.json") == Field.load("beside/field.json") == expected
    assert Prevalence.load("own/prevalence.json").field == expected
    assert Path("own/report.html").exists()


def test_a_batch_takes_its_labels_with_it(known, call):
    field = counted(call, "field.csv --labelled labels.csv --batch monday")
    assert field == by_arrays(read("partly.csv"), batch="monday")
    assert not field.retract("monday").labelled


def test_windows_have_labels_in_their_own_table_only(known, call, one_error, write_table):
    rows = read("partly.csv")
    columns = {name: [r[name] for r in rows] for name in rows[0]}
    days = [f"2024-01-0{1 + i % 2}" for i in range(len(rows))]
    write_table("log.csv", columns | {"day": days})
    field = counted(call, "log.csv --label y --time day --every 1d")
    parts = [by_arrays(rows[i::2], batch=f"2024-01-0{1 + i}") for i in range(2)]
    assert field == (parts[0] + parts[1]).over("1d")
    done = call("count lab.json log.csv --labelled labels.csv --time day --every 1d -o x.json")
    assert "Windows of --time do not go with labels in another table" in one_error(done)


@pytest.fixture
def words(folder, call):
    """Classes and groups that are text, of which a part looks like numbers; empty labels with quotes."""
    data = fieldcal.datasets.label_shift(n_lab=600, n_field=200, n_groups=2, random_state=1)
    sites, classes = np.array(["01", "a"]), np.array(["1", "yes"])
    columns = {"site": sites[data.groups_lab], "p": data.proba_lab, "y": classes[data.y_lab]}
    Path("words.csv").write_text(
        "\n".join(["site,p,y", *(",".join(map(str, r)) for r in zip(*columns.values(), strict=True))]) + "\n"
    )
    truth = classes[data.y_field].tolist()
    y = [label if i % 4 == 0 else "" for i, label in enumerate(truth)]
    site, p = sites[data.groups_field].tolist(), data.proba_field.tolist()
    rows = [f'{s},{q!r},"{label}"' for s, q, label in zip(site, p, y, strict=True)]
    Path("log.csv").write_text("\n".join(["site,p,y", *rows]) + "\n")
    some = [i for i, label in enumerate(y) if label == "1" and site[i] == "01"]
    Path("some.csv").write_text("\n".join(["site,p,y", *(rows[i].replace('"', "") for i in some)]) + "\n")
    assert call("learn words.csv --label y --scores p --by site -o words.json --quiet").code == 0
    return site, p, [label or None for label in y], some


def test_text_stays_text_and_an_empty_one_is_no_label(words, call):
    site, p, y, some = words
    lab = Lab.load("words.json")
    assert call("count words.json log.csv --label y -o field.json").code == 0
    expected = fieldcal.count(lab, p, groups=site, y=y)
    assert Field.load("field.json") == expected.model_copy(update={"by": ("site",)})
    assert call("count words.json log.csv --labelled some.csv -o field.json").code == 0
    expected = fieldcal.count(lab, p, groups=site, y=[v if i in some else None for i, v in enumerate(y)])
    assert Field.load("field.json") == expected.model_copy(update={"by": ("site",)})


def test_counts_of_a_warehouse_bring_their_labels(known, call):
    done = call("sql count lab.json leads --dialect duckdb --label y")
    warehouse = duckdb.connect()
    warehouse.execute("CREATE TABLE leads AS FROM read_csv('partly.csv')")
    warehouse.execute(f"COPY ({done.out.rstrip().rstrip(';')}) TO 'counts.csv' (HEADER)")
    assert call("estimate lab.json counts.csv --design by_score -o prevalence2.json").code == 0
    expected = by_arrays(read("partly.csv"), design="by_score")
    assert Prevalence.load("prevalence2.json").field == expected


def test_a_script_sees_how_many_rows_of_each_design_have_labels(known, call):
    done = call("count lab.json field.csv --labelled told.csv -o x.json --json")
    assert json.loads(done.out)["labelled"] == {"random": 100, "by_score": 200}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("count lab.json field.csv --design by_score", "describes labels, but none are given"),
        ("count lab.json field.csv --labelled field.csv", "no column 'y' for the label"),
        ("count lab.json - --labelled -", "Only one of the tables can come from standard input"),
        ("count lab.json field.csv --labelled told.csv --design random", "leave --design out"),
        (
            "count lab.json field.csv --labelled odd.csv",
            "'fieldcal_design' says 'chosen' of rows with a label",
        ),
        (
            "count lab.json field.csv --labelled elsewhere.csv",
            "group 'site 9', which the field does not have",
        ),
        ("count lab.json field.csv --labelled empty.csv", "There are no labels"),
        ("estimate lab.json field.json --label y", "--label is about the table of --labelled"),
        ("estimate lab.json field.json --design random", "--design is about the table of --labelled"),
        ("estimate lab.json field.json --scores p", "--scores is about the table of --labelled"),
        ("estimate arrays.json arrays-field.json --labelled labels.csv", "name it with --label"),
        ("estimate arrays.json arrays-field.json --labelled labels.csv --label y", "name them with --by"),
    ],
)
def test_what_cannot_be_meant_is_refused(known, call, one_error, line, words):
    Path("odd.csv").write_text("site,p,y,fieldcal_design\nsite 1,0.3,1,chosen\nsite 1,0.3,,\n")
    Path("elsewhere.csv").write_text("site,p,y\nsite 9,0.3,1\n")
    Path("empty.csv").write_text("site,p,y,fieldcal_design\nsite 1,0.3,,random\n")
    if "arrays" in line:
        lab = Lab.load("lab.json").model_copy(update={"columns": None})
        lab.save("arrays.json")
        fieldcal.count(lab, [0.2, 0.3], groups=["site 1", "site 2"]).save("arrays-field.json")
    assert words in one_error(call(f"{line} -o x.json"))
    assert not Path("x.json").exists()
