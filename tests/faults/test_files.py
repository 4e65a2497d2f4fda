"""Files that are no tables, targets that must not be written, interruptions: numbers are rows of the list of faults."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from fieldcal.errors import InputError
from fieldcal.storage import write_atomically
from fieldcal.tables.files.duckdb_errors import translated
from fieldcal.tables.files.session import Session


@pytest.fixture
def session():
    with Session(threads=2) as opened:
        yield opened


RAGGED = {
    "fault_42_one_more": ("g,p\n1,0.5\n2,0.5,9\n3,0.5\n", 3, "has 3 values, but the header has 2 names"),
    "fault_42_all_more": ("g,p\n1,0.5\n" + "2,0.5,9\n" * 9, 3, "has 3 values, but the header has 2 names"),
    "fault_42_one_less": ("g,p,x\n1,0.5,1\n2,0.5\n", 3, "has 2 values, but the header has 3 names"),
    "fault_42_late": (
        "g,p\n" + "1,0.5\n" * 30_000 + "1\n",
        30_002,
        "has 1 values, but the header has 2 names",
    ),
    "fault_42_open_quote": ('g,p\n1,0.5\n"2,0.5\n', 3, "opens a quote"),
    "fault_42_semicolons": ("g;p\n1;0,5\n2;0,5;1\n", 3, "has 3 values, but the header has 2 names"),
}


@pytest.mark.parametrize(("text", "line", "words"), RAGGED.values(), ids=RAGGED)
def test_a_line_that_is_no_row_is_named(session, tmp_path, text, line, words):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=rf"t\.csv', line {line}, {words}") as error:
        _ = session.open(tmp_path / "t.csv").relation
    assert "\n" not in str(error.value)


UNUSABLE = {
    "fault_42_blank": (b"\n\n", "has no header: its first line is empty"),
    "fault_42_utf_16": ("g,p\nx,0.5\n".encode("utf-16"), "line 1, is not text in UTF-8"),
    "fault_42_latin_1_header": ("größe,p\n1,0.5\n".encode("latin-1"), "line 1, is not text in UTF-8"),
    "fault_42_latin_1": ("g,p\nx,0.5\nü,0.5\n".encode("latin-1"), "line 3, is not text in UTF-8"),
    "fault_42_spreadsheet": (b"PK\x03\x04" + bytes(100), "is a spreadsheet or another zip file"),
    "fault_42_half_a_gzip": (b"\x1f\x8b\x08\x00\x00", "cannot be used"),
}


@pytest.mark.parametrize(("data", "words"), UNUSABLE.values(), ids=UNUSABLE)
def test_a_file_that_is_no_table_is_refused_in_one_line(session, tmp_path, data, words):
    (tmp_path / "t.csv").write_bytes(data)
    with pytest.raises(InputError, match=words) as error:
        _ = session.open(tmp_path / "t.csv").relation
    assert "t.csv" in str(error.value)
    assert "\n" not in str(error.value)


def test_fault_42_the_bad_one_of_several_files_is_named(session, tmp_path):
    (tmp_path / "a.csv").write_text("g,p\n1,0.5\n")
    (tmp_path / "b.csv").write_text("g,p\n1,0.5,2\n")
    with pytest.raises(InputError, match=r"'b\.csv', line 2, has 3 values"):
        _ = session.open(str(tmp_path / "*.csv")).relation
    (tmp_path / "b.csv").write_text("")
    with pytest.raises(InputError, match=r"b\.csv' is empty"):
        session.open(str(tmp_path / "*.csv"))


def test_fault_38_a_target_that_the_pattern_would_read_next_time_is_refused(session, tmp_path):
    (tmp_path / "deep").mkdir()
    (tmp_path / "a.csv").write_text("p\n0.5\n")
    flat, deep = (session.open(str(tmp_path / pattern)) for pattern in ("*.csv", "**/*.csv"))
    for source, target in ((flat, "out.csv"), (deep, "out.csv"), (deep, "deep/out.csv")):
        with pytest.raises(InputError, match=r"would be an input of .* the next time"):
            session.write(source.relation, tmp_path / target, sources=[source])
    assert session.write(flat.relation, tmp_path / "deep" / "out.csv", sources=[flat]) == 1
    assert session.write(flat.relation, tmp_path / "out.parquet", sources=[flat]) == 1


def test_fault_38_a_read_only_file_is_not_replaced(session, tmp_path):
    target = tmp_path / "out.csv"
    target.write_text("old")
    target.chmod(0o444)
    with pytest.raises(InputError, match="it is read-only"):
        session.write(session.connection.sql("SELECT 1 AS p"), target)
    with pytest.raises(InputError, match="it is read-only"):
        write_atomically(target, b"new")
    assert target.read_text() == "old"


FULL = """
import resource, signal, sys
from fieldcal.errors import InputError
from fieldcal.tables.files.session import Session
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
with Session(memory_limit="100MB", threads=2) as session:
    rows = "SELECT range AS a, random() AS b, random() AS c FROM range(6_000_000)"
    try:
        session.write(session.connection.sql(rows + sys.argv[2]), sys.argv[1])
    except InputError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "order", "words"),
    [
        ("out.csv", "", "Cannot write '{}': File too large. Nothing was changed."),
        ("out.parquet", "", "Cannot write '{}': File too large. Nothing was changed."),
        (
            "out.parquet",
            " ORDER BY b, a",
            "Cannot write temporary data that does not fit into memory: File too large.",
        ),
    ],
    ids=["fault_38_csv", "fault_38_parquet", "fault_38_spilling"],
)
def test_a_full_disk_is_named_and_leaves_the_old_file(tmp_path, name, order, words):
    target = tmp_path / name
    target.write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(target), order], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith(words.format(target)), done.stdout + done.stderr
    assert os.listdir(tmp_path) == [name]
    assert target.read_text() == "old"


def test_fault_43_44_an_interrupted_query_is_ctrl_c_and_nothing_is_loaded_from_a_network(session):
    with pytest.raises(KeyboardInterrupt), translated("t.csv"):
        raise RuntimeError("Query interrupted")
    with pytest.raises(RuntimeError, match="something else"), translated("t.csv"):
        raise RuntimeError("something else")
    for name in ("autoinstall_known_extensions", "autoload_known_extensions"):
        assert session.connection.execute(f"SELECT current_setting('{name}')").fetchall() == [(False,)]
    with translated("t.parquet"), pytest.raises(Exception, match="requires the extension httpfs"):
        session.connection.read_parquet("https://127.0.0.1:1/t.parquet")


def test_fault_43_a_closed_pipe_is_told_to_the_caller(session, monkeypatch):
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb", buffering=0) as pipe:

        class Closed:
            buffer = pipe

        monkeypatch.setattr(sys, "stdout", Closed)
        with pytest.raises(BrokenPipeError):
            session.write(session.connection.sql("SELECT range AS a FROM range(100_000)"), "-")


@pytest.mark.slow
def test_fault_44_nothing_is_left_in_the_working_folder(tmp_path):
    code = """
from fieldcal.tables.files.session import Session
with Session(memory_limit="100MB", threads=2) as session:
    rows = session.connection.sql("SELECT range AS a, random() AS b, random() AS c FROM range(5_000_000) ORDER BY b")
    session.write(rows, "out.parquet")
"""
    work = tmp_path / "work"
    work.mkdir()
    subprocess.run(
        [sys.executable, "-c", code], cwd=work, env={**os.environ, "TMPDIR": str(tmp_path)}, check=True
    )
    assert [p.name for p in tmp_path.rglob("*")] == ["work", "out.parquet"]
