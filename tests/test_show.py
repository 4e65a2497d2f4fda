"""Lab, Field, Prevalence and Verdict in notebooks and terminals: readable, bounded, and names stay names."""

from __future__ import annotations

import functools
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from rich.console import Console

import fieldcal
from fieldcal.objects import group_keys, prevalence_table, show
from verdicts import verdict_of

HOSTILE = {
    "html": "</script><img src=x onerror=alert(1)>",
    "attribute": "\" onmouseover='alert(1)' x=\"",
    "rich markup": "[bold red]x[/]",
    "rich link": "[link=http://x]y[/link] :boom:",
    "escape code": "\x1b[31mred\x1b[0m\x07",
    "override": "abc\u202edef\u2066",
    "right to left": "אבג דהו 123",
    "lines": "one\ntwo\r\nthree\ttabs",
    "lone surrogate": "\ud800 half",
    "long": "x" * 10_000,
    "empty": "",
}
LIMIT = 60_000
TAGS = {*("div", "b", "span", "bdi", "ul", "li", "table", "thead", "tbody", "tr", "th", "td")}

# Small labs and fields that differ as much as they like.
pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@functools.cache
def data(K=2, n_groups=6):
    p_lab = (0.6, 0.4) if K == 2 else np.full(K, 1 / K)
    return fieldcal.datasets.label_shift(
        n_lab=3000, n_field=3000, n_groups=n_groups, p_lab=p_lab, concentration=2.0, random_state=1
    )


@functools.cache
def made(K=2, grouped=True, **options):
    """Lab, field, prevalence and verdict."""
    d = data(K)
    lab = fieldcal.learn(d.proba_lab, d.y_lab, groups=d.groups_lab if grouped else None)
    field = fieldcal.count(lab, d.proba_field, groups=d.groups_field if grouped else None)
    prev = fieldcal.estimate(lab, field, **options)
    return lab, field, prev, prev.verdict


def named(text):
    """All four, where a class and a group have this name, and the verdict a reason of it."""
    d = data()
    classes = np.array(["plain", text], dtype=object)
    lab = fieldcal.learn(d.proba_lab, classes[d.y_lab].tolist(), classes=classes.tolist())
    groups = np.array(["Leeds", text, "York"], dtype=object)[d.groups_field % 3].tolist()
    field = fieldcal.count(lab, d.proba_field, groups=groups)
    prev = fieldcal.estimate(lab, field, trust=1)
    verdict = verdict_of("do_not_use", f"Because of {text}.", "And more.")
    return lab, field, prev.model_copy(update={"verdict": verdict, "status": (text,) * 3}), verdict


def printed(thing, width=200, **options):
    """What a terminal that knows colours gets."""
    stream = io.StringIO()
    Console(file=stream, width=width, force_terminal=True, color_system="standard", **options).print(thing)
    return stream.getvalue()


def plain(thing, width=200):
    """The same without colours."""
    stream = io.StringIO()
    Console(file=stream, width=width, color_system=None).print(thing)
    return stream.getvalue()


class Page(HTMLParser):
    """Tags that match, and what they hold."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts = [], [], [], []
        self.feed(text)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)

    @property
    def text(self):
        return " ".join(self.texts)


def check(page):
    """Balanced, of known parts only, and not long; gives the parsed page."""
    parsed = Page(page)
    assert set(parsed.tags) <= TAGS
    assert {name for name, _ in parsed.attributes} <= {"style"}
    assert not any("url(" in (value or "") for _, value in parsed.attributes)
    assert all(c.isprintable() for c in page)
    page.encode()  # no half characters
    assert len(page) < LIMIT
    return parsed


CASES = {
    "groups": {},
    "one population": {"grouped": False},
    "three classes": {"K": 3},
    "three classes, one population": {"K": 3, "grouped": False},
    "no intervals": {"level": None, "point": "mode"},
    "a hundred classes": {
        "K": 100,
        "grouped": False,
        "level": None,
        "point": "mode",
        "prior": "flat",
        "trust": 1,
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("options", CASES.values(), ids=CASES)
def test_every_page_is_well_formed_self_contained_and_small(options):
    for thing in made(**options):
        check(thing._repr_html_())
        assert plain(thing).strip()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_names_are_text_in_a_notebook(text):
    lab, field, prev, verdict = named(text)
    for thing in (prev, verdict):
        assert "Do not use" in check(thing._repr_html_()).text
    for thing in (lab, field, prev, verdict):
        # Markup, emoji and highlighting are on, as they are in anybody's console.
        shown = printed(thing)
        assert not re.search(r"\x1b(?!\[(0|1|1;\d+|3\d)m)", shown), "codes that are not ours"
        bare = re.sub(r"\x1b\[[0-9;]*m", "", shown)
        assert all(c.isprintable() or c == "\n" for c in bare + plain(thing) + repr(thing))
        assert len(shown) < 10_000
    for thing in (lab, field, prev):
        assert show.name(text).strip() in check(thing._repr_html_()).text
        assert show.name(text).rstrip() in plain(thing)
    assert group_keys.show(f"Because of {text}.", width=1_000)[:60] in plain(verdict, width=2_000)


def test_the_terminal_has_the_numbers_of_the_table():
    for options in ({}, {"K": 3}, {"grouped": False}, {"level": None, "point": "mode"}):
        _, _, prev, verdict = made(**options)
        head, rows = prevalence_table.table(prev)
        lines = [line.rstrip() for line in plain(prev, width=2_000).split("\n")]
        assert lines[0] == prevalence_table.title(prev)
        cells = [re.split(r" {2,}", line) for line in lines[1 : 2 + len(rows)]]
        assert cells == [[cell for cell in row if cell] for row in [head, *rows]]
        assert lines[2 + len(rows)].strip() == prevalence_table.trust_text(prev)
        assert lines[3 + len(rows) :] == [*repr(verdict).split("\n"), ""]
        page = check(prev._repr_html_())
        told = [cell for row in [head, *rows] for cell in row if cell]
        assert page.texts[: 1 + len(told)] == [prevalence_table.title(prev), *told]
        assert ("interval" in page.text) == (prev.level is not None)


def test_a_verdict_is_told_in_words_and_a_sign_not_by_colour_alone():
    for level in ("ok", "care", "do_not_use"):
        verdict = verdict_of(level, "First, a < b.", "Second.")
        page = check(verdict._repr_html_())
        head, *reasons = repr(verdict).split("\n")
        assert head in page.text
        assert show.SIGNS[level][0] in page.text
        assert [text for text in page.texts if text.endswith(".")] == [
            r.removeprefix("  - ") for r in reasons
        ]
        assert plain(verdict) == f"{verdict!r}\n"
        if level == "ok":
            assert "<ul" not in fieldcal.Verdict()._repr_html_()


def test_the_bars_of_a_lab_are_as_high_as_M():
    lab = made(K=3)[0]
    found = [[" ▁▂▃▄▅▆▇█".index(bar) for bar in row[-1]] for row in show.lab_sheet(lab).rows]
    np.testing.assert_array_equal(found, np.maximum(np.rint(lab.M / lab.M.max() * 8), lab.M >= 0.005))


def test_a_hundred_thousand_groups_make_no_longer_page():
    lab, d = made()[0], data()
    names = np.array([f"group {i} {'<' * 50}" for i in range(100_000)], dtype=object)
    field = fieldcal.count(lab, np.resize(d.proba_field, 100_500), groups=np.resize(names, 100_500).tolist())
    page = check(field._repr_html_())
    assert "… and 99,992 more" in page.text
    assert "… and 99,992 more" in plain(field)
    assert page.tags.count("tr") == 1 + show.SHOWN_GROUPS
    counts = np.random.default_rng(0).integers(0, 9, size=(3, 1000))
    np.testing.assert_array_equal(show.together(counts, 24).sum(axis=1), counts.sum(axis=1))


def test_rows_left_out_and_predictions_moved_are_told():
    counts = made()[1].batches[""].model_copy(update={"dropped": 1234, "clipped": 5678})
    field = made()[1].named("x").model_copy(update={"batches": {"": counts}})
    for text in (check(field._repr_html_()).text, plain(field)):
        assert "1,234 rows dropped" in text
        assert "5,678 predictions moved into [0, 1]" in text
    lab = made()[0].model_copy(update={"clipped": 9})
    assert "9 predictions moved" in check(lab._repr_html_()).text


def test_what_labels_decided_is_one_line_below_the_table():
    d = data()
    lab, _, without, _ = made(grouped=False)
    y = [int(k) if i % 20 == 0 else None for i, k in enumerate(d.y_field)]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, d.proba_field, y=y))
    shift, unchanged, other = prev.by_model.weights
    line = f"150 labelled rows: label shift {shift:.2f}, unchanged {unchanged:.2f}, other {other:.2f}"
    assert f"\n  {line}\n" in repr(prev)
    assert line in plain(prev)
    assert line in check(prev._repr_html_()).text
    for text in (repr(without), without._repr_html_()):
        assert "labelled rows: label shift" not in text


@functools.cache
def of_values(text="a", n_values=2):
    """A lab of values, and the shares behind them in groups of which one has a name."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, n_values, 600).astype(str)
    y = np.where(rng.random(600) < 0.8, values.astype(int) % 2, 1 - values.astype(int) % 2).astype(str)
    groups = [(text, "b", "c")[i % 3] for i in range(600)]
    human = [label if i % 2 else None for i, label in enumerate(y.tolist())]
    lab = fieldcal.learn(values, human, kind="values", design="random", groups=groups)
    return lab, fieldcal.estimate(lab, fieldcal.count(lab, values, y=human, groups=groups))


def test_shares_behind_values_are_a_table_of_slices_with_the_number_of_labels():
    lab, prev = of_values(HOSTILE["html"])
    page = check(prev._repr_html_())
    for shown in (page.text, plain(prev), repr(prev)):
        assert "as judged" in shown
        assert "labelled rows: 300 chosen at random" in shown
        assert "trust" not in shown
    assert show.name(HOSTILE["html"]).strip() in page.text
    check(lab._repr_html_())
