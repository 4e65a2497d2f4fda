"""What a table of figures is, before it is shown: plain values per replica, so that differences can be paired."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

#: error and time: lower is better; coverage: nearer to NOMINAL is better; share, width and ratio are for information.
Kind = Literal["error", "coverage", "share", "width", "time", "ratio"]
NOMINAL = 0.9


@dataclass
class Column:
    """One setting: for every method one value per replica, None where the method failed or was not run."""

    title: str
    kind: Kind = "error"
    values: dict[str, list[float | None]] = field(default_factory=dict)

    def add(self, method: str, value: float | None) -> None:
        self.values.setdefault(method, []).append(None if value is None else float(value))


@dataclass
class Table:
    """Methods are rows, settings are columns."""

    key: str
    title: str
    text: str
    columns: list[Column] = field(default_factory=list)
    #: fieldcal's rows that are held against every other row.
    ours: tuple[str, ...] = ()
    #: rows that no method can be expected to reach (a true prior known): never bold, never compared.
    oracles: tuple[str, ...] = ()
    #: what happened to a method: (method, reason) → how often
    failures: dict[str, dict[str, int]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    date: str = ""
    seconds: float = 0.0

    def failed(self, method: str, error: Exception) -> None:
        # The first line only, and no paths: the page must read the same on every machine.
        lines = str(error).strip().splitlines() or [""]
        said = re.sub(r"(?:[A-Za-z]:)?[/\\\\]\S+", "…", lines[0])[:160]
        reason = f"{type(error).__name__}: {said}".rstrip(": ")
        counts = self.failures.setdefault(method, {})
        counts[reason] = counts.get(reason, 0) + 1

    def save(self, path: Path, *, stamp: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".part")
        partial.write_text(json.dumps({"stamp": stamp, "table": asdict(self)}), encoding="utf-8")
        partial.replace(path)


def load(path: Path, *, stamp: str) -> Table | None:
    """The table of an earlier run, if it was made by the same code in the same setting."""
    if not path.exists():
        return None
    stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if stored["stamp"] != stamp:
        return None
    kept = stored["table"]
    kept["columns"] = [Column(**column) for column in kept["columns"]]
    kept["ours"], kept["oracles"] = tuple(kept["ours"]), tuple(kept["oracles"])
    return Table(**kept)


def attempt(table: Table, method: str, call: Callable[[], Any]) -> Any:
    """What the call gives, or None and a line in the table's failures. A peer that fails must not end the run."""
    try:
        return call()
    except Exception as error:
        table.failed(method, error)
        return None


def progress(items: Iterable[Any], *, title: str, total: int) -> Iterable[Any]:
    """The items, with a line for every tenth of them."""
    step = max(1, total // 10)
    for at, item in enumerate(items):
        if at % step == 0:
            print(f"  {title}: {at} of {total}", flush=True)
        yield item


def short(*values: float) -> str:
    """.05, .3, .5: numbers of a setting as the docs write them."""
    return ", ".join(f"{value:g}".removeprefix("0") for value in values)
