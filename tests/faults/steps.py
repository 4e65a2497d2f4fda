"""Something happens at every step of a write, one after the other: a kill, a refusal, Ctrl-C. What is there then?

    python tests/faults/steps.py FOLDER [EVERY]

A step is what Python's audit hooks tell of: opening, making, renaming, linking, locking, removing. Each is tried in a
fork of this process, which has loaded nothing but `fieldcal.writing`. Prints what is wrong, as JSON. Not collected by
pytest; `test_writing.py` runs it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from fieldcal.errors import InputError
from fieldcal.writing import atomic_folder, write_atomically, write_together

OWN = ("a.json", "b.json", "c.json", "d.json")
OLD = {"a.json": "old a", "b.json": "old b", "d.json": "old d", "notes.txt": "of somebody else"}
NEW = {"a.json": "new a", "b.json": "new b", "c.json": "new c", "notes.txt": "of somebody else"}


def write_folder(place: Path) -> None:
    """Two files are replaced, one is made, one goes, one is not ours."""
    with atomic_folder(place / "out", own=OWN) as inside:
        for name in OWN[:3]:
            write_atomically(inside / name, NEW[name].encode())


def write_file(place: Path) -> None:
    write_atomically(place / "out" / "a.json", b"new a")


def write_files(place: Path) -> None:
    write_together({place / "out" / name: NEW[name].encode() for name in ("a.json", "c.json")})


def write_new_folder(place: Path) -> None:
    with atomic_folder(place / "out" / "deep" / "er", own=OWN) as inside:
        for name in OWN[:3]:
            write_atomically(inside / name, NEW[name].encode())


#: What is written, and what is there before and after.
WRITES = {
    "folder": (write_folder, OLD, NEW),
    "file": (write_file, OLD, OLD | {"a.json": "new a"}),
    "files": (write_files, OLD, OLD | {name: NEW[name] for name in ("a.json", "c.json")}),
    "new folder": (write_new_folder, OLD, OLD | {f"deep/er/{name}": NEW[name] for name in OWN[:3]}),
}
#: What happens at the step, and at some step after it; and what may be seen before anybody has cleaned up.
FAULTS = {
    "kill": (["kill"], True),
    "refusal": (["refuse"], False),
    "ctrl-c": (["interrupt"], False),
    "refusal, then kill": (["refuse", "kill"], True),
    "ctrl-c, then kill": (["interrupt", "kill"], True),
}
GAPS = (1, 2, 4, 8)


class Step:
    """Counts the steps, and does its harm at some of them."""

    def __init__(self, acts: dict[int, str]) -> None:
        self.acts, self.count, self.armed = acts, 0, False
        sys.addaudithook(self.see)

    def see(self, event: str, args: tuple) -> None:
        if not self.armed or not event.startswith(("os.", "open", "fcntl.", "shutil.", "tempfile.")):
            return
        self.count += 1
        act = self.acts.get(self.count)
        if act == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        if act == "refuse":
            raise OSError(28, "No space left on device")
        if act == "interrupt":
            raise KeyboardInterrupt


def content(out: Path) -> dict[str, str]:
    found = [
        p for p in out.rglob("*") if p.is_file() and not str(p.relative_to(out)).startswith(".fieldcal-")
    ]
    return {str(p.relative_to(out)): p.read_text() for p in found}


def attempt(place: Path, write: str, acts: dict[int, str]) -> int:
    """In a fork; 0 if nothing happened to it, as there were not so many steps."""
    (place / "out").mkdir(parents=True)
    for name, text in OLD.items():
        (place / "out" / name).write_text(text)
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1]
    step = Step(acts)
    step.armed = True
    try:
        WRITES[write][0](place)
    except (InputError, KeyboardInterrupt):
        os._exit(1)
    except BaseException as error:
        sys.stderr.write(f"{write} {acts}: {error!r}\n")
        os._exit(2)
    os._exit(int(step.count >= min(acts)))


def judge(place: Path, write: str, killed: bool) -> str | None:
    """What is wrong, if anything."""
    out, (_, old, new) = place / "out", WRITES[write]
    if not killed and content(out) not in (old, new):
        return f"neither old nor new: {content(out)}"
    if any(content(out).get(name) not in (old.get(name), new.get(name)) for name in {*old, *new}):
        return f"half: {content(out)}"
    write_atomically(out / "notes.txt", OLD["notes.txt"].encode())  # the next who writes there
    write_atomically(place / "x", b"")
    if content(out) not in (old, new):
        return f"neither old nor new after the next write: {content(out)}"
    left = [str(p) for p in place.rglob(".fieldcal-*")]
    return f"left behind: {left}" if left else None


def main(folder: Path, every: int = 1) -> None:
    """Kills at every step; everything else at every so many."""
    os.fsync = lambda descriptor: None  # nobody pulls the plug here, and it takes most of the time
    wrong, tries = [], 0
    for write in WRITES:
        for fault, (acts, killed) in FAULTS.items():
            for first in range(1, 1000, 1 if fault == "kill" else every):
                ended = False
                for gap in GAPS if len(acts) > 1 else (0,):
                    place = folder / f"{tries}"
                    tries += 1
                    status = attempt(place, write, dict(zip((first, first + gap), acts, strict=False)))
                    ended = ended or status == 0
                    problem = (
                        "a foreign error" if os.WEXITSTATUS(status) == 2 else judge(place, write, killed)
                    )
                    if problem:
                        wrong.append(f"{write}, {fault} at step {first} (+{gap}): {problem}")
                if ended:
                    break
    sys.stdout.write(json.dumps({"tries": tries, "wrong": wrong}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
