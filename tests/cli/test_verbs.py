"""Options of the verbs reach the Python API as they are meant, and tables come in many forms."""

from __future__ import annotations

import csv
import datetime as dt
import json
from pathlib import Path

import duckdb
import numpy as np
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.cli.from_text import prior
from fieldcal.option_rows import OPTIONS
from fieldcal.texts import names


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["a"], ["a"]),
        (["a,b", "c"], ["a", "b", "c"]),
        (["a, b"], ["a", "b"]),
        (['"a,b",c'], ["a,b", "c"]),
        (["a b", "'"], ["a b", "'"]),
    ],
)
def test_names_may_be_repeated_or_have_commas_between_them(given, expected):
    assert names(given) == expected


def test_priors_and_trust_are_read_from_text():
    assert prior("kl:10") == fieldcal.priors.KL(strength=10)
    assert prior("dirichlet:2.5") == fieldcal.priors.Dirichlet(strength=2.5)
    assert prior("flat") == fieldcal.priors.Flat()
    assert [OPTIONS["trust"].read(text) for text in ("auto", "0", ".5")] == ["auto", 0.0, 0.5]
    with pytest.raises(fieldcal.FieldcalError, match="finite"):
        prior("kl:-1")


def test_estimate_does_what_its_options_say(artefacts, call):
    line = "estimate lab.json field.json --trust 0.5 --prior dirichlet:20 --level 0.8 --design-effect 2.5 -o new.json"
    assert call(line).code == 0
    lab, field = fieldcal.Lab.load("lab.json"), fieldcal.Field.load("field.json")
    options = {"trust": 0.5, "prior": fieldcal.priors.Dirichlet(20), "level": 0.8, "design_effect": 2.5}
    expected = fieldcal.estimate(lab, field, **options)
    assert fieldcal.Prevalence.load("new.json") == expected


def test_a_design_effect_below_one_is_refused_by_the_command_line_too(artefacts, call, one_error):
    line = "estimate lab.json field.json --design-effect 0.5 -o new.json"
    assert "at least 1, but got 0.5" in one_error(call(line))


@pytest.fixture
def animals(folder, write_table):
    """Three classes, of which the columns are in another order than the labels sort in."""
    rng = np.random.default_rng(1)
    y = rng.integers(3, size=1500)
    proba = rng.dirichlet([1, 1, 1], size=1500) * 0.5 + 0.5 * np.eye(3)[y]
    kinds = np.array(["cat", "dog", "eel"])
    columns = {"kind": kinds[y].tolist()}
    columns |= {f"p_{kinds[k]}": proba[:, k].tolist() for k in (2, 0, 1)}
    write_table("animals.csv", columns | {"x": proba[:, 0].tolist(), "y,z": proba[:, 1].tolist()})
    return fieldcal.learn(proba, kinds[y])


@pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
@pytest.mark.parametrize(
    "options",
    [
        "--scores 'p_*'",
        "--scores p_dog,p_eel,p_cat",
        "--scores p_eel --scores p_dog --scores p_cat",
        "--scores 'x,\"y,z\",p_eel' --classes cat,dog,eel",
        "--scores p_cat,p_dog,p_eel --classes cat,dog --classes eel",
    ],
)
def test_score_columns_are_named_in_many_ways_and_mean_the_same(options, animals, call):
    done = call(f"learn animals.csv --label kind {options} -o lab.json -q")
    assert done.code == 0, done.err
    assert fieldcal.Lab.load("lab.json").F.tolist() == animals.F.tolist()


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (["0", "1"], (0, 1)),
        (["a", "b"], ("a", "b")),
        (["false", "true"], (False, True)),
        (["01", "02"], ("01", "02")),
        (["-1", "1"], (-1, 1)),
    ],
    ids=str,
)
def test_classes_are_told_as_the_labels_spell_them(labels, classes, folder, call, write_table):
    p = np.linspace(0.01, 0.99, 300)
    y = [labels[int(i % 10 < 10 * q)] for i, q in enumerate(p)]
    write_table("l.csv", {"p": p.tolist(), "y": y})
    orders = [",".join(labels), ",".join(labels[::-1])]
    for name, order in zip(("one", "two"), orders, strict=True):
        done = call(f"learn l.csv --label y --scores p --classes={order} -o {name}.json -q")
        assert done.code == 0, done.err
    one, two = (fieldcal.Lab.load(f"{name}.json") for name in ("one", "two"))
    assert one.classes == two.classes[::-1] == classes
    assert list(map(type, one.classes)) == list(map(type, classes))


def test_bins_are_counted(folder, call):
    assert call("learn lab.csv --label y --scores p --bins 5 -o lab.json").code == 0
    assert fieldcal.Lab.load("lab.json").n_bins == 5


def test_fault_59_bins_that_the_lab_cannot_fill_are_not_given(folder, call):
    done = call("learn lab.csv --label y --scores p --bins 5000 -o lab.json")
    assert done.code == 0, done.err
    most = fieldcal.Lab.load("lab.json").n_bins
    assert f"--bins {most}" in done.err
    assert most < 500


def test_a_column_that_was_recalibrated_is_not_counted_without_a_word(artefacts, call):
    done = call("recalibrate prevalence.json field.csv -o new.csv")
    assert done.code == 0, done.err
    done = call("count lab.json new.csv --scores p_recalibrated -o again.json")
    assert done.code == 0, done.err
    assert "recalibrated before" in done.err
    assert "--scores" in done.err


def test_parquet_globs_and_limits_give_the_counts_of_the_csv(artefacts, call):
    Path("parts").mkdir()
    rows = duckdb.read_csv("field.csv")
    rows.filter("row < 1000").write_parquet("parts/1.parquet")
    rows.filter("row >= 1000").write_parquet("parts/2.parquet")
    done = call("--memory-limit 300MB --threads 1 count lab.json 'parts/*.parquet' -o new.json")
    assert done.code == 0, done.err
    assert Path("new.json").read_bytes() == Path("field.json").read_bytes()


@pytest.mark.slow
def test_standard_input_and_output_make_a_pipe(artefacts, shell):
    given = Path("field.csv").read_text(encoding="utf-8")
    counted = shell("count lab.json - -o new.json", input=given)
    assert counted.code == 0, counted.err
    assert Path("new.json").read_bytes() == Path("field.json").read_bytes()
    done = shell("recalibrate prevalence.json - -o -", input=given)
    assert (done.code, done.err) == (0, "2,400 rows recalibrated\n")
    head, *rows = csv.reader(done.out.splitlines())
    assert head == ["row", "site", "p", "p_recalibrated"]
    assert [row[0] for row in rows] == [str(i) for i in range(2400)]
    expected = tables.recalibrate(
        fieldcal.Prevalence.load("prevalence.json"), duckdb.read_csv("field.csv")
    ).fetchnumpy()["p_recalibrated"]
    np.testing.assert_allclose([float(row[3]) for row in rows], expected, rtol=0, atol=1e-12)


def test_new_columns_are_named_as_asked_and_unseen_groups_treated_as_asked(
    artefacts, call, write_table, one_error
):
    write_table("new.csv", {"p": [0.3, 0.3], "site": ["site 1", "elsewhere"]})
    assert call("recalibrate prevalence.json new.csv --unseen raw --name 'new {}' -o out.csv").code == 0
    first, second = duckdb.read_csv("out.csv").fetchnumpy()["new p"].tolist()
    assert first != 0.3
    assert second == pytest.approx(0.3, abs=1e-12)
    assert "elsewhere" in one_error(call("recalibrate prevalence.json new.csv --unseen error -o again.csv"))
    assert not Path("again.csv").exists()


def test_missing_predictions_are_kept_when_asked(artefacts, call, write_table, one_error):
    write_table("gaps.csv", {"p": ["0.3", "", "0.6"], "site": ["site 1"] * 3})
    assert "--missing keep" in one_error(call("recalibrate prevalence.json gaps.csv -o out.csv"))
    assert call("recalibrate prevalence.json gaps.csv --missing keep -o out.csv").code == 0
    assert [row[-1] is None for row in duckdb.read_csv("out.csv").fetchall()] == [False, True, False]


def test_windows_of_time_are_counted_picked_and_taken_out(folder, call, write_table):
    p = np.linspace(0.01, 0.99, 400).tolist()
    days = [(dt.date(2024, 2, 27) + dt.timedelta(days=i % 4)).isoformat() for i in range(400)]
    write_table("days.csv", {"p": p, "day": days})
    assert call("learn lab.csv --label y --scores p -o lab.json").code == 0
    done = call("count lab.json days.csv --time day --every 1d -o days.json --json")
    assert done.code == 0, done.err
    known = ["2024-02-27", "2024-02-28", "2024-02-29", "2024-03-01"]
    assert json.loads(done.out)["batches"] == known
    assert call("merge days.json --from 2024-02-28 --until 2024-03-01 -o some.json").code == 0
    assert fieldcal.Field.load("some.json").batch_ids == tuple(known[1:3])
    assert call("merge days.json --retract 2024-02-27 --retract 2024-03-01 -o same.json").code == 0
    assert fieldcal.Field.load("same.json").batch_ids == tuple(known[1:3])


@pytest.mark.parametrize("case", ["twice"], ids=["fault_41_same_file_twice"])
def test_a_file_given_twice_is_not_counted_twice(case, artefacts, call, one_error):
    Path("link.json").symlink_to("field.json")
    assert case in one_error(call("merge field.json link.json -o new.json"))


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_counts_of_a_warehouse_give_the_estimate_of_the_file(kind, artefacts, call):
    done = call("sql count lab.json shop.leads --dialect duckdb")
    assert done.code == 0, done.err
    warehouse = duckdb.connect()
    warehouse.execute("CREATE SCHEMA shop; CREATE TABLE shop.leads AS FROM 'field.csv'")
    warehouse.execute(f"COPY ({done.out.rstrip().rstrip(';')}) TO 'counts.{kind}'")
    assert call(f"estimate lab.json counts.{kind} -o new.json").code == 0
    assert Path("new.json").read_bytes() == Path("prevalence.json").read_bytes()
    assert call(f"check lab.json counts.{kind}").code == call("check prevalence.json").code


def test_the_statement_that_recalibrates_gives_what_recalibrate_gives(artefacts, call):
    plain = call("sql recalibrate prevalence.json leads --dialect duckdb")
    Path("weights.csv").write_text(call("sql weights prevalence.json").out, encoding="utf-8")
    joined = call("sql recalibrate prevalence.json leads --dialect duckdb --weights weights")
    assert call("recalibrate prevalence.json field.csv -o new.parquet").code == 0
    warehouse = duckdb.connect()
    warehouse.execute("CREATE TABLE leads AS FROM 'field.csv'; CREATE TABLE weights AS FROM 'weights.csv'")
    expected = duckdb.read_parquet("new.parquet").order("row").fetchnumpy()["p_recalibrated"]
    for statement in (plain.out, joined.out):
        found = warehouse.sql(statement).order("row").fetchnumpy()["p_recalibrated"]
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_digits_that_are_names_stay_names_in_counts(folder, call, write_table):
    rng = np.random.default_rng(0)
    p = rng.random(600)
    columns = {"p": p.tolist(), "code": [["01", "1", "002"][i % 3] for i in range(600)]}
    write_table("codes.csv", columns)
    write_table("known.csv", columns | {"y": (rng.random(600) < p).astype(int).tolist()})
    assert call("learn known.csv --label y --scores p --by code -o lab.json -q").code == 0
    statement = call("sql count lab.json leads --dialect duckdb").out
    warehouse = duckdb.connect()
    warehouse.execute("CREATE TABLE leads AS FROM read_csv('codes.csv', all_varchar=true)")
    warehouse.execute(f"COPY ({statement.rstrip().rstrip(';')}) TO 'counts.csv'")
    assert call("estimate lab.json counts.csv -o new.json -q").code == 0
    assert fieldcal.Prevalence.load("new.json").groups == ("002", "01", "1")


def test_classes_with_an_order_are_learnt_as_such(folder, call, write_table):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 900)
    score = np.exp(-np.abs(y[:, None] + 0.6 * rng.standard_normal((900, 1)) - np.arange(4)))
    p = score / score.sum(axis=1, keepdims=True)
    write_table("grades.csv", {"y": y.tolist(), **{f"p_{k}": p[:, k].tolist() for k in range(4)}})
    assert call("learn grades.csv --label y --scores p_* --ordered -o lab.json").code == 0
    lab = fieldcal.Lab.load("lab.json")
    assert lab.ordered
    assert lab.partition.kind == "expected"
    assert call("count lab.json grades.csv -o field.json").code == 0
    assert call("estimate lab.json field.json -o prev.json").code == 0
    assert fieldcal.Prevalence.load("prev.json").prior["name"] == "smooth"


@pytest.mark.slow
def test_calibration_is_an_option_of_learn_and_run(folder, call):
    options = "--label y --scores p --calibration sigmoid"
    assert call(f"learn lab.csv {options} --by site -o lab.json").code == 0
    lab = fieldcal.Lab.load("lab.json")
    assert lab.calibration_map.method == "sigmoid"
    assert "calibrated (sigmoid)" in call("show lab.json").out
    assert call(f"run lab.csv field.csv {options} --by site -o out").code in (0, 2)
    assert fieldcal.Lab.load("out/lab.json") == lab
    prev = fieldcal.Prevalence.load("out/prevalence.json")
    made = duckdb.sql("SELECT p, site, p_recalibrated FROM 'out/recalibrated.parquet'").fetchnumpy()
    expected = fieldcal.recalibrate(prev, made["p"].astype(float), groups=made["site"].tolist())
    np.testing.assert_allclose(made["p_recalibrated"], expected, atol=1e-12)


def test_calibration_takes_the_lab_that_another_is_to_be_merged_with(folder, call, one_error):
    head, *lines = Path("lab.csv").read_text(encoding="utf-8").splitlines(keepends=True)
    for name, part in (("first", lines[::2]), ("second", lines[1::2])):
        Path(f"{name}.csv").write_text("".join([head, *part]), encoding="utf-8")
    options = "--label y --scores p"
    assert call(f"learn first.csv {options} --calibration sigmoid -o one.json").code == 0
    assert call(f"learn second.csv {options} --calibration sigmoid --bins one.json -o other.json").code == 0
    told = one_error(call("merge one.json other.json -o sum.json"))
    assert "--calibration LAB.json" in told
    assert "calibration_map" not in told
    line = f"learn second.csv {options} --bins one.json --calibration"
    assert call(f"{line} one.json -o next.json").code == 0
    assert call("merge one.json next.json -o sum.json").code == 0
    assert fieldcal.Lab.load("sum.json").calibration_map.method == "sigmoid"
    assert call(f"learn lab.csv {options} -o plain.json").code == 0
    assert "is not calibrated" in one_error(call(f"{line} plain.json -o next.json"))
    assert "or the file of a calibrated lab" in one_error(call(f"{line} platt -o next.json"))
    assert one_error(call(f"{line} nowhere.json -o next.json"))


def test_a_lab_that_is_not_calibrated_is_told_the_flag(folder, call, write_table):
    rng = np.random.default_rng(0)
    p = rng.random(2000)
    write_table(
        "over.csv", {"p": (p**3 / (p**3 + (1 - p) ** 3)).tolist(), "y": (rng.random(2000) < p).astype(int)}
    )
    done = call("learn over.csv --label y --scores p -o over.json")
    assert done.code == 0
    assert "--calibration sigmoid" in done.err
    assert "--calibration" in call("learn over.csv --label y --scores p --calibration platt -o over.json").err


def test_verdicts_are_not_calibrated(folder, call, one_error, write_table):
    write_table("judged.csv", {"v": ["a", "b"] * 20, "y": [0, 1] * 20})
    line = "learn judged.csv --label y --predictions v --design random --calibration sigmoid -o judged.json"
    assert "--calibration sigmoid does not go with values" in one_error(call(line))
