"""The package in a real project of dbt, on DuckDB: what its models hold is what the tables' verbs give.

dbt pins much, so it has an environment of its own: ``FIELDCAL_DBT`` names its command, or it is on the path.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from numpy.testing import assert_allclose

import fieldcal
from fieldcal import tables
from fieldcal.cli import main

DBT = os.environ.get("FIELDCAL_DBT") or shutil.which("dbt")
pytestmark = pytest.mark.skipif(DBT is None, reason="dbt is not installed, so no model is run")

#: Towns and columns that would be commands to Jinja, or the end of a text to SQL.
TOWNS = ["York", "{{ 7*7 }}", "{% endraw %}", "{# gone #}", "O'Brien {%- if", "a\r\nb", None]
SCORE, TOWN = "p {{ 1 }}", 'town "{%'
MODELS = {
    "counted": "{{ fieldcal.count(ref('predictions')) }}",
    "recalibrated": "select * from ({{ fieldcal.recalibrate(ref('predictions')) }}) as new",
    "decided": "with new as ({{ fieldcal.decide(ref('predictions')) }}) select * from new",
    "by_costs": "{{ careful.decide(source('raw', 'rows')) }}",
    "predictions": "select * from {{ source('raw', 'rows') }}",
}
PROJECT = """
name: shop
version: "1.0.0"
config-version: 2
profile: shop
flags: {send_anonymous_usage_stats: false}
"""
PROFILE = "shop: {target: dev, outputs: {dev: {type: duckdb, path: shop.duckdb, threads: 1}}}"
SOURCE = "sources: [{name: raw, schema: main, tables: [{name: rows}]}]"


@pytest.fixture(scope="module")
def rows():
    data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1400, n_groups=6, random_state=3)
    lab = pa.table({SCORE: data.proba_lab, "y": data.y_lab})
    town = [TOWNS[g] for g in data.groups_field]
    town[-50:] = [TOWNS[6]] * 50
    row = np.arange(len(town))
    return lab, pa.table({"row": row, SCORE: data.proba_field, TOWN: pa.array(town, pa.string())})


@pytest.fixture(scope="module")
def prev(rows):
    lab = tables.learn(rows[0], label="y", scores=SCORE)
    return fieldcal.estimate(lab, tables.count(lab, rows[1], by=TOWN), trust=0.6)


@pytest.fixture(scope="module")
def shop(rows, prev, tmp_path_factory):
    """A project whose models call the macros, after `dbt run`."""
    folder = tmp_path_factory.mktemp("dbt")
    prev.save(folder / "prevalence.json")
    same = [str(folder / "prevalence.json"), "--dialect", "duckdb", "-q"]
    for package, options in {"fieldcal": [], "careful": ["--goal", "0,1;20,0", "--unseen", "raw"]}.items():
        with pytest.raises(SystemExit) as ended:
            main(["sql", "dbt", *same, "--package", package, "-o", str(folder / package), *options])
        assert ended.value.code == 0
    project = folder / "shop"
    (project / "models").mkdir(parents=True)
    for name, text in MODELS.items():
        (project / "models" / f"{name}.sql").write_text(text)
    (project / "models" / "sources.yml").write_text(SOURCE)
    (project / "dbt_project.yml").write_text(PROJECT)
    (project / "profiles.yml").write_text(PROFILE)
    (project / "packages.yml").write_text("packages: [{local: ../fieldcal}, {local: ../careful}]")
    with duckdb.connect(project / "shop.duckdb") as database:
        seen = rows[1]  # noqa: F841, as DuckDB finds it by its name
        database.execute("CREATE TABLE rows AS FROM seen")
        database.execute("INSERT INTO rows VALUES (9998, 0.3, 'never'), (9999, NULL, 'York')")
    for command in ("deps", "run"):
        call(project, command)
    return project


def call(project, command):
    quiet = {"DBT_SEND_ANONYMOUS_USAGE_STATS": "false", "DO_NOT_TRACK": "1", "DBT_VERSION_CHECK": "false"}
    options = ["--profiles-dir", ".", "--no-use-colors"]
    done = subprocess.run(
        [DBT, command, *options],
        cwd=project,
        env={**os.environ, **quiet},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def model(shop, name, order=" ORDER BY row"):
    with duckdb.connect(shop / "shop.duckdb", read_only=True) as database:
        return database.sql(f"FROM {name}{order}").to_arrow_table()


def column(table, name):
    return np.array(table[name].to_pylist(), dtype=float)


@pytest.mark.filterwarnings("ignore::fieldcal.errors.UnseenGroupWarning")
def test_recalibrated_rows_are_those_of_the_table(shop, prev):
    rows = model(shop, "rows")
    made = model(shop, "recalibrated")
    assert made.column_names == ["row", SCORE, TOWN, f"{SCORE}_recalibrated"]
    assert made.select(rows.column_names).equals(rows)
    wanted = tables.recalibrate(prev, rows, missing="keep")
    new = column(made, f"{SCORE}_recalibrated")
    assert_allclose(new, column(wanted, f"{SCORE}_recalibrated"), rtol=0, atol=1e-12)
    assert np.isnan(new[-1])
    assert abs(new[:-1] - column(rows, SCORE)[:-1]).max() > 0.05


def test_counts_are_those_of_the_table(shop, prev):
    field = tables.read_counts(prev.lab, model(shop, "counted", order=""), by=[TOWN], missing="drop")
    wanted = tables.count(prev.lab, model(shop, "rows"), by=TOWN, missing="drop")
    assert field == wanted


@pytest.mark.filterwarnings("ignore::fieldcal.errors.UnseenGroupWarning")
def test_decisions_are_those_of_the_table(shop, prev):
    rows = model(shop, "rows")
    for name, options in {"decided": {}, "by_costs": {"goal": [[0, 1], [20, 0]], "unseen": "raw"}}.items():
        wanted = tables.decide(prev, rows, missing="keep", **options)
        assert model(shop, name)["decision"].to_pylist() == wanted["decision"].to_pylist()
    assert model(shop, "decided")["decision"].to_pylist() != model(shop, "by_costs")["decision"].to_pylist()


def test_the_next_estimate_takes_its_place_in_the_same_folder(shop, prev, rows):
    """Last, as it makes the package anew."""
    lab = prev.lab
    later = fieldcal.estimate(lab, tables.count(lab, rows[1], by=TOWN), trust=1)
    later.save(shop.parent / "prevalence.json")
    line = ["sql", "dbt", str(shop.parent / "prevalence.json"), "--dialect", "duckdb", "-q"]
    with pytest.raises(SystemExit) as ended:
        main([*line, "-o", str(shop.parent / "fieldcal")])
    assert ended.value.code == 0
    call(shop, "run")
    seen = model(shop, "recalibrated").slice(0, rows[1].num_rows)
    wanted = tables.recalibrate(later, rows[1])
    assert_allclose(
        column(seen, f"{SCORE}_recalibrated"), column(wanted, f"{SCORE}_recalibrated"), atol=1e-12
    )
