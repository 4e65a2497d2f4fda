"""Random damage, and what becomes of it: our own error, or an answer that is one. Anything else is a finding.

Every execution follows from the seed, the target and its number alone. In the suite a few hundred run
(`test_fuzz.py`); by hand, as long as one likes:

    python tests/faults/fuzz.py --seconds 600 --seed 1 --json fuzz.json --keep findings/
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
import io
import json
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
    return np.random.default_rng([seed, zlib.crc32(target.encode()), number])


def judged(target: str, label: str, data: bytes) -> Outcome:
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


@functools.cache
def artefacts() -> dict[str, dict[str, Any]]:
    """The files of varied labs, fields and prevalences, as JSON; small, so that damage finds every place."""
    with warnings.catch_warnings(action="ignore"):
        made = {**_of_classes(), **_of_numbers(), **_of_verdicts()}
    return {name: json.loads(artefact.to_json()) for name, artefact in made.items()}


def _of_classes() -> dict[str, Any]:
    data = fieldcal.datasets.label_shift(n_lab=600, n_field=400, n_groups=4, random_state=3)
    frame = pl.DataFrame({"p": data.proba_lab, "y": data.y_lab, "g": data.groups_lab})
    lab = tables.learn(frame, scores="p", label="y", by="g", partition=6)
    weights = np.random.default_rng(0).integers(1, 9, size=400) / 4
    keys = [(f"g{g}", None if g == 2 else int(g)) for g in data.groups_field]
    weighted = fieldcal.count(lab, data.proba_field, groups=keys, sample_weight=weights, batch="2020-01-01")
    known = np.where(np.arange(400) % 7 == 0, data.y_field, np.nan)
    labelled = fieldcal.count(lab, data.proba_field, groups=data.groups_field, y=known)
    return {
        "lab of two classes": lab,
        "field with weights": weighted,
        "field with labels": labelled,
        "prevalence with weights": fieldcal.estimate(lab, weighted, trust=0.5),
        "prevalence with labels": fieldcal.estimate(lab, labelled),
    }


def _of_numbers() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    y = rng.normal(size=800)
    predicted = regression.from_moments((y + 0.7 * rng.normal(size=800)) / 1.49, np.full(800, 0.57))
    lab = fieldcal.learn(predicted, y, intervals=[-1, 0, 1])
    field = fieldcal.count(lab, predicted, groups=["a", "b"] * 400)
    return {"lab of numbers": lab, "prevalence of numbers": fieldcal.estimate(lab, field)}


def _of_verdicts() -> dict[str, Any]:
    rng = np.random.default_rng(4)
    y = rng.integers(2, size=500)
    said = np.array(["fail", "pass"])[np.where(rng.random(500) < 0.9, y, 1 - y)]
    lab = fieldcal.learn(said, y, kind="values", design="random")
    field = fieldcal.count(lab, said, groups=["a", "b"] * 250)
    return {"lab of verdicts": lab, "prevalence of verdicts": fieldcal.estimate(lab, field)}


_JUNK = [None, True, [], [[]], [[1]], [1, "a"], {}, {"kind": "edges"}, {"date": "2020-01-01"}, "", "x"]
_JUNK += ["a\nb", "\ud800", "2020-13-45", "9" * 5000, "0" * 64, 0, -1, 2.5, 5e-324, 1e308, -1e308]
_JUNK += [2**31, 2**63, 10**25, 10**400]


def damaged(content: Any, rng: np.random.Generator) -> Any:
    """The content with one to three changes: another value, one less, one twice, in another order, from elsewhere."""
    found = copy.deepcopy(content)
    for _ in range(int(rng.integers(1, 4))):
        (where, key), how = _place(found, rng), rng.integers(6)
        if how <= 1:
            where[key] = _pick(_JUNK, rng)
        elif how == 2:
            del where[key]
        elif how == 3 and isinstance(where, list):
            where.insert(key, copy.deepcopy(where[key]))
        elif how == 4 and isinstance(where[key], list):
            where[key] = [where[key][i] for i in rng.permutation(len(where[key]))]
        else:
            other, at = _place(found, rng)
            where[key] = copy.deepcopy(other[at])
    return found


def _place(content: Any, rng: np.random.Generator) -> tuple[Any, Any]:
    """A container in it and one of its keys; deep places are as likely as those above them."""
    where, key = content, next(iter(content))
    while isinstance(where, (dict, list)) and where:
        keys = list(where) if isinstance(where, dict) else range(len(where))
        key = keys[rng.integers(len(keys))]
        if not isinstance(where[key], (dict, list)) or not where[key] or rng.random() < 0.2:
            break
        where = where[key]
    return where, key


def _pick(values: list[Any], rng: np.random.Generator) -> Any:
    return copy.deepcopy(values[rng.integers(len(values))])


def sealed(kind: str, content: Any) -> bytes:
    """A file with a digest that fits, as someone could write who knows the format."""
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    envelope = {"fieldcal": kind, "schema": 1, "digest": storage.hashlib.sha256(text.encode()).hexdigest()}
    return json.dumps({**envelope, "content": content}, sort_keys=True, separators=(",", ":")).encode()


def _sealed_anew(rng: np.random.Generator) -> tuple[str, bytes]:
    envelope = artefacts()[_pick(list(artefacts()), rng)]
    return envelope["fieldcal"], sealed(envelope["fieldcal"], damaged(envelope["content"], rng))


def _load_again(kind: str, data: bytes) -> None:
    made = KINDS[kind].from_json(data, name="box.json")
    if KINDS[kind].from_json(made.to_json()) != made:
        raise HarmError("saved and loaded, it is another")


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


def _through_files(name: str, data: bytes) -> None:
    lab, prev = _table_objects()
    with tempfile.TemporaryDirectory() as folder, Session(memory_limit="500MB", threads=1) as session:
        path, target = Path(folder) / name, Path(folder) / "out.csv"
        path.write_bytes(data)
        source = session.open(path).bound(lab, by="g", time="day")
        try:
            tables.count(lab, source.relation, by="g", missing="drop")
            tables.count(lab, source.relation, time="day", every="1d", missing="drop")
            tables.recalibrate_file(prev, session, source, target, missing="keep", unseen="raw")
        except FieldcalError:
            if target.exists():
                raise HarmError("refused, but written") from None
            raise


@functools.cache
def _table_objects() -> tuple[Any, Any]:
    data = fieldcal.datasets.label_shift(n_lab=800, random_state=0)
    with warnings.catch_warnings(action="ignore"):
        lab = tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")
        frame = pl.read_csv(_TABLE.encode())
        return lab, fieldcal.estimate(lab, tables.count(lab, frame, by="g"), trust=1)


_ODD = ["", " ", "0", "-1", "1e999", "nan", "x", "a\nb", 'a"b', "'", ",", "p,p", "{}", "*", "p_*", "\udcff"]
_ODD += ["p", "g", "y", "day", "1d", "0.5", "9" * 5000, "auto", "flat", "kl:10", "kl:x", "/dev/null"]
#: What is right for an option, as far as it goes by the name of the option.
_USUAL = {
    "output": ["o.json", "o.csv", "o.html", "folder"],
    "scores": ["p"],
    "label": ["y"],
    "dialect": ["duckdb"],
    "by": ["g"],
    "lab_file": ["lab.json"],
    "artefact": ["lab.json"],
    "fields": ["field.json"],
    "field": ["field.json"],
    "artefacts": ["prevalence.json"],
}


@functools.cache
def _commands() -> dict[tuple[str, ...], list[Any]]:
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
        often = 0.7 if param.name in ("output", "scores", "label", "dialect") else 0.15
        if not required and rng.random() > often:
            continue
        args += [] if required else [param.opts[0]]
        if required or not getattr(param, "is_flag", False):
            args.append(_value(str(param.name), rng))
    return " ".join(path), json.dumps(args).encode()


def _value(name: str, rng: np.random.Generator) -> str:
    files = ["lab.json", "field.json", "prevalence.json", "lab.csv", "t.csv"]
    usual = _USUAL.get(name, files if "file" in name or "table" in name else _ODD)
    return str(_pick(_ODD if rng.random() < 0.25 else usual, rng))


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
    "artefact content": Target(_sealed_anew, _load_again),
    "CSV bytes": Target(_csv_bytes, _through_files),
    "command line": Target(_arguments, _run_command),
}


def run(target: str, *, seed: int, count: int = 10**9, seconds: float = 1e9) -> dict[int, Outcome]:
    """So many executions, or as many as the time allows."""
    found: dict[int, Outcome] = {}
    end = time.monotonic() + seconds
    while len(found) < count and time.monotonic() < end:
        number = len(found)
        found[number] = judged(target, *TARGETS[target].make(rng_of(target, seed, number)))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description="Random damage to artefacts, tables and command lines.")
    parser.add_argument("--seconds", type=float, default=60.0, help="for all targets together")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--target", action="append", choices=list(TARGETS), help="by default all")
    parser.add_argument("--json", help="where the figures go")
    parser.add_argument("--keep", default="fuzz-findings", help="the folder for inputs that are findings")
    given = parser.parse_args()
    chosen = given.target or list(TARGETS)
    results = {}
    for target in chosen:
        results[target] = run(target, seed=given.seed, seconds=given.seconds / len(chosen))
        _keep(Path(given.keep), target, given.seed, results[target])
    rows = [_counts(target, found) for target, found in results.items()]
    for row in rows:
        sys.stdout.write(f"{row}\n")
    if given.json:
        Path(given.json).write_text(json.dumps({"seed": given.seed, "targets": rows}, indent=1) + "\n")
    return 1 if any(row["findings"] for row in rows) else 0


def _counts(target: str, outcomes: dict[int, Outcome]) -> dict[str, Any]:
    kinds = Counter(outcome.kind for outcome in outcomes.values())
    refused = Counter(outcome.detail for outcome in outcomes.values() if outcome.kind == REFUSED)
    counts = {"accepted": kinds[ACCEPTED], "refused": dict(refused), "findings": kinds[FOREIGN]}
    return {"target": target, "executions": len(outcomes), **counts}


def _keep(folder: Path, target: str, seed: int, outcomes: dict[int, Outcome]) -> None:
    """The input of every finding, and what it was, once for each kind of finding."""
    for detail, number in {o.detail: n for n, o in outcomes.items() if o.kind == FOREIGN}.items():
        folder.mkdir(parents=True, exist_ok=True)
        label, data = TARGETS[target].make(rng_of(target, seed, number))
        place = folder / f"{target.replace(' ', '-')}-{seed}-{number}"
        place.with_suffix(".input").write_bytes(data)
        place.with_suffix(".txt").write_text(f"{target}: {label}\n{detail}\n")
        sys.stdout.write(f"{target} {number}: {detail}"[:400] + "\n")


if __name__ == "__main__":
    sys.exit(main())
