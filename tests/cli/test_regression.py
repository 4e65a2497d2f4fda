"""The command line on quantile columns: the numbers are those of Python, the rows stay where they are."""

from __future__ import annotations

import json
import os

import duckdb
import numpy as np
import polars as pl
import pytest

import fieldcal
from fieldcal import tables

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Of a normal distribution.
Z = np.array([-1.6449, -0.6745, 0.0, 0.6745, 1.6449])
NAMES = [f"q_{u:g}" for u in LEVELS]
NEW = [f"{name}_recalibrated" for name in NAMES]
LEARN = "learn numbers.csv --label y --quantiles 'q_*' --by site --intervals=-1,0,1 -o lab.json"


def simulated(n, shift, seed):
    """Numbers of four sites, each with its own shift, and the quantiles of a model calibrated without one."""
    rng = np.random.default_rng(seed)
    site = rng.integers(4, size=n)
    y = rng.normal(size=n) + shift * (site - 1.5)
    middle = (y + 0.7 * rng.normal(size=n)) / 1.49
    quantiles = dict(zip(NAMES, (middle[:, None] + 0.57 * Z).T, strict=True))
    return pl.DataFrame(
        {"row": np.arange(n), "site": [f"site {g}" for g in site], "note": "a,b", **quantiles, "y": y}
    )


@pytest.fixture(scope="module")
def rows():
    """The lab, and a field that has a null among its sites and labels in its first rows."""
    field = simulated(900, 0.6, seed=1).with_columns(
        site=pl.when(pl.col("row") % 50 == 7).then(None).otherwise("site"),
        y=pl.when(pl.col("row") < 300).then("y"),
    )
    return simulated(2400, 0.0, seed=0), field


@pytest.fixture(scope="module")
def numbers(rows, tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    lab, field = rows
    lab.write_csv(folder / "numbers.csv")
    field.write_csv(folder / "log.csv")
    field.write_parquet(folder / "log.parquet", row_group_size=200)
    return folder


@pytest.fixture
def here(numbers, folder):
    """The working directory with the tables of numbers in it."""
    for name in ("numbers.csv", "log.csv", "log.parquet"):
        os.link(numbers / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def python(rows):
    """The same in Python."""
    lab = tables.learn(rows[0], quantiles="q_*", label="y", by="site", intervals=[-1, 0, 1])
    field = tables.count(lab, rows[1])
    prev = fieldcal.estimate(lab, field, trust=1)
    return lab, field, prev, tables.recalibrate(prev, rows[1])


@pytest.fixture
def estimated(here, python):
    """Artefacts that were made in Python."""
    for artefact in python[:3]:
        artefact.save(here / f"{artefact.kind}.json")
    return here


def succeeded(done):
    assert done.code == 0, done.err
    return done


@pytest.mark.slow
def test_the_verbs_one_by_one_give_what_python_gives(here, call, python):
    lab, field, prev, _ = python
    data = json.loads(succeeded(call(f"{LEARN} --json")).out)
    assert data["columns"]["levels"] == list(LEVELS)
    assert data["outcome"]["points"] == [-1.0, 0.0, 1.0]
    assert fieldcal.Lab.load("lab.json") == lab
    for table in ("log.csv", "log.parquet", "'log.parque*'"):
        succeeded(call(f"count lab.json {table} -o field.json"))
        assert fieldcal.Field.load("field.json") == field
    succeeded(call("estimate lab.json field.json --trust 1 -o prevalence.json"))
    found = fieldcal.Prevalence.load("prevalence.json")
    assert found.groups == (*(f"site {g}" for g in range(4)), None)
    np.testing.assert_allclose(found.estimate, prev.estimate, atol=1e-12)
    assert call("check prevalence.json").code == 2
    assert call("check lab.json field.json").code in (0, 2, 3)


@pytest.mark.parametrize("table", ["log.csv", "log.parquet"])
@pytest.mark.parametrize("target", ["new.parquet", "new.csv"])
def test_recalibrated_files_have_the_same_rows_in_the_same_order(
    estimated, call, python, rows, table, target
):
    assert (
        succeeded(call(f"recalibrate prevalence.json {table} -o {target}")).out == "900 rows recalibrated\n"
    )
    read = pl.read_parquet if target.endswith("parquet") else pl.read_csv
    answer = read(target)
    assert answer.columns == [*rows[1].columns, *NEW]
    assert answer.select(rows[1].columns).equals(rows[1])
    np.testing.assert_allclose(answer.select(NEW), python[3].select(NEW), rtol=0, atol=1e-12)
    assert np.abs(answer.select(NEW).to_numpy() - answer.select(NAMES).to_numpy()).max() > 0.1


@pytest.mark.slow
def test_a_table_can_come_from_a_pipe_and_go_to_one(estimated, shell, call):
    succeeded(call("recalibrate prevalence.json log.csv -o new.csv"))
    with open("log.csv", encoding="utf-8") as stream:
        piped = succeeded(shell("recalibrate prevalence.json - -o -", stdin=stream))
    assert piped.out == (estimated / "new.csv").read_text(encoding="utf-8")


def test_several_files_stay_in_their_order(estimated, call, rows, python):
    for i, part in enumerate((rows[1][:500], rows[1][500:])):
        part.write_parquet(f"part{i}.parquet")
    succeeded(call("recalibrate prevalence.json 'part*.parquet' -o new.parquet --threads 2"))
    answer = pl.read_parquet("new.parquet")
    assert answer["row"].to_list() == list(range(900))
    np.testing.assert_allclose(answer.select(NEW), python[3].select(NEW), rtol=0, atol=1e-12)


@pytest.mark.slow
def test_run_does_it_all(here, call, python):
    options = "--label y --quantiles 'q_*' --by site --intervals=-1,0,1 --trust 1"
    done = succeeded(call(f"run numbers.csv log.parquet {options} -o out --json"))
    data = json.loads(done.out)
    assert data["rows"] == 900
    lab, field, prev, answer = python
    assert (fieldcal.Lab.load("out/lab.json"), fieldcal.Field.load("out/field.json")) == (lab, field)
    np.testing.assert_allclose(
        fieldcal.Prevalence.load("out/prevalence.json").estimate, prev.estimate, atol=1e-12
    )
    written = pl.read_parquet("out/recalibrated.parquet")
    assert written["row"].to_list() == list(range(900))
    np.testing.assert_allclose(written.select(NEW), answer.select(NEW), rtol=0, atol=1e-12)
    assert (here / "out" / "report.html").stat().st_size > 1000


def test_a_report_compares_with_labelled_numbers(estimated, call):
    done = succeeded(call("report prevalence.json --labelled log.csv -o page.json --json"))
    assert json.loads(done.out)["labelled"]


def test_levels_can_be_told_outright(here, call):
    levels = ",".join(f"{u:g}={name}" for u, name in zip(LEVELS, NAMES, strict=True))
    succeeded(call(f"learn numbers.csv --label y --quantiles {levels} --intervals=-1,0,1 -o lab.json"))
    assert fieldcal.Lab.load("lab.json").columns.levels == LEVELS
    succeeded(call("count lab.json log.csv --by site --quantiles 'q_*' --batch monday -o field.json"))
    assert fieldcal.Field.load("field.json").batch_ids == ("monday",)


def test_crossing_quantiles_are_refused_with_a_way_out(estimated, call, one_error, rows, python):
    swapped = rows[1].rename({"q_0.25": "q_0.75", "q_0.75": "q_0.25"})
    swapped.write_parquet("crossed.parquet")
    assert "cross in 900 of 900 rows" in one_error(call("count lab.json crossed.parquet -o f.json"))
    assert "Pass --crossing sort" in one_error(call("recalibrate prevalence.json crossed.parquet -o n.csv"))
    succeeded(call("count lab.json crossed.parquet --crossing sort -o f.json"))
    assert fieldcal.Field.load("f.json") == python[1]
    succeeded(call("recalibrate prevalence.json crossed.parquet --crossing sort -o new.parquet"))


def test_a_failed_recalibration_leaves_no_file(estimated, call, one_error, rows):
    holes = rows[1].with_columns(pl.when(pl.col("row") != 5).then("q_0.5").alias("q_0.5"))
    holes.write_parquet("holes.parquet")
    before = sorted(os.listdir())
    error = one_error(call("recalibrate prevalence.json holes.parquet -o new.parquet"))
    assert "1 of 900 rows have a quantile that is null or NaN" in error
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "count lab.json log.csv --scores q_0.5 -o x.json",
            "--scores q_0.5 does not go with distributions of a number",
        ),
        ("count lab.json log.csv --missing drop -o x.json", "--missing drop does not go with distributions"),
        ("count lab.json log.csv --time row --every 1d -o x.json", "with --batch, and merge"),
        ("count lab.json log.csv --quantiles 'p_*' -o x.json", "'p_*' finds no column"),
        ("count lab.json log.csv --by sitte -o x.json", "Did you mean 'site'?"),
        ("count lab.json field.csv -o x.json", "There is no column 'q_0.05' for the quantiles"),
        (
            "recalibrate prevalence.json log.csv --normalize -o x.csv",
            "--normalize does not go with distributions",
        ),
        ("recalibrate prevalence.json log.csv --name row -o x.csv", "'row', which the table already has"),
        ("recalibrate prevalence.json log.csv -o log.csv", "is an input"),
        (
            "learn numbers.csv --label note --quantiles 'q_*' -o x.json",
            "The label in column 'note' must be num",
        ),
        (
            "learn numbers.csv --label y --quantiles 'q_*' --classes a,b -o x.json",
            "--classes a,b does not go with",
        ),
        ("sql count lab.json log --dialect postgres", "This lab is of a regression"),
        ("sql recalibrate prevalence.json log --dialect postgres", "This lab is of a regression"),
        ("sql weights prevalence.json", "This lab is of a regression"),
    ],
)
def test_what_does_not_fit_a_regression_is_refused(estimated, call, one_error, line, message):
    assert message in one_error(call(line))


def test_quantiles_do_not_go_with_a_lab_of_classes(artefacts, call, one_error):
    for line in (
        "count lab.json field.csv --quantiles 'q_*' -o x.json",
        "recalibrate prevalence.json field.csv --quantiles 'q_*' -o x.csv",
    ):
        assert "--quantiles q_* does not go with probabilities of classes" in one_error(call(line))


def test_names_of_columns_may_be_odd(estimated, call, rows, python):
    odd = rows[1].rename({"note": 'a "quoted" name', "row": "fieldcal_answer"})
    odd.write_parquet("odd.parquet")
    succeeded(call("recalibrate prevalence.json odd.parquet -o new.parquet"))
    answer = duckdb.read_parquet("new.parquet")
    assert answer.columns[:3] == ["fieldcal_answer", "site", 'a "quoted" name']
    np.testing.assert_allclose(pl.read_parquet("new.parquet").select(NEW), python[3].select(NEW), atol=1e-12)
