"""A file larger than the memory it may use: recalibrated in order, under a limit.

    python benchmarks/big_file.py [--gigabytes 3] [--memory-limit 1GB]

Makes a parquet file of at least that size, counts, estimates and recalibrates it with the command line in processes of
their own, and prints the largest resident memory of each, the time, and whether every row is where it was.
Bars: 1.5 GB resident with a limit of 1 GB, order kept.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import duckdb

BAR_BYTES = 1.5e9
ROWS_PER_STEP = 2_000_000


def make_files(folder: pathlib.Path, gigabytes: float) -> int:
    """A lab, and a log whose columns do not compress; the number of rows of the log."""
    con = duckdb.connect()
    con.execute("SELECT setseed(0.5)")
    con.execute(
        f"COPY (SELECT (i % 2) AS y, 'g' || (hash(i) % 50) AS site, greatest(0, least(1, 0.3 + 0.4 * (i % 2) + "
        f"0.4 * (random() - 0.5))) AS p FROM range(5000) t(i)) TO '{folder / 'lab.parquet'}'"
    )
    log = folder / "log.parquet"
    rows = ROWS_PER_STEP
    while not log.exists() or log.stat().st_size < gigabytes * 1e9:
        if log.exists():
            rows = int(rows * gigabytes * 1e9 / log.stat().st_size * 1.02)
        columns = ", ".join(f"random() AS feature_{k}" for k in range(10))
        con.execute(
            f"COPY (SELECT i AS id, 'g' || (hash(i) % 5000) AS site, random() AS p, {columns} FROM range({rows}) t(i)) "
            f"TO '{log}' (FORMAT parquet)"
        )
    return rows


def resident(arguments: list[str]) -> tuple[int, float]:
    """Largest resident memory in bytes, and seconds, of the command line in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "fieldcal", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"fieldcal {arguments[0]} failed")
    return usage.ru_maxrss * 1024, time.perf_counter() - start


def is_in_order(target: pathlib.Path, rows: int) -> bool:
    numbered = f"SELECT id, row_number() OVER () - 1 AS row FROM read_parquet('{target}')"
    found = duckdb.sql(f"SELECT count(*), count(*) FILTER (id = row) FROM ({numbered})").fetchall()[0]
    return found == (rows, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=3.0)
    parser.add_argument("--memory-limit", default="1GB")
    parser.add_argument(
        "--folder", help="where there is room for twice the size; by default the temporary one"
    )
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as name:
        folder = pathlib.Path(name)
        rows = make_files(folder, args.gigabytes)
        lab, log, field, prev, out = (
            str(folder / n)
            for n in ("lab.json", "log.parquet", "field.json", "prevalence.json", "out.parquet")
        )
        limit = ["--memory-limit", args.memory_limit, "--quiet"]
        size = os.path.getsize(log)
        print(f"{rows:,} rows, {size / 1e9:.2f} GB; limit {args.memory_limit}", flush=True)
        table = ["--label", "y", "--scores", "p", "--by", "site"]
        for verb, arguments in {
            "learn": [str(folder / "lab.parquet"), *table, "-o", lab],
            "count": [lab, log, "-o", field],
            "estimate": [lab, field, "-o", prev],
            "recalibrate": [prev, log, "-o", out],
        }.items():
            memory, seconds = resident([verb, *arguments, *limit])
            met = "met" if memory <= BAR_BYTES else "missed"
            print(f"{verb:12} {memory / 1e9:5.2f} GB resident (bar 1.5: {met}), {seconds:6.1f} s", flush=True)
        print(f"order kept: {is_in_order(pathlib.Path(out), rows)}")


if __name__ == "__main__":
    main()
