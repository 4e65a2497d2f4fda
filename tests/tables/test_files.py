"""Tables in files: what a cell, a column and a row become, in which order, and what is written."""

from __future__ import annotations

import datetime

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fieldcal.errors import InputError
from fieldcal.tables.files.session import Session

LATE = 30_000  # beyond what a sample of the first rows sees


@pytest.fixture
def read(session, tmp_path):
    """The rows and types of a CSV with this text."""

    def reading(content, **options):
        (tmp_path / "t.csv").write_text(content)
        relation = session.open(tmp_path / "t.csv", **options).relation
        return relation.fetchall(), list(map(str, relation.types))

    return reading


TEXT = [["01", "2"], ["+1", "2"], ["0x10", "16"], ["1_000", "2"], ["yes", "no"], ["t", "f"], ["NA", "NA"]]
TEXT += [["01/02/2024", "03/04/2024"], ["2024-02-30", "2024-02-01"], ["12:30", "12:31"], ["#1", "2"]]
TEXT += [["12345678901234567890", "12345678901234567891"]]


@pytest.mark.parametrize("role", ["by", "label", "time"])
def test_text_that_a_value_would_not_give_back_stays_text(read, role):
    for cells in TEXT:
        rows, types = read("g,p\n" + "".join(f"{c},0.5\n" for c in cells), scores="p", **{role: "g"})
        assert types == ["VARCHAR", "DOUBLE"]
        assert [g for g, _ in rows] == cells


DAYS = [datetime.date(2024, 2, 29), datetime.date(2024, 3, 1)]
TYPED = [
    ("label", ["1", "-20"], "BIGINT", [1, -20]),
    ("by", [" 1", "2 "], "BIGINT", [1, 2]),
    ("by", ["1", ""], "BIGINT", [1, None]),
    ("label", ["1", "0.5"], "DOUBLE", [1.0, 0.5]),
    ("label", ["1e-3", "+0.5"], "DOUBLE", [1e-3, 0.5]),
    ("scores", ["1", "0.1234567890123456789"], "DOUBLE", [1.0, 0.12345678901234568]),
    ("scores", ["1e-3", "+0.5"], "DOUBLE", [1e-3, 0.5]),
    ("scores", ["0.5", "NA"], "DOUBLE", [0.5, None]),
    ("scores", ["0.5", '""'], "DOUBLE", [0.5, None]),
    ("scores", ["0.5", "-inf"], "DOUBLE", [0.5, -np.inf]),
    ("scores", ["NaN", "nan"], "DOUBLE", None),
    ("by", ["true", "false"], "BOOLEAN", [True, False]),
    ("by", ["2024-02-29", "2024-03-01"], "DATE", DAYS),
    ("time", ["2024-02-29T12:30", "2024-03-01 00:00:00"], "TIMESTAMP", None),
    ("by", ["0.5", "1"], "VARCHAR", ["0.5", "1"]),
    ("scores", ["0.5", "none"], "VARCHAR", ["0.5", "none"]),
]


def test_a_column_with_a_role_has_its_type_if_every_cell_has(read):
    for role, cells, kind, values in TYPED:
        rows, types = read("x,p\n" + "".join(f"{c},0.5\n" for c in cells), **{role: "x"})
        assert types == [kind, "VARCHAR"], cells
        assert values is None or [x for x, _ in rows] == values


@pytest.mark.parametrize(("last", "kind"), [("01", "VARCHAR"), ("0.5", "DOUBLE"), ("7", "BIGINT")])
def test_the_last_row_has_the_same_say_as_the_first(read, last, kind):
    rows, types = read("g,p\n" + "1,0.5\n" * LATE + f"{last},0.5\n", label="g", scores="p")
    assert types == [kind, "DOUBLE"]
    assert str(rows[-1][0]) == last


def test_empty_cells_late_quotes_and_text_columns_are_read_as_they_stand(read):
    assert read('g,p\n"",0.5\n,0.25\n', scores="p", by="g")[0] == [("", 0.5), (None, 0.25)]
    rows, types = read("g,p\n1,0.5\n2,0.5\n", scores="p", by="g", text=["g", "no such column"])
    assert (rows, types) == ([("1", 0.5), ("2", 0.5)], ["VARCHAR", "DOUBLE"])
    rows, _ = read("g,p\n" + "a,0.5\n" * LATE + '"b, c",0.5\n', scores="p")
    assert rows[-1] == ("b, c", 0.5)
    assert read('g,p\n"say \\"hi\\", you",0.5\n')[0] == [('say "hi", you', "0.5")]
    assert read('g,p\n"C:\\",0.5\n')[0] == [("C:\\", "0.5")]


def test_decimal_commas_and_columns_named_like_classes_or_a_pattern_are_read(read):
    both = {"scores": ["p", "x"]}
    assert read("p;x\n0,25;1,5\n1;2\n", **both) == ([(0.25, 1.5), (1.0, 2.0)], ["DOUBLE", "DOUBLE"])
    assert read("p;x\n0.25;1,5\n", **both) == ([(0.25, "1,5")], ["DOUBLE", "VARCHAR"])
    assert read("p;y\n0;1,5\n1;2\n", scores="p", label="y")[0] == [(0.0, 1.5), (1.0, 2.0)]
    rows, _ = read("0,1,2\n0.1,0.2,0.7\n", scores={"a": "0", "b": "1", "c": "2"})
    assert rows == [(0.1, 0.2, 0.7)]
    _, types = read("p_a,p_b,q,p_\n0.25,0.75,1,x\n", scores="p_*")
    assert types == ["DOUBLE", "DOUBLE", "VARCHAR", "VARCHAR"]


def test_odd_names_are_kept_and_a_title_is_taken_for_the_header(session, tmp_path):
    names = ['a"b', "c;d", "e'f", "$g", "h i", "select", "é", "", "file_row_number"]
    quoted = ",".join('"' + n.replace('"', '""') + '"' for n in names)
    (tmp_path / "t.csv").write_text(quoted + "\n" + ",".join("1" * len(names)) + "\n")
    source = session.open(tmp_path / "t.csv")
    assert source.columns == [*names[:7], "column7", names[8]]
    assert source.relation.fetchall() == [("1",) * len(names)]
    (tmp_path / "t.csv").write_text("my table\n\ng,p\n1,0.5\n2,0.5\n")
    assert session.open(tmp_path / "t.csv").columns == ["my table"]  # so the missing columns are told by name


#: Cells that any reading as a value would change.
ODD = ["0.50", "1e3", "007", "+1", "TRUE", "yes", "2024-1-1", "1,5", "NaN", "NA", "NULL", "-0"]
ODD += ["1E400", "=1+1"]


def test_columns_without_a_role_keep_their_text_from_csv_to_csv_byte_for_byte(session, tmp_path):
    quoted = [f'"{cell}"' if "," in cell else cell for cell in ODD]
    cells = [*quoted, " x ", '""', "", '"a ""b"", c"', '"two\nlines"']
    text = "p,odd\n" + "".join(f"0.5,{cell}\n" for cell in cells)
    (tmp_path / "t.csv").write_text(text)
    source = session.open(tmp_path / "t.csv", scores="p")
    assert [odd for _, odd in source.relation.fetchall()] == [*ODD, " x ", "", None, 'a "b", c', "two\nlines"]
    session.write(source.relation, tmp_path / "out.csv", sources=[source])
    assert (tmp_path / "out.csv").read_text() == text


def test_columns_without_a_role_go_into_parquet_in_the_type_that_every_cell_fits(session, tmp_path):
    first = ["1", "1.5", "1", "2024-01-01", "007", "12345678901234567890", "yes"]
    last = ["2", "2", "x", "", "12", "1", "no"]
    lines = [f"0.5,{','.join(cells)},01\n" for cells in (first, last)]
    names = ",".join("abcdefg")
    (tmp_path / "t.csv").write_text(f"p,{names},by\n" + lines[0] * LATE + lines[1])
    source = session.open(tmp_path / "t.csv", scores="p", by="by")
    assert session.write(source.relation, tmp_path / "out.parquet", sources=[source]) == LATE + 1
    made = session.open(tmp_path / "out.parquet").relation
    kinds = ["BIGINT", "DOUBLE", "VARCHAR", "DATE", *["VARCHAR"] * 3]
    assert list(map(str, made.types)) == ["DOUBLE", *kinds, "VARCHAR"]


def test_moments_are_written_in_the_same_zone_everywhere(session, tmp_path, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    relation = session.connection.sql("SELECT TIMESTAMPTZ '2024-01-01 00:00:00+00' AS at")
    session.write(relation, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text() == "at\n2024-01-01 00:00:00+00\n"


def test_csv_files_with_other_headers_are_not_one_table(session, tmp_path):
    (tmp_path / "a.csv").write_text("g,p\n1,0.5\n")
    for header in ("p,g", "g,q", "g,p,x", "g", "g;p"):
        (tmp_path / "b.csv").write_text(f"{header}\n")
        with pytest.raises(InputError, match=r"'b\.csv' has other columns than 'a\.csv'"):
            _ = session.open(str(tmp_path / "*.csv")).relation


def parquet(path, query):
    with duckdb.connect() as connection:
        connection.sql(query).write_parquet(str(path))


def test_whole_numbers_in_the_first_parquet_file_do_not_round_the_second(session, tmp_path):
    parquet(tmp_path / "a.parquet", "SELECT 1 AS p, 'x' AS g")
    parquet(tmp_path / "b.parquet", "SELECT 'y' AS g, 0.25::DOUBLE AS p")
    source = session.open(str(tmp_path / "*.parquet"))
    assert source.relation.fetchall() == [(1.0, "x"), (0.25, "y")]
    table, names = source.with_row_id()
    assert table.order(names[0]).select("p").fetchall() == [(1.0,), (0.25,)]


def test_parquet_files_that_disagree_are_not_one_table(session, tmp_path):
    parquet(tmp_path / "a.parquet", "SELECT 0.5::DOUBLE AS p, 1 AS g")
    for more, words in (
        ("", r"'b\.parquet' has no column 'g'"),
        (", 1 AS g, 2 AS x", r"'a\.parquet' has no column 'x'"),
        (", '1' AS g", r"'g' holds INTEGER in 'a\.parquet' and VARCHAR in 'b\.parquet'"),
    ):
        parquet(tmp_path / "b.parquet", "SELECT 0.5::DOUBLE AS p" + more)
        with pytest.raises(InputError, match=words):
            _ = session.open(str(tmp_path / "*.parquet")).relation


def test_files_of_two_kinds_are_not_one_table(session, tmp_path):
    parquet(tmp_path / "a.parquet", "SELECT 0.5 AS p")
    (tmp_path / "b.csv").write_text("p\n0.5\n")
    with pytest.raises(InputError, match=r"'a\.parquet' is parquet, 'b\.csv' is csv"):
        session.open(str(tmp_path / "*"))


def test_names_that_duckdb_would_change_are_refused_but_may_repeat_inside_a_column(session, tmp_path):
    for names in (["p", "p"], ["p", "P"]):
        (tmp_path / "t.csv").write_text(",".join(names) + "\n0.1,0.2\n")
        pq.write_table(pa.table([[0.1], [0.2]], names=names), tmp_path / "t.parquet")
        for name in ("t.csv", "t.parquet"):
            with pytest.raises(InputError, match=r"appear more than once: 'p' \(2 times\)"):
                _ = session.open(tmp_path / name).relation
    parquet(tmp_path / "t.parquet", "SELECT {'p': 1, 'q': {'p': 2}} AS s, [1, 2] AS p, 0.5 AS element")
    assert session.open(tmp_path / "t.parquet").columns == ["s", "p", "element"]


@pytest.mark.parametrize("files", [1, 3])
def test_the_row_id_gives_the_order_back_after_a_join(session, tmp_path, files):
    n = 120_000
    for i in range(files):
        part = pa.table({"id": np.arange(i * n, (i + 1) * n), "g": np.arange(n) * 7919 % 97})
        pq.write_table(part, tmp_path / f"part_{i}.parquet", row_group_size=2_500)
    source = session.open(str(tmp_path / "*.parquet"))
    table, names = source.with_row_id()
    assert table.columns == ["id", "g", *names]
    other = session.connection.sql("SELECT range AS g, random() AS w FROM range(97)").set_alias("other")
    joined = table.join(other, "g", how="left").order(", ".join(names))
    ids = joined.select("id").fetchnumpy()["id"]
    np.testing.assert_array_equal(ids, np.arange(files * n))


def test_the_row_id_never_takes_the_name_of_a_column_and_there_is_none_beside_duckdbs(session, tmp_path):
    pq.write_table(pa.table({"__fieldcal_row": [5, 4], "p": [0.1, 0.9]}), tmp_path / "t.parquet")
    table, names = session.open(tmp_path / "t.parquet").with_row_id()
    assert (names, table.fetchall()) == (["__fieldcal_row_"], [(5, 0.1, 0), (4, 0.9, 1)])
    for taken in ("file_row_number", "File_Index"):
        pq.write_table(pa.table({"p": [0.1, 0.9], taken: [7, 3]}), tmp_path / "t.parquet")
        table, names = session.open(tmp_path / "t.parquet").with_row_id()
        assert (names, table.columns) == ([], ["p", taken])


def setting(session, name):
    return session.connection.execute(f"SELECT current_setting('{name}')").fetchall()[0][0]


def test_limits_that_cannot_be_are_refused():
    for options, words in (
        ({"memory_limit": "plenty"}, "'plenty' is not understood"),
        ({"memory_limit": "10KB"}, "too small for any table"),
        ({"threads": 0}, "threads must be a whole number from 1"),
        (
            {"temp_directory": "/no/such/folder"},
            "Cannot make a folder for temporary files in '/no/such/folder'",
        ),
    ):
        with pytest.raises(InputError, match=words):
            Session(**options)


def test_row_groups_that_do_not_fit_beside_each_other_are_read_by_fewer_threads(tmp_path):
    rng = np.random.default_rng(0)
    columns = {f"x{i}": rng.random(500_000) for i in range(6)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=500_000)
    with Session(memory_limit="100MB", threads=2) as session:
        _ = session.open(tmp_path / "t.parquet").relation
        assert setting(session, "threads") == 1
    with Session(memory_limit="1GB", threads=2) as session:
        _ = session.open(tmp_path / "t.parquet").relation
        assert setting(session, "threads") == 2
