"""What is written, and where: faults 38, 53, 54 and 58, on the library and on every command that writes."""

from __future__ import annotations

import csv
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import fieldcal
from fieldcal.cli import main
from fieldcal.errors import InputError
from fieldcal.storage import atomic_folder, write_atomically
from fieldcal.tables.files.session import Session

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
RUN = ("lab.json", "field.json", "prevalence.json", "prevalence.csv", "recalibrated.parquet", "report.html")
#: Every command that writes one file, with the place of its name.
LINES = {
    "learn": "learn lab.csv --label y --scores p -o {}.json",
    "count": "count lab.json field.csv -o {}.json",
    "merge": "merge field.json -o {}.json",
    "estimate": "estimate lab.json field.json -o {}.json",
    "estimate_csv": "estimate lab.json field.json -o estimate.json --csv {}.csv",
    "recalibrate": "recalibrate prevalence.json field.csv -o {}.csv",
    "report": "report prevalence.json -o {}.html",
}
RUN_LINE = "run lab.csv field.csv --label y --scores p -o {}"


def write_table(path, **columns):
    with Path(path).open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Tables and artefacts, made once; copied, never changed."""
    place = tmp_path_factory.mktemp("shared")
    data = fieldcal.datasets.label_shift(n_lab=400, n_field=300, random_state=0)
    write_table(place / "lab.csv", p=data.proba_lab, y=data.y_lab)
    write_table(place / "field.csv", p=data.proba_field)
    with Session() as session:
        rows = session.open(place / "lab.csv", scores="p", label="y").relation
        lab = fieldcal.tables.learn(rows, scores="p", label="y")
        field = fieldcal.tables.count(lab, session.open(place / "field.csv", scores="p").relation)
    lab.save(place / "lab.json")
    field.save(place / "field.json")
    fieldcal.estimate(lab, field).save(place / "prevalence.json")
    return place


@pytest.fixture
def folder(shared, tmp_path, monkeypatch):
    shutil.copytree(shared, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def state(folder):
    """Every file, with the links for what they are."""

    def content(p):
        return os.readlink(p) if p.is_symlink() else p.read_bytes() if p.is_file() else None

    return {str(p.relative_to(folder)): content(p) for p in sorted(folder.rglob("*"))}


@pytest.fixture
def call(capsys):
    def run(line):
        with pytest.raises(SystemExit) as ended:
            main(shlex.split(line))
        return ended.value.code, capsys.readouterr().err

    return run


@pytest.fixture
def refused(folder, call):
    """The words of a refusal that changed nothing."""

    def run(line):
        before = state(folder)
        code, told = call(line)
        assert (code, len(told.splitlines())) == (1, 1), told
        assert told.startswith("error: ")
        assert state(folder) == before
        return told

    return run


def earlier_run(folder):
    out = folder / "out"
    out.mkdir()
    for name in RUN:
        (out / name).write_bytes(b"old")
    (out / "notes.txt").write_text("of somebody else")
    return state(out)


@pytest.mark.parametrize("there", [True, False], ids=["in_the_old_folder", "in_no_folder"])
def test_fault_54_a_run_that_fails_at_its_last_file_changes_nothing(there, folder, call, monkeypatch):
    before = earlier_run(folder) if there else None

    def full(path, data):
        if path.name != "report.html":
            return write_atomically(path, data)
        assert (path.parent / "recalibrated.parquet").exists()  # it is the last file
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", no_space)
            return write_atomically(path, data)

    monkeypatch.setattr("fieldcal.cli.run.write_atomically", full)
    code, told = call(RUN_LINE.format("out"))
    assert code == 1
    assert told.splitlines()[-1] == (
        "error: Cannot write 'out/report.html': No space left on device. Nothing was changed."
    )
    assert (state(folder / "out") if there else None) == before
    assert there == (folder / "out").exists()
    assert not list(folder.glob(".fieldcal-*"))


def shell(line):
    command = f'"{sys.executable}" -m fieldcal {line}'
    return subprocess.run(command, shell=True, capture_output=True, text=True, check=False, timeout=120)


def no_space(descriptor):
    raise OSError(28, "No space left on device")


def test_fault_54_a_run_replaces_all_of_an_earlier_run_and_nothing_else(folder, call):
    before = earlier_run(folder)
    (folder / "out" / "lab.json").chmod(0o640)
    code, told = call(RUN_LINE.format("out"))
    after = state(folder / "out")
    assert (code, set(after)) == (0, set(before)), told
    assert [name for name in after if after[name] == before[name]] == ["notes.txt"]
    assert (folder / "out" / "lab.json").stat().st_mode & 0o777 == 0o640


def test_fault_54_what_a_run_does_not_make_again_goes_with_a_word(folder, call, monkeypatch):
    earlier_run(folder)
    monkeypatch.setattr("fieldcal.reporting.Report.html", lambda self: 1 / 0)
    code, told = call(RUN_LINE.format("out"))
    assert code == 0
    assert "No report.html" in told
    assert "'out/report.html' was of an earlier run, and is removed." in told
    assert sorted(os.listdir("out")) == sorted([*RUN[:-1], "notes.txt"])


def test_fault_54_of_two_that_write_to_one_folder_the_last_has_all_of_it(tmp_path):
    def write(inside, who):
        for name in ("a", "b"):
            write_atomically(inside / name, f"{who} {name}".encode())

    with atomic_folder(tmp_path, own=("a", "b")) as slow:
        write_atomically(slow / "a", b"slow a")
        with atomic_folder(tmp_path, own=("a", "b")) as quick:
            write(quick, "quick")
        assert (tmp_path / "b").read_bytes() == b"quick b"
        write(slow, "slow")
    assert state(tmp_path) == {"a": b"slow a", "b": b"slow b"}


def write_ab(target):
    """Two files of three: the first is old, the second new, the third goes."""
    with atomic_folder(target, own=("a", "b", "c")) as inside:
        for name in "ab":
            write_atomically(inside / name, f"new {name}".encode())


@pytest.fixture
def old(tmp_path):
    """A folder with two files of ours and one of somebody else."""
    target = tmp_path / "out"
    target.mkdir(mode=0o750)
    for name in ("a", "c", "notes"):
        (target / name).write_text("old")
    (target / "link").symlink_to("notes")
    return target


NEW = {"a": b"new a", "b": b"new b", "notes": b"old", "link": "notes"}


def test_fault_54_a_folder_is_replaced_whole_and_keeps_the_files_and_the_mode(old):
    before = old.stat()
    write_ab(old)
    assert state(old.parent) == {"out": None} | {f"out/{name}": data for name, data in NEW.items()}
    assert old.stat().st_mode == before.st_mode
    assert old.stat().st_ino != before.st_ino


def mounted(folder, monkeypatch):
    monkeypatch.setattr(os.path, "ismount", lambda path: Path(path) == folder)


CANNOT_BE_RENAMED = {
    "mount_point": mounted,
    "working_folder": lambda folder, monkeypatch: monkeypatch.chdir(folder),
    "read_only_parent": lambda folder, monkeypatch: monkeypatch.setattr(
        os, "access", lambda path, mode: Path(path) == folder
    ),
    "subfolder": lambda folder, monkeypatch: (folder / "deep").mkdir(),
    "no_links": lambda folder, monkeypatch: monkeypatch.setattr(os, "link", refuse),
    "rename_refused": lambda folder, monkeypatch: monkeypatch.setattr(os, "rename", refuse),
}


def refuse(*args, **options):
    raise PermissionError(1, "Operation not permitted")


@pytest.mark.parametrize("way", CANNOT_BE_RENAMED)
def test_fault_54_a_folder_that_cannot_be_renamed_gets_its_files(way, old, monkeypatch):
    CANNOT_BE_RENAMED[way](old, monkeypatch)
    before = old.stat().st_ino
    write_ab(old)
    expected = {"out": None, **{f"out/{name}": data for name, data in NEW.items()}}
    assert state(old.parent) == expected | ({"out/deep": None} if way == "subfolder" else {})
    assert old.stat().st_ino == before


def test_fault_54_where_one_of_these_files_is_refused_the_message_names_it(old, monkeypatch):
    monkeypatch.chdir(old)
    real = os.replace
    monkeypatch.setattr(
        os, "replace", lambda a, b: refuse() if b == old / "b" and "new" in Path(a).parts else real(a, b)
    )
    with pytest.raises(InputError, match=r"out/b': Operation not permitted. Of a, b, c in this folder"):
        write_ab(old)
    assert state(old)["a"] == b"new a"
    assert "b" not in state(old)


#: Kills or interrupts a fork at its first, second, … access to the file system, until there are no more.
STEPS = """
import os, shutil, signal, sys
from pathlib import Path
from fieldcal.storage import atomic_folder

def write(target, last, act):
    steps = []
    def see(event, args):
        if event.startswith(("os.", "open", "shutil.", "tempfile.")):
            steps.append(event)
            if len(steps) == last and act == "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            if len(steps) == last:
                raise KeyboardInterrupt
    sys.addaudithook(see)
    try:
        with atomic_folder(target, own=("a", "b", "c")) as inside:
            for name in "ab":
                (inside / name).write_text(f"new {name}")
    except KeyboardInterrupt:
        pass
    os._exit(len(steps) >= last)

for last in range(1, 1000):
    shutil.copytree(sys.argv[1], Path(sys.argv[2], str(last), "out"), symlinks=True)
    if not (child := os.fork()):
        write(Path(sys.argv[2], str(last), "out"), last, sys.argv[3])
    if os.waitpid(child, 0)[1] == 0:
        break
"""


@pytest.mark.parametrize("act", ["kill", "interrupt"])
def test_fault_54_67_at_any_step_of_a_write_the_folder_is_old_or_new(act, old, tmp_path):
    subprocess.run([sys.executable, "-c", STEPS, old, tmp_path / "tries", act], check=True, timeout=60)
    tries, before, beside = list((tmp_path / "tries").iterdir()), state(old), 0
    assert len(tries) > 15
    for place in tries:
        [out, *others] = sorted(path for path in place.iterdir() if not path.name.startswith(".fieldcal-"))
        beside += out.name != "out"
        assert state(out) in ((before, NEW) if out.name == "out" else (before,)), place.name
        assert not others or act == "kill"  # what is left to be removed of the old one
    assert beside == (act == "kill")  # the step between the two renames


def test_fault_38_a_name_as_long_as_names_can_be_is_written(tmp_path):
    name = "x" * 250 + ".json"
    write_atomically(tmp_path / name, b"{}")
    assert os.listdir(tmp_path) == [name]


def test_fault_38_both_files_of_estimate_are_whole_before_either_is_in_its_place(folder, call, monkeypatch):
    for name in ("made.json", "made.csv"):
        (folder / name).write_bytes(b"old")
    before = state(folder)
    real, written = os.fsync, []

    def full(descriptor):
        written.append(descriptor)
        (no_space if len(written) > 1 else real)(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    code, told = call("estimate lab.json field.json -o made.json --csv made.csv")
    words = "error: Cannot write 'made.csv': No space left on device. Nothing was changed.\n"
    assert (code, told) == (1, words)
    assert state(folder) == before


@pytest.mark.slow
def test_fault_38_standard_input_that_does_not_fit_is_named(folder):
    code = """
import resource
from fieldcal.cli import main
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
main(["count", "lab.json", "-", "-o", "new.json"])
"""
    with open("field.csv", "rb") as table:
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, stdin=table, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 1
    assert "Cannot copy standard input to" in done.stderr
    assert "File too large" in done.stderr
    assert len(done.stderr.splitlines()) == 1


NO_INPUT = "error: Standard input is closed. Send a table to it, or name a file.\n"
CLOSED = {
    "count lab.json - -o new.json <&-": (1, NO_INPUT),
    "merge field.json -o new.json >&-": (0, "wrote new.json\n"),
    "recalibrate prevalence.json field.csv -o - >&-": (1, "error: Standard output is closed. Name a file.\n"),
    "merge field.json -o new.json <&- >&- 2>&-": (0, ""),
}


@pytest.mark.slow
@pytest.mark.parametrize("line", CLOSED, ids=["input", "output", "output_of_a_table", "all"])
def test_fault_43_streams_that_are_closed_from_the_start_are_no_traceback(line, folder):
    done = shell(line)
    assert (done.returncode, done.stderr) == CLOSED[line]
    assert (folder / "new.json").exists() == (done.returncode == 0)
    if done.returncode == 0:
        assert fieldcal.Field.load("new.json") == fieldcal.Field.load("field.json")


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_fault_58_a_link_stays_and_the_file_at_its_end_is_written(line, folder, call):
    ending = line.rpartition("{}")[2]
    target = folder / "elsewhere" / "real"
    target.parent.mkdir()
    target.write_bytes(b"old")
    target.chmod(0o600)
    (folder / f"middle{ending}").symlink_to(target)
    (folder / f"link{ending}").symlink_to(f"middle{ending}")
    code, told = call(line.format("link"))
    assert code == 0, told
    assert os.readlink(f"link{ending}") == f"middle{ending}"
    assert os.readlink(f"middle{ending}") == str(target)
    assert target.read_bytes() != b"old"
    assert (target.stat().st_mode & 0o777, os.listdir(target.parent)) == (0o600, ["real"])


NO_FILES = {
    "dangling": ("is a link to 'nowhere', which is not there", lambda path: path.symlink_to("nowhere")),
    "loop": ("Too many levels of symbolic links", lambda path: path.symlink_to(path.name)),
    "to_a_folder": ("it is a folder", lambda path: path.symlink_to(".")),
    "to_a_device": ("it is a device or a pipe", lambda path: path.symlink_to("/dev/null")),
    "to_a_fifo": ("it is a device or a pipe", lambda path: (os.mkfifo("pipe"), path.symlink_to("pipe"))),
    "fifo": ("it is a device or a pipe", os.mkfifo),
    "folder": ("it is a folder", os.mkdir),
}


@pytest.mark.parametrize("kind", NO_FILES)
@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_fault_58_what_is_no_file_is_refused_before_any_work(line, kind, folder, call, monkeypatch):
    words, make = NO_FILES[kind]
    make(folder / f"made{line.rpartition('{}')[2]}")
    before = {p: p.lstat().st_mode for p in folder.iterdir()}
    code, told = call(line.format("made"))
    assert (code, len(told.splitlines())) == (1, 1)
    assert words in told
    assert {p: p.lstat().st_mode for p in folder.iterdir()} == before


@pytest.mark.parametrize("device", ["/dev/null", "/dev/stdout", "/dev/fd/{}", "/proc/self/fd/{}"])
def test_fault_58_devices_are_no_files_wherever_they_lead(device, refused):
    """A stream may be a plain file, which must not be replaced under the shell's feet."""
    with open("told.txt", "w", encoding="utf-8") as stream:
        name = device.format(stream.fileno())
        assert refused(f"merge field.json -o {name}") == (
            f"error: Cannot write {name!r}: it is a device or a pipe. Name a regular file.\n"
        )


def test_fault_58_standard_output_has_a_name_where_it_can_be_written(refused):
    assert "- is standard output" in refused("recalibrate prevalence.json field.csv -o /dev/stdout")
    for name in ("learn", "count", "merge", "estimate"):
        told = refused(LINES[name].replace("{}.json", "-"))
        assert "Only tables are written to standard output" in told


def test_fault_58_the_folder_of_run_may_be_a_link_and_its_files_may_not(folder, call, refused):
    (folder / "real").mkdir()
    (folder / "link").symlink_to("real")
    assert call(RUN_LINE.format("link"))[0] == 0
    assert (folder / "link").is_symlink()
    assert sorted(os.listdir("real")) == sorted(RUN)
    (folder / "real" / "lab.json").unlink()
    (folder / "real" / "lab.json").symlink_to("../lab.json")
    assert "'link/lab.json': it is a link" in refused(RUN_LINE.format("link"))
    for name, target in (("dangling", "nowhere"), ("loop", "loop"), ("file", "lab.csv")):
        (folder / name).symlink_to(target)
        assert "is a link that leads to no folder" in refused(RUN_LINE.format(name))
    assert "is a file, but `run` needs a folder" in refused(RUN_LINE.format("lab.csv"))
    assert "it is no folder" in refused(RUN_LINE.format("lab.csv/out"))


@pytest.mark.parametrize("way", ["itself", "dots", "symlink", "hardlink"])
@pytest.mark.parametrize(
    ("line", "taken"),
    [
        ("learn lab.csv --label y --scores p -o {}", "lab.csv"),
        ("count lab.json field.csv -o {}", "lab.json"),
        ("count lab.json field.csv -o {}", "field.csv"),
        ("count lab.json field.csv --labelled lab.csv -o {}", "lab.csv"),
        ("merge field.json -o {}", "field.json"),
        ("estimate lab.json field.json --labelled lab.csv -o {}", "lab.csv"),
        ("estimate lab.json field.json -o {}", "lab.json"),
        ("estimate lab.json field.json -o {}", "field.json"),
        ("estimate lab.json field.json -o new.json --csv {}", "field.json"),
        ("estimate lab.json field.json -o prevalence.json --csv {}", "prevalence.json"),
        ("recalibrate prevalence.json field.csv -o {}", "field.csv"),
        ("recalibrate prevalence.json 'fi*.csv' -o {}", "field.csv"),
        ("report prevalence.json --labelled lab.csv --label y -o {}", "prevalence.json"),
    ],
    ids=lambda text: text.split()[0] if " " in text else text.replace(".", "_"),
)
def test_fault_53_an_output_that_is_an_input_or_another_output_is_refused(line, taken, way, folder, refused):
    (folder / "folder").mkdir()
    other = f"other{Path(taken).suffix}"
    name = {"itself": taken, "dots": f"folder/../{taken}"}.get(way, other)
    if way == "symlink":
        (folder / other).symlink_to(taken)
    if way == "hardlink":
        (folder / other).hardlink_to(taken)
    told = refused(line.format(name))
    assert "is an input: it would be written over" in told or "would both be written to" in told


def test_fault_53_the_files_of_run_are_not_what_it_reads(folder, refused):
    (folder / "out").mkdir()
    (folder / "out" / "recalibrated.parquet").hardlink_to("field.csv")
    assert "is an input: it would be written over" in refused(RUN_LINE.format("out"))
    (folder / "out" / "recalibrated.parquet").unlink()
    line = "run lab.csv '**/*.csv' --label y --scores p -o out"
    assert "would be an input of '**/*.csv' the next time" in refused(line)
    (folder / "out" / "more.csv").write_text("p\n0.5\n")
    assert "holds the input" in refused("run lab.csv out/more.csv --label y --scores p -o ./out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("redirection", "words"),
    [
        ("recalibrate prevalence.json - -o field.csv < field.csv", "standard input comes from"),
        ("merge field.json -o made.json > made.json", "standard output goes to"),
        ("merge field.json -o made.json 2>> made.json", None),
    ],
    ids=["read", "written", "told"],
)
def test_fault_53_what_the_shell_has_opened_is_not_replaced(redirection, words, folder):
    before = (folder / "field.csv").read_bytes()
    done = shell(redirection)
    assert done.returncode == 1
    told = done.stderr or (folder / "made.json").read_text()
    assert (words or "standard error goes to") in told
    assert (folder / "field.csv").read_bytes() == before
