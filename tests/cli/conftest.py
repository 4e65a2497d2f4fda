"""Two ways to run the command line, and small tables to run it on."""

from __future__ import annotations

import csv
import json
import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import fieldcal
from fieldcal.cli import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


def write_table(path, columns):
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Tables with a label shift between sites, some with labels of field rows, made once; copied, never changed."""
    folder = tmp_path_factory.mktemp("tables")
    data = fieldcal.datasets.label_shift(n_lab=3000, n_field=2400, n_groups=8, random_state=3)
    places = [f"site {g}" for g in range(8)]
    for name, y, groups, p in (
        ("lab.csv", data.y_lab, data.groups_lab, data.proba_lab),
        ("field.csv", None, data.groups_field, data.proba_field),
    ):
        columns = {"row": range(len(p)), "site": [places[g] for g in groups], "p": p.tolist()}
        write_table(folder / name, columns if y is None else columns | {"y": y.tolist()})
    y = ["" if i % 8 else label for i, label in enumerate(data.y_field.tolist())]
    write_table(folder / "partly.csv", columns | {"y": y})
    known = [i for i, label in enumerate(y) if label != ""]
    told = columns | {"y": y, "fieldcal_design": ["by_score" if i % 3 else "random" for i in range(len(y))]}
    write_table(folder / "told.csv", {name: [values[i] for i in known] for name, values in told.items()})
    del told["fieldcal_design"]
    write_table(folder / "labels.csv", {name: [values[i] for i in known] for name, values in told.items()})
    _write_judged(folder)
    return folder


def _write_judged(folder):
    """A judge of three models on the same questions, people's labels of some rows; as CSV and as JSON Lines."""
    rng = np.random.default_rng(1)
    rates = {"alpha": 0.8, "beta": 0.6, "gamma": 0.55}
    rows = []
    for i in range(900):
        model = list(rates)[i % 3]
        good = rng.random() < rates[model]
        says = "pass" if rng.random() < (0.9 if good else 0.15) else "fail"
        spelled = {0: says.upper(), 1: f"{says} "}.get(i % 11, says)
        human = ("pass" if good else "fail") if rng.random() < 0.2 else ""
        rows.append({"question": i // 3, "model": model, "verdict": spelled, "human": human})
    write_table(folder / "judged.csv", {name: [row[name] for row in rows] for name in rows[0]})
    lines = [
        {
            "question": row["question"],
            "model": row["model"],
            "judge": {"verdict": row["verdict"]},
            "human": row["human"] or None,
        }
        for row in rows
    ]
    (folder / "judged.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


@pytest.fixture
def folder(shared, tmp_path, monkeypatch):
    """The working directory: the two tables and nothing else."""
    for name in ("lab.csv", "field.csv"):
        os.link(shared / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def labelled(shared, folder):
    """The working directory with labels of every eighth field row: in the field, alone, and with their designs."""
    for name in ("partly.csv", "labels.csv", "told.csv", "judged.csv", "judged.jsonl"):
        os.link(shared / name, folder / name)
    return folder


@pytest.fixture
def judged(shared, folder):
    """The working directory with the verdicts of a judge."""
    for name in ("judged.csv", "judged.jsonl"):
        os.link(shared / name, folder / name)
    return folder


@pytest.fixture(scope="session")
def made(shared):
    """The artefacts of the two tables, each made once by its verb."""
    for line in (
        "learn lab.csv --label y --scores p --by site -o lab.json",
        "count lab.json field.csv -o field.json",
        "estimate lab.json field.json -o prevalence.json --csv prevalence.csv",
    ):
        done = run_process(*line.split(), cwd=shared)
        assert done.code == 0, done.err
    return shared


@pytest.fixture
def artefacts(made, folder):
    """The working directory with the artefacts in it as well."""
    for name in ("lab.json", "field.json", "prevalence.json"):
        os.link(made / name, folder / name)
    return folder


def run_process(*args, cwd, env=None, **more):
    """In a process of its own: what a shell sees."""
    done = subprocess.run(
        [sys.executable, "-m", "fieldcal", *args],
        cwd=cwd,
        env=env,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=300,
        **more,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.fixture
def shell(folder):
    def run(line="", *args, **more):
        return run_process(*shlex.split(line), *args, cwd=folder, **more)

    return run


@pytest.fixture
def call(folder, capfd):
    """In this process: the same, faster."""

    def run(line="", *args):
        with pytest.raises(SystemExit) as stopped:
            main([*shlex.split(line), *args])
        printed = capfd.readouterr()
        return Done(stopped.value.code, printed.out, printed.err)

    return run


def one_error(done):
    """The only line of an error, with its way of being told checked."""
    assert done.code == 1, done
    assert done.out == ""
    lines = done.err.splitlines()
    assert len(lines) == 1, done.err
    assert lines[0].startswith("error: ")
    assert "Traceback" not in done.err
    return lines[0]


@pytest.fixture(name="one_error")
def one_error_fixture():
    return one_error


@pytest.fixture(name="write_table")
def write_table_fixture():
    return write_table
