"""The site of the documentation: built strictly, whole, without anything from elsewhere, and searched in a browser."""

from __future__ import annotations

import functools
import http.server
import re
import sys
import threading
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

import fieldcal
from reporting.browser import running
from tool import load

site = load("site")
#: Tags whose addresses a browser fetches by itself, and links of these kinds.
FETCHED, KINDS = (
    {"script", "img", "iframe", "source", "video", "audio", "embed"},
    {"stylesheet", "icon", "preload"},
)


class Page(HTMLParser):
    """What a page of the site names: its anchors, its links, what it fetches, its rules of style."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        if tag == "a" and given.get("href"):
            self.links.append(given["href"])
        if tag in FETCHED and given.get("src"):
            self.fetched.append(given["src"])
        if tag == "link" and set((given.get("rel") or "").split()) & (KINDS | {"preconnect", "dns-prefetch"}):
            self.fetched.append(given.get("href") or "")


@pytest.fixture(scope="module")
def built():
    if not Path(sys.executable).with_name("zensical").exists():
        pytest.skip("zensical is not installed, so the site is not built: pip install -e '.[docs]'")
    site.stage()
    site.build()
    site.name_terms_in_search()
    return {path.relative_to(site.SITE).as_posix(): Page(path) for path in site.SITE.rglob("*.html")}


def test_every_page_of_the_documentation_is_on_the_site(built):
    for page in [*site.DOCS.rglob("*.md"), *(Path(f"project/{name}.md") for name in site.PROJECT.values())]:
        place = page.relative_to(site.DOCS) if page.is_absolute() else page
        assert place.with_suffix(".html").as_posix() in built


def test_every_link_and_anchor_leads_somewhere(built):
    lost = []
    for place, page in built.items():
        for link in page.links:
            file, _, anchor = unquote(link.partition("?")[0]).partition("#")
            if re.match(r"[a-z]+:", link) or place == "404.html":
                continue
            target = (page.path.parent / file).resolve() if file else page.path
            name = target.relative_to(site.SITE).as_posix()
            if not target.exists() or (anchor and name in built and anchor not in built[name].anchors):
                lost.append((place, link))
    assert lost == []


def test_no_page_fetches_anything_from_elsewhere(built):
    foreign = [(p, a) for p, page in built.items() for a in page.fetched if re.match(r"(\w+:)?//", a)]
    assert foreign == []
    for style in site.SITE.rglob("*.css"):
        text = style.read_text(encoding="utf-8")
        assert not re.search(r"@import|url\(\s*['\"]?(?:\w+:)?//", text), style.name


def test_every_public_name_is_in_the_reference(built):
    python = [page for place, page in built.items() if place.startswith("reference/python/")]
    known = set().union(*(page.anchors for page in python))
    wanted = {f"fieldcal.{name}" for name in fieldcal.__all__} - {"fieldcal.__version__"}
    modules = {"datasets", "errors", "metrics", "partitions", "plots", "priors", "regression", "tables"}
    for name in modules:
        wanted |= {f"fieldcal.{name}.{below}" for below in getattr(fieldcal, name).__all__}
    wanted -= {f"fieldcal.{name}" for name in modules}
    wanted -= {f"fieldcal.errors.{name}" for name in ("FieldcalError", "FieldcalWarning")}
    lost = {name for name in wanted if name not in known}
    assert {
        name for name in lost if name.partition(".")[2] not in {"FieldcalError", "FieldcalWarning"}
    } == set()


def test_the_reference_of_the_command_line_has_every_command(built):
    from fieldcal.cli.dispatch import command

    commands = [f"fieldcal-{name}" for name in command().commands]
    assert set(commands) <= built["reference/command-line.html"].anchors


# ── Words of the glossary ────────────────────────────────────────────────────────────────────────

GLOSSARY = site.terms((site.DOCS / site.GLOSSARY).read_text(encoding="utf-8"))


def test_the_first_use_of_a_word_is_a_link_and_no_other():
    text = "# Trust\n\n`trust` and [trust](x.md).\n\nTrust is no trust.\n"
    linked = site.with_links_to_terms(text, [site.Term("Trust")], "g.md")
    assert linked == "# Trust\n\n`trust` and [trust](x.md).\n\n[Trust](g.md#trust){ .term } is no trust.\n"


def test_other_names_lead_to_the_entry_and_longer_words_come_first():
    terms = [
        site.Term("Label shift", ("prior shift",)),
        site.Term("Under label shift"),
        site.Term("URC", ("PPI",)),
    ]
    text = "Shares under label shift. Prior shifts, purchase, ppi and PPI.\n"
    linked = site.with_links_to_terms(text, terms, "g.md")
    assert linked == (
        "Shares [under label shift](g.md#under-label-shift){ .term }. [Prior shifts](g.md#label-shift){ .term }, "
        "purchase, ppi and [PPI](g.md#urc){ .term }.\n"
    )


def test_code_comments_and_tables_of_code_are_left_alone():
    text = "```python\ntrust = 1\n```\n\n<!-- trust -->\n\n| `trust` | trust |\n|---|---|\n"
    linked = site.with_links_to_terms(text, [site.Term("Trust")], "g.md")
    assert linked.count("{ .term }") == 1
    assert "| `trust` | [trust](g.md#trust){ .term } |" in linked


def test_names_are_in_one_entry_only():
    owners = defaultdict(list)
    for term in GLOSSARY:
        for name in (term.name, *term.others):
            owners[name.lower()].append(term.name)
    assert {name: terms for name, terms in owners.items() if len(terms) > 1} == {}


def test_every_page_links_to_the_glossary_at_the_first_use_of_its_words(built):
    shift = next(term for term in GLOSSARY if term.name == "Label shift")
    for page in sorted(site.DOCS.rglob("*.md")):
        place = page.relative_to(site.DOCS).as_posix()
        text = site.NOT_TEXT.sub("", page.read_text(encoding="utf-8"))
        others = [t for t in GLOSSARY if t != shift and re.search("label shift", t.name, re.I)]
        for term in others:
            text = term.pattern().sub("", text)
        if place.startswith(site.NOT_LINKED) or not shift.pattern().search(text):
            continue
        links = built[page.relative_to(site.DOCS).with_suffix(".html").as_posix()].links
        assert any(link.endswith("glossary.html#label-shift") for link in links), place


# ── In a browser ─────────────────────────────────────────────────────────────────────────────────


class Silent(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def served(built):
    handler = functools.partial(Silent, directory=str(site.SITE))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


@pytest.fixture(scope="module")
def browser(served, tmp_path_factory):
    with running(tmp_path_factory.mktemp("site"), served=True) as opened:
        yield opened


_RESULTS = """
    const found = [];
    const walk = (root) => {
        for (const e of root.querySelectorAll('*')) {
            if (e.tagName === 'A' && e.href.includes('?h=')) found.push(e.getAttribute('href'));
            if (e.shadowRoot) walk(e.shadowRoot);
        }
    };
    walk(document);
    return found;
"""
_ASK = """
    let input;
    const walk = (root) => {
        for (const e of root.querySelectorAll('*')) {
            if (e.tagName === 'INPUT' && ['text', 'search'].includes(e.type)) input = e;
            if (e.shadowRoot) walk(e.shadowRoot);
        }
    };
    walk(document);
    if (!input) return false;
    const set = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set;
    set.call(input, arguments[0]);
    input.dispatchEvent(new Event('input', {bubbles: true}));
    return true;
"""


def search(browser, words: str) -> list[str]:
    """Where the search leads, best first: pages with their anchors."""
    asked = words.replace(" ", "+").lower()
    browser.wait(lambda: browser.run(_ASK, words))

    seen: list[list[str]] = []

    def answered():
        """The results, once they have stopped to change."""
        seen.append([link for link in browser.run(_RESULTS) if f"?h={asked}" in unquote(link).lower()])
        return seen[-1] if len(seen) > 5 and all(found == seen[-1] for found in seen[-5:]) else None

    links = browser.wait(answered)
    return [re.sub(r"\?h=[^#]*", "", unquote(link).split("/", 3)[-1]) for link in links]


def test_a_search_for_a_word_of_the_glossary_finds_its_entry_first(browser, served):
    browser.driver.get(f"{served}index.html")
    browser.run("document.querySelector('.md-search__button').click()")
    place = Path(site.GLOSSARY).with_suffix(".html").as_posix()
    others = (
        "prior probability shift",
        "class prior estimation",
        "PPI",
        "TPR",
        "partial pooling",
        "URC",
        "BBSE",
    )
    wanted = {term.name: term.anchor for term in GLOSSARY}
    wanted |= {name: t.anchor for t in GLOSSARY for name in t.others if name in others}
    assert len(wanted) == len(GLOSSARY) + len(others)
    missed = {name: search(browser, name)[:2] for name, anchor in wanted.items()}
    assert {n: f for n, f in missed.items() if f[:1] != [f"{place}#{wanted[n]}"]} == {}


def test_no_page_asks_another_host_or_is_wider_than_a_phone(browser, served, built):
    browser.requests()
    wide, messages = [], []
    browser.resize(390)
    pages = sorted(
        place for place in built if not place.startswith(("404", "decisions/0"))
    )  # these are words alone
    for at, place in enumerate(pages):
        browser.look(scheme=("light", "dark")[at % 2])
        browser.driver.get(served + place)
        if browser.overflow() > 0:
            wide.append(place)
        messages += browser.console()
    foreign = [
        a for a in browser.requests() if not a.startswith((served, "data:", "blob:", "about:", "chrome:"))
    ]
    assert (foreign, wide, messages) == ([], [], [])
