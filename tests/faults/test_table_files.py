"""Bad files and faults while writing: the numbers are rows of the list of faults."""

from __future__ import annotations

import contextlib
import functools
import gzip
import os
import signal
import subprocess
import sys
import time

import polars as pl
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import FieldcalError, InputError
from fieldcal.tables.files.session import Session


@pytest.fixture(scope="module")
def lab():
    data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    return tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")


#: Writes numbers without end, so that it can be ended at any moment; the path is the first argument.
ENDLESS = """
import sys
from fieldcal.tables.files.session import Session
with Session(threads=1) as session:
    session.write(session.connection.sql("SELECT random() AS p FROM range(100_000_000_000)"), sys.argv[1])
"""


@contextlib.contextmanager
def writing(target, code=ENDLESS, *arguments):
    """A process that is in the middle of writing: its file in the hidden folder beside the target has bytes in it."""
    heeds = functools.partial(
        signal.signal, signal.SIGINT, signal.SIG_DFL
    )  # a job in the background does not
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(target), *map(str, arguments)], preexec_fn=heeds
    )
    try:
        deadline = time.monotonic() + 60
        while not has_bytes(target):
            assert process.poll() is None, "it ended before it wrote"
            assert time.monotonic() < deadline, "it never wrote"
        yield process
        process.wait(timeout=60)
    finally:
        process.kill()
        process.wait()


def has_bytes(target):
    with contextlib.suppress(FileNotFoundError):
        return any(p.stat().st_size for p in target.parent.glob(f".fieldcal-*/{target.name}"))
    return False


@pytest.mark.slow
@pytest.mark.parametrize("old", [None, b"what was there before"], ids=["fault_38_new", "fault_38_replaced"])
def test_a_process_killed_while_writing_leaves_the_old_file_or_none(tmp_path, old):
    target = tmp_path / "out.parquet"
    if old is not None:
        target.write_bytes(old)
    with writing(target) as process:
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert (target.read_bytes() if target.exists() else None) == old


#: The command line, with a table that has no end.
ENDLESS_COMMAND = """
import sys
from fieldcal import cli, tables
def endless(prev, session, source, target, **options):
    return session.write(session.connection.sql("SELECT random() AS p FROM range(100_000_000_000)"), target)
tables.recalibrate_file = endless
sys.argv = ["fieldcal", "recalibrate", sys.argv[2], sys.argv[3], "-o", sys.argv[1]]
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM], ids=["fault_38_43_ctrl_c", "fault_38_43_terminated"]
)
def test_an_interrupted_write_leaves_nothing_behind(lab, tmp_path, number):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    table, prevalence = tmp_path / "in" / "log.csv", tmp_path / "in" / "prevalence.json"
    table.write_text("p\n0.5\n0.25\n")
    with Session() as session:
        field = tables.count(lab, session.open(table, scores="p").relation)
    fieldcal.estimate(lab, field, trust=1).save(prevalence)
    with writing(tmp_path / "out" / "out.parquet", ENDLESS_COMMAND, prevalence, table) as process:
        process.send_signal(number)
    assert process.returncode == 130
    assert list((tmp_path / "out").iterdir()) == []


def linked(how, source, tmp_path):
    """Another name of the same file."""
    if how == "itself":
        return source
    other = tmp_path / "other.parquet"
    if how == "through a folder":
        return tmp_path / "sub" / ".." / source.name
    os.symlink(source, other) if how == "a symbolic link" else os.link(source, other)
    return other


@pytest.mark.parametrize("how", ["itself", "a symbolic link", "a hard link", "through a folder"])
def test_fault_38_the_input_is_never_written_over(session, lab, tmp_path, how):
    source = tmp_path / "log.parquet"
    (tmp_path / "sub").mkdir()
    pl.DataFrame({"p": [0.1, 0.9]}).write_parquet(source)
    before = source.read_bytes()
    log = session.open(source)
    prev = fieldcal.estimate(lab, tables.count(lab, log.relation), trust=1)
    with pytest.raises(InputError, match="is an input: it would be written over"):
        tables.recalibrate_file(prev, session, log, linked(how, source, tmp_path))
    assert source.read_bytes() == before


def test_fault_38_one_file_of_a_pattern_is_never_written_over(session, lab, tmp_path):
    for name in ("a", "b"):
        pl.DataFrame({"p": [0.1, 0.9]}).write_parquet(tmp_path / f"{name}.parquet")
    log = session.open(str(tmp_path / "*.parquet"))
    with pytest.raises(InputError, match="would be written over"):
        session.write(log.relation, tmp_path / "b.parquet", sources=[log])


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("nowhere/out.parquet", "there is no folder"),
        ("folder.parquet", "it is a folder"),
        ("out.xlsx", r"must end in one of \.parquet, \.csv"),
        ("out", "must end in one of"),
    ],
)
def test_fault_38_a_target_that_cannot_be_is_refused_before_the_work(session, tmp_path, name, words):
    (tmp_path / "folder.parquet").mkdir()
    endless = session.connection.sql("SELECT random() AS p FROM range(100_000_000_000)")
    with pytest.raises(InputError, match=words):
        session.write(endless, tmp_path / name)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere, so nothing is read-only for it")
def test_fault_38_a_read_only_folder_is_refused(session, tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="read-only"):
        session.write(session.connection.sql("SELECT 1 AS p"), tmp_path / "out.parquet")


ROWS = "p,g\n0.25,York\n0.5,Leeds\n"
READABLE = {
    "fault_42_bom": ("\ufeff" + ROWS).encode(),
    "fault_42_semicolon_decimal_comma": ROWS.replace(",", ";").replace(".", ",").encode(),
    "fault_42_semicolon": ROWS.replace(",", ";").encode(),
    "fault_42_tabs": ROWS.replace(",", "\t").encode(),
    "fault_42_gzip": gzip.compress(ROWS.encode()),
    "fault_42_crlf": ROWS.replace("\n", "\r\n").encode(),
    "fault_42_no_last_newline": ROWS.rstrip().encode(),
    "fault_42_quoted": ROWS.replace("York", '"York"').encode(),
}


@pytest.mark.parametrize("data", READABLE.values(), ids=READABLE)
def test_csv_as_people_write_it_is_read(session, lab, tmp_path, data):
    (tmp_path / "t.csv").write_bytes(data)
    source = session.open(tmp_path / "t.csv").bound(lab, by="g")
    field = tables.count(lab, source.relation, by="g")
    assert field == tables.count(lab, pl.DataFrame({"p": [0.25, 0.5], "g": ["York", "Leeds"]}), by="g")


def test_fault_42_a_header_alone_is_a_table_without_rows(session, lab, tmp_path):
    (tmp_path / "t.csv").write_text("p,g\n")
    with pytest.raises(FieldcalError, match="no rows") as error:
        tables.count(lab, session.open(tmp_path / "t.csv").relation)
    assert "\n" not in str(error.value)


def test_fault_42_ragged_rows_are_an_error_with_the_line(session, lab, tmp_path):
    lines = ["p,g", *["0.5,York"] * 30, "0.5,York,more,and,more", *["0.5,York"] * 30]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    with pytest.raises(InputError, match=r"t\.csv.*line 32") as error:
        tables.count(lab, session.open(tmp_path / "t.csv").relation, by="g")
    assert "\n" not in str(error.value)


BROKEN = {
    "fault_42_empty": ("t.csv", b"", "is empty"),
    "fault_42_no_parquet": ("t.parquet", b"p\n0.5\n", "named .parquet but is no parquet file"),
    "fault_42_half_a_parquet": ("t.parquet", b"PAR1" + bytes(50), "cannot be used"),
    "fault_42_latin_1": ("t.csv", b"p,g\n" + b"0.5,M\xfcnchen\n" * 20, "UTF-8"),
}


@pytest.mark.parametrize(("name", "data", "words"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_table_is_an_error_in_one_line(session, tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=words) as error:
        session.open(tmp_path / name).relation.fetchall()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("lgo.csv", r"There is no file .*lgo\.csv.*Did you mean 'log\.csv'"),
        ("none_*.csv", "No file matches"),
        ("", "is a folder"),
    ],
    ids=["fault_42_misspelt", "fault_42_empty_pattern", "fault_42_folder"],
)
def test_a_name_without_a_file_is_an_error(session, tmp_path, source, words):
    (tmp_path / "log.csv").write_text(ROWS)
    with pytest.raises(InputError, match=words):
        session.open(str(tmp_path / source))


def test_fault_44_addresses_are_refused_as_nothing_goes_to_a_network(session):
    for address in ("https://example.org/t.parquet", "s3://bucket/t.parquet"):
        with pytest.raises(InputError, match="goes to no network"):
            session.open(address)


@pytest.mark.slow
@pytest.mark.parametrize(
    "env",
    [{}, {"HOME": "/proc"}, {"LC_ALL": "de_DE.UTF-8", "TZ": "Asia/Kathmandu"}],
    ids=["fault_44_nothing_set", "fault_44_read_only_home", "fault_44_locale_and_zone"],
)
def test_files_are_read_and_written_in_any_environment(tmp_path, env):
    (tmp_path / "t.csv").write_text("p,at\n0.25,2024-03-31 02:30:00\n")
    code = """
import sys
from fieldcal.tables.files.session import Session
with Session() as session:
    session.write(session.open("t.csv").relation, "out.csv")
print(open("out.csv").read(), end="")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout == "p,at\n0.25,2024-03-31 02:30:00\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "call", "extra"),
    [
        ("duckdb", "from fieldcal.tables.files.session import Session; Session()", "cli"),
        ("sqlglot", "tables.sql_count(lab, 't', scores='p', dialect='duckdb')", "sql"),
    ],
    ids=["fault_45_duckdb", "fault_45_sqlglot"],
)
def test_a_missing_extra_is_an_error_with_the_line_that_installs_it(module, call, extra):
    code = f"""
import sys
sys.modules[{module!r}] = None
import fieldcal
from fieldcal import tables
lab = fieldcal.learn([.1, .2, .8, .9] * 20, [0, 0, 1, 1] * 20)
try:
    {call}
except fieldcal.FieldcalError as error:
    assert isinstance(error, ImportError)
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"pip install 'fieldcal[{extra}]'" in done.stdout, done.stderr
