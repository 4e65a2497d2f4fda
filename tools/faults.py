"""The list of faults and what holds each row of it: run by `make faults`, written to docs/reference/faults.md.

Without options it runs the tests of all rows, then the fuzzers, prints what it saw and
keeps the figures in docs/reference/faults.json. With `--page` it only writes docs/reference/faults.md anew: the rows of
tests/faults/rows.toml, the tests that carry their numbers, the figures that were kept.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
import xml.etree.ElementTree as ElementTree
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
FAULTS = ROOT / "tests" / "faults"
PAGE, FIGURES = ROOT / "docs" / "reference" / "faults.md", ROOT / "docs" / "reference" / "faults.json"
Figures = dict[str, dict[str, int]]
NUMBERS = re.compile(r"fault((?:_\d{2,3})+)(?=_|\b)")

HEAD = """# Bad input and faults: what must happen

**E** a `FieldcalError` (also a `ValueError` or `TypeError`) that says what, where, what next. **W** a warning with
a category of its own, and a result. **D** a documented fallback, visible in `status`. **OK** it simply works. In
every case: no input is changed, no output is left half-written, nothing is lost silently.

This page is written by `make faults` from `tests/faults/rows.toml` and the tests that carry a row's number in their
name or in the id of their parameters (`test_fault_13_…`, `fault_42_gzip`). `pytest -k fault_42` runs those of row 42.
"""


@dataclass
class Row:
    """One row of the list, with the tests that hold it."""

    number: int
    input: str
    expected: str
    files: set[str] = field(default_factory=set)
    tests: int = 0


def rows() -> dict[int, Row]:
    """The list, by number."""
    listed = tomllib.loads((FAULTS / "rows.toml").read_text("utf-8"))["row"]
    return {entry["number"]: Row(**entry) for entry in listed}


def numbers(name: str) -> set[int]:
    """The rows that a test holds, by its name and the ids of its parameters."""
    return {int(n) for found in NUMBERS.findall(name) for n in found.split("_") if n}


def collected(names: Iterable[str]) -> dict[int, Row]:
    """The rows with the tests of these names (`tests/x.py::test_y[id]`) that hold them."""
    table = rows()
    for name in names:
        file, _, test = name.partition("::")
        for number in numbers(test):
            table[number].files.add(file.removeprefix("tests/"))
            table[number].tests += 1
    return table


def collect() -> list[str]:
    """The names of all tests that hold a row."""
    tests = sorted((ROOT / "tests").rglob("test_*.py"))  # the others need not be loaded
    files = [str(f.relative_to(ROOT)) for f in tests if "fault_" in f.read_text(encoding="utf-8")]
    run = [sys.executable, "-m", "pytest", *files, "--collect-only", "-q", "-k", "fault_"]
    listed = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line for line in listed.splitlines() if "::" in line]


def page(table: dict[int, Row], figures: dict[str, Any]) -> str:
    """docs/reference/faults.md."""
    lines = [HEAD, "| # | input or fault | expected | held by | tests |", "|---|---|---|---|---|"]
    for row in table.values():
        cells = [row.input, row.expected, ", ".join(f"`{file}`" for file in sorted(row.files))]
        told = " | ".join(cell.replace("|", "\\|") for cell in cells)
        lines.append(f"| {row.number} | {told} | {row.tests} |")
    return "\n".join([*lines, "", *_last_run(figures), ""])


def _last_run(figures: dict[str, Any]) -> list[str]:
    lines = ["## The last long run", ""]
    lines += ["| what | tried | held |", "|---|---|---|"]
    lines += [f"| {what} | {seen['tried']:,} | {seen['held']:,} |" for what, seen in figures.items()]
    return lines


def run_tests() -> dict[int, Counter[str]]:
    """The tests of all rows: by row, how many passed, failed or were skipped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "tests.xml")
        run = [
            sys.executable,
            "-m",
            "pytest",
            "tests",
            "-q",
            "-k",
            "fault_",
            "-n",
            "2",
            "--dist",
            "worksteal",
        ]
        subprocess.run([*run, f"--junitxml={report}"], cwd=ROOT, check=False)
        outcomes: dict[int, Counter[str]] = defaultdict(Counter)
        for case in ElementTree.parse(report).iter("testcase"):
            tags = {child.tag for child in case}
            outcome = (
                "failed" if tags & {"failure", "error"} else "skipped" if "skipped" in tags else "passed"
            )
            for number in numbers(case.get("name", "")):
                outcomes[number][outcome] += 1
    return outcomes


def run_long(script: str, *options: str) -> dict[str, Any]:
    """The figures of a long run of fuzzers, which tells what it does by itself."""
    with tempfile.TemporaryDirectory() as folder:
        figures = Path(folder, "figures.json")
        subprocess.run([sys.executable, FAULTS / script, *options, "--json", figures], cwd=ROOT, check=False)
        result: dict[str, Any] = json.loads(figures.read_text("utf-8"))
    return result


def fuzzed(seconds: int) -> Figures:
    """Random damage: how often each thing was damaged, and how often it was refused or did no harm."""
    found = run_long("fuzz.py", "--seconds", str(seconds))["targets"]
    return {
        f"fuzzed {row['target']}": {"tried": row["executions"], "held": row["executions"] - row["findings"]}
        for row in found
    }


def run_all(seconds: int) -> tuple[Figures, int]:
    """Everything, told as it goes: what was tried and held, and how many rows no passing test holds."""
    outcomes = run_tests()
    for number, row in rows().items():
        seen = outcomes[number]
        told = ", ".join(f"{seen[o]:,} {o}" for o in ("passed", "failed", "skipped") if seen[o])
        tell(f"{number:3d}  {row.input[:78]:78}  {told or 'NO TEST'}")
    total = sum(outcomes.values(), Counter())
    figures = {"tests of rows": {"tried": total["passed"] + total["failed"], "held": total["passed"]}}
    figures |= fuzzed(seconds)
    for what, seen in figures.items():
        tell(f"{what:40} {seen['held']:>8,} of {seen['tried']:>8,} held")
    return figures, sum(not outcomes[number]["passed"] for number in rows())


def tell(line: str) -> None:
    """One line for the reader."""
    sys.stdout.write(f"{line}\n")


def main() -> int:
    """Run everything, or only write the page."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", action="store_true", help="only write docs/reference/faults.md anew")
    parser.add_argument("--seconds", type=int, default=600, help="how long the fuzzers run")
    options = parser.parse_args()
    kept = json.loads(FIGURES.read_text("utf-8")) if FIGURES.exists() else {}
    failed = 0
    if not options.page:
        figures, failed = run_all(options.seconds)
        failed += sum(seen["tried"] - seen["held"] for seen in figures.values())
        kept |= figures
        FIGURES.write_text(json.dumps(kept, indent=2) + "\n", "utf-8")
    PAGE.write_text(page(collected(collect()), kept), "utf-8")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
