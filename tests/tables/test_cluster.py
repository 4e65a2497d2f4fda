"""Spark with executors in processes of their own: what cannot be sent to them, or is not installed there, fails."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys

import duckdb
import numpy as np
from pyspark.sql import SparkSession

import fieldcal
from fieldcal import tables

rows, folder = int(sys.argv[1]), sys.argv[2]
builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
for name, value in {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.local.dir": folder,
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.executorEnv.PYSPARK_PYTHON": "/nonexistent/python",  # no Python runs on executors
}.items():
    builder = builder.config(name, value)
spark = builder.getOrCreate()
path = f"{folder}/log.parquet"
duckdb.execute(
    "COPY (SELECT i AS id, (hash(i) % 9007199254740881) / 9007199254740881.0 AS p, "
    "CASE WHEN i % 50 = 0 THEN NULL ELSE 'town ' || (hash(i + 1) % 500) END AS town, "
    f"DATE '2024-01-01' + (i % 40)::INTEGER AS day FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"
)
data = fieldcal.datasets.label_shift(n_lab=2000, n_field=10, random_state=1)
lab = fieldcal.learn(data.proba_lab, data.y_lab)
given = {"scores": "p", "by": "town"}
frame, relation = spark.read.parquet(path), duckdb.read_parquet(path)
counted = tables.count(lab, frame, time="day", every="1w", **given)
assert counted.to_json() == tables.count(lab, relation, time="day", every="1w", **given).to_json()
prev = fieldcal.estimate(lab, counted, prior="flat", point="mode", level=None, trust=0.7)
options = {**given, "acknowledge": True}
tables.recalibrate(prev, frame, **options).write.parquet(f"{folder}/new")
made = tables.recalibrate(prev, relation, **options).order("id").fetchnumpy()["p_recalibrated"]
found = duckdb.read_parquet(f"{folder}/new/*.parquet").order("id").fetchnumpy()["p_recalibrated"]
assert len(found) == rows
assert np.array_equal(found, made), np.abs(found - made).max()
print("equal", counted.n.sum())
spark.stop()
"""


@pytest.mark.slow
def test_executors_in_processes_of_their_own_give_the_bits_of_duckdb(tmp_path):
    pytest.importorskip("pyspark", reason="PySpark is not installed, so nothing is tested on Spark")
    if shutil.which("java") is None and not os.environ.get("JAVA_HOME"):
        pytest.skip("Java is not installed, so nothing is tested on Spark")
    rows = os.environ.get("FIELDCAL_CLUSTER_ROWS", "200000")
    source = str(Path(__file__).resolve().parents[2] / "src")
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYTHONPATH": source,
        "PYTHONWARNINGS": "ignore",
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, rows, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env=environment,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split()[-2:] == ["equal", rows]
