"""No green light over nothing: empty fields, verdicts that are told, formats that are what they are called."""

from __future__ import annotations

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

import fieldcal
from fieldcal.errors import VerdictWarning

OPTIONS = ("--label", "y", "--scores", "p", "-o", "out")
RUN = ("run", "lab.csv", "field.csv", *OPTIONS)
BROKEN = ("run", "lab.csv", "broken.csv", *OPTIONS, "--trust", "1")


def broken_field(folder, write_table):
    """Every score is near one half, which no mixture of the lab's classes gives."""
    rng = np.random.default_rng(0)
    write_table(
        folder / "broken.csv",
        {"p": rng.uniform(0.47, 0.53, 2000).round(6).tolist(), "site": ["a", "b"] * 1000},
    )


@pytest.mark.parametrize("groups", [(), ("--by", "site")], ids=["fault_56_whole", "fault_56_groups"])
def test_a_field_without_rows_is_refused_by_run(call, folder, one_error, groups):
    (folder / "empty.csv").write_text("p,site\n")
    assert "no rows" in one_error(call("run", "lab.csv", "empty.csv", *OPTIONS, *groups))
    assert not (folder / "out").exists()


def test_check_lists_every_group_with_its_status(call, artefacts):
    done = call("check", "prevalence.json", "--json")
    prev = fieldcal.Prevalence.load(artefacts / "prevalence.json")
    listed = json.loads(done.out)["groups"]
    assert [(g["group"], g["n"], ",".join(g["status"])) for g in listed] == list(
        zip(prev.groups, prev.n.tolist(), prev.status, strict=True)
    )


@pytest.mark.parametrize("extension", ["csv", "parquet", "json", "jsonl"])
def test_fault_80_a_table_has_the_format_that_its_extension_names(call, artefacts, extension):
    path = artefacts / f"shares.{extension}"
    assert call("estimate", "lab.json", "field.json", "-o", "p.json", "--table", path.name).code == 0
    expected = fieldcal.Prevalence.load(artefacts / "p.json").to_dict()
    if extension == "parquet":
        assert pq.read_table(path).to_pydict() == {name: list(v) for name, v in expected.items()}
    elif extension == "csv":
        assert path.read_text().splitlines()[0] == ",".join(f'"{name}"' for name in expected)
    else:
        text = path.read_text()
        rows = json.loads(text) if extension == "json" else [json.loads(line) for line in text.splitlines()]
        assert [row["estimate"] for row in rows] == list(expected["estimate"])


def test_fault_80_a_table_of_another_extension_is_refused(call, artefacts, one_error):
    done = call("estimate", "lab.json", "field.json", "-o", "p.json", "--table", "shares.xlsx")
    assert ".csv, .parquet, .json, .jsonl" in one_error(done)
    assert not (artefacts / "p.json").exists()


@pytest.mark.slow
def test_fault_81_an_estimate_that_must_not_be_used_is_applied_with_a_warning(call, folder, write_table):
    broken_field(folder, write_table)
    done = call(*BROKEN, "--by", "site")
    assert done.out.rstrip().splitlines()[-1].startswith("  - ")
    assert "Do not use" in done.out
    assert done.code == 0
    assert "The verdict on this estimate is not to use it" in done.err
    assert "--acknowledge" in done.err
    for verb in ("recalibrate", "decide"):
        line = (verb, "out/prevalence.json", "broken.csv", "-o", "new.csv")
        assert "is not to use it" in call(*line).err
        assert "is not to use it" not in call(*line, "--acknowledge").err


def test_fault_81_in_python_the_warning_has_a_category_of_its_own(folder, write_table):
    data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    scores = np.random.default_rng(0).uniform(0.47, 0.53, 2000)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, scores), trust=1)
    assert prev.verdict.level == "do_not_use"
    for verb in (fieldcal.recalibrate, fieldcal.decide):
        with pytest.warns(VerdictWarning, match="acknowledge=True"):
            verb(prev, scores)
        verb(prev, scores, acknowledge=True)


@pytest.mark.slow
def test_contrast_says_that_items_of_a_run_are_not_used_unless_they_are_given(call, judged):
    line = ("--predictions", "verdict", "--label", "human", "--by", "model", "--item", "question")
    assert call("run", "judged.csv", *line, "--design", "random", "-o", "out").code == 0
    models = fieldcal.Prevalence.load(judged / "out" / "prevalence.json").groups[:2]
    asked = ("contrast", "out/prevalence.json", *map(str, models))
    assert "--paired TABLE --item COLUMN" in call(*asked).err
    assert "--paired" not in call(*asked, "--paired", "judged.csv", "--item", "question").err


@pytest.mark.slow
def test_a_report_names_its_data_model_period_and_date(call, artefacts, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    names = ("--data", "March", "--model", "v7", "--period", "2024-03")
    assert call("report", "prevalence.json", "-o", "r.md", *names).code == 0
    assert "Data: March · Model: v7 · Period: 2024-03 · Made: 1970-01-02" in (artefacts / "r.md").read_text()
    assert call("report", "prevalence.json", "-o", "r.html", *names).code == 0
    assert "<bdi>v7</bdi>" in (artefacts / "r.html").read_text()


@pytest.mark.slow
def test_run_exits_with_the_verdict_only_when_asked(call, folder, write_table):
    broken_field(folder, write_table)
    codes = {"ok": 0, "care": 2, "do_not_use": 3}
    for line in (RUN, BROKEN):
        done = call(*line, "--check", "--json")
        assert done.code == codes[json.loads(done.out)["verdict"]]
    assert done.code == 3
    assert call(*BROKEN).code == 0


def test_lab_rows_without_a_prediction_or_a_label_are_dropped_and_counted_when_asked(call, folder):
    lines = (folder / "lab.csv").read_text().splitlines()
    (folder / "odd.csv").write_text("\n".join([*lines, "3000,site 1,,1", "3001,site 1,0.5,"]) + "\n")
    line = ("run", "odd.csv", "field.csv", *OPTIONS)
    assert call(*line).code == 1
    done = call(*line, "--missing", "drop", "--json")
    assert "2 of 3,002 lab rows have no prediction or no label: dropped" in done.err
    assert json.loads(done.out)["lab"]["rows"] == 3000
