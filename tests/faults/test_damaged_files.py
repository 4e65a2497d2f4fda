"""Tables in damaged, endless or empty files, and odd names: rows 55 to 58 and 70 of the table of faults."""

from __future__ import annotations

import contextlib
import functools
import gzip
import io
import json
import os
import shutil
import socket
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fieldcal
from fieldcal import cli, regression, tables
from fieldcal.errors import ArtefactError, InputError, InputTypeError
from fieldcal.tables.files.session import Session

ROWS = 400


@functools.cache
def rows():
    data = fieldcal.datasets.label_shift(n_lab=50, n_field=ROWS, random_state=1)
    towns = [f"town {i % 3}" for i in range(ROWS)]
    return pl.DataFrame({"p": data.proba_field, "g": towns, "x": [f"note {i * i}" for i in range(ROWS)]})


@functools.cache
def lab():
    data = fieldcal.datasets.label_shift(n_lab=800, random_state=0)
    return tables.learn(pl.DataFrame({"p": data.proba_lab, "y": data.y_lab}), scores="p", label="y")


@functools.cache
def prevalence(grouped=False):
    return fieldcal.estimate(lab(), tables.count(lab(), rows(), by="g" if grouped else []), trust=1)


def count_file(path, **options):
    with Session(threads=2) as session:
        return tables.count(lab(), session.open(path).bound(lab(), by=options.get("by")).relation, **options)


def command(*args):
    """The exit code of a command, and what it said on stderr."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), pytest.raises(SystemExit) as ended:
        cli.main(list(map(str, args)))
    return ended.value.code, said.getvalue()


@pytest.fixture
def saved(tmp_path):
    lab().save(tmp_path / "lab.json")
    prevalence().save(tmp_path / "prevalence.json")
    return tmp_path


@pytest.mark.parametrize("rows_", [ROWS, 100_000], ids=["short", "long"])
def test_fault_55_a_truncated_gzip_is_named(tmp_path, rows_):
    text = pl.DataFrame({"p": np.linspace(0, 1, rows_)}).write_csv().encode()
    data = gzip.compress(text, 1)
    for length in (12, len(data) // 2, len(data) - 4):
        (tmp_path / "t.csv.gz").write_bytes(data[:length])
        with pytest.raises(InputError, match=r"t\.csv\.gz' cannot be used: .* Was it copied whole\?"):
            count_file(tmp_path / "t.csv.gz")


@pytest.mark.parametrize("verb", ["count", "recalibrate"])
def test_fault_55_the_command_line_blames_the_file_and_not_itself(saved, verb):
    data = bytearray(gzip.compress(rows().write_csv().encode()))
    data[12] ^= 0x44
    (saved / "t.csv.gz").write_bytes(data)
    artefact = {"count": "lab.json", "recalibrate": "prevalence.json"}[verb]
    target = saved / {"count": "o.json", "recalibrate": "o.csv"}[verb]
    code, said = command(verb, saved / artefact, saved / "t.csv.gz", "-o", target)
    assert code == 1
    assert said.startswith("error: 't.csv.gz' cannot be used")
    assert "bug" not in said
    assert not target.exists()


def test_fault_55_a_truncated_parquet_is_named_and_false_statistics_change_no_count(tmp_path):
    rows().write_parquet(tmp_path / "t.parquet")
    data = (tmp_path / "t.parquet").read_bytes()
    for share in (0.1, 0.9, 0.999):
        (tmp_path / "t.parquet").write_bytes(data[: int(share * len(data))])
        with pytest.raises(InputError, match=r"t\.parquet' cannot be used"):
            count_file(tmp_path / "t.parquet")
    # DuckDB answers comparisons from them: with a false maximum, every score was in the first bins.
    path = tmp_path / "t.parquet"
    rows().write_parquet(path, statistics="full")
    data = path.read_bytes()
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    most, false = np.float64(rows()["p"].max()).tobytes(), np.float64(0.01).tobytes()
    assert most in data[footer:]
    path.write_bytes(data[:footer] + data[footer:].replace(most, false))
    assert count_file(path) == tables.count(lab(), rows())
    assert count_file(path, by="g") == tables.count(lab(), rows(), by="g")


def _with_a_broken_page(path, column):
    """Of a file whose pages are gzipped: a few bytes in the middle of one column's data are others."""
    pq.write_table(rows().to_arrow(), path, compression="gzip", use_dictionary=False)
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(rows().columns.index(column))
    at = chunk.data_page_offset + chunk.total_compressed_size // 2
    data = bytearray(path.read_bytes())
    data[at : at + 8] = bytes(b ^ 0xFF for b in data[at : at + 8])
    path.write_bytes(data)


def test_fault_55_a_broken_page_is_the_fault_of_the_file_also_while_another_is_written(tmp_path):
    path = tmp_path / "t.parquet"
    _with_a_broken_page(path, "p")
    with pytest.raises(InputError, match=r"t\.parquet' cannot be used"):
        count_file(path)
    _with_a_broken_page(path, "x")
    with Session(threads=2) as session:
        source = session.open(path)
        with pytest.raises(InputError, match=r"t\.parquet' cannot be used"):
            tables.recalibrate_file(prevalence(), session, source, tmp_path / "out.csv")
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


def test_fault_56_a_table_or_window_without_rows_is_no_estimate(engine, tmp_path):
    empty = engine.make(
        rows().head(0).to_arrow().cast(pa.schema({"p": "float64", "g": "string", "x": "string"}))
    )
    with pytest.raises(InputError, match="The field is empty: it has no rows"):
        tables.count(lab(), empty)
    field = tables.count(lab(), empty, by="g")
    assert (field.groups, (field + field).groups) == ((), ())
    with pytest.raises(InputError, match="The field is empty: it has no rows"):
        fieldcal.estimate(lab(), field)
    answer = engine.read(tables.recalibrate(prevalence(grouped=True), empty, by="g"))
    assert answer == {"p": [], "g": [], "x": [], "p_recalibrated": []}
    week = fieldcal.count(lab(), rows()["p"].to_numpy(), batch="2020-01-01")
    with pytest.raises(InputError, match="The field is empty: it has no rows"):
        fieldcal.estimate(lab(), week.window("2021-01-01"))
    (tmp_path / "t.csv").write_text("p,g\n,a\n,b\n")
    with pytest.raises(InputError, match=r"2 of 2 rows have no score \(null or NaN\) in 'p'"):
        count_file(tmp_path / "t.csv")


@pytest.mark.parametrize("scores", ["p", "p*"])
def test_fault_56_a_lab_without_rows_is_refused(scores):
    empty = pl.DataFrame(schema={"p": pl.Float64, "y": pl.Int64})
    with pytest.raises(InputError, match="The lab has no rows"):
        tables.learn(empty, scores=scores, label="y")
    with pytest.raises(InputError, match="The lab has no rows"):
        fieldcal.learn(np.empty((0, 2)), [], classes=["a", "b"])
    with pytest.raises(InputError, match="The lab has no rows"):
        fieldcal.learn(regression.from_moments(np.empty(0), np.empty(0)), np.empty(0))


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.parquet"])
def test_fault_56_a_header_alone_says_that_there_are_no_rows(saved, name):
    empty, path = rows().head(0), saved / name
    text = empty.write_csv().encode()
    empty.write_parquet(path) if name == "t.parquet" else path.write_bytes(
        gzip.compress(text) if name.endswith(".gz") else text
    )
    code, said = command("count", saved / "lab.json", path, "-o", saved / "f.json")
    assert (code, said) == (
        1,
        "error: The field is empty: it has no rows to count. Check the filter before this.\n",
    )
    assert command("count", saved / "lab.json", path, "--by", "g", "-o", saved / "f.json")[0] == 0
    assert fieldcal.Field.load(saved / "f.json").groups == ()
    shutil.copy(saved / "f.json", saved / "g.json")
    assert command("merge", saved / "f.json", saved / "g.json", "-o", saved / "m.json")[0] == 0
    assert fieldcal.Field.load(saved / "m.json").groups == ()
    assert command("recalibrate", saved / "prevalence.json", path, "-o", saved / "o.csv")[0] == 0
    assert (saved / "o.csv").read_text().strip() == "p,g,x,p_recalibrated"
    code, said = command("learn", path, "--scores", "p", "--label", "g", "-o", saved / "l.json")
    assert (code, "The lab has no rows" in said) == (1, True)


@pytest.mark.parametrize(
    "names",
    [(0, 1, 2), (("p", ""), ("y", ""), ("g", "")), (1.5, 2.5, 3.5), (b"p", b"y", b"g"), (True, "y", "g")],
    ids=["numbers", "tuples", "floats", "bytes", "truth_values"],
)
def test_fault_57_columns_that_pandas_names_otherwise_than_by_text_are_refused_with_the_way_out(names):
    frame = pd.DataFrame(dict(zip(names, ([0.1, 0.9] * 9, [0, 1] * 9, ["a", "b"] * 9), strict=True)))
    p, y, g = names
    for call in (
        lambda: tables.learn(frame, scores=p, label=y),
        lambda: tables.count(lab(), frame, scores=[p]),
        lambda: tables.count(lab(), frame.rename(columns={p: "p"}), by=[g] if g != "g" else [5]),
        lambda: tables.recalibrate(prevalence(), frame, scores=[p]),
    ):
        with pytest.raises(InputTypeError, match=r"does not name a column by text\. Rename columns"):
            call()


def test_fault_57_a_new_column_needs_a_name_and_the_others_keep_theirs(engine):
    for name in ("", 5, None, "\ud800"):
        with pytest.raises(InputError, match="cannot name a column: it is empty or no text"):
            tables.recalibrate(prevalence(), engine.make(p=[0.25, 0.5]), name=name)
    frame = pd.DataFrame({"p": [0.25, 0.5], 0: [1, 2], ("a", 1): [3, 4]})
    assert list(tables.recalibrate(prevalence(), frame).columns) == ["p", 0, ("a", 1), "p_recalibrated"]
    for given in (5, 1.5, b"g", {"g": 1}, object(), [5], [None]):
        for option in ("scores", "by"):
            with pytest.raises(InputTypeError, match=rf"^{option}=.* does not name a column by text"):
                tables.count(lab(), rows(), **{option: given})


def test_fault_57_a_line_break_in_an_option_is_no_bug_of_ours(saved):
    rows().rename({"g": "a\nb"}).write_parquet(saved / "t.parquet")
    given = ("count", saved / "lab.json", saved / "t.parquet", "-o", saved / "f.json", "--by")
    code, said = command(*given, "a\nb")
    assert (code, said.count("\n")) == (1, 1)
    assert "hold a line break. Put such a name into double quotes" in said
    assert (command(*given, '"a\nb"')[0], fieldcal.Field.load(saved / "f.json").by) == (0, ("a\nb",))


@contextlib.contextmanager
def _no_plain_file(kind, folder):
    if kind in ("device", "null"):
        yield {"device": "/dev/zero", "null": "/dev/null"}[kind]
    elif kind == "fifo":
        os.mkfifo(folder / "pipe.json")
        yield folder / "pipe.json"
    elif kind == "folder":
        yield folder
    elif kind == "link_to_device":
        os.symlink("/dev/zero", folder / "link.json")
        yield folder / "link.json"
    else:
        with socket.socket(socket.AF_UNIX) as listening, contextlib.chdir(folder):
            listening.bind("socket.json")
            yield folder / "socket.json"


@pytest.mark.parametrize("kind", ["device", "null", "fifo", "folder", "socket", "link_to_device"])
def test_fault_58_what_is_no_plain_file_is_neither_an_artefact_nor_a_table(tmp_path, kind):
    with _no_plain_file(kind, tmp_path) as path:
        for made in (fieldcal.Lab, fieldcal.Field, fieldcal.Prevalence):
            with pytest.raises(ArtefactError, match=r"Cannot read '.*': it is a (device or a pipe|folder)"):
                made.load(path)
        with (
            Session(threads=1) as session,
            pytest.raises(InputError, match=r"is not a regular file|holds no table"),
        ):
            session.open(path)
        code, said = command("check", path)
        assert (code, said.count("\n")) == (1, 1)


@pytest.mark.skipif(not os.path.exists("/proc/self/pagemap"), reason="only Linux makes such files up")
def test_fault_58_a_file_that_is_made_up_while_it_is_read_is_not_read():
    for path in ("/proc/self/pagemap", "/proc/kmsg", "/proc/cpuinfo"):
        with pytest.raises(ArtefactError, match="it is empty"):
            fieldcal.Lab.load(path)
        with Session(threads=1) as session, pytest.raises(InputError, match="is empty"):
            session.open(path)


def test_fault_58_a_file_that_grows_or_a_path_that_no_file_can_have_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "lab.json"
    lab().save(path)
    monkeypatch.setattr("fieldcal.storage.plain_size", lambda path: 100)
    with pytest.raises(ArtefactError, match=r"it grows while it is read. Is it still being written\?"):
        fieldcal.Lab.load(path)
    for path in ("a\0b", "x" * 5000, "\ud800.json"):
        with pytest.raises(ArtefactError, match="Cannot read"):
            fieldcal.Lab.load(path)
        with Session(threads=1) as session, pytest.raises(InputError, match="There is no file"):
            session.open(path)
    for path in (5, None, b"lab.json"):
        with pytest.raises(InputTypeError, match="path must be the path of a file"):
            fieldcal.Lab.load(path)


@pytest.mark.slow
def test_fault_58_standard_input_without_end_is_refused_at_its_beginning(saved):
    code = "import sys; from fieldcal.cli import main; main(sys.argv[1:])"
    given = ["count", str(saved / "lab.json"), "-", "-o", str(saved / "f.json")]
    with open("/dev/zero", "rb") as endless:
        done = subprocess.run(
            [sys.executable, "-c", code, *given], stdin=endless, capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert "Standard input is not a table" in done.stderr


def packed(path, chunk, times, *, head=b"", tail=b""):
    """A gzip of a thousandth of what it holds: its members are written one after the other."""
    parts = [gzip.compress(head), *[gzip.compress(chunk)] * times, gzip.compress(tail)]
    path.write_bytes(
        b"".join(part for part, held in zip(parts, (head, *[chunk] * times, tail), strict=True) if held)
    )


#: Reads a table under a limit, and prints what happened and how much memory it took more than an empty session.
WITHIN = """
import json, resource, sys
import fieldcal
from fieldcal import tables
from fieldcal.tables.files.session import Session
lab = fieldcal.Lab.load(sys.argv[1])
with Session(memory_limit="100MB", threads=1) as session:
    session.connection.sql("SELECT sum(range) FROM range(100_000)").fetchall()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        said = str(tables.count(lab, session.open(sys.argv[2]).bound(lab).relation))
    except fieldcal.FieldcalError as error:
        said = f"error: {error}"
print(json.dumps([said, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024]))
"""
MEGABYTE = 2**20
NO_LINE_ENDS, NO_ROWS = "line 1, is longer than any header", "it has no rows"
BOMBS = {
    "fault_70_zeros": (b"\0" * MEGABYTE, b"", b"", NO_LINE_ENDS),
    "fault_70_a_row_without_end": (b"a" * MEGABYTE, b"p,g\n0.5,", b"", NO_ROWS),
    "fault_70_a_number_without_end": (b"0" * MEGABYTE, b"p,g\n0.", b",x\n", NO_ROWS),
    "fault_70_a_header_of_commas": (b"," * MEGABYTE, b"", b"", NO_LINE_ENDS),
}


@pytest.mark.slow
@pytest.mark.parametrize(("chunk", "head", "tail", "words"), BOMBS.values(), ids=BOMBS)
def test_a_bomb_of_one_line_is_refused_within_the_memory(saved, chunk, head, tail, words):
    packed(saved / "t.csv.gz", chunk, 500, head=head, tail=tail)
    assert (saved / "t.csv.gz").stat().st_size < MEGABYTE
    said, megabytes = within(saved, "t.csv.gz")
    assert said.startswith("error: ")
    assert words in said
    assert megabytes < 150


def within(folder, name):
    """What counting a table said, and the megabytes that it took."""
    done = subprocess.run(
        [sys.executable, "-c", WITHIN, folder / "lab.json", folder / name], capture_output=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_fault_70_a_parquet_of_very_many_equal_rows_is_counted_within_the_memory(saved):
    run = pa.chunked_array([pa.array(np.full(1_000_000, 0.5))] * 40)
    pq.write_table(pa.table({"p": run}), saved / "t.parquet", row_group_size=1_000_000)
    assert (saved / "t.parquet").stat().st_size < MEGABYTE
    said, megabytes = within(saved, "t.parquet")
    assert said == "Field: 40,000,000 rows, one population, 8 bins"
    assert megabytes < 150


@pytest.mark.parametrize("last", [b"\n", b""], ids=["fault_42_ended", "fault_42_not_ended"])
def test_a_last_line_of_forty_megabytes_is_not_lost(tmp_path, last):
    (tmp_path / "t.csv").write_bytes(b"p,g\n" + b"0.5,x\n" * 3 + b"0.5," + b"a" * 40_000_000 + last)
    with pytest.raises(fieldcal.FieldcalError, match=r"The last line of 't\.csv' is longer than 2 MB"):
        count_file(tmp_path / "t.csv")
