"""The report as Markdown: the same words, and names that stay names."""

from __future__ import annotations

import re

import pytest

from fieldcal.reporting.page import MARKDOWN_LINES, escaped
from reporting.real import hostile, judged, reported, simple

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.mark.parametrize("level", ["ok", "care", "do_not_use"])
def test_the_verdict_comes_first_with_its_reasons(level, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
    prev, (proba, y, plots) = judged(level)
    text = reported(prev, proba=proba, y=y, groups=plots).markdown()
    headline = {"ok": "OK to use", "care": "Use with care", "do_not_use": "Do not use"}[level]
    title, made, second, *_ = [line for line in text.splitlines() if line]
    assert (title, made, second) == ("# Recalibration report", "Made: 1970-01-01", f"## {headline}")
    for reason in (finding.text for finding in prev.verdict.reported):
        assert f"- {escaped(reason)}" in text
    assert "|log loss|" in text


def test_the_table_has_a_line_per_group_up_to_a_limit_and_says_what_is_left_out():
    prev, _ = simple(100)
    text = reported(prev).markdown()
    assert f"… and {100 - MARKDOWN_LINES} more" in text
    lines = re.findall(r"^\|\d+\|.*\|$", text, re.MULTILINE)
    assert len(lines) == MARKDOWN_LINES
    assert {line.count("|") for line in lines} == {7}


def test_no_name_can_break_the_table_or_become_markup():
    text = reported(hostile(), title="# [x](javascript:alert(1))").markdown()
    assert not re.search(r"(?<!\\)<", text)
    assert not re.search(r"(?<!\\)\]\(", text)
    rows = [line for line in text.splitlines() if line.startswith("|")]
    counts = {len(re.findall(r"(?<!\\)\|", line)) for line in rows}
    assert counts <= {7, 4}  # groups and data quality
    assert escaped("a\nb  c") == "a b c"
