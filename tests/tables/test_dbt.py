"""The macros of a dbt package, as Jinja reads them: the statements of `sql`, with a relation in them."""

from __future__ import annotations

import json

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings
from jinja2 import Environment

import fieldcal
from fieldcal import tables
from fieldcal.cli import main
from fieldcal.errors import InputError, InputTypeError
from fieldcal.tables.dbt import FILES, _macro

HOSTILE = [
    "{{ 7*7 }}",
    "{% endraw %}",
    "{# x",
    "{%- endmacro -%}",
    "\r",
    "a\r\nb",
    "{",
    "{{",
    "fieldcal_relation_0",
]
pieces = st.sampled_from([*HOSTILE, "'", '"', "%}", "-", "\n", "é"]) | st.text(max_size=4)
texts = st.lists(pieces, max_size=4).map("".join).filter(lambda text: "\0" not in text)


DATA = fieldcal.datasets.label_shift(n_lab=2000, n_field=400)
LAB = fieldcal.learn(DATA.proba_lab, DATA.y_lab)


def estimated(groups):
    of_rows = [groups[i % len(groups)] for i in range(len(DATA.proba_field))]
    field = fieldcal.count(LAB, DATA.proba_field, groups=of_rows)
    return fieldcal.estimate(LAB, field, prior="flat", trust=0.5)


@pytest.fixture(scope="module")
def prev():
    return estimated(HOSTILE)


def called(made, verb, relation):
    return str(getattr(Environment().from_string(made[f"{verb}.sql"]).module, verb)(relation))


@pytest.mark.parametrize("dialect", ["duckdb", "bigquery", "tsql"])
def test_a_macro_gives_the_statement_of_its_relation(prev, dialect):
    columns = {"dialect": dialect, "by": "town {{", "scores": "p {%"}
    made = tables.dbt_package(prev, **columns, decision="d {#")
    assert list(made) == ["dbt_project.yml", "README.md", "recalibrate.sql", "decide.sql", "count.sql"]
    wanted = {
        "recalibrate": tables.sql_recalibrate(prev, "a_schema.leads", **columns),
        "decide": tables.sql_decide(prev, "a_schema.leads", **columns, name="d {#"),
        "count": tables.sql_count(prev.lab, "a_schema.leads", **columns),
    }
    for verb, statement in wanted.items():
        assert called(made, verb, "a_schema.leads") == statement


@settings(deadline=None, derandomize=True, max_examples=300)
@given(texts, texts)
def test_whatever_a_statement_holds_jinja_gives_it_back(before, after):
    """The statement is cut where the relation goes, and each part is written such that it is no command."""
    macro = _macro(lambda relation: f"<{before}{relation}{after}>")
    assert Environment().from_string(macro).render(relation="leads") == f"<{before}leads{after}>"


def test_of_a_lab_there_is_count_alone(prev):
    made = tables.dbt_package(prev.lab, dialect="duckdb", scores="p", label="y", package="fieldcal_churn")
    assert set(made) == {"dbt_project.yml", "README.md", "count.sql"}
    assert called(made, "count", "t") == tables.sql_count(
        prev.lab, "t", dialect="duckdb", scores="p", label="y"
    )
    assert "\nname: fieldcal_churn\n" in made["dbt_project.yml"]
    assert "{{ fieldcal_churn.count(ref('predictions')) }}" in made["README.md"]
    assert prev.lab.digest in made["README.md"]


@pytest.mark.parametrize("package", ["", "My-shop", "1st", "shop\n", "{{ x }}", 3, None])
def test_a_package_has_a_name_that_dbt_can_read(prev, package):
    with pytest.raises(InputError, match="package must be a name"):
        tables.dbt_package(prev.lab, dialect="duckdb", scores="p", package=package)


@pytest.mark.parametrize(
    "option", [{"goal": "balanced"}, {"unseen": "raw"}, {"shape": "bins"}, {"decision": "d"}]
)
def test_what_goes_with_an_estimate_is_refused_of_a_lab(prev, option):
    (name,) = option
    with pytest.raises(InputError, match=f"{name}.* goes with an estimate"):
        tables.dbt_package(prev.lab, dialect="duckdb", scores="p", **option)


def test_what_is_neither_lab_nor_prevalence_is_refused(prev):
    with pytest.raises(InputTypeError, match="a Lab or a Prevalence first, but got Field"):
        tables.dbt_package(prev.field, dialect="duckdb")


@pytest.fixture
def place(prev, tmp_path, monkeypatch):
    prev.save(tmp_path / "prevalence.json")
    prev.lab.save(tmp_path / "lab.json")
    prev.field.save(tmp_path / "field.json")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(*args):
    with pytest.raises(SystemExit) as ended:
        main(["sql", "dbt", *args])
    return ended.value.code


OPTIONS = ("--dialect", "duckdb", "--scores", "p", "--by", "town")


def files(folder):
    return {path.name: path.read_bytes().decode() for path in folder.iterdir()}


def test_the_command_writes_the_same_files(place, prev, capsys):
    assert call("prevalence.json", "-o", "deep/er", *OPTIONS, "--goal", "0,1;20,0", "--json") == 0
    wanted = tables.dbt_package(prev, dialect="duckdb", scores="p", by="town", goal=[[0, 1], [20, 0]])
    assert files(place / "deep" / "er") == wanted
    told = json.loads(capsys.readouterr().out)
    assert told["digest"] == prev.digest
    assert len(told["written"]) == len(FILES)


def test_a_package_of_ours_is_replaced_as_a_whole_and_other_files_stay(place, prev):
    assert call("prevalence.json", "-o", "dbt", *OPTIONS) == 0
    (place / "dbt" / "notes.txt").write_text("mine")
    assert call("lab.json", "-o", "dbt", "--dialect", "duckdb", "--scores", "p") == 0
    made = tables.dbt_package(prev.lab, dialect="duckdb", scores="p")
    assert files(place / "dbt") == {**made, "notes.txt": "mine"}


@pytest.mark.parametrize("name", FILES)
def test_a_project_of_somebody_else_is_not_overwritten(place, name, capsys):
    (place / "shop").mkdir()
    (place / "shop" / name).write_text("name: shop\n")
    assert call("prevalence.json", "-o", "shop", *OPTIONS) == 1
    assert "did not write" in capsys.readouterr().err
    assert files(place / "shop") == {name: "name: shop\n"}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("field.json", "-o", "dbt", *OPTIONS), "holds a 'field'"),
        (("prevalence.json", "-o", "lab.json", *OPTIONS), "`sql dbt` needs a folder"),
        (("prevalence.json", "-o", "dbt", "--dialect", "duckdb", "--scores", "p"), "--by"),
        (("prevalence.json", "-o", "dbt", *OPTIONS, "--package", "a b"), "package must be"),
        (("prevalence.json", "-o", "dbt", *OPTIONS, "--goal", "speed"), "--goal"),
        (("prevalence.json", "-o", "dbt", *OPTIONS, "--decision", "p"), "--decision"),
        (("prevalence.json", "-o", "dbt", *OPTIONS, "--shape", "bins"), "--shape bins"),
        (("absent.json", "-o", "dbt", *OPTIONS), "absent.json"),
    ],
)
def test_a_mistake_is_one_line_and_nothing_is_written(place, line, words, capsys):
    before = sorted(path.name for path in place.iterdir())
    assert call(*line) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert len(told.err.splitlines()) == 1
    assert words in told.err
    assert sorted(path.name for path in place.iterdir()) == before
