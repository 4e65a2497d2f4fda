"""Random damage, and what becomes of it: our own error, or an answer that is one. Anything else is a finding.

Every execution follows from the seed, the target and its number alone. In the suite a few hundred run in process
(`test_fuzz.py`); by hand, as long as one likes, in processes of their own, so that a crash is a finding too:

    python tests/faults/fuzz.py --seconds 600 --seed 1 --json fuzz.json --keep findings/
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import gzip
import io
import json
import os
import select
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import fieldcal
from fieldcal import regression, storage, tables
from fieldcal.errors import FieldcalError, FieldcalWarning, InputError
from fieldcal.tables.files.session import Session

KINDS = {"lab": fieldcal.Lab, "field": fieldcal.Field, "prevalence": fieldcal.Prevalence}
#: An execution that takes longer than this, in seconds, is a finding.
PATIENCE = 60.0
ACCEPTED, REFUSED, FOREIGN = "accepted", "refused", "foreign"


class HarmError(Exception):
    """Something that an answer or an error of ours must not be."""


@dataclass(frozen=True)
class Outcome:
    """What became of one execution; the detail is the class of the error, or what is wrong."""

    kind: str
    detail: str = ""


@dataclass(frozen=True)
class Target:
    """What is damaged, and what is done with it."""

    make: Callable[[np.random.Generator], tuple[str, bytes]]  # what it is an input of, and its bytes
    use: Callable[[str, bytes], None]


def rng_of(target: str, seed: int, number: int) -> np.random.Generator:
    """The randomness of one execution."""
    return np.random.default_rng([seed, zlib.crc32(target.encode()), number])


def execute(target: str, seed: int, number: int) -> tuple[Outcome, str, bytes]:
    """One execution, with its input."""
    label, data = TARGETS[target].make(rng_of(target, seed, number))
    return judged(target, label, data), label, data


def judged(target: str, label: str, data: bytes) -> Outcome:
    """What becomes of one input."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            TARGETS[target].use(label, data)
            outcome = Outcome(ACCEPTED)
        except FieldcalError as error:
            outcome = Outcome(REFUSED, type(error).__name__)
            if "\n" in str(error) or len(str(error)) > 2_000:
                outcome = Outcome(FOREIGN, f"an error of many lines: {str(error)[:200]!r}")
        except (Exception, SystemExit) as error:
            at = traceback.extract_tb(error.__traceback__)[-1]
            outcome = Outcome(
                FOREIGN, f"{type(error).__name__}: {str(error)[:200]} ({Path(at.filename).name}:{at.lineno})"
            )
    leaked = [w for w in said if not issubclass(w.category, FieldcalWarning)]
    if leaked and outcome.kind != FOREIGN:
        where = f"{Path(leaked[0].filename).name}:{leaked[0].lineno}"
        return Outcome(FOREIGN, f"{leaked[0].category.__name__}: {str(leaked[0].message)[:200]} ({where})")
    return outcome


# What is damaged: artefacts of every kind ----------------------------------------------------------------


@functools.cache
def artefacts() -> dict[str, dict[str, Any]]:
    """The files of varied labs, fields and prevalences, as JSON; small, so that damage finds every place."""
    with warnings.catch_warnings(action="ignore"):
        made = {**_binary(), **_many_classes(), **_numbers(), **_ids()}
    return {name: json.loads(artefact.to_json()) for name, artefact in made.items()}


def _binary() -> dict[str, Any]:
    data = fieldcal.datasets.label_shift(n_lab=600, n_field=400, n_groups=4, random_state=3)
    frame = pl.DataFrame({"p": data.proba_lab, "y": data.y_lab, "g": data.groups_lab})
    lab = tables.learn(frame, scores="p", label="y", by="g", partition=6)
    rng = np.random.default_rng(0)
    weights = rng.integers(1, 9, size=400) / 4
    keys = [(f"g{g}", None if g == 2 else int(g)) for g in data.groups_field]
    days = [fieldcal.count(lab, data.proba_field[:200], batch="2020-01-01", groups=data.groups_field[:200])]
    days += [fieldcal.count(lab, data.proba_field[200:], batch="2020-01-02", groups=data.groups_field[200:])]
    one, grouped = fieldcal.count(lab, data.proba_field), sum(days)
    weighted = fieldcal.count(lab, data.proba_field, groups=keys, sample_weight=weights)
    heavy = fieldcal.learn(data.proba_lab, data.y_lab, partition=4, sample_weight=rng.random(600) + 0.5)
    known = np.where(np.arange(400) % 7 == 0, data.y_field, np.nan)
    labelled = fieldcal.count(lab, data.proba_field, groups=data.groups_field, y=known)
    return {
        "lab of two classes": lab,
        "lab with weights": heavy,
        "field of one population": one,
        "field in batches": grouped,
        "field with weights": weighted,
        "prevalence of one population": fieldcal.estimate(lab, one, prior="flat", trust=1),
        "prevalence of groups": fieldcal.estimate(lab, grouped),
        "field with labels": labelled,
        "prevalence with labels": fieldcal.estimate(lab, labelled),
        "prevalence with weights": fieldcal.estimate(lab, weighted, trust=0.5),
        "prevalence by mode": fieldcal.estimate(
            lab, grouped, point="mode", level=None, trust=1, prior="flat"
        ),
    }


def _many_classes() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    y = rng.integers(5, size=1_400)
    odds = np.exp(rng.normal(size=(1_400, 5)) + 2.0 * np.eye(5)[y])
    proba, groups = odds / odds.sum(axis=1, keepdims=True), rng.choice(["a", "b", "c"], size=1_400)
    lab = fieldcal.learn(proba[:900], y[:900], partition=10, groups=groups[:900])
    ordered = fieldcal.learn(proba[:900], y[:900], ordered=True)
    field = fieldcal.count(lab, proba[900:], groups=groups[900:])
    return {
        "lab of five classes": lab,
        "lab of grades": ordered,
        "field of five classes": field,
        "prevalence of five classes": fieldcal.estimate(lab, field, trust=1),
        "prevalence of grades": fieldcal.estimate(ordered, fieldcal.count(ordered, proba[900:]), trust=1),
    }


def _numbers() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    y = rng.normal(size=800)
    predicted = regression.from_moments((y + 0.7 * rng.normal(size=800)) / 1.49, np.full(800, 0.57))
    lab = fieldcal.learn(predicted, y, intervals=[-1, 0, 1])
    field = fieldcal.count(lab, predicted, groups=["a", "b"] * 400)
    return {
        "lab of numbers": lab,
        "field of numbers": field,
        "prevalence of numbers": fieldcal.estimate(lab, field),
    }


def _ids() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    y = rng.integers(2, size=500)
    lab = fieldcal.learn(np.minimum(3, y + rng.integers(3, size=500)), y, partition=fieldcal.Bins(4))
    field = fieldcal.count(lab, rng.integers(4, size=200))
    return {"lab of bin ids": lab, "prevalence of bin ids": fieldcal.estimate(lab, field, trust=1)}


# How content is damaged ----------------------------------------------------------------------------------

_NUMBERS = [0, 1, -1, 2, 0.0, -0.0, 0.5, 1.5, -0.5, 5e-324, 1e-300, 1e300, 1e308, -1e308, 2**31, 2**53 + 1]
_NUMBERS += [2**62, 2**63, 10**25, 10**400]
_TEXTS = [
    "",
    "x",
    "ok",
    "a\nb",
    "\ud800",
    "\0",
    "</script>",
    "2020-01-01",
    "2020-13-45",
    "9" * 5000,
    "0" * 64,
]
_OTHERS = [
    None,
    True,
    False,
    [],
    [[]],
    [[1]],
    [1, "a"],
    {},
    {"kind": "edges"},
    {"date": "2020-01-01"},
    {"a": {}},
]


def damaged(content: Any, rng: np.random.Generator) -> Any:
    """The content with one to three changes."""
    found = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 4))):
        where, key = _place(found, rng)
        _CHANGES[rng.integers(len(_CHANGES))](where, key, found, rng)
    return found


def _place(content: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A container in it and one of its keys; deep places are as likely as those above them."""
    where, key = {"": content}, ""
    while isinstance(where[key], (dict, list)) and where[key] and rng.random() < 0.8:
        where = where[key]
        keys = list(where) if isinstance(where, dict) else range(len(where))
        key = keys[rng.integers(len(keys))]
    return (where, key) if where != {"": content} else (content, next(iter(content)))


def _pick(values: list[Any], rng: np.random.Generator) -> Any:
    return copy.deepcopy(values[rng.integers(len(values))])


def _replace(where: Any, key: Any, whole: Any, rng: np.random.Generator) -> None:
    old = where[key]
    like = _TEXTS if isinstance(old, str) else _NUMBERS if isinstance(old, (int, float)) else _OTHERS
    where[key] = _pick(like if rng.random() < 0.7 else _NUMBERS + _TEXTS + _OTHERS, rng)


def _nudge(where: Any, key: Any, whole: Any, rng: np.random.Generator) -> None:
    old = where[key]
    if isinstance(old, bool) or not isinstance(old, (int, float)):
        _shuffle(where, key, whole, rng)
        return
    new = [old + 1, old - 1, -old, old * 2, old / 3, old * 1e6, old * 1e30, float(old), old * (1 + 1e-9)]
    where[key] = _pick(new, rng)


def _shuffle(where: Any, key: Any, whole: Any, rng: np.random.Generator) -> None:
    lists = where[key] if isinstance(where[key], list) else where
    if isinstance(lists, list):
        lists[:] = [lists[i] for i in rng.permutation(len(lists))]


def _remove(where: Any, key: Any, whole: Any, rng: np.random.Generator) -> None:
    del where[key]


def _repeat(where: Any, key: Any, whole: Any, rng: np.random.Generator) -> None:
    if isinstance(where, list):
        where.insert(key, copy.deepcopy(where[key]))
    else:
        where[_pick([*_TEXTS, *where], rng)] = copy.deepcopy(where[key])


def _transplant(where: Any, key: Any, whole: Any, rng: np.random.Generator) -> None:
    other, at = _place(whole, rng)
    where[key] = copy.deepcopy(other[at])


def _fill(where: Any, key: Any, whole: Any, rng: np.random.Generator) -> None:
    """The same number everywhere below."""
    number = _pick(_NUMBERS, rng)

    def filled(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: filled(v) for k, v in value.items()}
        if isinstance(value, list):
            return [filled(v) for v in value]
        return number if isinstance(value, (int, float)) and not isinstance(value, bool) else value

    where[key] = filled(where[key])


_CHANGES = [_replace, _replace, _nudge, _nudge, _shuffle, _remove, _repeat, _transplant, _fill]


def sealed(kind: str, content: Any) -> bytes:
    """A file with a digest that fits, as someone could write who knows the format."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    envelope = {"fieldcal": kind, "schema": 1, "digest": storage.hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps({**envelope, "content": content}, sort_keys=True, separators=(",", ":")).encode()


def _sealed_anew(rng: np.random.Generator) -> tuple[str, bytes]:
    name = _pick(list(artefacts()), rng)
    envelope = artefacts()[name]
    content = damaged(envelope["content"], rng)
    if envelope["fieldcal"] == "prevalence" and rng.random() < 0.7:  # seal what is inside as well
        with contextlib.suppress(KeyError, TypeError):
            text = json.dumps(content["lab"], sort_keys=True, separators=(",", ":"))
            content["field"]["lab"] = storage.hashlib.sha256(text.encode()).hexdigest()
    return envelope["fieldcal"], sealed(envelope["fieldcal"], content)


def _load_and_use(kind: str, data: bytes) -> None:
    made = KINDS[kind].from_json(data, name="box.json")
    if KINDS[kind].from_json(made.to_json()) != made:
        raise HarmError("saved and loaded, it is another")
    # What is only refused when it is used is refused too late: it must be the use that cannot be, not the file.
    _USES[kind](made)


def finite(*values: Any) -> None:
    """No NaN and nothing infinite in an answer."""
    for value in values:
        if not np.isfinite(np.asarray(value, dtype=np.float64)).all():
            raise HarmError("an answer that is NaN or infinite")


def _use_lab(lab: Any) -> None:
    repr(lab), lab._repr_html_(), lab.classes, lab.calibration, lab.confusion
    finite(lab.M, lab.A, lab.p_lab, lab.bin_means, lab.miscalibration, lab.F_effective, lab.n_effective)
    field = fieldcal.count(lab, *_predictions(lab, 40))
    _use_field(field)
    _use_prevalence(fieldcal.estimate(lab, field))
    fieldcal.plan(lab, n=100)


def _predictions(lab: Any, n: int) -> tuple[Any]:
    rng = np.random.default_rng(0)
    K = len(lab.classes)
    if lab.outcome.kind == "intervals":
        return (regression.from_moments(rng.normal(size=n), np.ones(n)),)
    if lab.partition.takes == "ids":
        return (rng.integers(lab.n_bins, size=n),)
    return (rng.random(n) if K == 2 else rng.dirichlet(np.ones(K), size=n),)


def _use_field(field: Any) -> None:
    repr(field), field._repr_html_(), field.groups, field.dropped
    finite(field.n, field.mean_prediction, field.n_effective, field.V, field.weight_squares)
    if not field.batch_ids:
        twice = field + field
        finite(twice.n, twice.V)
    else:
        field.only(field.batch_ids[:1]), field.retract(field.batch_ids[0])
        with contextlib.suppress(FieldcalError):  # the ids may be other than times
            field.window("2020-01-01", "2020-01-02")
    labs = [json.dumps(e["content"]) for e in artefacts().values() if e["fieldcal"] == "lab"]
    for content in labs:
        lab = fieldcal.Lab.model_validate(json.loads(content))
        if lab.digest == field.lab:
            _use_prevalence(fieldcal.estimate(lab, field))


def _use_prevalence(prev: Any) -> None:
    repr(prev), prev._repr_html_(), prev.verdict.reasons, prev.steps_unseen
    columns = prev.to_dict()
    finite(*([x for x in columns[n] if x is not None] for n in ("n", "urc", "estimate", "lower", "upper")))
    prev.to_frame("polars")
    groups = list(prev.groups)
    if groups:
        finite(prev.draws(groups[:2]), prev.draws(groups[:1], assume="label_shift"))
        finite(prev.poststratify(np.ones(len(groups))).estimate)
        if len(groups) > 1:
            finite(prev.contrast(groups[0], groups[-1]).estimate)
        finite(prev.ranking().probability)
        for table in prev.performance().values():
            finite(*(interval.estimate for interval in table.values()))
    _recalibrate(prev, groups)
    if prev.digest[0] in "048c":  # what takes longest, of one in four
        fieldcal.report(prev).json()
        fieldcal.plan(prev.lab, n=50, prevalence=prev.whole.estimate)


def _recalibrate(prev: Any, groups: list[Any]) -> None:
    if prev.lab.partition.takes == "ids":
        return
    (predictions,) = _predictions(prev.lab, 12)
    keys = [groups[i % len(groups)] for i in range(12)] if groups else ["new"] * 12
    answer = fieldcal.recalibrate(
        prev, predictions, groups=keys if prev.field.grouped else None, acknowledge=True
    )
    if prev.lab.outcome.kind == "intervals":
        finite(answer.mean())
        return
    finite(answer)
    columns = [f"p{k}" for k in range(np.ndim(answer) and (1 if answer.ndim == 1 else answer.shape[1]))]
    width = len(groups[0]) if groups and isinstance(groups[0], tuple) else 1
    by = [f"g{i}" for i in range(width)] if prev.field.grouped else None
    tables.sql_recalibrate(prev, "t", scores=columns, dialect="duckdb", by=by, acknowledge=True)


_USES = {"lab": _use_lab, "field": _use_field, "prevalence": _use_prevalence}


# How bytes are damaged -----------------------------------------------------------------------------------


def mutated(data: bytes, rng: np.random.Generator, *, times: int = 3) -> bytes:
    """Bits flipped, bytes cut out, put in, repeated, the end lost."""
    found = bytearray(data)
    for _ in range(int(rng.integers(1, times + 1))):
        at, size = int(rng.integers(len(found) + 1)), int(2 ** rng.integers(8))
        how = rng.integers(6)
        if how <= 1 and at < len(found):
            found[at] ^= 1 << int(rng.integers(8))
        elif how == 2:
            del found[at : at + size]
        elif how == 3:
            found[at:at] = rng.bytes(size)
        elif how == 4:
            found[at:at] = found[at : at + size]
        elif rng.random() < 0.3:
            del found[at:]
    return bytes(found)


def _artefact_bytes(rng: np.random.Generator) -> tuple[str, bytes]:
    envelope = artefacts()[_pick(list(artefacts()), rng)]
    return envelope["fieldcal"], mutated(storage.canonical(envelope) + b"\n", rng)


def _load_unchanged(kind: str, data: bytes) -> None:
    made = KINDS[kind].from_json(data, name="box.json")
    digests = {envelope["digest"] for envelope in artefacts().values()}
    if made.digest not in digests:
        raise HarmError("an artefact that nobody made was accepted")


_TABLE = "p,g,day\n" + "".join(f"0.{i % 97:02},town {i % 3},2020-01-0{1 + i % 3}\n" for i in range(1, 200))
_SPELLINGS = [
    _TABLE,
    _TABLE.replace(",", ";").replace("0.", "0,"),
    _TABLE.replace("\n", "\r\n"),
    _TABLE.replace("town 1", '"town, ""1"""'),
    "\ufeff" + _TABLE,
]


def _csv_bytes(rng: np.random.Generator) -> tuple[str, bytes]:
    return "t.csv", mutated(_pick(_SPELLINGS, rng).encode(), rng)


def _gzip_bytes(rng: np.random.Generator) -> tuple[str, bytes]:
    return "t.csv.gz", mutated(gzip.compress(_TABLE.encode(), mtime=0), rng)


@functools.cache
def _parquets() -> list[bytes]:
    """Of several writers: with and without statistics, packed otherwise, in several row groups."""
    import pyarrow.parquet as pq

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.parquet"
        frame = pl.read_csv(_TABLE.encode(), try_parse_dates=True)
        made = []
        for write in (
            lambda: frame.write_parquet(path),
            lambda: frame.write_parquet(
                path, compression="uncompressed", statistics=False, row_group_size=64
            ),
            lambda: pq.write_table(frame.to_arrow(), path, compression="snappy", use_dictionary=False),
            lambda: pq.write_table(
                frame.to_arrow(), path, compression="gzip", row_group_size=50, data_page_size=64
            ),
            lambda: pq.write_table(frame.to_arrow(), path, data_page_version="2.0", write_page_checksum=True),
        ):
            write()
            made.append(path.read_bytes())
    return made


def _parquet_bytes(rng: np.random.Generator) -> tuple[str, bytes]:
    data = _parquets()[rng.integers(len(_parquets()))]
    if rng.random() < 0.5:  # in the footer, where the damage does most
        size = int.from_bytes(data[-8:-4], "little")
        body, footer = data[: -8 - size], mutated(data[-8 - size : -8], rng)
        return "t.parquet", body + footer + len(footer).to_bytes(4, "little") + b"PAR1"
    return "t.parquet", mutated(data, rng)


def _through_files(name: str, data: bytes) -> None:
    lab, prev = _table_objects()
    with tempfile.TemporaryDirectory() as folder, Session(memory_limit="500MB", threads=1) as session:
        path = Path(folder) / name
        path.write_bytes(data)
        source = session.open(path).bound(lab, by="g", time="day")
        try:
            field = tables.count(lab, source.relation, by="g", missing="drop")
            _consistent(name, field)
            tables.count(lab, source.relation, time="day", every="1d", missing="drop")
            tables.recalibrate_file(
                prev, session, source, Path(folder) / "out.csv", missing="keep", unseen="raw"
            )
        except FieldcalError:
            if (Path(folder) / "out.csv").exists():
                raise HarmError("refused, but written") from None
            raise


def _consistent(name: str, field: Any) -> None:
    if name.endswith(".gz") and int(field.n.sum()) != _TABLE.count("\n") - 1:
        raise HarmError("a gzip with another content than was packed was accepted")


@functools.cache
def _table_objects() -> tuple[Any, Any]:
    data = fieldcal.datasets.label_shift(n_lab=800, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        lab = tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")
        frame = pl.read_csv(_TABLE.encode())
        return lab, fieldcal.estimate(lab, tables.count(lab, frame, by="g"), trust=1)


# The command line ----------------------------------------------------------------------------------------

_ODD = [
    "",
    " ",
    "0",
    "-1",
    "1e999",
    "nan",
    "x",
    "a\nb",
    "a\tb",
    'a"b',
    "'",
    ",",
    "p,p",
    "{}",
    "*",
    "p_*",
    "\udcff",
]
_ODD += [
    "p",
    "g",
    "y",
    "day",
    "1d",
    "0.5",
    "9" * 5000,
    "auto",
    "flat",
    "kl:10",
    "kl:x",
    "/dev/null",
    ".",
    "duckdb",
]


@functools.cache
def _commands() -> dict[tuple[str, ...], list[Any]]:
    """Every command with its parameters."""
    from fieldcal.cli.dispatch import command

    found: dict[tuple[str, ...], list[Any]] = {}

    def walk(group: Any, path: tuple[str, ...]) -> None:
        for name, below in group.commands.items():
            if hasattr(below, "commands"):
                walk(below, (*path, name))
            else:
                found[(*path, name)] = below.params

    walk(command(), ())
    return {path: params for path, params in found.items() if path != ("demo",)}


def _arguments(rng: np.random.Generator) -> tuple[str, bytes]:
    """A command, mostly with files that it could use, and a few of its options with odd values."""
    path = _pick(list(_commands()), rng)
    args = list(path)
    for param in _commands()[path]:
        if param.name == "debug":  # asked for a traceback, it prints one
            continue
        required = param.param_type_name == "argument"
        if not required and rng.random() > (
            0.7 if param.name in ("output", "scores", "label", "dialect") else 0.15
        ):
            continue
        if not required:
            args.append(param.opts[0])
        if required or not getattr(param, "is_flag", False):
            args.append(_value(str(param.name), rng))
    return " ".join(path), json.dumps(args).encode()


def _value(name: str, rng: np.random.Generator) -> str:
    if rng.random() < 0.25:
        return str(_pick(_ODD, rng))
    if "lab_file" in name or name == "artefact":
        return "lab.json"
    usual = {
        "output": ["o.json", "o.csv", "o.html", "folder"],
        "scores": ["p"],
        "label": ["y"],
        "dialect": ["duckdb"],
    }
    usual |= {
        "by": ["g"],
        "fields": ["field.json"],
        "artefacts": ["prevalence.json"],
        "field": ["field.json"],
    }
    files = ["lab.json", "field.json", "prevalence.json", "lab.csv", "t.csv"]
    return str(_pick(usual.get(name, files if "file" in name or "table" in name else _ODD), rng))


def _run_command(label: str, data: bytes) -> None:
    from fieldcal import cli

    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _write_inputs(Path(folder))
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(out), _no_input():
            try:
                cli.main(json.loads(data))
                code: Any = 0
            except SystemExit as end:
                code = end.code
    if code not in (None, 0, 1, 2, 3):
        raise HarmError(f"the exit code {code}")
    text = said.getvalue()
    if "This is a bug" in text or "Traceback" in text or "Warning:" in text:
        raise HarmError(text.strip()[-300:])
    if code == 1:
        raise InputError(text.strip()[-300:].replace("\n", " "))


@contextlib.contextmanager
def _no_input() -> Iterator[None]:
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b""))
    try:
        yield
    finally:
        sys.stdin = before


@functools.cache
def _inputs() -> dict[str, bytes]:
    data = fieldcal.datasets.label_shift(n_lab=300, random_state=0)
    frame = pl.DataFrame({"p": data.proba_lab, "y": data.y_lab, "g": [f"town {i % 3}" for i in range(300)]})
    lab, prev = _table_objects()
    made = {"lab.csv": frame.write_csv().encode(), "t.csv": _TABLE.encode()}
    return made | {f"{x.kind}.json": x.to_json() for x in (lab, prev.field, prev)}


def _write_inputs(folder: Path) -> None:
    for name, content in _inputs().items():
        (folder / name).write_bytes(content)


TARGETS = {
    "artefact bytes": Target(_artefact_bytes, _load_unchanged),
    "artefact content": Target(_sealed_anew, _load_and_use),
    "CSV bytes": Target(_csv_bytes, _through_files),
    "gzip bytes": Target(_gzip_bytes, _through_files),
    "parquet bytes": Target(_parquet_bytes, _through_files),
    "command line": Target(_arguments, _run_command),
}


# Runs ----------------------------------------------------------------------------------------------------


def run_in_process(target: str, *, seed: int, count: int) -> dict[int, Outcome]:
    """So many executions, here."""
    return {number: execute(target, seed, number)[0] for number in range(count)}


def run_apart(
    target: str, *, seed: int, start: int = 0, count: int = 10**9, seconds: float = 1e9
) -> dict[int, Outcome]:
    """The same in processes of their own: one that crashes or hangs is a finding, and the next goes on behind it."""
    found: dict[int, Outcome] = {}
    number, end = start, time.monotonic() + seconds
    while number < start + count and time.monotonic() < end:
        lines = _worker(target, seed, number, start + count - number, end)
        for number, outcome in lines:
            found[number] = outcome
        number += 1
    return found


def _worker(target: str, seed: int, start: int, count: int, end: float) -> Iterator[tuple[int, Outcome]]:
    command = [sys.executable, __file__, "--worker", target, "--seed", str(seed), "--from", str(start)]
    process = subprocess.Popen(
        [*command, "--count", str(count)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    assert process.stdout is not None
    number = start
    try:
        while number < start + count and time.monotonic() < end:
            ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
            line = process.stdout.readline() if ready else b""
            if not line:
                process.kill()
                what = f"it ended with {process.wait()}" if ready else f"it hung for {PATIENCE:.0f} s"
                yield number, Outcome(FOREIGN, what)
                return
            yield number, Outcome(*json.loads(line))
            number += 1
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _work(target: str, seed: int, start: int, count: int) -> None:
    """What a process of its own does: a line for every execution."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for number in range(start, start + count):
        outcome, _, _ = execute(target, seed, number)
        out.write(json.dumps([outcome.kind, outcome.detail]) + "\n")
        out.flush()


def table_of(results: dict[str, dict[int, Outcome]]) -> list[dict[str, Any]]:
    """Per target: executions, accepted, refused by class, findings."""
    rows = []
    for target, outcomes in results.items():
        kinds = Counter(outcome.kind for outcome in outcomes.values())
        refused = Counter(o.detail for o in outcomes.values() if o.kind == REFUSED)
        rows.append(
            {
                "target": target,
                "executions": len(outcomes),
                "accepted": kinds[ACCEPTED],
                "refused": dict(refused.most_common()),
                "findings": kinds[FOREIGN],
            }
        )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Random damage to artefacts, tables and command lines.")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="by default all")
    parser.add_argument("--json", help="where the figures go")
    parser.add_argument("--keep", default="fuzz-findings", help="the folder for inputs that are findings")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--from", dest="start", type=int, default=0, help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, default=0, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker:
        _work(given.worker, given.seed, given.start, given.count)
        return 0
    chosen = given.target or list(TARGETS)
    results = {}
    for target in chosen:
        results[target] = run_apart(target, seed=given.seed, seconds=given.seconds / len(chosen))
        _keep(Path(given.keep), target, given.seed, results[target])
    rows = table_of(results)
    for row in rows:
        refused = ", ".join(f"{name} {n:,}" for name, n in row["refused"].items())
        sys.stdout.write(
            f"{row['target']:<18} {row['executions']:>8,} executions  {row['accepted']:>8,} accepted  "
            f"{row['findings']:>4} findings  refused: {refused}\n"
        )
    if given.json:
        Path(given.json).write_text(json.dumps({"seed": given.seed, "targets": rows}, indent=1) + "\n")
    return 1 if any(row["findings"] for row in rows) else 0


def _keep(folder: Path, target: str, seed: int, outcomes: dict[int, Outcome]) -> None:
    """The input of every finding, and what it was, once for each kind of finding."""
    seen: set[str] = set()
    for number, outcome in outcomes.items():
        if outcome.kind != FOREIGN or outcome.detail in seen:
            continue
        seen.add(outcome.detail)
        folder.mkdir(parents=True, exist_ok=True)
        label, data = TARGETS[target].make(rng_of(target, seed, number))
        place = folder / f"{target.replace(' ', '-')}-{seed}-{number}"
        place.with_suffix(".input").write_bytes(data)
        place.with_suffix(".txt").write_text(f"{target}: {label}\n{outcome.detail}\n")
        sys.stdout.write(f"{target} {number}: {outcome.detail}"[:400] + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
