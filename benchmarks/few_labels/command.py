"""The command line of the benchmark."""

from __future__ import annotations

import argparse
import functools
import os
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from types import ModuleType

import pandas as pd
from benchmarks.few_labels import designs, groups, one, speed, verdict
from benchmarks.few_labels.files import INSTALL, Found, Settings, has_peer

import fieldcal

SECTIONS: dict[str, ModuleType] = {
    "one": one,
    "designs": designs,
    "groups": groups,
    "verdict": verdict,
    "speed": speed,
}
BESIDE_PEER = ("one", "designs")


def quiet(section: str, path: Path, settings: Settings) -> Found:
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    try:
        found: Found = SECTIONS[section].measure(path, settings)
    except Exception as error:  # hours of other files must not be lost, and it is said
        return Found(skipped=f"FAILED, {type(error).__name__}: {error}")
    return found


def measured(section: str, paths: list[Path], settings: Settings, jobs: int) -> pd.DataFrame:
    """A row per question and replica; files that were left out are said."""
    if section == "speed":
        return pd.DataFrame(speed.measure())
    records = []
    with ProcessPoolExecutor(jobs) as pool:
        calls = pool.map(functools.partial(quiet, section, settings=settings), paths)
        for path, found in zip(paths, calls, strict=True):
            records += found.records
            if found.skipped:
                print(f"left out: {path.stem}: {found.skipped}", flush=True)
    return pd.DataFrame(records)


def main(argv: Iterable[str] | None = None, *, description: str | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--replicas", type=int, default=20)
    parser.add_argument("--sizes", type=int, nargs="+", default=[30, 100, 300])
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--only", choices=SECTIONS, action="append", help="this section; may be given again")
    parser.add_argument("--csv", type=Path, help="write every replica here")
    parser.add_argument("--markdown", action="store_true", help="tables as the docs have them")
    options = parser.parse_args(None if argv is None else list(argv))
    chosen = options.only or list(SECTIONS)
    if set(chosen) & set(BESIDE_PEER) and not has_peer():
        parser.exit(2, f"PPI++ comes from the package ppi-python, which is not here: {INSTALL}\n")
    paths = sorted(path for folder in options.folders for path in folder.glob("*.parquet"))
    settings = Settings(options.replicas, tuple(options.sizes))
    frames = {}
    for name in chosen:
        print(f"\n== {SECTIONS[name].TITLE}", flush=True)
        start = time.perf_counter()
        frames[name] = measured(name, paths, settings, options.jobs)
        for line in SECTIONS[name].page(frames[name], markdown=options.markdown):
            print(line, flush=True)
        print(f"({time.perf_counter() - start:.0f} s)", flush=True)
    if options.csv:
        pd.concat(frames, names=["section", None]).reset_index("section").to_csv(options.csv, index=False)
