"""What all experiments share: run the missing cells of a study, keep every finished one, then draw and tell.

A study is a list of cells and a function that turns one cell into rows. Cells run on several processes and each is
appended to a CSV as soon as it is finished, so that a run that was interrupted or killed goes on where it stopped. With
other settings, or another fieldcal, it starts anew. The final CSV is in the order of the cells: equal seeds
give equal bytes, whichever process was faster.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import io
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

import fieldcal

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
QUICK = HERE.parent / "build" / "experiments-quick"
INTERRUPTED = 130  # what a shell says of a program that was stopped by Ctrl-C

Cell = dict[str, Any]
Row = dict[str, Any]
Runner = Callable[[Cell], list[Row]]


@dataclass(frozen=True)
class Study:
    """An experiment: what to run, and what to make of the rows.

    ``run`` is sent to other processes, so it is a function of a module (or a `functools.partial` of one); the
    others stay at home. ``settings`` is everything that the rows depend on besides the cells. Every figure has a
    caption, which says what is the same as in the paper and what is not.
    """

    name: str
    title: str
    settings: dict[str, Any]
    cells: list[Cell]
    run: Runner
    figures: Callable[[pd.DataFrame], dict[str, Figure]]
    summary: Callable[[pd.DataFrame], str]
    tables: Callable[[pd.DataFrame], dict[str, pd.DataFrame]] = lambda rows: {}
    captions: dict[str, str] = field(default_factory=dict)


def perform(study: Study, folder: Path, *, jobs: int = 2, fresh: bool = False) -> str:
    """Run what is missing; leave the CSV, the figures and the summary in the folder; return the summary."""
    folder.mkdir(parents=True, exist_ok=True)
    table = compute(study, folder, jobs=jobs, fresh=fresh)
    pictures = []
    for name, figure in study.figures(table).items():
        save_figure(figure, folder / name)
        pictures.append(f"![{name.replace('_', ' ')}]({name}.png)\n\n{study.captions[name]}\n\n")
    for name, made in study.tables(table).items():
        replace(folder / f"{name}.csv", made.to_csv(index=False, float_format="%.6g", lineterminator="\n"))
    text = f"## {study.title}\n\n{''.join(pictures)}{study.summary(table).strip()}\n"
    replace(folder / f"{study.name}.md", text)
    return text


def compute(study: Study, folder: Path, *, jobs: int = 2, fresh: bool = False) -> pd.DataFrame:
    """The rows of all cells, those from an earlier run included."""
    ledger = Ledger(study, folder, fresh=fresh)
    if not ledger.final.exists():
        done = ledger.resume()
        todo = [i for i in range(len(study.cells)) if i not in done]
        progress = Progress(study.name, total=len(study.cells), before=len(done))
        for i, rows in finished(study, todo, jobs):
            ledger.append(i, rows)
            progress.step()
        ledger.close()
    return pd.read_csv(ledger.final)


class Ledger:
    """The files of a study: settings, the rows so far with the cell they belong to, and the final CSV."""

    def __init__(self, study: Study, folder: Path, *, fresh: bool) -> None:
        self.final = folder / f"{study.name}.csv"
        self.part = folder / f"{study.name}.part.csv"
        settings = folder / f"{study.name}.json"
        wanted = fingerprint(study)
        if fresh or not settings.exists() or settings.read_text(encoding="utf-8") != wanted:
            # In this order: killed in between, the next run starts anew as well.
            for path in (settings, self.final, self.part):
                path.unlink(missing_ok=True)
            replace(settings, wanted)

    def resume(self) -> set[int]:
        """The cells that are whole; what a killed run left of others is dropped from the file."""
        header, cells = self._read()
        if header is None:
            self.part.unlink(missing_ok=True)
        else:
            kept = [row for i in sorted(cells) for row in cells[i]]
            replace(self.part, "".join(line(row) for row in [header, *kept]))
        return set(cells)

    def append(self, cell: int, rows: list[Row]) -> None:
        """One finished cell. Every row says how many the cell has, so that half a cell is known as such."""
        assert all(list(row) == list(rows[0]) for row in rows), "rows of a study have the same columns"
        lines = [line([cell, len(rows), *row.values()]) for row in rows]
        if not self.part.exists():
            lines.insert(0, line(["cell", "rows", *rows[0]]))
        with self.part.open("a", encoding="utf-8", newline="") as stream:
            stream.write("".join(lines))

    def close(self) -> None:
        """All rows, in the order of the cells."""
        header, cells = self._read()
        assert header is not None, "a study has cells, and a cell has rows"
        rows = [header, *(row for i in sorted(cells) for row in cells[i])]
        replace(self.final, "".join(line(row[2:]) for row in rows))
        self.part.unlink()

    def _read(self) -> tuple[list[str] | None, dict[int, list[list[str]]]]:
        text = self.part.read_text(encoding="utf-8") if self.part.exists() else ""
        whole = text[: text.rfind("\n") + 1]  # a last line without its end was cut off
        header, *rows = [*csv.reader(whole.splitlines())] or [None]
        cells: dict[int, list[list[str]]] = {}
        for row in rows:
            cells.setdefault(int(row[0]), []).append(row)
        return header, {i: found for i, found in cells.items() if len(found) == int(found[0][1])}


def line(values: Sequence[Any]) -> str:
    """One line of CSV. Six digits of a number: more than any replica is good for."""
    stream = io.StringIO()
    texts = [f"{value:.6g}" if isinstance(value, float) else value for value in values]
    csv.writer(stream, lineterminator="\n").writerow(texts)
    return stream.getvalue()


def replace(path: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    beside = path.with_name(path.name + ".new")
    beside.write_text(text, encoding="utf-8", newline="\n")
    os.replace(beside, path)


def fingerprint(study: Study) -> str:
    """What the rows depend on, as JSON: settings, cells, and fieldcal down to its source.

    A change of the experiment's own code is not noticed: ``--fresh`` is for that.
    """
    source = hashlib.sha256()
    root = Path(fieldcal.__file__).parent
    for path in sorted(root.rglob("*.py")):
        source.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes())
    cells = hashlib.sha256(json.dumps(study.cells, sort_keys=True).encode())
    content = {
        "fieldcal": fieldcal.__version__,
        "source": source.hexdigest()[:16],
        "cells": cells.hexdigest()[:16],
        "settings": study.settings,
    }
    return json.dumps(content, indent=2, sort_keys=True) + "\n"


def finished(study: Study, todo: Sequence[int], jobs: int) -> Iterator[tuple[int, list[Row]]]:
    """Cell numbers with their rows, as they come."""
    if jobs == 1 or len(todo) < 2:
        for i in todo:
            yield i, rows_of(study.run, study.cells[i])
        return
    # Fresh processes, not copies of this one: copies would inherit the locks of threads that they do not have.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_prepare, initargs=(study.run,))
    try:
        futures = {pool.submit(_rows, study.cells[i]): i for i in todo}
        for future in as_completed(futures):
            yield futures[future], future.result()
    finally:
        pool.shutdown(cancel_futures=True)


def rows_of(run: Runner, cell: Cell) -> list[Row]:
    """The rows of one cell: its keys, then what was found.

    One thread each, as the processes share the cores. fieldcal's warnings are silenced here and only here:
    experiments use the method where it warns, on purpose, and measure what comes out.
    """
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
        return [cell | row for row in run(cell)]


_run: Runner | None = None


def _prepare(run: Runner) -> None:
    """In a new process: remember the study, leave Ctrl-C to the parent, and end when the parent ends."""
    global _run
    _run = run
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    assert parent is not None

    def follow() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


def _rows(cell: Cell) -> list[Row]:
    assert _run is not None
    return rows_of(_run, cell)


class Progress:
    """A line on stderr: in place on a terminal, now and then elsewhere."""

    def __init__(self, name: str, *, total: int, before: int) -> None:
        self.name, self.total, self.before = name, total, before
        self.done, self.start, self.told = before, time.monotonic(), 0.0
        if before:
            sys.stderr.write(f"{name}: {before} of {total} cells are there already\n")

    def step(self) -> None:
        """One more cell; say so unless it was said a moment ago."""
        self.done += 1
        spent = time.monotonic() - self.start
        last, terminal = self.done == self.total, sys.stderr.isatty()
        if not last and spent - self.told < (0.2 if terminal else 10):
            return
        self.told = spent
        left = spent / (self.done - self.before) * (self.total - self.done)
        text = f"{self.name}: {self.done}/{self.total} cells, {spent:.0f} s, about {left:.0f} s left"
        sys.stderr.write(f"\r{text:<78}" + ("\n" if last else "") if terminal else f"{text}\n")
        sys.stderr.flush()


def save_figure(figure: Figure, path: Path) -> None:
    """PNG and SVG with the same bytes every time: no dates, no random identifiers."""
    with mpl.rc_context({"svg.hashsalt": "fieldcal", "svg.fonttype": "none"}):
        figure.savefig(path.with_suffix(".png"), dpi=130, metadata={"Software": None})
        figure.savefig(path.with_suffix(".svg"), metadata={"Date": None, "Creator": None})


def say(text: str) -> None:
    """On stdout."""
    sys.stdout.write(text + "\n")


def parser(description: str) -> argparse.ArgumentParser:
    """The options of every experiment."""
    made = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument(
        "--quick", action="store_true", help="few replicas, to see that it runs; not for its figures"
    )
    made.add_argument("--out", type=Path, metavar="DIR", help="folder for CSV, figures and summary")
    made.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    made.add_argument("--fresh", action="store_true", help="forget what an earlier run has left")
    return made


def folder_of(options: argparse.Namespace) -> Path:
    """Where the results go."""
    return options.out or (QUICK if options.quick else RESULTS)


def perform_all(studies: Sequence[Study], options: argparse.Namespace) -> int:
    """Perform one study after the other and print what they say; the exit code."""
    folder = folder_of(options)
    try:
        for study in studies:
            say(perform(study, folder, jobs=options.jobs, fresh=options.fresh))
    except KeyboardInterrupt:
        sys.stderr.write("\nInterrupted. Finished cells are kept: the same command goes on from there.\n")
        return INTERRUPTED
    return 0


def command(make: Callable[..., Study], description: str | None, *, takes_predictions: bool = False) -> int:
    """The command line of one experiment; ``make(quick=…)`` gives its study."""
    options_parser = parser(description or "")
    if takes_predictions:
        options_parser.add_argument(
            "--predictions", type=Path, metavar="DIR", help="predictions computed elsewhere"
        )
    options = options_parser.parse_args()
    extra = {"predictions": options.predictions} if takes_predictions else {}
    try:
        study = make(quick=options.quick, **extra)
    except fieldcal.FieldcalError as problem:
        options_parser.error(str(problem))
    return perform_all([study], options)
