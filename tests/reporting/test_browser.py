"""The page in a real browser: Chromium, from disk, offline."""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from examples.judged import judged

import fieldcal
from fieldcal.datasets import label_shift
from fieldcal.objects import show
from fieldcal.plots import style
from fieldcal.reporting.figures import pictures
from fieldcal.reporting.page import FIRST_LINES, STATIC_LINES, STEP, as_html
from fieldcal.reporting.sections import shown_name
from reporting.browser import running
from reporting.real import judged as real_judged
from reporting.test_regression_report import numbers as regression_numbers

pytest.importorskip("jinja2", reason="Jinja is not installed, so there are no pages to open")
pytest.importorskip("matplotlib", reason="matplotlib is not installed, so there are no pages to open")

OPEN_ALL = "document.querySelectorAll('details').forEach((e) => { e.open = true; })"
TAB, ENTER, DOWN, END, HOME = "\ue004", "\ue007", "\ue015", "\ue010", "\ue011"

IMAGE = "</script><img src=x onerror=alert(1)>"
FORMULA = r"$\frac{$"
LONG = "x" * 10_000
RIGHT_TO_LEFT = "שלום עולם, مرحبا"
DRAWING = '"><svg onload=alert(1)>'
LINK = "javascript:alert(1)"
TURNED = "in\nvoice\u202egpj.exe\u2066"
HOSTILE = (
    IMAGE,
    FORMULA,
    LONG,
    RIGHT_TO_LEFT,
    DRAWING,
    LINK,
    TURNED,
    "=1+1",
    "{{ 7 * 7 }}",
    "--><!--",
    "",
    "KÖLN Süd",
)


# ── Pages ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Made:
    """A page on disk and the estimate that it shows."""

    path: Path
    prev: Any
    truth: Any = None

    @property
    def order(self) -> list[int]:
        """Groups as the page lists them at first: where most rows move, with the pictured class."""
        prev, k = self.prev, self.k
        return sorted(
            range(len(prev.groups)),
            key=lambda g: (-prev.n[g] * abs(prev.estimate[g, k] - prev.mean_prediction[g, k]), -prev.n[g], g),
        )

    @property
    def k(self) -> int:
        """The class that is corrected most, or the second of two."""
        prev = self.prev
        return (
            1
            if len(prev.classes) == 2
            else int(np.abs(prev.estimate - prev.mean_prediction).sum(axis=0).argmax())
        )


def made(folder, data, *, names=None, classes=None, weight=None, labelled=False, kept=None, **options):
    """Learn, count, estimate, report, save."""
    kept = np.ones(len(data.groups_field), dtype=bool) if kept is None else kept
    y_lab, y_field = data.y_lab, data.y_field[kept]
    if classes is not None:
        y_lab, y_field = (np.array(classes, dtype=object)[y] for y in (y_lab, y_field))
    keys = data.groups_field[kept].tolist()
    keys = [f"site {g}" for g in keys] if names is None else [names[g] for g in keys]
    lab = fieldcal.learn(
        data.proba_lab, y_lab, groups=[f"site {g}" if names is None else names[g] for g in data.groups_lab]
    )
    field = fieldcal.count(
        lab, data.proba_field[kept], groups=keys, sample_weight=None if weight is None else weight[kept]
    )
    prev = fieldcal.estimate(lab, field, trust=1)
    known = {"proba": data.proba_field[kept], "y": y_field, "groups": keys} if labelled else {}
    path = folder / "a report.html"
    fieldcal.report(prev, **known, **options).save(path)
    truth = None
    if labelled:
        truth = np.array(
            [
                np.mean([y == prev.classes[1] for y, key in zip(y_field, keys, strict=True) if key == g])
                for g in prev.groups
            ]
        )
    return Made(path, prev, truth)


@pytest.fixture(scope="session")
def plain(tmp_path_factory):
    """Two classes, labels, groups from a handful of rows to many."""
    data = label_shift(n_lab=4000, n_field=12_000, n_groups=24, concentration=2.0, random_state=1)
    kept = np.random.default_rng(0).random(12_000) < ((data.groups_field + 1) / 24) ** 2
    return made(tmp_path_factory.mktemp("plain"), data, kept=kept, labelled=True)


@pytest.fixture(scope="session")
def three(tmp_path_factory):
    """Three classes, rows with weights."""
    data = label_shift(n_lab=3000, n_field=6000, p_lab=(0.5, 0.3, 0.2), n_groups=8, random_state=2)
    weight = np.random.default_rng(1).random(6000) * 3
    return made(tmp_path_factory.mktemp("three"), data, classes=("cat", "dog", "ox"), weight=weight)


@pytest.fixture(scope="session")
def many(tmp_path_factory):
    """More groups than a screen holds: three of its pages."""
    data = label_shift(n_lab=3000, n_field=25_000, n_groups=250, concentration=2.0, random_state=3)
    return made(tmp_path_factory.mktemp("many"), data)


@pytest.fixture(scope="session")
def hostile(tmp_path_factory):
    """Names that want to be something else, of groups, of classes and of the page."""
    data = label_shift(n_lab=3000, n_field=6000, p_lab=(0.3, 0.3, 0.4), n_groups=len(HOSTILE), random_state=4)
    return made(
        tmp_path_factory.mktemp("hostile"),
        data,
        names=HOSTILE,
        classes=(FORMULA, IMAGE, LONG),
        title=IMAGE + LONG,
    )


@pytest.fixture(scope="session")
def single(tmp_path_factory):
    """One population, where a line of the table is a class; some of its rows were counted with their labels."""
    data = label_shift(n_lab=2000, n_field=2000, p_lab=(0.5, 0.3, 0.2), n_groups=1, random_state=5)
    names = np.array(["cat", "dog", "ox"])
    lab = fieldcal.learn(data.proba_lab, names[data.y_lab])
    y = [names[k] if i % 10 == 0 else None for i, k in enumerate(data.y_field)]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, y=y))
    path = tmp_path_factory.mktemp("single") / "a report.html"
    fieldcal.report(prev).save(path)
    return Made(path, prev)


@pytest.fixture(scope="session")
def values(tmp_path_factory):
    """Verdicts of a judge on four systems, some of them checked."""
    data = judged(n_items=150, n_labels=120)
    lab = fieldcal.learn(data.verdict, data.human, kind="values", design="random", groups=data.system)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.verdict, y=data.human, groups=data.system))
    path = tmp_path_factory.mktemp("values") / "a report.html"
    fieldcal.report(prev).save(path)
    return Made(path, prev)


@pytest.fixture(scope="session")
def numbers(tmp_path_factory):
    """Predictive distributions of a number in four groups, and numbers that came true."""
    prev, rows, y, groups = regression_numbers()
    path = tmp_path_factory.mktemp("numbers") / "a report.html"
    fieldcal.report(prev, proba=rows, y=y, groups=groups).save(path)
    return Made(path, prev)


@pytest.fixture(scope="session")
def window(tmp_path_factory):
    with running(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def browser(window):
    """The browser. Whatever a test does: no message in the console, no request but for the page itself."""
    yield window
    assert window.console() == []
    assert foreign(window.requests()) == []


def foreign(addresses):
    """Requests that leave the page."""
    return [a for a in addresses if not a.startswith(("data:", "blob:", "about:")) and not own(a)]


def own(address):
    return address.startswith("file:") and address.partition("#")[0].endswith(".html")


# ── Opening it ───────────────────────────────────────────────────────────────────────────────────


def test_the_page_opens_from_disk_offline_with_all_its_pictures(browser, plain):
    browser.open(plain.path)
    assert browser.requests() == [plain.path.as_uri()]
    assert not browser.run("return navigator.onLine")
    assert browser.console() == []
    browser.run(OPEN_ALL)
    sizes = browser.run(
        "return [...document.querySelectorAll('figure svg')].filter((e) => e.checkVisibility()).map((e) => {"
        " const box = e.getBoundingClientRect(), inside = e.getBBox();"
        " return [box.width, box.height, inside.width, inside.height]; })"
    )
    assert len(sizes) == len(browser.texts("figure")) >= 7
    assert np.min(sizes) > 100


def test_every_page_loads_nothing_and_complains_about_nothing(browser, three, many, hostile, single, values):
    for page in (three, many, hostile, single, values):
        browser.open(page.path)
        assert browser.requests() == [page.path.as_uri()]
        assert browser.console() == []


# ── The table, by keyboard ───────────────────────────────────────────────────────────────────────


def steps(values):
    return np.rint(np.asarray(values) / STEP).astype(int)


def columns(page):
    """What each header sorts by, worked out from the estimate."""
    prev = page.prev
    return {
        "name": [int(g.split()[1]) for g in prev.groups],
        "n": prev.n,
        "mean_prediction": steps(prev.mean_prediction[:, 1]),
        "estimate": steps(prev.estimate[:, 1]),
        "lower": steps(prev.upper[:, 1]) - steps(prev.lower[:, 1]),
        "change": steps(prev.estimate[:, 1]) - steps(prev.mean_prediction[:, 1]),
        "truth": steps(page.truth),
        "effect": np.round(prev.fit.effect, 3),
        "status": prev.status,
    }


def shown(browser):
    return [row[0] for row in browser.table()]


def test_enter_on_a_header_sorts_and_again_reverses(browser, plain):
    browser.open(plain.path)
    assert shown(browser) == [plain.prev.groups[g] for g in plain.order]
    browser.run("document.getElementById('download').focus()")
    for key, column in columns(plain).items():
        browser.tab_to(f'th[data-key="{key}"] button', most=3)
        first = "ascending" if key in ("name", "status") else "descending"
        for direction in (first, "descending" if first == "ascending" else "ascending"):
            browser.press(ENTER)
            expected = sorted(plain.order, key=column.__getitem__, reverse=direction == "descending")
            assert shown(browser) == [plain.prev.groups[g] for g in expected], (key, direction)
            sorting = browser.run(
                "return [...document.querySelectorAll('th[aria-sort]')].map((e) => [e.dataset.key, e.ariaSort])"
            )
            assert sorting == [[key, direction]]
            assert browser.run("return document.activeElement.parentElement.dataset.key") == key


def test_typing_in_the_search_box_leaves_the_groups_that_match(browser, plain):
    browser.open(plain.path)
    total = len(plain.prev.groups)
    assert browser.texts("#count") == [f"{total} of {total}"]
    browser.tab_to("#search")
    browser.press(" SITE 1 ".strip())
    expected = [plain.prev.groups[g] for g in plain.order if plain.prev.groups[g].startswith("site 1")]
    assert shown(browser) == expected
    assert browser.texts("#count") == [f"{len(expected)} of {total}"]
    assert browser.run("return document.getElementById('count').ariaLive") == "polite"
    browser.press("no such place")
    assert browser.table() == []
    assert browser.texts("#count") == [f"0 of {total}"]


def test_the_status_filter_leaves_the_groups_of_that_status(browser, plain):
    browser.open(plain.path)
    flags = {flag for status in plain.prev.status for flag in status.split(",")}
    assert {"few_rows"} < flags
    browser.tab_to("#status")
    seen = set()
    for _ in range(len(flags)):
        browser.press(DOWN)
        flag = browser.run("return document.getElementById('status').value")
        seen.add(flag)
        expected = [plain.prev.groups[g] for g in plain.order if flag in plain.prev.status[g].split(",")]
        assert shown(browser) == expected
        assert browser.texts("#count") == [f"{len(expected)} of {len(plain.prev.groups)}"]
    assert seen == flags


def test_the_class_switch_shows_the_numbers_of_that_class(browser, three):
    prev = three.prev
    browser.open(three.path)
    browser.tab_to("#class")
    chosen = []
    for press in (HOME, DOWN, DOWN):
        browser.press(press)
        of = browser.run("const e = document.getElementById('class'); return e.selectedOptions[0].text")
        chosen.append(of)
        k = prev.classes.index(of)
        assert browser.texts("#of") == [of]
        for row in browser.table():
            g = prev.groups.index(row[0])
            told = [float(x.rstrip("%")) / 100 for x in (row[2], row[3], *row[4].split(" – "))]
            known = [t[g, k] for t in (prev.mean_prediction, prev.estimate, prev.lower, prev.upper)]
            assert told == pytest.approx(known, abs=6e-4)
            assert float(row[6]) / 100 == pytest.approx(
                prev.estimate[g, k] - prev.mean_prediction[g, k], abs=7e-4
            )
    assert sorted(chosen) == ["cat", "dog", "ox"]
    assert chosen[0] == prev.classes[three.k]


def test_more_groups_than_fit_are_paged(browser, many):
    names = [many.prev.groups[g] for g in many.order]
    browser.open(many.path)
    assert browser.texts("#count") == ["250 of 250"]
    assert shown(browser) == names[:100]
    browser.tab_to("#all", most=120)
    browser.press(" ")
    browser.tab_to("#next", most=3)
    for page, part in ((2, names[100:200]), (3, names[200:])):
        browser.press(ENTER)
        assert shown(browser) == part
        assert browser.texts("#where") == [f"Page {page} of 3"]
    assert browser.run("return document.getElementById('next').disabled")
    # A button that cannot be pressed any more hands the focus on.
    assert browser.run("return document.activeElement.id") == "previous"
    browser.press(ENTER)
    assert shown(browser) == names[100:200]
    browser.run("document.getElementById('search').focus()")
    browser.press("site 24")
    assert browser.texts("#count") == ["11 of 250"]
    assert not browser.visible("#pages")


def test_the_whole_field_stays_on_top_whatever_is_sorted_searched_or_chosen(browser, three, many):
    for page in (three, many):
        browser.open(page.path, script=False)
        (static,) = browser.rows("#table tbody tr:first-child")
        browser.open(page.path)
        assert browser.rows("#table tbody tr:first-child") == browser.rows("#table .whole") == [static]
        assert static[:2] == ["whole field", show.amount(page.prev.n.sum())]
        assert static[3] == f"{page.prev.whole.estimate[page.k]:.1%}"
        browser.run("document.querySelector('th[data-key=\"n\"] button').click()")
        browser.run("document.getElementById('search').focus()")
        browser.press("no such place")
        assert browser.rows("#table tbody tr") == [static]
    browser.open(three.path)
    browser.tab_to("#class")
    browser.press(DOWN)
    k = three.prev.classes.index(browser.texts("#of")[0])
    ((_, _, _, estimate, *_),) = browser.rows("#table .whole")
    assert estimate == f"{three.prev.whole.estimate[k]:.1%}"


def static_and_dynamic(browser, path):
    """The table as the page came with it, and as the script shows it, page after page."""
    browser.open(path, script=False)
    static = browser.table()
    browser.open(path)
    dynamic = browser.table()
    browser.run("document.getElementById('all')?.click()")
    while browser.visible("#next:not([disabled])"):
        browser.run("document.getElementById('next').click()")
        dynamic += browser.table()
    return static, dynamic


def test_the_rows_are_the_same_with_and_without_the_script(browser, plain, three, many, hostile, values):
    for page in (plain, three, many, hostile, values):
        static, dynamic = static_and_dynamic(browser, page.path)
        assert len(static) == min(len(page.prev.groups), STATIC_LINES)
        assert dynamic == static


def test_numbers_between_two_roundings_are_the_same_with_and_without_the_script(browser, plain, tmp_path):
    prev, rng = plain.prev, np.random.default_rng(0)
    content = fieldcal.report(prev).dict()
    shares = [0.0, 1.0, 0.1225, 0.1235, 0.12345, 0.12349, 0.00049, 0.00051, 0.99949, 0.99951, 0.28125, 1 / 3]
    shares += (rng.integers(2000, size=288) / 2000).tolist()
    table = {
        "mean_prediction": shares,
        "estimate": shares[::-1],
        "lower": shares,
        "upper": shares[1:] + shares[:1],
        "break_even": [*shares[:-1], None],
    }
    content["groups"] |= {
        "names": [f"site {i}" for i in range(300)],
        "n": [0, 7, 1234567, 0.25, 12.04, 12.25, 12.35, 1234.75, 99.95, 0.05, *range(290)],
        "effect": [0, 0.125, 0.625, 0.0049, 0.005, 0.0051, 0.1249, 1.005, *(rng.random(292).tolist())],
        "status": ["ok"] * 300,
        "classes": [{"class": "1", **table, "truth": [None, *shares[1:]]}],
    }
    path = tmp_path / "a report.html"
    path.write_text(as_html(content, pictures(content)), "utf-8")
    static, dynamic = static_and_dynamic(browser, path)
    assert len(static) == 300
    assert dynamic == static
    assert {row[1] for row in static} >= {"0", "1,234,567", "12", "1,234.8", "100"}
    assert static[0][8] == "–"
    assert static[-1][7] == "–"


# ── The download ─────────────────────────────────────────────────────────────────────────────────


def downloaded(browser):
    file = browser.downloads / "groups.csv"
    file.unlink(missing_ok=True)
    browser.run("document.getElementById('download').focus()")
    browser.press(ENTER)
    browser.wait(lambda: file.exists() and not list(browser.downloads.glob("*.crdownload")))
    with file.open(encoding="utf-8-sig", newline="") as opened:
        return list(csv.DictReader(opened))


def test_the_download_has_the_numbers_of_the_estimate(browser, plain):
    browser.open(plain.path)
    prev, rows = plain.prev, downloaded(browser)
    assert [row["group"] for row in rows] == [prev.groups[g] for g in plain.order]
    for g, row in zip(plain.order, rows, strict=True):
        assert row["class"] == str(prev.classes[1])
        assert float(row["n"]) == prev.n[g]
        assert row["status"] == prev.status[g]
        assert float(row["misfit"]) == round(prev.fit.effect[g], 3)
        told = [row[key] for key in ("mean_prediction", "estimate", "lower", "upper", "truth")]
        known = [t[g, 1] for t in (prev.mean_prediction, prev.estimate, prev.lower, prev.upper)]
        assert told == [f"{x:.5f}" for x in (*known, plain.truth[g])]


def test_slices_are_sorted_by_their_labelled_rows_which_are_in_the_download(browser, values):
    browser.open(values.path)
    (labelled,) = values.prev.field.labelled.values()
    rows = {values.prev.groups[g]: labelled.counts[i].sum() for i, g in enumerate(labelled.at)}
    browser.run("document.querySelector('th[data-key=labelled] button').click()")
    assert [rows[name] for name in shown(browser)] == sorted(rows.values(), reverse=True)
    told = downloaded(browser)
    assert {row["group"]: float(row["labelled"]) for row in told} == rows
    assert "misfit" not in told[0]


def test_the_download_has_what_the_search_found_of_the_chosen_class(browser, three):
    browser.open(three.path)
    browser.tab_to("#search")
    browser.press("site 5")
    browser.tab_to("#class")
    browser.press(END)
    of = browser.run("const e = document.getElementById('class'); return e.selectedOptions[0].text")
    (row,) = downloaded(browser)
    g, k = three.prev.groups.index("site 5"), three.prev.classes.index(of)
    assert (row["group"], row["class"]) == ("site 5", of)
    assert row["estimate"] == f"{three.prev.estimate[g, k]:.5f}"


def test_the_download_starts_no_formula_in_a_spreadsheet(browser, hostile):
    browser.open(hostile.path)
    found = {row["group"] for row in downloaded(browser)}
    assert found == {shown_name(g) for g in HOSTILE} - {"=1+1", "--><!--"} | {"'=1+1", "'--><!--"}


# ── Names that want to be something else ─────────────────────────────────────────────────────────


def test_hostile_names_are_read_and_not_run(browser, hostile):
    from selenium.common.exceptions import NoAlertPresentException

    for script in (False, True):
        browser.open(hostile.path, script=script)
        with pytest.raises(NoAlertPresentException):
            browser.driver.switch_to.alert  # noqa: B018
        inside = browser.run(
            "const all = [...document.querySelectorAll('*')];"
            "return {scripts: document.scripts.length,"
            " foreign: document.querySelectorAll('img, iframe, object, embed, link, base, form, b').length,"
            " links: [...document.links].map((e) => e.getAttribute('href')),"
            " attributes: [...new Set(all.flatMap((e) => e.getAttributeNames()))]}"
        )
        assert inside["scripts"] == 2
        assert inside["foreign"] == 0
        assert all(link.startswith("#") for link in inside["links"])
        assert not [a for a in inside["attributes"] if a.startswith("on") or a == "style"]
        # As written, where that can be read; the others cut or without what turns a line around.
        names = set(browser.texts("#table tbody tr:not(.whole) th bdi"))
        assert names == {shown_name(g) for g in HOSTILE}
        assert {IMAGE, FORMULA, RIGHT_TO_LEFT, DRAWING, LINK, "{{ 7 * 7 }}"} <= names
        (cut,) = (n for n in names if n.startswith("xxx"))
        assert len(cut) <= 80
        assert cut.endswith("…")
        assert not re.search("[\u202a-\u202e\u2066-\u2069\n]", "".join(names))


INJECTED = '<script>window.hacked = 1</script><img src="x" onerror="window.hacked = 1">'


def test_an_injected_script_is_stopped_by_the_policy_of_the_page(browser, plain, tmp_path):
    text = plain.path.read_text("utf-8").replace("<main>", f"<main>{INJECTED}", 1)
    page = tmp_path / "injected.html"
    page.write_text(text, "utf-8")
    browser.open(page)
    assert browser.run("return document.querySelectorAll('img').length") == 1
    assert browser.run("return window.hacked === undefined")
    assert browser.requests() == [page.as_uri()]
    violations = browser.console()
    assert len(violations) >= 2
    assert all("Content Security Policy" in message for message in violations)
    # Without the policy it would run.
    without, count = re.subn(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", text)
    assert count == 1
    page.write_text(without, "utf-8")
    browser.open(page)
    assert browser.run("return window.hacked") == 1
    browser.console(), browser.requests()  # the missing picture


# ── Dark mode and contrast ───────────────────────────────────────────────────────────────────────


def luminance(colour):
    """WCAG 2.2, relative luminance."""
    channels = np.array(re.findall(r"[\d.]+", colour)[:3], dtype=float) / 255
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one, other):
    """WCAG 2.2, contrast ratio."""
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_mark_in_a_picture_has_the_colours_of_the_page(browser, plain, scheme):
    """Also those that are drawn once and copied, whose style no script can ask for: so pixels are counted."""
    browser.open(plain.path, scheme=scheme)
    browser.run(OPEN_ALL)
    palette = {
        name: browser.run(
            f"return getComputedStyle(document.documentElement).getPropertyValue('--{name}')"
        ).strip()
        for name in ("paper", "ink", "estimate", "mean-prediction", "truth")
    }
    drawn = {style.INK, style.ESTIMATE, style.MEAN_PREDICTION, style.TRUTH} - set(palette.values())
    assert len(drawn) == (4 if scheme == "dark" else 2)
    for picture, used in (("forest", {"estimate", "mean-prediction", "truth"}), ("curve", {"estimate"})):
        seen = browser.colours(f"figure.{picture} svg")
        assert all(seen[palette[name]] > 20 for name in {"paper", "ink", *used})
        assert max(seen[colour] for colour in drawn) < 5  # by chance, where two others blend


#: Every text that is seen: what it says, its colour, and the colour it stands on.
_PRINTED = """
const found = {};
const ground = (e) => {
  for (; e; e = e.parentElement) {
    const colour = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(colour) && colour !== "transparent") return colour;
  }
  return "rgb(255, 255, 255)";
};
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) {
  const text = walk.currentNode.data.trim(), e = walk.currentNode.parentElement;
  if (!text || e.closest("script, noscript, .response svg") || !e.checkVisibility()) continue;
  const style = getComputedStyle(e), ink = e.closest("svg") ? style.fill : style.color;
  found[ink + " on " + ground(e)] = [text.slice(0, 60), ink, ground(e)];
}
return Object.values(found);
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_from_its_background(browser, plain, single, values, scheme):
    for page in (single, values):
        browser.open(page.path, scheme=scheme)
        browser.run(OPEN_ALL)
        assert [told for told in browser.run(_PRINTED) if contrast(*told[1:]) < 4.5] == []
    browser.open(plain.path, scheme=scheme)
    browser.run(OPEN_ALL)
    for level in ("ok", "care", "do_not_use"):
        browser.run("document.getElementById('verdict').className = 'verdict ' + arguments[0]", level)
        for state in ("ok", "care", "do_not_use", "ask"):
            browser.run("document.querySelector('.checklist li').className = arguments[0]", state)
            told = browser.run(_PRINTED)
            faint = [(text, ink, on) for text, ink, on in told if contrast(ink, on) < 4.5]
            assert len(told) >= 5
            assert faint == []


# ── Paper, and no script ─────────────────────────────────────────────────────────────────────────


def test_on_paper_there_are_no_controls_and_the_paper_is_white(browser, many):
    browser.open(many.path)
    browser.run(f"document.getElementById('all').click(); {OPEN_ALL}")
    assert all(browser.visible(part) for part in ("nav", "#controls", "#rest", "#pages", ".numbers"))
    browser.look(scheme="dark", media="print")
    assert not any(
        browser.visible(part) for part in ("nav", "#controls", "#rest", "#pages", ".numbers", "noscript")
    )
    assert all(browser.visible(part) for part in ("#verdict", "#table", "figure svg", "#checklist"))
    assert browser.style("html", "backgroundColor") == "rgb(255, 255, 255)"
    assert browser.style("body", "color") == "rgb(0, 0, 0)"
    # Chromium repeats the head of a table on every sheet, but without the buttons in it.
    assert browser.style("#table thead button", "display") == "contents"


def test_printing_gives_some_pages_with_all_groups_on_them(browser, many):
    browser.open(many.path)
    browser.run(
        "addEventListener('beforeprint', () => {"
        " window.printed = document.querySelectorAll('#table tbody tr:not(.whole)').length; })"
    )
    pages = len(re.findall(rb"/Type\s*/Page\b", browser.pdf()))
    assert 1 < pages < 30
    assert browser.run("return window.printed") == 250
    assert len(browser.table()) == 100


def test_without_a_script_the_page_can_be_read(browser, plain):
    browser.open(plain.path, script=False)
    assert browser.visible("#verdict h2")
    assert browser.driver.find_element("css selector", "#verdict h2").text.strip()
    rows = browser.driver.find_elements("css selector", "#table tbody tr:not(.whole)")
    assert len(rows) == len(plain.prev.groups)
    assert rows[0].text.startswith(plain.prev.groups[plain.order[0]])
    assert not browser.visible("#controls")
    assert not browser.visible("#pages")
    assert browser.run("return document.querySelectorAll('#table button').length") == 0


# ── For everybody ────────────────────────────────────────────────────────────────────────────────


def test_every_picture_and_every_control_has_a_name(browser, plain, three, single):
    for page in (plain, three, single):
        browser.open(page.path)
        labels = browser.run(
            "return [...document.querySelectorAll('svg')].filter((e) => e.ariaHidden !== 'true')"
            ".map((e) => [e.getAttribute('role'), e.getAttribute('aria-label') ?? ''])"
        )
        assert len(labels) >= 5
        assert all(role == "img" and len(label) > 20 for role, label in labels)
        browser.run("document.querySelectorAll('details').forEach((e) => { e.open = true; })")
        controls = browser.run(
            "return [...document.querySelectorAll('input, select, button, a, summary, [role=region]')]"
            ".filter((e) => e.checkVisibility())"
        )
        assert len(controls) > 20
        for control in controls:
            assert control.accessible_name.strip(), control.get_attribute("outerHTML")


def test_the_outline_of_the_page_is_sound(browser, plain, three, hostile, single, values):
    for page in (plain, three, hostile, single, values):
        browser.open(page.path)
        levels = browser.run(
            "return [...document.querySelectorAll('h1, h2, h3, h4, h5, h6')].map((e) => Number(e.tagName[1]))"
        )
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after - before <= 1 for before, after in pairwise(levels))
        assert browser.run("return document.documentElement.lang") == "en"
        assert browser.driver.title.strip()
        assert [
            browser.run(f"return document.querySelectorAll('{tag}').length") for tag in ("main", "nav")
        ] == [
            1,
            1,
        ]
        ids = browser.run("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
        assert len(ids) == len(set(ids))
        references = browser.run(
            "return [...document.querySelectorAll('[aria-labelledby], a[href], use')]"
            ".map((e) => e.getAttribute('aria-labelledby') ?? e.getAttribute('href').slice(1))"
        )
        assert set(references) <= set(ids)


#: Everything that Tab should stop at, in the order of the page.
_STOPS = """
const stops = 'a[href], button:not([disabled]), input, select, summary, [tabindex="0"]';
window.stops = [...document.querySelectorAll(stops)].filter((e) => e.checkVisibility());
return window.stops.length;
"""


def test_tab_stops_at_everything_in_order_and_the_skip_link_is_first(browser, plain):
    browser.open(plain.path)
    total = browser.run(_STOPS)
    visited = []
    for _ in range(total):
        browser.press(TAB)
        visited.append(browser.run("return window.stops.indexOf(document.activeElement)"))
        seen = browser.run(
            "const box = document.activeElement.getBoundingClientRect();"
            "return box.width > 0 && box.right > 0 && box.bottom > 0 && box.top < innerHeight"
            " && getComputedStyle(document.activeElement).outlineStyle !== 'none'"
        )
        assert seen, browser.run("return document.activeElement.outerHTML.slice(0, 200)")
    assert visited == list(range(total))
    assert browser.run("return window.stops[0].className") == "skip"


def test_a_heading_that_a_link_leads_to_is_not_hidden_behind_the_menu(browser, plain):
    browser.open(plain.path)
    for link in browser.run(
        "return [...document.querySelectorAll('nav a')].map((e) => e.getAttribute('href'))"
    ):
        browser.run("document.querySelector(`nav a[href='${arguments[0]}']`).click()", link)
        clear = (
            "const menu = document.querySelector('nav').getBoundingClientRect().bottom;"
            "return document.querySelector(arguments[0]).closest('section').querySelector('h2')"
            ".getBoundingClientRect().top >= menu - 1"
        )
        browser.wait(lambda clear=clear, link=link: browser.run(clear, link))


# ── Short at first ───────────────────────────────────────────────────────────────────────────────


#: The text that is seen: not what is folded, nor what is only for a screen reader.
_SEEN = """
const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walk.nextNode()) if (walk.currentNode.parentElement.checkVisibility()) found.push(walk.currentNode.data);
return found.join(" ").replace(/\\s+/g, " ");
"""


def test_everything_but_verdict_changes_and_table_is_folded_with_a_sentence(browser, plain, single, values):
    for page in (plain, single, values):
        browser.open(page.path)
        assert browser.visible("#verdict li")
        assert browser.visible("#changes figure svg")
        assert browser.visible("#table tbody tr")
        assert not browser.visible(".folded")
        assert not browser.visible("main > section:not(.fold) ~ section figure:not(#changes figure)")
        told = browser.texts(".fold summary .summary")
        assert len(told) == len(browser.texts("main > .fold")) >= 5
        assert all(len(sentence) > 20 and sentence.endswith(".") for sentence in told)


def test_what_speaks_against_use_is_seen_without_unfolding(browser, three, tmp_path):
    against, _ = real_judged("do_not_use")
    path = tmp_path / "a report.html"
    fieldcal.report(against).save(path)
    for page, prev in ((path, against), (three.path, three.prev)):
        findings = [f.text for f in prev.verdict.findings if f.state in ("care", "do_not_use")]
        assert findings
        browser.open(page)
        seen = browser.run(_SEEN)
        assert all(" ".join(text.split()) in seen for text in findings)


def test_a_link_opens_the_part_that_it_leads_to(browser, plain):
    browser.open(plain.path, script=False)
    links = browser.run("return [...document.querySelectorAll('nav a')].map((e) => e.getAttribute('href'))")
    folded = [
        link
        for link in links
        if browser.run("return !!document.querySelector(`.folded${arguments[0]}`)", link)
    ]
    assert len(folded) >= 5
    for link in folded:
        browser.driver.find_element("css selector", f'nav a[href="{link}"]').click()
        browser.wait(lambda link=link: browser.visible(link))
    assert browser.run("return document.querySelectorAll('.fold > details[open]').length") == len(folded)


def test_a_page_opened_at_a_folded_part_shows_it(browser, plain):
    browser.open(plain.path)
    browser.driver.get("about:blank")
    browser.driver.get(f"{plain.path.as_uri()}#checklist")
    browser.wait(lambda: browser.visible("#checklist li"))


def test_on_paper_every_part_is_open_and_afterwards_as_it_was(browser, plain):
    browser.open(plain.path)
    browser.run("document.querySelector('.fold > details').open = true")
    browser.run(
        "addEventListener('beforeprint', () => {"
        " window.open_parts = document.querySelectorAll('.fold > details[open]').length; })"
    )
    browser.pdf()
    assert browser.run("return window.open_parts") == len(browser.texts(".fold"))
    assert browser.run("return document.querySelectorAll('.fold > details[open]').length") == 1


@pytest.mark.parametrize("script", [True, False])
def test_at_first_ten_groups_are_seen_and_all_when_asked_for(browser, many, script):
    browser.open(many.path, script=script)
    seen = (
        "return [...document.querySelectorAll('#table tbody tr:not(.whole)')]"
        ".filter((e) => e.checkVisibility()).length"
    )
    assert browser.run(seen) == FIRST_LINES
    assert not browser.visible("#pages")
    browser.driver.find_element("css selector", "#all").click()
    assert browser.run(seen) == (100 if script else len(many.prev.groups))
    assert browser.visible("#pages") == script


# ── On a phone ───────────────────────────────────────────────────────────────────────────────────


#: Whatever holds more than it shows.
_CUT = """
return [...document.querySelectorAll('.scroll, .drawing, .folded, table, tr, nav ul, figure, section, dl')]
  .filter((e) => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1)
  .map((e) => `${e.outerHTML.slice(0, 100)} ${e.scrollWidth} > ${e.clientWidth}`);
"""


@pytest.mark.parametrize(
    ("page", "width"),
    [
        *((page, 390) for page in ("plain", "hostile", "single", "values", "numbers")),
        *(("plain", width) for width in (320, 768, 1280)),
    ],
)
def test_no_table_and_no_picture_is_cut(browser, request, page, width):
    browser.open(request.getfixturevalue(page).path, width=width)
    for unfold in ("", OPEN_ALL):
        browser.run(unfold)
        assert browser.run("return document.documentElement.scrollWidth") <= width
        if (
            width <= 390 or not unfold
        ):  # a matrix of numbers may need a scroll bar of its own on a middling screen
            assert browser.run(_CUT) == []


def test_on_a_phone_every_cell_has_the_name_of_its_column(browser, plain, values):
    for page in (plain, values):
        for script in (False, True):
            browser.open(page.path, width=390, script=script)
            heads = browser.run(
                "return [...document.querySelectorAll('#table thead th')]"
                ".map((e) => e.dataset.key ? e.textContent : null)"
            )
            labels = browser.run(
                "return [...document.querySelectorAll('#table tbody tr')].map((row) =>"
                " [...row.cells].map((cell) => cell.dataset.label ?? null))"
            )
            assert all(row[1:] == heads[1:] for row in labels)
            shown = browser.run(
                "return getComputedStyle(document.querySelector('#table td[data-label]'), '::before').content"
            )
            assert shown == '"Rows"'


def test_on_a_phone_letters_in_pictures_can_be_read(browser, plain, single):
    for page in (plain, single):
        browser.open(page.path, width=390)
        browser.run(OPEN_ALL)
        sizes = browser.run(
            "return [...document.querySelectorAll('figure svg')].filter((e) => e.checkVisibility()).map((e) =>"
            " [e.closest('figure').className, 9 * e.getBoundingClientRect().width / e.viewBox.baseVal.width])"
        )
        assert len(sizes) == len(browser.texts("figure"))
        # Those of many bins have a column for each.
        assert {name for name, size in sizes if size < 8} <= {"picture response", "picture bins-0"}
