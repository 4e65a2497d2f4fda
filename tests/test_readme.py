"""What the README promises beyond its blocks, which run with those of all other pages."""

from __future__ import annotations

from pathlib import Path

import fieldcal

README = Path(__file__).parents[1] / "README.md"


def test_both_commands_are_on_the_first_screen():
    first_screen = README.read_text(encoding="utf-8").splitlines()[:24]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)


def test_the_citation_is_of_this_version():
    citation = (README.parent / "CITATION.cff").read_text(encoding="utf-8").splitlines()
    assert f"version: {fieldcal.__version__}" in citation
