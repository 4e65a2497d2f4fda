"""What counting and recalibrating a table cost, as multiples of what nobody can do without.

The floor of `count` is ``SELECT g, sum(p) … GROUP BY g`` in the same engine on the same file; for DuckDB a histogram
written by hand, with the same cuts and nothing else, stands beside it. The floor of `recalibrate`, which keeps the
order of the rows, is a plain copy of the file. Floor and verb run in turn, and the best of each counts.

    python benchmarks/tables.py [--rows 20000000] [--groups 1000 1000000] [--engines duckdb polars spark] [--runs 3]
"""

from __future__ import annotations

import argparse
import functools
import pathlib
import tempfile
import time
import warnings
from collections.abc import Callable
from typing import Any

import duckdb
import numpy as np
import polars as pl

import fieldcal
from fieldcal import tables
from fieldcal.tables.files.session import Session

BARS = {"count": {False: 2.5, True: 2.5}, "recalibrate": {False: 2.0, True: 2.5}}


def make_file(path: pathlib.Path, rows: int, groups: int, kind: str) -> None:
    """A key, a group, a score and two columns that only travel along."""
    group = "hash(i) % $groups" if kind == "int" else "'g' || (hash(i) % $groups)"
    duckdb.connect().execute(
        f"COPY (SELECT i AS id, {group} AS g, (hash(i + 7919) % 9007199254740881) / 9007199254740881.0 AS p, "
        "(hash(i * 3) % 97)::INTEGER AS age, 'note ' || (i % 1000) AS note FROM range($rows) t(i)) "
        f"TO '{path}' (FORMAT parquet)".replace("$groups", str(groups)).replace("$rows", str(rows))
    )


def make_lab() -> fieldcal.Lab:
    data = fieldcal.datasets.label_shift(n_lab=5000, random_state=0)
    return tables.learn(
        pl.DataFrame({"p": data.proba_lab, "y": data.y_lab, "g": data.groups_lab}), scores="p", label="y"
    )


def estimate(lab: fieldcal.Lab, field: fieldcal.Field) -> fieldcal.Prevalence:
    """Any weights will do."""
    return fieldcal.estimate(lab, field, prior="flat", point="mode", level=None, trust=1)


class DuckDB:
    """Files, as the command line treats them."""

    def __init__(self, source: pathlib.Path, target: pathlib.Path) -> None:
        self.source, self.target, self.session = source, target, Session(threads=2)
        self.table = self.session.open(source)

    def sum_by_group(self) -> None:
        self.session.connection.read_parquet(str(self.source)).aggregate("g, sum(p)", "g").fetchnumpy()

    def histogram(self, lab: fieldcal.Lab) -> None:
        cuts = ", ".join(f"count_if(p <= {cut!r})" for cut in lab.partition.edges)
        self.session.connection.read_parquet(str(self.source)).aggregate(
            f"g, {cuts}, sum(p)", "g"
        ).fetchnumpy()

    def count(self, lab: fieldcal.Lab) -> fieldcal.Field:
        return tables.count(lab, self.table.relation, by="g")

    def copy(self) -> None:
        self.session.write(self.session.open(self.source).relation, self.target)

    def recalibrate(self, prev: fieldcal.Prevalence) -> None:
        tables.recalibrate_file(prev, self.session, self.table, self.target)


class Polars:
    """Lazy frames and the streaming engine."""

    def __init__(self, source: pathlib.Path, target: pathlib.Path) -> None:
        self.frame, self.target = pl.scan_parquet(source), target

    def sum_by_group(self) -> None:
        self.frame.group_by("g").agg(pl.col("p").sum()).collect(engine="streaming")

    def count(self, lab: fieldcal.Lab) -> fieldcal.Field:
        return tables.count(lab, self.frame, by="g")

    def copy(self) -> None:
        self.frame.sink_parquet(self.target)

    def recalibrate(self, prev: fieldcal.Prevalence) -> None:
        tables.recalibrate(prev, self.frame).sink_parquet(self.target)


class Spark:
    """local[2]."""

    def __init__(self, source: pathlib.Path, target: pathlib.Path) -> None:
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "6g")
        self.spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        self.spark.sparkContext.setLogLevel("ERROR")
        self.frame, self.target = self.spark.read.parquet(str(source)), str(target.with_suffix(".spark"))

    def sum_by_group(self) -> None:
        self.frame.groupBy("g").sum("p").collect()

    def count(self, lab: fieldcal.Lab) -> fieldcal.Field:
        return tables.count(lab, self.frame, by="g")

    def copy(self) -> None:
        self.frame.write.mode("overwrite").parquet(self.target)

    def recalibrate(self, prev: fieldcal.Prevalence) -> None:
        tables.recalibrate(prev, self.frame).write.mode("overwrite").parquet(self.target)


ENGINES: dict[str, Callable[..., Any]] = {"duckdb": DuckDB, "polars": Polars, "spark": Spark}


def best_in_turn(runs: int, *jobs: Callable[[], Any]) -> list[float]:
    """Seconds of each job, the best of some runs that take turns."""
    seconds = np.full((runs, len(jobs)), np.inf)
    for run in range(runs):
        for j, job in enumerate(jobs):
            start = time.perf_counter()
            job()
            seconds[run, j] = time.perf_counter() - start
    return list(seconds.min(axis=0))


def is_in_order(target: pathlib.Path) -> bool:
    numbered = f"SELECT id, row_number() OVER () - 1 AS row FROM read_parquet('{target}')"
    return duckdb.sql(f"SELECT count(*) FROM ({numbered}) WHERE id <> row").fetchall()[0][0] == 0


def run(args: argparse.Namespace, folder: pathlib.Path) -> None:
    lab = make_lab()
    print(f"{args.rows:,} rows, {lab.n_bins} bins; seconds and ratio to the floor (best of {args.runs})")
    for groups in args.groups:
        source, target = folder / f"in_{groups}.parquet", folder / "out.parquet"
        make_file(source, args.rows, groups, args.keys)
        many = groups > 100_000
        for name in args.engines:
            engine = ENGINES[name](source, target)
            prev = estimate(lab, engine.count(lab))
            jobs = {
                "count": (engine.sum_by_group, lambda engine=engine: engine.count(lab)),
                "recalibrate": (engine.copy, lambda engine=engine, prev=prev: engine.recalibrate(prev)),
            }
            for verb, (floor, ours) in jobs.items():
                low, cost = best_in_turn(args.runs, floor, ours)
                bar = BARS[verb][many] if name != "spark" else 2.5
                met = "met" if cost / low <= bar else "missed"
                print(
                    f"{name:8}{groups:>10,} groups  {verb:12} floor {low:6.2f}  ours {cost:6.2f}  "
                    f"ratio {cost / low:5.2f}  (bar {bar}: {met})",
                    flush=True,
                )
            if isinstance(engine, DuckDB):
                low, cost = best_in_turn(
                    args.runs, *(functools.partial(job, lab) for job in (engine.histogram, engine.count))
                )
                beside = f"histogram by hand {low:6.2f}  ratio {cost / low:5.2f}"
                print(f"duckdb  {groups:>10,} groups  count        {beside}", flush=True)
            if name != "spark":
                print(f"{name:8}{groups:>10,} groups  order kept: {is_in_order(target)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--groups", type=int, nargs="+", default=[1_000, 1_000_000])
    parser.add_argument("--engines", nargs="+", default=list(ENGINES), choices=list(ENGINES))
    parser.add_argument("--keys", default="text", choices=["text", "int"])
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
        warnings.simplefilter("ignore", FutureWarning)  # of PySpark, about pandas
        run(args, pathlib.Path(folder))


if __name__ == "__main__":
    main()
