"""JSON Lines: what a value, a key and a line become, and that none is lost on the way."""

from __future__ import annotations

import gzip
import json

import pytest

from fieldcal.errors import InputError

LATE = 30_000  # beyond what a sample of the first lines sees


@pytest.fixture
def opened(session, tmp_path):
    """A file with this text, or with a line for each object."""

    def opening(content, name="t.jsonl", **roles):
        if not isinstance(content, (str, bytes)):
            content = "".join(json.dumps(line) + "\n" for line in content)
        data = content.encode() if isinstance(content, str) else content
        (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return session.open(tmp_path / name, **roles)

    return opening


def read(source):
    relation = source.relation
    return relation.columns, list(map(str, relation.types)), relation.fetchall()


@pytest.mark.parametrize("name", ["t.ndjson", "t.jsonl.gz", "log", "log.json"])
def test_keys_inside_of_objects_are_columns_by_their_path(opened, name):
    lines = [
        {"id": 7, "judge": {"verdict": "pass", "by": {"model": "m"}}, "tags": ["a", 1]},
        {"judge": {"verdict": "fail", "note": None}, "id": 8},
    ]
    columns, types, rows = read(opened(lines, name))
    assert columns == ["id", "judge.verdict", "judge.by.model", "judge.note", "tags"]
    assert set(types) == {"VARCHAR"}
    assert rows == [("7", "pass", "m", None, '["a",1]'), ("8", "fail", None, None, None)]


def test_late_keys_blank_lines_and_odd_names_are_columns_and_rows_in_order(opened):
    _, _, rows = read(opened([*({"v": "pass"} for _ in range(LATE)), {"v": "fail", "late": {"x": 1}}]))
    assert len(rows) == LATE + 1
    assert (rows[0], rows[-1]) == (("pass", None), ("fail", "1"))
    text = "".join(f'{{"i": {i}}}\r\n' + ("\r\n" if i % 7 == 0 else "") for i in range(LATE))
    _, types, rows = read(opened(text, by="i"))
    assert types == ["BIGINT"]
    assert [i for (i,) in rows] == list(range(LATE))
    columns, _, rows = read(opened([{"a/b": 1, 'q"u': 2, "~t": 3, "it's": 4, "x y": {"z.w": 5}, "é": 6}]))
    assert columns == ["a/b", 'q"u', "~t", "it's", "x y.z.w", "é"]
    assert rows == [("1", "2", "3", "4", "5", "6")]


TYPED = [
    (["1", "2"], "BIGINT", [1, 2]),
    (["1", '"2"'], "BIGINT", [1, 2]),
    (["1", '"01"'], "VARCHAR", ["1", "01"]),
    (["1", '"x"', "true", "null"], "VARCHAR", ["1", "x", "true", None]),
    (["true", "false"], "BOOLEAN", [True, False]),
    (["1", "0.5"], "DOUBLE", [1.0, 0.5]),
    (["12345678901234567890", "1"], "VARCHAR", ["12345678901234567890", "1"]),
    (["12345678901234567890123", "1"], "VARCHAR", ["12345678901234567890123", "1"]),
    (["9007199254740993", "1"], "BIGINT", [9007199254740993, 1]),
    (['""', '"a"'], "VARCHAR", ["", "a"]),
    (['"  Pass "', '"\\u00e9\\n"'], "VARCHAR", ["  Pass ", "é\n"]),
]


def test_a_column_with_a_role_has_a_type_only_if_every_value_fits_and_values_are_text(opened):
    for values, kind, found in TYPED:
        _, types, rows = read(opened("".join(f'{{"y": {v}}}\n' for v in values), label="y"))
        assert (types, [y for (y,) in rows]) == ([kind], found)
    _, types, rows = read(opened([{"v": 4}, {"v": 5}], predictions="v"))
    assert (types, rows) == (["VARCHAR"], [("4",), ("5",)])


BAD = [
    ('{"v": 1}\n{"v": 2\n{"v": 3}\n', "line 2, is not valid JSON: .* delimiter"),
    ('{"v": 1}\n\n{"v": ', "line 3, is not valid JSON"),
    ('{"v": 1} {"v": 2}\n', "line 1, is not valid JSON: Extra data"),
    ('{"v": 1}\n[1, 2]\n', "line 2, is not an object"),
    ('{"v": 1}\nnull\n', "line 2, is not an object"),
    ('{\n  "v": 1\n}\n', "line 1, is not valid JSON"),
    (b'{"v": 1}\n{"v": "\xff"}\n', "line 2, is not text in UTF-8"),
    (b'\xef\xbb\xbf{"v": 1}\n', "line 1, is not valid JSON: .*BOM"),
    ('{"v": 1}\n{"v": 1, "v": 2}\n', "line 2, has the key 'v' twice"),
    ('{"a": {"v": 1}}\n{"a": {"v": 1, "v": 2}}\n', "line 2, has the key 'v' twice"),
    ('{"a.v": 1, "a": {"v": 2}}\n', "'a.v' .2 times"),
    ('{"v": 1, "V": 2}\n', "'v' .2 times"),
    ("\n\n", "has no line with a key"),
    ("{}\n", "has no line with a key"),
]


def test_what_is_no_line_of_a_table_is_refused_with_its_number(opened):
    for content, says in BAD:
        with pytest.raises(InputError, match=says) as error:
            opened(content).relation.fetchall()
        assert "\n" not in str(error.value)
    with pytest.raises(InputError, match="one list of JSON"):
        opened('[{"v": 1}]', "t.json")


@pytest.mark.parametrize("name", ["judge", "judge.verdict"])
def test_a_key_that_is_an_object_in_some_lines_is_refused_if_it_is_asked_for(opened, name):
    lines = [*({"judge": "pass", "id": i} for i in range(9)), {"judge": {"verdict": "fail"}, "id": 0}]
    with pytest.raises(InputError, match="'judge' is an object in 1 of 10 lines, and something else"):
        _ = opened(lines, predictions=name).relation
    assert opened(lines, by="id").relation.fetchall()[-1] == ('{"verdict":"fail"}', 0)


def test_fault_55_a_truncated_gzip_is_refused(session, tmp_path):
    data = gzip.compress(b"".join(b'{"v": %d}\n' % i for i in range(5000)))
    (tmp_path / "t.jsonl.gz").write_bytes(data[:-20])
    with pytest.raises(InputError, match=r"t\.jsonl\.gz' cannot be used: its gzip .*copied whole"):
        _ = session.open(tmp_path / "t.jsonl.gz").relation


def test_several_files_are_one_table_and_numbers_go_into_parquet_as_numbers(session, tmp_path, opened):
    (tmp_path / "a.jsonl").write_text('{"v": "pass"}\n')
    (tmp_path / "b.jsonl").write_text('{"v": "fail", "w": 1}\n')
    assert session.open(tmp_path / "*.jsonl").relation.fetchall() == [("pass", None), ("fail", "1")]
    (tmp_path / "c.jsonl").write_text('{"v": "fail"}\n{"v"\n')
    with pytest.raises(InputError, match=r"'c.jsonl', line 2, is not valid JSON"):
        session.open(tmp_path / "*.jsonl").relation.fetchall()
    source = opened([{"i": 1, "x": 0.5, "ok": True, "s": "01"}, {"i": -2, "x": 2, "ok": False, "s": "1"}])
    session.write(source.relation, tmp_path / "t.parquet", sources=[source])
    made = session.open(tmp_path / "t.parquet").relation
    assert list(map(str, made.types)) == ["BIGINT", "DOUBLE", "BOOLEAN", "VARCHAR"]
    assert made.fetchall() == [(1, 0.5, True, "01"), (-2, 2.0, False, "1")]
