"""What the README says can be run."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib
import matplotlib.pyplot
import numpy as np
import polars as pl
import pytest

import fieldcal
from fieldcal.datasets import label_shift
from fieldcal.objects import Interval

README = Path(__file__).parents[1] / "README.md"


def rows(data):
    """What the examples take for given."""
    sites = np.array(["Leeds", "York", "Bath", "Hull", "Ely", "Ripon"])
    return {
        "proba_lab": data.proba_lab,
        "y_lab": data.y_lab,
        "site_lab": sites[data.groups_lab],
        "proba_field": data.proba_field,
        "site_field": sites[data.groups_field],
    }


def examples(path):
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.S)


def test_the_ten_lines_run_as_they_stand(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = examples(README)
    names = rows(label_shift(n_lab=3000, n_field=3000, n_groups=6))
    exec(code, names)
    assert names["new"].shape == names["proba_field"].shape
    assert "rehearsed on 6 groups, 3,000 rows" in capsys.readouterr().out
    assert isinstance(names["prev"].contrast("Leeds", "York"), Interval)
    assert (tmp_path / "report.html").exists()


def test_the_examples_of_the_report_run_as_they_stand(tmp_path, monkeypatch):
    matplotlib.use("Agg")
    monkeypatch.chdir(tmp_path)
    data = label_shift(n_lab=3000, n_field=3000, n_groups=6)
    given = rows(data)
    frame = pl.DataFrame(
        {"p": given["proba_field"], "site": given["site_field"], "y": [*data.y_field[:500], *[None] * 2500]}
    )
    lab_frame = pl.DataFrame({"p": given["proba_lab"], "site": given["site_lab"], "y": given["y_lab"]})
    lab = fieldcal.tables.learn(lab_frame, scores="p", label="y", by="site")
    field = fieldcal.tables.count(lab, frame)
    names = {"lab": lab, "field": field, "prev": fieldcal.estimate(lab, field), "frame": frame}
    names |= {"proba": given["proba_field"], "y": data.y_field, "sites": given["site_field"]}
    names |= {"before": given["proba_field"], "after": given["proba_field"] ** 2}
    page, labelled, pictures = examples(README.parent / "docs" / "how-to" / "report.md")
    exec(page, names)
    assert (tmp_path / "report.html").read_text("utf-8") == names["found"].html()
    taught = fieldcal.estimate(lab, fieldcal.tables.count(lab, frame, label="y"))
    names["prev"] = taught
    exec(labelled, names)
    exec(pictures, names)


def test_the_example_of_labels_runs_as_it_stands():
    counted, *rest = examples(README.parent / "docs" / "how-to" / "few-labels.md")
    names = {}
    exec(counted, names)
    assert names["prev"].labels is not None
    for example in rest:
        exec(example, names)
    matplotlib.pyplot.close("all")


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_the_examples_of_judges_run_as_they_stand(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for example in examples(README.parent / "docs" / "how-to" / "judges.md"):
        exec(example, names)
    assert (tmp_path / "report.html").exists()
    assert names["gladen"].estimate[0, 1] == pytest.approx((50 / 3330 - 2 / 401) / (103 / 122 - 2 / 401))
    printed = capsys.readouterr().out
    assert "Highest prevalence of pass: D" in printed
    assert "2 classes (fail 33.3%, pass 66.7%), 5 values" in printed


def test_both_commands_are_on_the_first_screen():
    first_screen = README.read_text(encoding="utf-8").splitlines()[:24]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
def test_the_examples_of_regression_run_as_they_stand():
    rng = np.random.default_rng(0)
    y = rng.standard_normal(4000)
    X = (y + 0.7 * rng.standard_normal(4000))[:, None]
    levels = np.arange(1, 10) / 10
    quantiles = X / 1.49 + 0.57 * np.array([-1.28, -0.84, -0.52, -0.25, 0, 0.25, 0.52, 0.84, 1.28])
    sites = rng.integers(0, 5, 4000)
    lab, field = slice(0, 2000), slice(2000, 4000)
    names = {
        "levels": levels,
        "q_lab": quantiles[lab],
        "y_lab": y[lab],
        "site_lab": sites[lab],
        "X_lab": X[lab],
        "q_field": quantiles[field],
        "site_field": sites[field],
        "X_field": X[field],
    }
    for code in examples(README.parent / "docs" / "how-to" / "regression.md"):
        exec(code, names)
    assert names["new"].values.shape == (2000, 9)
