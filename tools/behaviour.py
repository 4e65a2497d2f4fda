"""What fieldcal answers on fixed inputs, recorded, and the difference between two records.

    python tools/behaviour.py record AFTER.json [--only 'binary*']
    python tools/behaviour.py diff BEFORE.json AFTER.json [--reasons tools/behaviour_reasons.txt]

`record` runs the tree that ``import fieldcal`` finds (``PYTHONPATH=…/src``). A record is ``{input: {item: value}}``:
numbers with 10 significant digits, small arrays as lists, large ones as a digest with summaries, texts without machine
paths and digests. `diff` exits with 1 if anything differs without a reason. A line of the file of reasons is
``glob | reason``, or ``glob | <= 0.01 | reason`` for numbers that moved by at most that much; globs match
``input/item``.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import json
import re
import sys
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from behaviour_items import WORDS, Items, text

Record = dict[str, Items]
_HERE = Path(__file__).resolve().parent


def say(line: str = "") -> None:
    """On standard output."""
    sys.stdout.write(f"{line}\n")


# record


def record(only: str) -> Record:
    """Every input that the glob matches, answered by the fieldcal that is imported."""
    import behaviour_commands
    import behaviour_inputs

    made = {
        name: _answers(name, run)
        for name, run in behaviour_inputs.INPUTS.items()
        if fnmatch.fnmatch(name, only)
    }
    return made | (behaviour_commands.transcripts() if fnmatch.fnmatch("cli", only) else {})


def _answers(name: str, run: Callable[[], Items]) -> Items:
    start = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            items = run()
        except Exception as error:
            items = {"failed": text(f"{type(error).__name__}: {error}")}
            sys.stderr.write(f"FAILED {name}: {items['failed']}\n")
    items["warnings"] = sorted({text(f"{w.category.__name__}: {w.message}") for w in caught})
    sys.stderr.write(f"{time.perf_counter() - start:6.1f} s  {len(items):4} items  {name}\n")
    return items


# diff


class Difference(NamedTuple):
    """One item that is not the same."""

    item: str
    words: str
    size: float  # the largest absolute change of a number; infinite for anything else
    renamed: bool = False


class Reason(NamedTuple):
    """Why items of a pattern differ, and by how much they may."""

    pattern: str
    bound: float
    words: str


def differences(before: Record, after: Record) -> Iterator[Difference]:
    """Every item that differs, in the order of the inputs."""
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            yield Difference(name, f"input only {'before' if new is None else 'after'}", float("inf"))
            continue
        for item in dict.fromkeys([*old, *new]):
            found = _difference(f"{name}/{item}", old.get(item, _NOTHING), new.get(item, _NOTHING))
            if found is not None:
                yield found


_NOTHING = object()


def _difference(item: str, old: Any, new: Any) -> Difference | None:
    if old is _NOTHING or new is _NOTHING:
        there = json.dumps(old if new is _NOTHING else new, ensure_ascii=False)
        return Difference(
            item, f"only {'before' if new is _NOTHING else 'after'}: {there:.100}", float("inf")
        )
    olds, news = list(_leaves(old)), list(_leaves(new))
    if [place for place, _ in olds] != [place for place, _ in news]:
        sizes = f"{len(olds)} → {len(news)} entries"
        return Difference(item, f"{sizes}: {_short(old)} → {_short(new)}", float("inf"))
    moved = [(place, a, b) for (place, a), (_, b) in zip(olds, news, strict=True) if not _same(a, b)]
    if not moved:
        return None
    texts = [(a, b) for _, a, b in moved if not (_is_number(a) and _is_number(b))]
    if texts and texts != [(a, b) for p, a, b in moved if p.endswith("digest")]:
        renamed = all(
            isinstance(a, str) and isinstance(b, str) and _canonical(a) == _canonical(b) for a, b in texts
        )
        return Difference(
            item, _lines(*map(str, texts[0])), float("inf"), renamed and len(texts) == len(moved)
        )
    figures = [(place, a, b) for place, a, b in moved if _is_number(a)]
    if not figures:
        size = 1e-6 if "shape" in str(old) else float("inf")  # less, or the summaries would show it
        return Difference(item, "another digest, the same summaries", size)
    place, a, b = max(figures, key=lambda f: _relative(f[1], f[2]))
    many = f", the largest of {len(figures)} of {len(olds)} numbers, at {place}" if len(olds) > 1 else ""
    size = max(abs(b - a) for _, a, b in figures)
    return Difference(item, f"{a:.10g} → {b:.10g} ({_relative(a, b):.1e} of it{many})", size)


def _leaves(value: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _leaves(inner, f"{place}.{key}" if place else str(key))
    else:
        yield place, value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(a: Any, b: Any) -> bool:
    """Numbers up to their last recorded digit."""
    if _is_number(a) and _is_number(b):
        return abs(a - b) <= 1e-13 + 3e-10 * max(abs(a), abs(b)) or (a != a and b != b)
    return type(a) is type(b) and a == b


def _relative(a: float, b: float) -> float:
    return abs(b - a) / max(abs(a), abs(b), 1e-300)


def _canonical(words: str) -> str:
    """Old names as new ones, in words; widths of columns do not matter."""
    named = re.sub(r"(?<![\w])(" + "|".join(WORDS) + r")(?![\w])", lambda m: WORDS[m[1]], words)
    return " ".join(named.replace("_", " ").split())


def _short(value: Any) -> str:
    return f"{json.dumps(value, ensure_ascii=False):.80}"


def _lines(old: str, new: str, at_most: int = 12) -> str:
    if "\n" not in old + new:
        return f"{old[:300]!r}\n      → {new[:300]!r}"
    changed = [
        line
        for line in difflib.unified_diff(old.splitlines(), new.splitlines(), lineterm="", n=0)
        if line[:3] not in ("---", "+++") and line[:2] != "@@"
    ]
    more = [f"… {len(changed) - at_most} more lines"] if len(changed) > at_most else []
    return "\n      ".join(["text:", *(line[:200] for line in changed[:at_most]), *more])


def reasons(path: Path) -> list[Reason]:
    """``glob | reason`` or ``glob | <= bound | reason``, one per line; # starts a comment."""
    found = []
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    for line in (line.strip() for line in lines):
        if line and not line.startswith("#"):
            pattern, *bound, words = (part.strip() for part in line.split("|"))
            found.append(
                Reason(pattern, float(bound[0].removeprefix("<=")) if bound else float("inf"), words)
            )
    return found


def diff(before: Record, after: Record, known: list[Reason]) -> int:
    """Print what differs; 1 if any of it has no reason."""
    by_reason: dict[str, list[Difference]] = defaultdict(list)
    for found in differences(before, after):
        why = [r.words for r in known if fnmatch.fnmatchcase(found.item, r.pattern) and found.size <= r.bound]
        by_reason["renamed" if found.renamed else f"because {why[0]}" if why else "unexplained"].append(found)
    unexplained = by_reason.pop("unexplained", [])
    for heading, items in [*sorted(by_reason.items()), ("unexplained", unexplained)]:
        say(f"## {heading}: {len(items)}")
        for found in items:
            say(f"  {found.item}: {found.words}")
        say()
    total = sum(len(items) for items in after.values())
    say(f"inputs: {len(after)}, items: {total}")
    say(f"renamed: {len(by_reason.pop('renamed', []))}, explained: {sum(map(len, by_reason.values()))}")
    say(f"unexplained: {len(unexplained)}")
    return 1 if unexplained else 0


def main() -> int:
    """Parse and run."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    recording = commands.add_parser("record", help="answer all inputs and write the answers")
    recording.add_argument("out", type=Path)
    recording.add_argument(
        "--only", default="*", metavar="GLOB", help="of the inputs; 'cli' for the command line"
    )
    comparing = commands.add_parser("diff", help="list what differs between two records")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--reasons", type=Path, default=_HERE / "behaviour_reasons.txt")
    args = parser.parse_args()
    if args.command == "record":
        args.out.write_text(json.dumps(record(args.only), indent=1, ensure_ascii=False), encoding="utf-8")
        return 0
    before, after = (json.loads(path.read_text(encoding="utf-8")) for path in (args.before, args.after))
    return diff(before, after, reasons(args.reasons))


if __name__ == "__main__":
    sys.exit(main())
