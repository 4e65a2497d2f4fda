"""Transcripts of the command line: what it prints, says, writes, and its exit code."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from behaviour_data import THREE, class_columns, number_columns, shifted
from behaviour_items import RENAMED, Items, of_columns, plain, text

_LEARN = "learn lab.csv --label y --scores p --by town"

#: In this order, in one folder: later ones read what earlier ones wrote.
COMMANDS = {
    "learn": f"{_LEARN} -o lab.json",
    "learn, json": f"{_LEARN} -o lab2.json --json",
    "learn, bins": "learn lab.csv --label y --scores p --bins 4 -o four.json",
    "learn, one population": "learn lab.csv --label y --scores p -o one_lab.json",
    "count": "count lab.json field.parquet -o field.json",
    "count, csv, json": "count lab.json field.csv -o field2.json --json",
    "count, windows": "count lab.json field.parquet --time at --every 1d -o days.json",
    "count, one population": "count one_lab.json field.csv -o one_field.json",
    "merge": "merge days.json -o some.json --retract 2024-05-02 --json",
    "merge, window": "merge days.json -o window.json --from 2024-05-02 --until 2024-05-04",
    "estimate": "estimate lab.json field.json -o prevalence.json --csv prevalence.csv",
    "estimate, json": "estimate lab.json field.json -o prevalence2.json --json --prior kl:10 --trust 0.5 --level 0.8",
    "estimate, one population": "estimate one_lab.json one_field.json -o one.json --csv one.csv",
    "recalibrate, csv": "recalibrate prevalence.json field.csv -o new.csv",
    "recalibrate, parquet": "recalibrate prevalence.json field.parquet -o new.parquet --name 'new_{}'",
    "recalibrate, csv to parquet": "recalibrate prevalence.json field.csv -o typed.parquet",
    "recalibrate, stdout": "recalibrate one.json few.csv -o -",
    "check": "check prevalence.json",
    "check, lab and field": "check one_lab.json one_field.json --json",
    "run": "run lab.csv field.parquet --label y --scores p --by town -o out",
    "run, json": "run lab.csv field.csv --label y --scores p --by land,town -o out2 --json",
    "run, three classes": "run lab3.csv field3.csv --label y --scores 'p_*' --by town -o out3",
    "run, quantiles": "run lab_q.csv field_q.csv --label y --quantiles 'q_*' --by town -o out_q",
    "run, protected": "run lab.csv field.csv --label y --scores p --by town --protected -o out_p -q",
    "report": "report prevalence.json -o report.md --title 'May'",
    "sql count": "sql count lab.json shop.log --dialect postgres",
    "sql count, three classes": "sql count out3/lab.json shop.log --dialect snowflake",
    "sql recalibrate": "sql recalibrate prevalence.json shop.log --dialect duckdb",
    "sql recalibrate, weights": "sql recalibrate prevalence.json shop.log --dialect bigquery --weights w --unseen raw",
    "sql weights": "sql weights prevalence.json",
    "error, column": "learn lab.csv --label y --scores pp -o x.json",
    "error, label column": "learn lab.csv --label yy --scores p -o x.json",
    "error, NaN": "count lab.json nan.csv -o x.json",
    "error, percentages": "count lab.json percent.csv -o x.json",
    "error, unknown label": "learn lab.csv --label y --scores p --classes 0,2 -o x.json",
    "error, no such file": "count lab.json nothing.csv -o x.json",
    "error, another lab": "estimate four.json field.json -o x.json",
    "error, option": "estimate lab.json field.json -o x.json --trust much",
    "error, output is input": "recalibrate prevalence.json field.csv -o field.csv",
    "error, ragged": "count lab.json ragged.csv -o x.json",
}


def transcripts() -> dict[str, Items]:
    """Every command's transcript."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place).resolve()
        _write_tables(folder)
        return {f"cli, {name}": _transcript(folder, line) for name, line in COMMANDS.items()}


def _transcript(folder: Path, line: str) -> Items:
    before = _digests(folder)
    env = os.environ | {"NO_COLOR": "1", "COLUMNS": "120", "TZ": "UTC", "PYTHONWARNINGS": "default"}
    command = [sys.executable, "-m", "fieldcal", *shlex.split(line)]
    done = subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, encoding="utf-8", check=False
    )
    items: Items = {"command": line, "exit code": done.returncode, "stderr": text(done.stderr, str(folder))}
    if "--json" in line and done.returncode != 1:
        items |= _flat("stdout", json.loads(text(done.stdout, str(folder))))
    else:
        items["stdout"] = text(done.stdout, str(folder))
    after = _digests(folder)
    written = [name for name, digest in after.items() if before.get(name) != digest]
    items |= {"written": written, "removed": sorted(set(before) - set(after))}
    for name in written:
        items |= _content(folder / name, name)
    return items


def _content(path: Path, name: str) -> Items:
    if path.suffix == ".parquet":
        import pyarrow.parquet

        table = pyarrow.parquet.read_table(path)
        types = ", ".join(f"{field.name}: {field.type}" for field in table.schema)
        return of_columns(table.to_pydict(), name) | {f"{name}/types": types}
    if path.suffix == ".csv":
        raw = path.read_text(encoding="utf-8")
        head, *rows = csv.reader(raw.splitlines())
        columns = {key: _numbers(column) for key, column in zip(head, zip(*rows, strict=True), strict=True)}
        return of_columns(columns, name) | {f"{name}/first lines": text("\n".join(raw.splitlines()[:4]))}
    return {name: text(path.read_text(encoding="utf-8"))} if path.suffix == ".md" else {}


def _numbers(column: tuple[str, ...]) -> list[Any]:
    """Text that is a number to the last cell, and not a code such as 007, as numbers."""
    if any(len(cell) > 1 and cell[0] == "0" and cell[1].isdigit() for cell in column):
        return list(column)
    try:
        return [float(cell) for cell in column]
    except ValueError:
        return list(column)


def _flat(prefix: str, data: Any) -> Items:
    """Nested JSON as items; records become columns."""
    if isinstance(data, list) and data and all(isinstance(row, dict) for row in data):
        return of_columns({key: [row.get(key) for row in data] for key in data[0]}, prefix)
    if not isinstance(data, dict):
        return {prefix: plain(data)}
    items = {f"{prefix}/keys": ", ".join(data)}
    for key, value in data.items():
        items |= _flat(f"{prefix}/{RENAMED.get(key, key)}", value)
    return items


def _digests(folder: Path) -> dict[str, str]:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def _write_tables(folder: Path) -> None:
    import polars

    lab, field = class_columns()
    three = shifted(THREE)
    p_lab, p_field = ({f"p_{k}": table[:, k] for k in range(3)} for table in (three.lab, three.field))
    numbers_lab, numbers_field = number_columns()
    noted = field | {"note": np.where(np.arange(len(field["p"])) % 3 == 0, "yes", 'it\'s, "so"')}
    made = {
        "lab.csv": lab,
        "field.csv": noted,
        "field.parquet": field,
        "few.csv": {name: column[:5] for name, column in field.items()},
        "lab3.csv": p_lab | {"y": three.y, "town": three.lab_groups},
        "field3.csv": p_field | {"town": three.field_groups},
        "lab_q.csv": numbers_lab,
        "field_q.csv": numbers_field,
        "nan.csv": field | {"p": np.where(np.arange(len(field["p"])) == 7, np.nan, field["p"])},
        "percent.csv": field | {"p": 100 * field["p"]},
    }
    for name, columns in made.items():
        frame = polars.DataFrame(columns)
        frame.write_csv(folder / name) if name.endswith(".csv") else frame.write_parquet(folder / name)
    (folder / "ragged.csv").write_text("p,town,land\n0.5,York,north\n0.5,York\n", encoding="utf-8")
