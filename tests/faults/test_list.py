"""Every row of the list of faults is held by a test, and the page says by which."""

from __future__ import annotations

import json

import pytest

from tool import load


@pytest.fixture(scope="module")
def tool():
    return load("faults")


@pytest.fixture(scope="module")
def table(tool):
    return tool.collected(tool.collect())


def test_every_fault_of_the_list_is_held_by_a_test(table):
    assert [row.number for row in table.values() if not row.tests] == []


def test_the_page_of_faults_is_what_the_tests_say(tool, table):
    figures = json.loads(tool.FIGURES.read_text("utf-8"))
    assert tool.PAGE.read_text("utf-8") == tool.page(table, figures), "make faults-page writes it anew"


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("test_fault_42_the_bad_one[csv]", {42}),
        ("test_x[fault_01_nan-duckdb]", {1}),
        ("test_x[fault_38_43_ctrl_c]", {38, 43}),
        ("test_x[fault_100_new]", {100}),
        ("test_no_fault_at_all", set()),
    ],
    ids=["name", "id", "two", "three-digits", "none"],
)
def test_a_name_says_which_rows_it_holds(tool, name, rows):
    assert tool.numbers(name) == rows
