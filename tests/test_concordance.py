"""docs/explanation/concordance.md: every number of the paper has a row, and every row leads to what is there."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "concordance.md"
STATES = ("identical", "corrected", "extended")
LINK = re.compile(r"\[(`?)([^\]`]+)`?\]\(\.\./\.\./([^)#]+)\)")
#: Everything in the paper that has a number, and its sections with statements of their own.
NUMBERED = {
    "Equation": range(1, 16),
    "Example": range(1, 4),
    "Algorithm": range(1, 3),
    "Figure": range(1, 9),
    "Table": range(1, 2),
    "Caution": range(1, 5),
    "Section": (1, 3, 4, 5, 6),
}
#: These share one count.
STATEMENTS = ("Remark 1", "Axiom 2", "Lemma 3", "Definition 4", "Theorem 5", "Definition 6", "Lemma 7")
STATEMENTS += ("Definition 8", "Proposition 9", "Theorem 10", "Remark 11", "Appendix A")


def rows() -> list[list[str]]:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [
        [cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("| ")
    ]
    return [row for row in cells if len(row) == 6 and row[0] != "paper"]


def mentioned(row: list[str]) -> set[str]:
    """What a row is about: 'Equations 7 and 8' are two."""
    found = set()
    for kind, numbers in re.findall(r"([A-Z][a-z]+?)s? (\d+(?:(?:, | and )\d+)*)", row[0]):
        found |= {f"{kind} {number}" for number in re.findall(r"\d+", numbers)}
    return found | ({"Appendix A"} if row[0].startswith("Appendix A") else set())


def test_every_number_of_the_paper_has_a_row():
    wanted = {f"{kind} {number}" for kind, numbers in NUMBERED.items() for number in numbers} | set(
        STATEMENTS
    )
    assert wanted <= set().union(*map(mentioned, rows()))


def test_a_row_says_its_state_and_why_it_differs():
    for row in rows():
        assert row[4] in STATES
        assert row[4] == "identical" or row[5].rstrip(" |")


def test_the_page_counts_its_rows_by_state():
    count = {state: sum(row[4] == state for row in rows()) for state in STATES}
    said = f"{len(rows())} rows: " + ", ".join(f"{n} {state}" for state, n in count.items())
    assert said in PAGE.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def located() -> dict[str, Path]:
    """The file that defines each name of the page; a fixture, as it imports most of the package."""
    return {name: source_of(name) for row in rows() for quoted, name, _ in LINK.findall(row[2]) if quoted}


def test_code_and_tests_of_a_row_are_where_it_says(located):
    for row in rows():
        code, tests = LINK.findall(row[2]), LINK.findall(row[3])
        assert code
        assert tests
        for quoted, name, path in code:
            assert (ROOT / path).is_file()
            if quoted:
                assert located[name] == ROOT / path
        for _, name, path in tests:
            assert path.startswith("tests/")
            assert name in functions(path), f"{path} has no {name}"


def source_of(name: str) -> Path:
    """The file that defines a name below fieldcal."""
    thing, parts = importlib.import_module("fieldcal"), name.split(".")
    for k, part in enumerate(parts):
        if not hasattr(thing, part):
            importlib.import_module(".".join(["fieldcal", *parts[: k + 1]]))
        module, thing = thing, getattr(thing, part)
    if isinstance(thing, dict):  # a table of a module
        return Path(module.__file__)
    if not inspect.ismodule(thing):
        thing = getattr(thing, "fget", None) or getattr(thing, "func", thing)  # of properties
    return Path(inspect.getsourcefile(thing))


@functools.cache
def functions(path: str) -> set[str]:
    return set(re.findall(r"^ *def (\w+)\(", (ROOT / path).read_text(encoding="utf-8"), re.MULTILINE))
