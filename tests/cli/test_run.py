"""`fieldcal run` on real captures, from a shell, gives the numbers of the Python API."""

from __future__ import annotations

import json
import shutil
import warnings

import duckdb
import numpy as np
import pytest

import fieldcal
from fieldcal import demo
from fieldcal.objects import Columns


@pytest.fixture(scope="module")
def portal():
    return demo.predictions(demo.portal())


@pytest.fixture(scope="module")
def by_arrays(portal):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
        lab = fieldcal.learn(portal.proba_lab, portal.species_lab, groups=portal.plots_lab)
        field = fieldcal.count(lab, portal.proba_field, groups=portal.plots_field)
        prev = fieldcal.estimate(lab, field)
    return lab, field, prev, fieldcal.recalibrate(prev, portal.proba_field, groups=portal.plots_field)


def columns(species, plots, proba, classes):
    """As a user has them: the labels and the predictions, in full precision."""
    scores = {f"p_{c}": proba[:, k].tolist() for k, c in enumerate(classes)}
    return {"capture": range(len(plots)), "species": species.tolist(), "plot": plots.tolist(), **scores}


def same_numbers(mine, theirs, tolerance=1e-12):
    """Two pieces of JSON, numbers to a tolerance, everything else exactly."""
    if isinstance(theirs, dict):
        assert set(mine) == set(theirs)
        for name in theirs:
            same_numbers(mine[name], theirs[name], tolerance)
    elif isinstance(theirs, list):
        assert len(mine) == len(theirs)
        for one, two in zip(mine, theirs, strict=True):
            same_numbers(one, two, tolerance)
    elif isinstance(theirs, float):
        assert mine == pytest.approx(theirs, rel=tolerance, abs=tolerance)
    else:
        assert mine == theirs


@pytest.mark.slow
def test_run_on_the_portal_data_equals_the_four_verbs_on_arrays(
    portal, by_arrays, folder, shell, write_table
):
    lab, field, prev, new = by_arrays
    classes = lab.classes
    write_table("captures.csv", columns(portal.species_lab, portal.plots_lab, portal.proba_lab, classes))
    write_table("later.csv", columns(portal.species_field, portal.plots_field, portal.proba_field, classes))
    line = "run captures.csv later.csv --label species --scores p_* --by plot -o out/portal --json"
    done = shell(line)
    assert done.code == 0, done.err
    out = folder / "out" / "portal"
    names = [
        *("field.json", "lab.json", "prevalence.csv", "prevalence.json"),
        *("recalibrated.parquet", "report.html"),
    ]
    assert sorted(path.name for path in out.iterdir()) == names
    assert json.loads(done.out)["verdict"] == prev.verdict.level == "care"

    scores = tuple(f"p_{c}" for c in classes)
    learnt = fieldcal.Lab.load(out / "lab.json")
    assert learnt.columns == Columns(scores=scores, label="species", by=("plot",))
    same_numbers({**learnt.content(), "columns": None}, lab.content())
    counted = fieldcal.Field.load(out / "field.json")
    assert (counted.by, counted.lab) == (("plot",), learnt.digest)
    same_numbers({**counted.content(), "by": [], "lab": lab.digest}, field.content())
    estimated = fieldcal.Prevalence.load(out / "prevalence.json")
    rest = {"lab", "field"}
    same_numbers(
        {name: value for name, value in estimated.content().items() if name not in rest},
        {name: value for name, value in prev.content().items() if name not in rest},
    )
    table = duckdb.sql(f"SELECT * FROM read_parquet('{out / 'recalibrated.parquet'}')").fetchnumpy()
    np.testing.assert_array_equal(table["capture"], np.arange(len(new)))
    for k, c in enumerate(classes):
        np.testing.assert_array_equal(table[f"p_{c}"], portal.proba_field[:, k])
        np.testing.assert_allclose(table[f"p_{c}_recalibrated"], new[:, k], rtol=0, atol=1e-12)


@pytest.mark.slow
def test_the_verbs_one_by_one_write_the_bytes_that_run_writes(folder, call):
    assert call("run lab.csv field.csv --label y --scores p --by site -o out").code == 0
    for line in (
        "learn lab.csv --label y --scores p --by site -o lab.json",
        "count lab.json field.csv -o field.json",
        "estimate lab.json field.json -o prevalence.json --csv prevalence.csv",
        "recalibrate prevalence.json field.csv -o recalibrated.parquet",
    ):
        assert call(line).code == 0
    for name in ("lab.json", "field.json", "prevalence.json", "prevalence.csv"):
        assert (folder / name).read_bytes() == (folder / "out" / name).read_bytes()
    one, two = (
        duckdb.read_parquet(str(p / "recalibrated.parquet")).fetchall() for p in (folder, folder / "out")
    )
    assert one == two


@pytest.mark.slow
def test_a_lab_without_the_group_column_still_runs_and_says_that_nothing_was_rehearsed(
    folder, call, write_table
):
    rows = duckdb.read_csv("lab.csv").fetchnumpy()
    write_table("plain.csv", {"y": rows["y"].tolist(), "p": rows["p"].tolist()})
    done = call("run plain.csv field.csv --label y --scores p --by site -o out")
    assert done.code == 0
    assert "warning: The lab has no column 'site'" in done.err
    assert len(fieldcal.Prevalence.load("out/prevalence.json").groups) == 8


@pytest.mark.slow
def test_fault_79_a_column_of_folders_that_the_lab_lacks_still_splits_the_field(folder, call):
    for day in (1, 2):
        (folder / f"log/day={day}").mkdir(parents=True)
        shutil.copy("field.csv", folder / f"log/day={day}/part.csv")
    done = call("run lab.csv log --label y --scores p --by site,day -o out")
    assert done.code == 0
    assert "The lab has no column 'day': its groups are those of site" in done.err
    assert len(fieldcal.Field.load("out/field.json").groups) == 16


@pytest.mark.slow
def test_protected_groups_are_estimated_and_applied_only_when_acknowledged(folder, call):
    line = "run lab.csv field.csv --label y --scores p --by site --protected -o"
    done = call(line, "blind")
    assert done.code == 0
    assert "protected" in done.err
    assert sorted(p.name for p in (folder / "blind").iterdir()) == [
        "field.json",
        "lab.json",
        "prevalence.csv",
        "prevalence.json",
        "report.html",
    ]
    assert call(line, "open", "--acknowledge").code == 0
    assert (folder / "open" / "recalibrated.parquet").exists()


@pytest.mark.slow
def test_standard_input_may_be_the_field(folder, shell):
    line = "run lab.csv - --label y --scores p --by site -o out"
    done = shell(line, input=(folder / "field.csv").read_text(encoding="utf-8"))
    assert done.code == 0, done.err
    assert fieldcal.Field.load("out/field.json").n.sum() == 2400
    assert len(duckdb.read_parquet("out/recalibrated.parquet").fetchall()) == 2400
