"""Wherever it runs it gives the same, and what is not installed is named."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import fieldcal

RUN = ["run", "lab.csv", "field.csv", "--label", "y", "--scores", "p", "--by", "site", "-o", "out"]
ENVIRONMENTS = {
    "fault_44_env_i": {},
    "fault_44_home_unset": {"PATH": os.environ.get("PATH", "")},
    "fault_44_home_missing": {"HOME": "/nonexistent/home"},
    "fault_44_home_a_file": {"HOME": "/dev/null"},
    "fault_44_locale_de": {"LC_ALL": "de_DE.UTF-8", "LANG": "de_DE"},
    "fault_44_locale_latin": {"LC_ALL": "de_DE", "PYTHONIOENCODING": "latin-1"},
    "fault_44_ascii": {"LC_ALL": "C", "PYTHONIOENCODING": "ascii", "PYTHONCOERCECLOCALE": "0"},
    "fault_44_time_zone": {"TZ": "Pacific/Apia"},
}


#: Another kernel of the linear algebra rounds the last bit otherwise, so that its choice stays.
PROCESSOR = {name: value for name, value in os.environ.items() if name.startswith("OPENBLAS_")}


@pytest.fixture(scope="module")
def usual(shared, tmp_path_factory):
    folder = tmp_path_factory.mktemp("usual")
    done = subprocess.run(
        [sys.executable, "-m", "fieldcal", *paths(shared), "-q"], cwd=folder, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, {p.name: p.read_bytes() for p in (folder / "out").iterdir()}


def paths(shared):
    return [str(shared / arg) if arg.endswith(".csv") else arg for arg in RUN]


@pytest.mark.slow
@pytest.mark.parametrize("environment", ENVIRONMENTS.values(), ids=ENVIRONMENTS)
def test_the_results_are_the_same_bytes_in_any_environment(environment, usual, shared, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "fieldcal", *paths(shared), "-q"],
        cwd=tmp_path,
        env={**environment, **PROCESSOR, "PYTHONPATH": str(Path(fieldcal.__file__).parents[1])},
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == usual[1]
    assert len(done.stdout.splitlines()) == len(usual[0].splitlines())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "line", "extra"),
    [
        pytest.param("typer", ["--version"], "cli", id="fault_45_typer"),
        pytest.param("rich", ["check", "prevalence.json"], "cli", id="fault_45_rich"),
        pytest.param(
            "duckdb", ["count", "lab.json", "field.csv", "-o", "n.json"], "cli", id="fault_45_duckdb"
        ),
        pytest.param(
            "sqlglot",
            ["sql", "count", "lab.json", "t", "--dialect", "postgres"],
            "tables",
            id="fault_45_sqlglot",
        ),
        pytest.param(
            "matplotlib", ["report", "prevalence.json", "-o", "r.html"], "report", id="fault_45_matplotlib"
        ),
        pytest.param("jinja2", ["report", "prevalence.json", "-o", "r.md"], "report", id="fault_45_jinja2"),
    ],
)
def test_what_is_not_installed_is_one_line_with_the_way_to_install_it(module, line, extra, artefacts):
    code = f"import sys; sys.modules[{module!r}] = None; from fieldcal.cli import main; main({line!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=artefacts, capture_output=True, text=True, check=False, timeout=120
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("error: ")
    assert f"pip install 'fieldcal[{extra}]'" in done.stderr


@pytest.mark.slow
def test_fault_45_to_frame_says_what_to_install_where_there_is_no_table_library(artefacts):
    code = """
import sys
for name in ("pandas", "polars", "pyarrow"):
    sys.modules[name] = None
import fieldcal
prev = fieldcal.Prevalence.load("prevalence.json")
for backend in (None, "pandas"):
    try:
        prev.to_frame(backend)
    except fieldcal.errors.MissingExtraError as error:
        print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=artefacts, capture_output=True, text=True, check=True, timeout=120
    )
    first, second = done.stdout.splitlines()
    assert "pip install 'fieldcal[polars]'" in first
    assert "pip install pandas" in second


def test_fault_45_a_package_of_no_extra_is_named_itself():
    from fieldcal.cli.output import not_installed

    assert not_installed(ModuleNotFoundError(name="pyarrow.lib")).endswith("pip install pyarrow")
    assert not_installed(ModuleNotFoundError(name="jinja2")).endswith("pip install 'fieldcal[report]'")


@pytest.mark.parametrize(
    "args", [["--help"], ["run", "--help"], ["--version"], ["no-such-command"]], ids=" ".join
)
def test_help_loads_nothing_heavy(args):
    code = f"""
import sys
from fieldcal.cli import main
try:
    main({args!r})
except SystemExit:
    print(*sorted({{m.split('.')[0] for m in sys.modules}}), file=sys.stderr)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = done.stderr.splitlines()[-1].split()
    assert "typer" in loaded
    heavy = {
        "numpy",
        "scipy",
        "sklearn",
        "duckdb",
        "pandas",
        "polars",
        "pyarrow",
        "sqlglot",
        "rich",
    }
    assert not heavy & set(loaded)


def test_the_module_and_the_entry_point_are_the_same_command(folder):
    done = subprocess.run(
        [sys.executable, "-m", "fieldcal", "--version"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == f"fieldcal {fieldcal.__version__}\n"
    script = Path(sys.executable).with_name("fieldcal")
    if not script.exists():
        pytest.skip("the entry point is not installed here")
    again = subprocess.run([script, "--version"], capture_output=True, text=True, check=True, timeout=60)
    assert again.stdout == done.stdout
