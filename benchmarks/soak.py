"""A long life in one process: does memory stay flat, and does an addition stay as quick?

    python benchmarks/soak.py [--batches 1000] [--recalibrations 200]

A stream of daily batches is added to a field that keeps the last hundred days, then a frame of 20,000 rows is
recalibrated again and again, and a file as often, as the command line does it. Prints resident memory and time over
the run. Bars: the last fifth of each run uses at most 5 MB more than its second fifth, and at most 1.5 times as long.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gc
import pathlib
import tempfile
import time
from collections.abc import Callable

import numpy as np
import polars as pl

import fieldcal
from fieldcal import tables
from fieldcal.tables.files.session import Session
from fieldcal.tables.recalibrate import recalibrate_file

KEPT = 100
GROUPS = 50
BAR_BYTES, BAR_TIME = 5e6, 1.5


def resident() -> int:
    """Bytes of this process in memory now, after a collection, so that only what is held counts."""
    gc.collect()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096


def watched(name: str, times: int, step: Callable[[int], None]) -> None:
    """Run the step and print its memory and time by fifths, and whether both stay flat."""
    memory, seconds = [], []
    for fifth in range(5):
        start = time.perf_counter()
        for i in range(fifth * times // 5, (fifth + 1) * times // 5):
            step(i)
        seconds.append(time.perf_counter() - start)
        memory.append(resident())
    grown, slower = memory[4] - memory[1], seconds[4] / seconds[1]
    met = "met" if grown <= BAR_BYTES and slower <= BAR_TIME else "MISSED"
    told = ", ".join(f"{m / 1e6:.0f}" for m in memory)
    print(
        f"{name} {times} times: resident {told} MB; grown {grown / 1e6:+.1f} MB, time × {slower:.2f}: {met}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--batches", type=int, default=1000)
    parser.add_argument("--recalibrations", type=int, default=200)
    args = parser.parse_args()
    rng = np.random.default_rng(1)
    data = fieldcal.datasets.label_shift(n_lab=5000, n_field=20_000, random_state=1)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    towns = np.array([f"town {g}" for g in rng.integers(0, GROUPS, 20_000)])
    stream = {"field": fieldcal.count(lab, [], groups=[])}

    def add(i: int) -> None:
        rows = rng.integers(0, 20_000, 500)
        day = dt.date(2020, 1, 1) + dt.timedelta(days=i)
        batch = fieldcal.count(lab, data.proba_field[rows], groups=towns[rows])
        field = stream["field"].add(batch, day.isoformat())
        if i >= KEPT:
            field = field.retract((day - dt.timedelta(days=KEPT)).isoformat())
        stream["field"] = field

    watched("field.add, the last 100 days kept,", args.batches, add)
    prev = fieldcal.estimate(lab, stream["field"], trust=0.5)
    frame = pl.DataFrame({"p": data.proba_field, "town": towns})
    watched(
        "recalibrate, a frame of 20,000 rows,",
        args.recalibrations,
        lambda _: tables.recalibrate(prev, frame, scores="p", by="town"),
    )
    with tempfile.TemporaryDirectory() as folder:
        source, target = pathlib.Path(folder, "log.parquet"), pathlib.Path(folder, "new.parquet")
        frame.write_parquet(source)

        def file(_: int) -> None:
            with Session(threads=1) as session:
                opened = session.open(source).bound(scores="p", by="town")
                recalibrate_file(prev, session, opened, target, scores="p", by="town")

        watched("recalibrate, a file of 20,000 rows,", args.recalibrations, file)


if __name__ == "__main__":
    main()
