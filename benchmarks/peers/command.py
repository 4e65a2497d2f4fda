"""The command of `run`: which tables, how many replicas, what is kept between runs, and the page."""

from __future__ import annotations

import argparse
import datetime
import hashlib
import sys
import time
import warnings
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from benchmarks.peers import cost, groups, intervals, prevalence
from benchmarks.peers.data import Table, load
from benchmarks.peers.page import grid, page, sentences
from benchmarks.peers.predictions import predictions

import fieldcal

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("fieldcal", "quapy", "mlquantify", "quantificationlib", "scikit-learn", "numpy", "scipy")
#: Does not change what is measured.
SHOWN_ONLY = ("run.py", "command.py", "page.py")


class Job:
    """A table, how many replicas (or runs) it takes, and what is smaller in a quick run."""

    def __init__(
        self, number: int, make: Callable[..., Table], *, full: int, quick: int, **smaller: object
    ) -> None:
        self.number, self.make, self.full, self.quick, self.smaller = number, make, full, quick, smaller

    def options(self, *, quick: bool, scale: float) -> tuple[int, dict[str, object]]:
        if quick:
            return self.quick, self.smaller
        return max(2, round(self.full * scale)) if self.number != 6 else self.full, {}


JOBS = {
    "prevalence": Job(1, prevalence.binary, full=100, quick=3),
    "five_classes": Job(2, prevalence.five_classes, full=150, quick=3),
    "many_groups": Job(3, groups.many, full=6, quick=2, n_groups=100),
    "tiny_groups": Job(3, groups.tiny, full=12, quick=2),
    "coverage": Job(4, intervals.coverage, full=30, quick=1),
    "log_loss": Job(5, predictions, full=100, quick=3),
    "cost_groups": Job(6, cost.groups_cost, full=3, quick=1, n_groups=50),
    "cost_rows": Job(6, cost.rows_cost, full=3, quick=1, n_rows=300_000),
}


def versions() -> str:
    found = [f"Python {sys.version_info.major}.{sys.version_info.minor}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            found.append(f"{name} not installed")
    return ", ".join(found)


def code() -> str:
    """A digest of everything that a figure may depend on."""
    folders = (Path(fieldcal.__file__).parent, ROOT / "benchmarks")
    files = [
        path for folder in folders for path in sorted(folder.rglob("*.py")) if path.name not in SHOWN_ONLY
    ]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()[:16]


def chosen(text: str | None) -> set[int]:
    known = {job.number for job in JOBS.values()}
    numbers = known if text is None else {int(part) for part in text.split(",")}
    if not numbers <= known:
        raise SystemExit(f"--tables takes numbers from {sorted(known)}, but got {text!r}.")
    return numbers


def measure(key: str, job: Job, *, replicas: int, smaller: dict[str, object]) -> Table:
    print(f"{key}: {replicas} replicas", flush=True)
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        table = job.make(replicas, **smaller)
    table.seconds = time.perf_counter() - start
    table.date = datetime.date.today().isoformat()
    return table


def parse(arguments: list[str] | None, *, description: str | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="run.py", description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a few replicas, under two minutes")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the full number of replicas")
    parser.add_argument("--tables", help="numbers, with commas between them; all by default")
    parser.add_argument("--write", type=Path, help="the page, in markdown")
    parser.add_argument("--cache", type=Path, default=ROOT / "build" / "peers")
    parser.add_argument("--fresh", action="store_true", help="measure again what is in the cache")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None, *, description: str | None = None) -> None:
    options = parse(arguments, description=description)
    numbers = chosen(options.tables)
    digest, found = code(), versions()
    print(found, flush=True)
    tables, missing = [], []
    for key, job in JOBS.items():
        replicas, smaller = job.options(quick=options.quick, scale=options.scale)
        stamp = f"{digest}, {found}, {replicas}, {sorted(smaller.items())}"
        path = options.cache / f"{key}.json"
        asked = job.number in numbers
        table = None if asked and options.fresh else load(path, stamp=stamp)
        if table is None and asked:
            table = measure(key, job, replicas=replicas, smaller=smaller)
            table.save(path, stamp=stamp)
        if table is None:
            missing.append(key.replace("_", " "))
            continue
        tables.append(table)
        if asked:
            print(f"\n{table.title} ({table.seconds:.0f} s)\n")
            print("\n".join([*grid(table), *sentences(table), ""]), flush=True)
    if options.write:
        options.write.write_text(page(tables, versions=found, missing=missing), encoding="utf-8")
        print(f"Written: {options.write}")
