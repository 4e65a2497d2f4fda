"""Fault 68: a version that is declared is one that was run. `make test-lowest` runs this with the lowest of each."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PROJECT = PYPROJECT["project"]
EXTRAS = PROJECT["optional-dependencies"]
#: Set by `make test-lowest`, where what is installed must be the bound itself.
LOWEST = os.environ.get("FIELDCAL_VERSIONS") == "lowest"
#: The tools of developers and the peers of the benchmarks: not what the suite runs on.
NOT_FOR_THE_SUITE = {"dev", "docs", "bench"}


def requirements(lines):
    parsed = map(Requirement, lines)
    return [r for r in parsed if canonicalize_name(r.name) != PROJECT["name"]]


def declared(*, without=frozenset()):
    extras = [line for name, lines in EXTRAS.items() if name not in without for line in lines]
    return requirements([*PROJECT["dependencies"], *extras])


def lower_bound(specifiers: SpecifierSet):
    found = [Version(s.version) for s in specifiers if s.operator in (">=", "==")]
    return max(found, default=None)


def pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = requirements(line for line in lines if line and not line.startswith("#"))
    return {canonicalize_name(r.name): lower_bound(r.specifier) for r in pins}


def installed(requirement):
    try:
        return Version(version(requirement.name))
    except PackageNotFoundError:
        return None


def test_fault_68_every_dependency_has_a_lower_bound_and_development_uses_none_below():
    everything = declared() + requirements(PYPROJECT["build-system"]["requires"])
    assert [str(r) for r in everything if lower_bound(r.specifier) is None] == []
    pins = pinned()
    both = [(r, pins[canonicalize_name(r.name)]) for r in declared() if canonicalize_name(r.name) in pins]
    assert both
    assert [f"{r}, pinned {pin}" for r, pin in both if not r.specifier.contains(pin)] == []


def test_fault_68_what_is_installed_is_within_the_bounds_and_in_the_lowest_run_the_bound_itself():
    used = [(r, found) for r in declared(without=NOT_FOR_THE_SUITE) if (found := installed(r)) is not None]
    assert {r.name for r in requirements(PROJECT["dependencies"] + EXTRAS["test"])} <= {
        r.name for r, _ in used
    }
    outside = [f"{r}, installed {found}" for r, found in used if not r.specifier.contains(found)]
    assert outside == []
    if LOWEST:
        assert [f"{r}, run {found}" for r, found in used if found != lower_bound(r.specifier)] == []


def test_fault_68_the_pythons_that_are_claimed_are_those_that_make_runs():
    claimed = [Version(c.rsplit(" ", 1)[1]) for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    run = {
        name: Version(v)
        for name, v in re.findall(r"^(LOWEST|NEWEST)_PYTHON \?= (\S+)$", makefile, re.MULTILINE)
    }
    assert run["LOWEST"] == min(claimed) == lower_bound(SpecifierSet(PROJECT["requires-python"]))
    assert run["NEWEST"] == max(claimed)
    if LOWEST:
        assert Version("{}.{}".format(*sys.version_info)) == run["LOWEST"]
