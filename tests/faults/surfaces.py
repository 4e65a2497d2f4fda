"""The same rows by every way in: arrays, every engine, files of every writer, the command line."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fieldcal import tables
from fieldcal.cli.main import main
from fieldcal.errors import InputError
from fieldcal.objects import Field, Lab, Prevalence
from fieldcal.tables.files.session import Session
from fieldcal.tables.recalibrate import recalibrate_file
from tables import truth
from tables.engines import IN_MEMORY, Engine
from tables.writers import CSV, PARQUET


class Surface:
    """One way to give rows to fieldcal; errors come back as they are told to a user of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kind, _, self.writer = name.partition(" by ")

    def count(self, lab: Lab, table: pa.Table, folder: Path, spark: Any = None, **options: Any) -> Field:
        """The histogram of the rows."""
        by = options.pop("by", ())
        if self.kind == "arrays":
            return truth.count(lab, table, by, **options)
        if self.kind in (*IN_MEMORY, "spark"):
            return tables.count(lab, Engine(self.kind, spark).make(table), by=by, **options)
        path = self._written(table, folder)
        if self.kind.startswith("command line"):
            lab.save(folder / "lab.json")
            given = [x for name, value in options.items() for x in _option(name, value)]
            grouped = [x for name in by for x in ("--by", name)]
            _call("count", "lab.json", path.name, "-o", "field.json", *grouped, *given, folder=folder)
            return Field.load(folder / "field.json")
        with Session(threads=1) as session:
            source = session.open(path).bound(lab, by=by)
            return tables.count(lab, source.relation, by=by, **options)

    def recalibrate(
        self, prev: Prevalence, table: pa.Table, folder: Path, spark: Any = None, **options: Any
    ) -> Any:
        """The new probabilities, (n, columns); NaN where there is none."""
        names = [f"{name}_recalibrated" for name in prev.lab.columns.scores]
        if self.kind == "arrays":
            return truth.recalibrate(prev, table, **options)
        if self.kind in (*IN_MEMORY, "spark"):
            engine = Engine(self.kind, spark)
            return _values(engine.read(tables.recalibrate(prev, engine.make(table), **options)), names)
        path, target = self._written(table, folder), folder / "new.parquet"
        if self.kind.startswith("command line"):
            prev.save(folder / "prevalence.json")
            given = [x for name, value in options.items() for x in _option(name, value)]
            _call("recalibrate", "prevalence.json", path.name, "-o", "new.parquet", *given, folder=folder)
        else:
            with Session(threads=1) as session:
                recalibrate_file(prev, session, session.open(path).bound(prev.lab), target, **options)
        return _values(pq.read_table(target).to_pydict(), names)

    def _written(self, table: pa.Table, folder: Path) -> Path:
        path = folder / ("field.csv" if "csv" in self.kind else "field.parquet")
        (CSV if "csv" in self.kind else PARQUET)[self.writer](table, str(path))
        return path

    def __repr__(self) -> str:
        return self.name


def _option(name: str, value: Any) -> list[str]:
    return [f"--{name}"] if value is True else [f"--{name}", str(value)]


def _call(*arguments: str, folder: Path) -> None:
    said = io.StringIO()
    with (
        contextlib.chdir(folder),
        contextlib.redirect_stderr(said),
        contextlib.redirect_stdout(io.StringIO()),
        pytest.raises(SystemExit) as ended,
    ):
        main(list(arguments))
    if ended.value.code:
        raise InputError(" ".join(said.getvalue().split()))


def _values(new: dict[str, list[Any]], names: list[str]) -> Any:
    return np.array([[np.nan if v is None else v for v in new[name]] for name in names], dtype=float).T


FILES = [
    *(f"parquet by {writer}" for writer in PARQUET),
    *(f"csv by {writer}" for writer in CSV),
    "command line, csv by python",
    "command line, parquet by polars",
]
SURFACES = [Surface(name) for name in ("arrays", *IN_MEMORY, "spark", *FILES)]
