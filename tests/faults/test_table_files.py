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
from fieldcal.cli.main import main
from fieldcal.errors import InputError
from fieldcal.tables.files.session import Session


@pytest.fixture(scope="module")
def lab():
    data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    return tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")


@contextlib.contextmanager
def writing(target, code, *arguments):
    """A process that is in the middle of writing: its file in the hidden folder beside the target has bytes in it."""
    heeds = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)  # a background job does not
    command = [sys.executable, "-c", code, str(target), *map(str, arguments)]
    process = subprocess.Popen(command, preexec_fn=heeds)
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


SIGNALS = {"fault_38_43_ctrl_c": signal.SIGINT, "fault_38_43_terminated": signal.SIGTERM}
SIGNALS["fault_38_killed"] = signal.SIGKILL


@pytest.mark.slow
@pytest.mark.parametrize("number", SIGNALS.values(), ids=SIGNALS)
def test_a_write_that_is_ended_leaves_the_old_file_and_nothing_else_unless_killed(lab, tmp_path, number):
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    table, prevalence = tmp_path / "in" / "log.csv", tmp_path / "in" / "prevalence.json"
    target = tmp_path / "out" / "out.parquet"
    target.write_bytes(b"what was there before")
    table.write_text("p\n0.5\n0.25\n")
    with Session() as session:
        field = tables.count(lab, session.open(table, scores="p").relation)
    fieldcal.estimate(lab, field, trust=1).save(prevalence)
    with writing(target, ENDLESS_COMMAND, prevalence, table) as process:
        process.send_signal(number)
    killed = number == signal.SIGKILL
    assert process.returncode == (-number if killed else 130)
    assert target.read_bytes() == b"what was there before"
    assert killed or list((tmp_path / "out").iterdir()) == [target]


def test_fault_38_a_target_that_cannot_be_is_refused_before_the_work(session, tmp_path):
    (tmp_path / "folder.parquet").mkdir()
    endless = session.connection.sql("SELECT random() AS p FROM range(100_000_000_000)")
    for name, words in (
        ("nowhere/out.parquet", "there is no folder"),
        ("folder.parquet", "it is a folder"),
        ("out.xlsx", r"must end in one of \.parquet, \.csv"),
    ):
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


BROKEN = {
    "fault_42_empty": ("t.csv", b"", "is empty"),
    "fault_42_no_parquet": ("t.parquet", b"p\n0.5\n", "named .parquet but is not a parquet file"),
    "fault_42_half_a_parquet": ("t.parquet", b"PAR1" + bytes(50), "cannot be used"),
}


@pytest.mark.parametrize(("name", "data", "words"), BROKEN.values(), ids=BROKEN)
def test_a_file_that_is_no_table_is_an_error_in_one_line(session, tmp_path, name, data, words):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=words) as error:
        session.open(tmp_path / name).relation.fetchall()
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("source", "words"),
    [("lgo.csv", r"There is no file .*lgo\.csv.*Did you mean 'log\.csv'"), ("none_*.csv", "No file matches")],
    ids=["fault_42_misspelt", "fault_42_empty_pattern"],
)
def test_a_name_without_a_file_is_an_error(session, tmp_path, source, words):
    (tmp_path / "log.csv").write_text(ROWS)
    with pytest.raises(InputError, match=words):
        session.open(str(tmp_path / source))


def test_fault_44_addresses_are_refused_as_nothing_goes_to_a_network(session):
    for address in ("https://example.org/t.parquet", "s3://bucket/t.parquet"):
        with pytest.raises(InputError, match="reads files only"):
            session.open(address)


def partitioned(folder, suffix):
    """A lab, and a field in ``log/day=01/zone=a b/…``, whose rows are all of one day and zone per file."""
    data = fieldcal.datasets.label_shift(n_lab=1500, n_field=600, random_state=2)
    days = [f"{i % 2 + 1:02d}" for i in range(1500)]
    lab = pl.DataFrame(
        {"p": data.proba_lab, "y": data.y_lab, "day": days, "hour": [i % 2 for i in range(1500)]}
    )
    lab.write_csv(folder / "lab.csv")
    rows = pl.DataFrame({"p": data.proba_field}).with_columns(
        day=pl.Series([days[i // 300] for i in range(600)]), hour=pl.Series([i // 300 for i in range(600)])
    )
    for (day, hour), part in rows.group_by("day", "hour", maintain_order=True):
        place = folder / "log" / f"day={day}" / f"hour={hour}" / "zone=a%20b"
        place.mkdir(parents=True)
        getattr(part.select("p"), f"write_{suffix}")(place / f"part.{suffix}")
    (folder / "log" / "_SUCCESS").write_text("")
    return rows


@pytest.mark.parametrize("suffix", ["parquet", "csv", "ndjson"])
def test_fault_79_a_partitioned_folder_is_a_table_with_the_columns_of_its_folders(session, tmp_path, suffix):
    rows = partitioned(tmp_path, suffix)
    lab = session.open(tmp_path / "lab.csv", scores="p", label="y", by=["day", "hour"]).relation
    lab = tables.learn(lab, scores="p", label="y", by=["day", "hour"])
    assert lab.groups == (("01", 0), ("02", 1))
    for source in (
        tmp_path / "log",
        tmp_path / "log" / "**" / "part.*",
        tmp_path / "log" / "day=*" / "*" / "*" / "*",
    ):
        log = session.open(source).bound(lab)
        assert log.columns == ["p", "day", "hour", "zone"]
        assert tables.count(lab, log.relation) == tables.count(lab, rows)
    prev = fieldcal.estimate(lab, tables.count(lab, rows), trust=1)
    tables.recalibrate_file(prev, session, log, tmp_path / "out.parquet")
    made = pl.read_parquet(tmp_path / "out.parquet")
    assert made.select("p", "day", "hour").equals(rows)
    assert made["zone"].unique().to_list() == ["a b"]
    part = next((tmp_path / "log").rglob(f"part.{suffix}"))
    assert session.open(part).columns == ["p"], "of one file, its folders say nothing"


@pytest.mark.slow
def test_fault_79_a_partitioned_folder_is_run_and_never_written_into(tmp_path, monkeypatch, capsys):
    partitioned(tmp_path, "parquet")
    monkeypatch.chdir(tmp_path)
    asked = ["run", "lab.csv", "log", "--label", "y", "--scores", "p", "--by", "day,hour", "-o"]
    with pytest.raises(SystemExit) as ended:
        main([*asked, "log/out"])
    assert ended.value.code == 1
    assert "would be an input of 'log' the next time" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main([*asked, "out"])
    assert (ended.value.code, fieldcal.Field.load("out/field.json").groups) == (0, (("01", 0), ("02", 1)))


def test_fault_79_a_folder_that_is_no_table_is_refused_with_the_way_out(session, tmp_path):
    (tmp_path / "part-0").write_text("p\n0.5\n")
    with pytest.raises(InputError, match=r"holds no table: no file .* ends in \.parquet, .*/\*\*/part-\*'"):
        session.open(tmp_path)
    (tmp_path / "a.csv").write_text("p\n0.5\n")
    (tmp_path / "b=1").mkdir()
    (tmp_path / "b=1" / "a.csv").write_text("p\n0.5\n")
    with pytest.raises(InputError, match="are in folders of different keys"):
        session.open(tmp_path)


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
    assert ((done.stderr, done.returncode), done.stdout) == (("", 0), "p,at\n0.25,2024-03-31 02:30:00\n")


@pytest.mark.slow
def test_fault_45_a_missing_extra_is_an_error_with_the_line_that_installs_it():
    code = """
import sys
sys.modules["duckdb"] = None
import fieldcal
from fieldcal.tables.files.session import Session
try:
    Session()
except fieldcal.FieldcalError as error:
    assert isinstance(error, ImportError)
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'fieldcal[cli]'" in done.stdout, done.stderr
