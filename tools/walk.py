"""The files of fieldcal that a job enters, in the order in which it enters them.

    python tools/walk.py                    # `fieldcal run lab.csv field.parquet`, and the four verbs on arrays
    python tools/walk.py --calls            # and how often each public function of core/ and tables/ was called
    python tools/walk.py --imports          # files that are imported count as well
    python tools/walk.py run --label y --scores p lab.csv field.parquet -o out     # any other command

The tree is the one that ``import fieldcal`` finds (``PYTHONPATH=…/src``). A file is entered when one of its functions
is called; what runs while a module is imported (its own lines, class bodies, decorators) is not counted. Every job
runs in a process of its own, so that nothing is loaded or cached before it.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections import Counter, defaultdict
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

#: A function of this name is a verb at work: the outermost one that runs is whom a call is counted for.
_VERB = re.compile(r"(learn|count|estimate|recalibrate)(_stage|_table|_file)?")
_VERBS = ("learn", "count", "estimate", "recalibrate")
_IS_FUNCTION = 0x1  # CO_OPTIMIZED: modules and class bodies do not have it
_RUN = "run lab.csv field.parquet --label y --scores p --by town -o out"


def say(line: str = "") -> None:
    """On standard output."""
    sys.stdout.write(f"{line}\n")


class Walk:
    """What is called while it is on: `entered` and `imported` in order, `calls` by file and function."""

    def __init__(self, package: str, imports: bool) -> None:
        self.package, self.imports = package, imports
        self.entered: dict[str, None] = {}
        self.verbs: defaultdict[str, set[str]] = defaultdict(set)
        self.calls: Counter[tuple[str, str]] = Counter()
        self.callers: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
        self._importing = 0  # module bodies that are running
        self._verb: list[str] = []
        self._files: dict[CodeType, str | None] = {}

    def __enter__(self) -> Walk:
        threading.setprofile(self._seen)
        sys.setprofile(self._seen)
        return self

    def __exit__(self, *_: Any) -> None:
        sys.setprofile(None)
        threading.setprofile(None)

    def _file(self, code: CodeType) -> str | None:
        """Relative to the package; None if it is elsewhere."""
        if code not in self._files:
            path = os.path.realpath(code.co_filename)
            inside = path.startswith(self.package + os.sep)
            self._files[code] = os.path.relpath(path, self.package) if inside else None
        return self._files[code]

    def _seen(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "return"):
            return
        code = frame.f_code
        file = self._file(code)
        if file is None:
            return
        if code.co_name == "<module>":
            self._importing += 1 if event == "call" else -1
            if self.imports:
                self.entered.setdefault(file)
        elif not self._importing and code.co_flags & _IS_FUNCTION:
            self._function(frame, event, file)

    def _function(self, frame: FrameType, event: str, file: str) -> None:
        name = frame.f_code.co_qualname
        verb = _VERB.fullmatch(name)
        if event == "return":
            if verb:
                self._verb.pop()
            return
        if verb:
            self._verb.append(verb[1])
        self.entered.setdefault(file)
        if self._verb:
            self.verbs[file].add(self._verb[0])
        self.calls[file, name] += 1
        self.callers[file, name].add(_caller(frame))


def _caller(frame: FrameType) -> str:
    back = frame.f_back
    return "" if back is None else f"{Path(back.f_code.co_filename).name}:{back.f_lineno}"


# The jobs. What they work on is made before, elsewhere: here nothing of fieldcal is loaded yet.


def make_inputs(folder: Path) -> None:
    """Two classes in groups that the lab has as well: two tables, and the same as arrays."""
    import numpy as np
    import polars
    from behaviour_data import TWO, class_columns, shifted

    lab, field = class_columns()
    polars.DataFrame(lab).write_csv(folder / "lab.csv")
    polars.DataFrame(field).write_parquet(folder / "field.parquet")
    np.savez(folder / "rows.npz", **shifted(TWO)._asdict())


def on_files(walk: Walk, command: list[str]) -> None:
    """A command of `fieldcal`, as its entry point runs it."""
    said, code = io.StringIO(), None
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said), walk:
        from fieldcal.cli import main

        try:
            main(command)
        except SystemExit as done:
            code = done.code
    if code:
        sys.exit(f"`fieldcal {' '.join(command)}` ended with {code}: {said.getvalue()}")


def on_arrays(walk: Walk) -> None:
    """The four verbs: two classes, groups, and a rehearsal."""
    import numpy as np

    rows = np.load("rows.npz")
    with walk:
        import fieldcal

        lab = fieldcal.learn(rows["lab"], rows["y"], groups=rows["lab_groups"])
        field = fieldcal.count(lab, rows["field"], groups=rows["field_groups"])
        prev = fieldcal.estimate(lab, field)
        fieldcal.recalibrate(prev, rows["field"], groups=rows["field_groups"])


def _job(command: list[str], imports: bool) -> None:
    """Walk, and write what was seen as JSON."""
    spec = importlib.util.find_spec("fieldcal")
    if spec is None or spec.origin is None:
        sys.exit("There is no fieldcal to walk through. Set PYTHONPATH to its src.")
    walk = Walk(os.path.realpath(Path(spec.origin).parent), imports)
    on_files(walk, command) if command else on_arrays(walk)
    calls = [[f, name, n, len(walk.callers[f, name])] for (f, name), n in walk.calls.items()]
    verbs = {file: [v for v in _VERBS if v in found] for file, found in walk.verbs.items()}
    found = {"package": walk.package, "entered": list(walk.entered), "verbs": verbs, "calls": calls}
    json.dump(found, sys.stdout)


def _walked(command: list[str], imports: bool) -> dict[str, Any]:
    line = [
        sys.executable,
        str(Path(__file__).resolve()),
        "--job",
        *(["--imports"] if imports else []),
        *command,
    ]
    with tempfile.TemporaryDirectory() as folder:
        make_inputs(Path(folder))
        done = subprocess.run(line, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(done.returncode)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


# What is printed.


def show(title: str, found: dict[str, Any], *, calls: bool) -> None:
    """The files in order, those of several verbs, and the calls."""
    say(f"## {title}: {len(found['entered'])} files")
    for number, file in enumerate(found["entered"], 1):
        say(f"{number:4}  {file:40} {' '.join(found['verbs'].get(file, []))}".rstrip())
    several = {file: verbs for file, verbs in found["verbs"].items() if len(verbs) > 1}
    say(f"\nentered by more than one verb: {len(several)} files")
    for file, verbs in sorted(several.items(), key=lambda item: (-len(item[1]), item[0])):
        say(f"      {file:40} {' '.join(verbs)}")
    if calls:
        say("\ncalls of public functions in core/ and tables/ (and from how many places)")
        for file, name, n, places in sorted(found["calls"]):
            if file.startswith(("core", "tables")) and not re.search(r"(^|\.)_|<", name):
                say(f"{n:8}  {places:3}  {file:32} {name}")
    say()


def main() -> None:
    """Parse and walk."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--imports", action="store_true", help="count imported files as well")
    parser.add_argument("--calls", action="store_true", help="print how often public functions are called")
    parser.add_argument("--job", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="another command of fieldcal")
    args = parser.parse_args()
    if args.job:
        _job(args.command, args.imports)
        return
    command = args.command or _RUN.split()
    found = _walked(command, args.imports)
    say(f"{found['package']}\n")
    show(f"fieldcal {' '.join(command)}", found, calls=args.calls)
    if not args.command:
        show("learn → count → estimate → recalibrate on arrays", _walked([], args.imports), calls=args.calls)


if __name__ == "__main__":
    main()
