"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import functools
import os
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pandas as pd
from benchmarks.few_labels.files import INSTALL
from benchmarks.judges import ours, pairs, peers, rates, real, simulated, slices
from benchmarks.judges.contest import Settings
from benchmarks.judges.page import PAGES

PARTS: dict[str, ModuleType] = {
    "simulated": simulated,
    "real": real,
    "slices": slices,
    "pairs": pairs,
    "rates": rates,
}
TITLES = {
    "simulated": "Simulated judges: 1,000 rows, 100 labels",
    "real": "Verdicts of real classifiers: 1,000 rows, 100 labels",
    "slices": "Thirty slices of sixty rows",
    "pairs": "Two systems on the same 300 items",
    "rates": "A test of published rates: a survey of 1,000",
}
VERDICTS = ("met", "MISSED")
REAL = 4  # a replica of a real file for so many of a simulated cell


def quiet(part: str, cell: Any, settings: Settings) -> list[dict[str, Any]]:
    ours.quiet()
    found: list[dict[str, Any]] = PARTS[part].measure(cell, settings)
    return found


def measured(part: str, cells: list[Any], settings: Settings, processes: int) -> pd.DataFrame:
    """A row for each cell, method, and part of the answer."""
    work = functools.partial(quiet, part, settings=settings)
    if processes == 1:
        return pd.DataFrame([record for cell in cells for record in work(cell)])
    with ProcessPoolExecutor(processes) as pool:
        return pd.DataFrame([record for found in pool.map(work, cells) for record in found])


def cells_of(part: str, folders: list[Path]) -> list[Any]:
    return real.cells(folders) if part == "real" else PARTS[part].cells()


def section(part: str, frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    yield f"\n{'### ' if markdown else '== '}{TITLES[part]}"
    yield from PAGES[part](frame, markdown=markdown)


def summary(bars: list[str], *, markdown: bool) -> Iterator[str]:
    """Every bar once more, the missed ones first."""
    missed = [line for line in bars if f": {VERDICTS[1]}" in line]
    yield f"\n{'### ' if markdown else '== '}Must show: {len(bars) - len(missed)} met, {len(missed)} missed"
    for line in sorted(bars, key=lambda line: line not in missed):
        yield f"- {' '.join(line.split())}" if markdown else line


def main(argv: Iterable[str] | None = None, *, description: str | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="*", help="parquet files of scores, for the part real")
    parser.add_argument("--replicas", type=int, default=400)
    parser.add_argument("--processes", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", choices=PARTS, action="append", help="this part; may be given again")
    parser.add_argument("--every", type=int, default=1, help="every so many cells, for a quick look")
    parser.add_argument("--no-peers", action="store_true", help="fieldcal alone")
    parser.add_argument("--csv", type=Path, help="write the figures of every cell and method here")
    parser.add_argument("--markdown", action="store_true", help="as docs/evidence/benchmarks.md has it")
    options = parser.parse_args(None if argv is None else list(argv))
    chosen = options.only or [part for part in PARTS if part != "real" or options.folders]
    if "real" in chosen and not options.folders:
        parser.error("the part real needs folders with parquet files")
    if not options.no_peers and peers.absent():
        print(f"not installed, and left out: {', '.join(peers.absent())} ({INSTALL})", flush=True)
    frames: dict[str, pd.DataFrame] = {}
    bars: list[str] = []
    for part in chosen:
        replicas = max(options.replicas // REAL, 1) if part == "real" else options.replicas
        start = time.perf_counter()
        cells = cells_of(part, options.folders)[:: options.every]
        settings = Settings(replicas, peers=not options.no_peers)
        frames[part] = measured(part, cells, settings, options.processes)
        lines = list(section(part, frames[part], markdown=options.markdown))
        bars += [f"{part}: {line}" for line in lines if line.startswith(VERDICTS)]
        print("\n".join(lines), flush=True)
        print(f"({replicas} replicas of {len(cells)} cells, {time.perf_counter() - start:.0f} s)", flush=True)
    print("\n".join(summary(bars, markdown=options.markdown)))
    if options.csv:
        pd.concat(frames, names=["section", None]).reset_index("section").to_csv(options.csv, index=False)
