"""The page: complete in itself, safe against what names may hold, small, and the same for the same estimate."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import zlib
from html.parser import HTMLParser

import numpy as np
import pytest

import fieldcal
from fieldcal.errors import InputError, MissingExtraError
from fieldcal.reporting.page import STATIC_LINES
from fieldcal.reporting.sections import shown_name
from reporting.real import HOSTILE, hostile, judged, reported, simple

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")

EMPTY = {"meta", "input", "br", "link", "img", "hr"}


class Page(HTMLParser):
    """Tags with their attributes, visible text, and what stands in scripts and styles."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.text, self.open, self.raw = [], [], [], {"script": [], "style": []}
        self.feed(text)
        self.close()
        assert self.open == [], "every tag is closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in EMPTY:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        inside = self.open[-1] if self.open else ""
        self.raw.get(inside, self.text).append(data)

    def named(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def words(self):
        return " ".join(" ".join(self.text).split())


def test_the_page_has_every_section_that_was_promised():
    words = Page(reported(judged("care")[0]).html()).words()
    for title in (
        *("What to do", "All groups", "Why trust it", "Does the field fit a mixture"),
        *("What happens to a prediction", "The model in the lab", "a checklist", "Data quality"),
        *("Settings, versions, digests", "How to read this"),
    ):
        assert title in words
    assert "Evaluation on labelled rows" not in words


@pytest.mark.slow
def test_equal_estimates_give_equal_bytes_in_any_process(tmp_path, monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    prev, _ = simple()
    prev.save(tmp_path / "prev.json")
    code = (
        "import fieldcal, sys; p = fieldcal.Prevalence.load(sys.argv[1]);fieldcal.report(p).save(sys.argv[2])"
    )
    for seed in ("1", "2"):
        target = tmp_path / f"{seed}.html"
        subprocess.run(
            [sys.executable, "-c", code, tmp_path / "prev.json", target],
            env={**os.environ, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo"},
            check=True,
            timeout=120,
        )
        assert target.read_bytes() == reported(prev).html().encode()


def test_the_policy_allows_the_one_script_and_the_one_sheet_of_the_page_and_nothing_else():
    page = Page(reported(simple()[0]).html())
    (policy,) = (m["content"] for m in page.named("meta") if m.get("http-equiv"))
    code = [text for text in page.raw["script"] if not re.fullmatch(r"[A-Za-z0-9+/=\s]+", text)]
    (sheet,) = page.raw["style"]
    hashes = [base64.b64encode(hashlib.sha256(t.encode()).digest()).decode() for t in (*code, sheet)]
    assert policy == (
        f"default-src 'none'; script-src 'sha256-{hashes[0]}'; style-src 'sha256-{hashes[1]}'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    kinds = [s.get("type") for s in page.named("script")]
    assert kinds == ["application/octet-stream", None]


@pytest.mark.slow
def test_nothing_on_the_page_leads_out_of_it():
    text = reported(judged("care")[0]).html()
    page = Page(text)
    for _, attributes in page.tags:
        for key, value in attributes.items():
            assert not key.startswith("on")
            assert key != "style"
            if key in {"src", "href", "srcset", "action"}:
                assert value.startswith(("#", "data:image/png"))
    outside = set(re.findall(r"https?://[^\s\"'<)]+", text))
    assert outside == {"http://www.w3.org/2000/svg"}  # a name, in the script, that nothing is fetched from


def test_hostile_names_are_shown_and_stay_inert():
    text = reported(hostile(), title="<b>title</b> </title><script>alert(1)</script>").html()
    page = Page(text)
    assert not page.named("img")
    assert len(page.named("script")) == 2
    words = page.words()
    for key in HOSTILE:
        assert " ".join(shown_name(key).split()) in words
    assert len(text) < 1_000_000


@pytest.fixture(scope="module")
def many():
    """An estimate of many groups, and its page."""
    prev, _ = simple(700, 2)
    return prev, reported(prev).html()


def test_the_data_for_the_script_are_those_of_the_estimate(many):
    prev, text = many
    page = Page(text)
    packed = next(t for t in page.raw["script"] if re.fullmatch(r"[A-Za-z0-9+/=\s]+", t))
    data = json.loads(zlib.decompress(base64.b64decode(packed)))
    assert len(data["names"]) == 700
    at = [prev.groups.index(int(name)) for name in data["names"]]
    for name in ("mean_prediction", "estimate", "lower", "upper"):
        np.testing.assert_allclose(
            np.array(data["classes"][0][name]) * data["step"], getattr(prev, name)[at, 1], atol=5.1e-6
        )
    break_even = np.array(data["classes"][0]["break_even"]) * data["step"]
    np.testing.assert_allclose(break_even, prev.break_even().rows[at], atol=5.1e-6)
    assert page.words().count("Break-even:") == 1


def test_without_a_script_the_first_lines_are_there_and_the_page_says_how_many(many):
    _, text = many
    page = Page(text)
    rows = [a for a in page.named("th") if a.get("scope") == "row"]
    assert len(rows) >= STATIC_LINES
    assert text.count('<svg class="strip"') == STATIC_LINES + 1, "the whole field, and groups"
    assert f"The first {STATIC_LINES} of 700 are shown" in page.words()
    hidden = [a for _, a in page.tags if a.get("id") in {"controls", "pages"}]
    assert all("hidden" in a for a in hidden)
    assert len(hidden) == 2


@pytest.mark.slow
def test_a_thousand_groups_of_twelve_classes_fit_into_a_megabyte():
    data = fieldcal.datasets.label_shift(
        n_lab=3000, n_field=20_000, n_groups=1000, p_lab=(1 / 12,) * 12, random_state=0
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    names = [f"a customer with a rather long name, number {g}" for g in data.groups_field]
    field = fieldcal.count(lab, data.proba_field, groups=names)
    prev = fieldcal.estimate(lab, field, prior="flat", point="mode", level=None, trust=1)
    page = reported(prev).html().encode()
    assert len(page) < 1_000_000
    assert page.count(b"<option") > 12


def test_a_report_is_saved_by_its_ending_whole_or_not_at_all(tmp_path):
    found = reported(simple()[0])
    for name, text in {"a.html": found.html(), "b.MD": found.markdown(), "c.json": found.json()}.items():
        found.save(tmp_path / name)
        assert (tmp_path / name).read_text("utf-8") == text
    with pytest.raises(InputError, match=r"\.html, \.md or \.json"):
        found.save(tmp_path / "d.txt")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "b.MD", "c.json"]


def test_in_a_notebook_the_page_is_in_a_frame_of_its_own():
    found = reported(hostile())
    (frame,) = Page(found._repr_html_()).named("iframe")
    assert frame["srcdoc"] == found.html()
    assert frame["sandbox"] == "allow-scripts allow-downloads"
    assert repr(found) == "Report: Use with care; 1,800 field rows, 10 groups"


@pytest.mark.parametrize("module", ["jinja2", "matplotlib"])
def test_a_missing_library_is_named_with_the_way_to_get_it(monkeypatch, module):
    found = reported(simple()[0])
    monkeypatch.setitem(sys.modules, module, None)
    from fieldcal.reporting import page

    monkeypatch.setattr(page, "_environment", page._environment.__wrapped__)
    with pytest.raises(MissingExtraError, match=rf"{module} is needed .* pip install 'fieldcal\[report\]'"):
        found.html()
    assert found.json()  # data need neither
    if module == "matplotlib":
        assert found.markdown()  # words need no pictures
