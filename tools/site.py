"""The site of the documentation: `make docs` runs this. Nothing is fetched, and nothing that is built fetches anything.

docs/ is staged in build/docs: links that leave it become words (pictures are brought along), the first use of a word of
the glossary becomes a link to it, and pages that are made from the code (command line, schemas, decisions) are written.
Then zensical builds build/site from it, strictly: a warning is an error.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DOCS, STAGED, SITE = ROOT / "docs", ROOT / "build" / "docs", ROOT / "build" / "site"
GLOSSARY = "reference/glossary.md"
#: Pages that stand at the root of the project, and their names on the site.
PROJECT = {"CONTRIBUTING.md": "contributing", "CHANGELOG.md": "changelog", "SECURITY.md": "security"}
#: Where no word becomes a link: the glossary itself, and pages that are made from the code.
NOT_LINKED = (GLOSSARY, "reference/python/", "reference/command-line.md", "reference/schemas.md", "project/")
PICTURES = {".png", ".svg"}

LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
#: What is no running text: blocks of code, comments, headings, links, code and tags inside of a line.
NOT_TEXT = re.compile(
    r"^[ ]*```.*?^[ ]*```[ ]*$|<!--.*?-->|^#.*?$|^(?: {4}|\t).*?$|^\|[-| :]+\|$|"
    r"!?\[(?:[^\[\]]|\[[^\]]*\])*\](?:\([^)]*\)|\[[^\]]*\])|`+[^`]*`+|<[^>\n]+>",
    re.M | re.S,
)

COMMAND_LINE = """# Command line

Every command as `fieldcal COMMAND --help` tells it. `learn`, `count`, `estimate` and `recalibrate` are the four verbs
of Python; `run` is all of them. Exit codes: 0 done, 1 an error, 130 after Ctrl-C; of `check`: 0 use it, 2 with care,
3 do not use it.
"""
SCHEMAS = """# JSON schemas

What a file of each kind holds; `fieldcal.Lab.model_json_schema()` gives the same. Around the content stand the kind,
the version of the schema and the digest: see [saving, versioning, audit](../how-to/saving.md).
"""
DECISIONS = """# Decisions

Short records of choices that the next engineer would question, in order.
"""


@dataclass(frozen=True)
class Term:
    """A word of the glossary, with its other names."""

    name: str
    others: tuple[str, ...] = ()

    @property
    def anchor(self) -> str:
        """Of its heading, as Markdown's table of contents makes it."""
        words = re.sub(r"[^\w\s-]", "", self.name.encode("ascii", "ignore").decode()).strip().lower()
        return re.sub(r"[-\s]+", "-", words)

    def pattern(self) -> re.Pattern[str]:
        """Any of its names as a word of its own, also of several; short names as they are spelt."""
        names = sorted((self.name, *self.others), key=len, reverse=True)
        either = "|".join(
            f"(?-i:{re.escape(n)})" if n.isupper() else re.escape(n).replace(r"\ ", r"\s+") for n in names
        )
        return re.compile(rf"(?<![\w-])(?:{either})s?(?![\w-])", re.I)


def terms(page: str) -> list[Term]:
    """The entries of the glossary."""
    entries = re.split(r"^## ", page, flags=re.M)[1:]
    return [Term(entry.partition("\n")[0].strip(), _others(entry)) for entry in entries]


def _others(entry: str) -> tuple[str, ...]:
    found = re.search(r"^\*Also:\* (.*?)\.$", entry, re.M)
    text = re.sub(r"\s*\([^)]*\)", "", found[1]) if found else ""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def with_links_to_terms(text: str, glossary: Iterable[Term], to: str) -> str:
    """A page whose first use of every word of the glossary is a link to it.

    Words inside of code, headings and links stay as they are; of two words at the same place the longer one counts.
    """
    uses: list[tuple[int, int, Term]] = []
    taken = [m.span() for m in NOT_TEXT.finditer(text)]
    for term in sorted(glossary, key=lambda t: -max(map(len, (t.name, *t.others)))):
        for use in term.pattern().finditer(text):
            if not any(use.start() < end and start < use.end() for start, end in taken):
                uses.append((*use.span(), term))
                taken.append(use.span())
                break
    for start, end, term in sorted(uses, key=lambda use: -use[0]):
        text = f"{text[:start]}[{text[start:end]}]({to}#{term.anchor}){{ .term }}{text[end:]}"
    return text


def inside(text: str, page: Path, root: Path) -> tuple[str, list[Path]]:
    """A page with the links that leave the documentation taken out, and the pictures that it needs from there.

    Parameters
    ----------
    page : where it is in the project
    root : of the documentation; everything else is not on the site
    """
    brought: list[Path] = []

    def one(found: re.Match[str]) -> str:
        picture, words, target = found.groups()
        file, _, anchor = target.partition("#")
        if not file or "://" in target:
            return found[0]
        path = Path(os.path.normpath(page.parent / file))
        if path.is_relative_to(root) and not path.is_dir():
            return f"{picture}[{words}]({os.path.relpath(path, page.parent)}{'#' * bool(anchor)}{anchor})"
        if path == root / "decisions":
            return f"[{words}]({target}index.md)"
        if path.name in PROJECT and path.parent == root.parent:
            back = os.path.relpath(root / "project" / f"{PROJECT[path.name]}.md", page.parent)
            return f"[{words}]({back}{'#' * bool(anchor)}{anchor})"
        if picture and path.suffix in PICTURES:
            brought.append(path)
            return f"![{words}]({os.path.relpath(root / 'pictures' / path.name, page.parent)})"
        return words

    return LINK.sub(one, text), brought


def stage() -> None:
    """Write build/docs anew."""
    shutil.rmtree(STAGED, ignore_errors=True)
    shutil.copytree(DOCS, STAGED, ignore=shutil.ignore_patterns("*.json"))
    glossary = terms((DOCS / GLOSSARY).read_text(encoding="utf-8"))
    for place, text in written():
        _write(place, text)
    for page in sorted(DOCS.rglob("*.md")):
        _stage_page(page, page.relative_to(DOCS).as_posix(), glossary)
    for file, name in PROJECT.items():
        # It stands one level deeper here; links are read as from docs/project/.
        text = re.sub(r"\]\((?!\w+:|#)", "](../../", (ROOT / file).read_text(encoding="utf-8"))
        _write(f"project/{name}.md", inside(text, DOCS / "project" / file, DOCS)[0])


def _stage_page(page: Path, place: str, glossary: list[Term]) -> None:
    text, brought = inside(page.read_text(encoding="utf-8"), page, DOCS)
    if not place.startswith(NOT_LINKED):
        text = with_links_to_terms(text, glossary, os.path.relpath(DOCS / GLOSSARY, page.parent))
    _write(place, text)
    for picture in brought:
        shutil.copyfile(picture, STAGED / "pictures" / picture.name)


def _write(place: str, text: str) -> None:
    path = STAGED / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def written() -> Iterator[tuple[str, str]]:
    """The pages that are made from the code, and where they stand."""
    yield "reference/command-line.md", command_line()
    yield "reference/schemas.md", schemas()
    yield "decisions/index.md", decisions()


def command_line() -> str:
    """Every command with its own help."""
    import click

    from fieldcal.cli.dispatch import command

    def told(made: Any, path: str, parent: Any) -> Iterator[str]:
        ctx = made.context_class(made, info_name=path.split()[-1], parent=parent, terminal_width=96)
        yield f"## {path}\n\n```text\n{click.unstyle(made.get_help(ctx)).rstrip()}\n```\n"
        for name, below in getattr(made, "commands", {}).items():
            yield from told(below, f"{path} {name}", ctx)

    return "\n".join([COMMAND_LINE, *told(command(), "fieldcal", None)])


def schemas() -> str:
    """The JSON schemas of the artefacts."""
    from fieldcal.objects import Field, Lab, Prevalence

    parts = [SCHEMAS]
    for kind in (Lab, Field, Prevalence):
        schema = kind.model_json_schema()
        whole = "```json\n" + json.dumps(schema, indent=2, ensure_ascii=False) + "\n```"
        parts.append(
            f'## {kind.__name__}\n\n{_fields(schema)}\n\n??? note "The whole schema"\n\n{_indented(whole)}\n'
        )
    return "\n".join(parts)


def _fields(schema: dict[str, Any]) -> str:
    needed = set(schema.get("required", ()))
    rows = [f"| `{name}` | {'yes' if name in needed else 'no'} |" for name in schema["properties"]]
    return "\n".join(["| field | required |", "|---|---|", *rows])


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())


def decisions() -> str:
    """The records in their order."""
    rows = []
    for record in sorted((DOCS / "decisions").glob("[0-9]*.md")):
        title = record.read_text(encoding="utf-8").partition("\n")[0].lstrip("# ")
        number = record.name[:4]
        rows.append(f"- {int(number)}. [{re.sub(r'^[0-9]+[.:]? ', '', title)}]({record.name})")
    return (
        "# Decisions\n\nShort records of choices that the next engineer would question, in order.\n\n"
        + "\n".join(rows)
    )


def build() -> None:
    """Build build/site from build/docs; raises where zensical warns."""
    shutil.rmtree(SITE, ignore_errors=True)
    zensical = Path(sys.executable).with_name("zensical")
    env = os.environ | {"PYTHONWARNINGS": "error::DeprecationWarning:fieldcal"}
    subprocess.run([str(zensical), "build", "--strict", "--clean"], cwd=ROOT, check=True, env=env)


def name_terms_in_search() -> None:
    """Let a search for a word of the glossary, or another name of it, find its entry first.

    The search has no weights, but it reads the title and the trail of a page, which for an entry are then its names.
    """
    glossary = terms((DOCS / GLOSSARY).read_text(encoding="utf-8"))
    names = {
        f"{Path(GLOSSARY).with_suffix('.html')}#{t.anchor}": ", ".join([t.name, *t.others]) for t in glossary
    }
    index = json.loads((SITE / "search.json").read_text(encoding="utf-8"))
    for item in index["items"]:
        if item["location"] in names:
            item["title"] = names.pop(item["location"])
            item["path"] = ["Glossary", item["title"]]
    assert not names, f"The search does not know {', '.join(names.values())}."
    (SITE / "search.json").write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


if __name__ == "__main__":
    stage()
    build()
    name_terms_in_search()
    sys.stdout.write(
        f"The site is in {SITE.relative_to(ROOT)}/: open {SITE.relative_to(ROOT) / 'index.html'}\n"
    )
