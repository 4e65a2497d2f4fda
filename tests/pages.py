"""The pages of the documentation as programs: every block is run, in order, in an empty folder.

`python` and `pycon` blocks share one namespace per page; `sh` blocks run in bash, with this `fieldcal` on the path. A
`text` block right after one of these is what it printed (`...` for anything). What cannot run here says why:
`<!-- skip: next "why" -->`. A set-up that readers need not see is an `invisible-code-block`. Pictures that a page shows
are files that its blocks made. After a change that is meant, `FIELDCAL_PAGES=write pytest tests/docs/test_pages.py`
writes what is printed now into the pages, but for outputs with `...`: read what it changed.
"""

from __future__ import annotations

import contextlib
import doctest
import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest import SkipTest

import matplotlib as mpl
import matplotlib.pyplot as plt
from sybil import Document, Example, Sybil
from sybil.evaluators.doctest import DocTestEvaluator
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.abstract.doctest import DocTestStringParser
from sybil.parsers.markdown import CodeBlockParser, SkipParser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PICTURES = DOCS / "pictures"
#: Pictures that no block makes: a screenshot of the report.
BY_HAND = {"report.png"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_PRINTED = "__printed__"  # where in the page the last block ended, and what it printed
_RENEWED = "__renewed__"  # outputs to write anew: where they stand, and what was printed


def pages() -> list[Path]:
    """Every page that is written by hand: the documentation and the README."""
    return [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]


def pictures_of(page: Path) -> set[str]:
    """The names of the pictures that a page shows and its blocks make."""
    shown = set(re.findall(r"!\[[^]]*\]\([^)]*?pictures/([^)]+)\)", page.read_text(encoding="utf-8")))
    return shown - BY_HAND


def run(page: Path) -> list[str]:
    """Run every block of a page in the current folder; what was skipped, with its reason."""
    document = Sybil(parsers=_parsers()).parse(page)
    document.namespace[_RENEWED] = []
    skipped = []
    with mpl.rc_context({"backend": "agg", "svg.hashsalt": "fieldcal"}):
        for example in document.examples():
            try:
                example.evaluate()
            except SkipTest as why:
                skipped.append(str(why))
    plt.close("all")
    text = document.text
    for start, end, printed in reversed(document.namespace[_RENEWED]):
        text = f"{text[:start]}```text\n{printed.rstrip()}\n```{text[end:]}"
    if text != document.text:
        page.write_text(text, encoding="utf-8")
    return skipped


def keep_pictures(page: Path, folder: Path) -> None:
    """Bring the pictures of a page from the current folder to another."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in pictures_of(page):
        shutil.copyfile(name, folder / name)


def _parsers() -> list[object]:
    return [
        SkipParser(),
        CodeBlockParser("python", _python),
        CodeBlockParser("sh", _shell),
        CodeBlockParser("text", _compare),
        _prompts,
    ]


def _prompts(document: Document) -> Iterator[object]:
    """The prompts of `pycon` blocks, one region each."""
    prompts = DocTestStringParser(DocTestEvaluator(FLAGS))
    for block in CodeBlockParser("pycon", _python)(document):
        for region in prompts(block.parsed, document.path):
            region.adjust(block, block.parsed)
            yield region


def _python(example: Example) -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        PythonEvaluator()(example)
    example.namespace[_PRINTED] = example.end, printed.getvalue()


def _shell(example: Example) -> str | None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "NO_COLOR": "1", "COLUMNS": "110", "TERM": "dumb"}
    command = ["bash", "-euo", "pipefail", "-c", example.parsed]
    done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8")
    example.namespace[_PRINTED] = example.end, done.stdout
    return f"exit code {done.returncode}\n{done.stdout}{done.stderr}" if done.returncode else None


def _compare(example: Example) -> str | None:
    """A `text` block that directly follows a block is its output; elsewhere it is text."""
    end, printed = example.namespace.get(_PRINTED, (-1, ""))
    if end < 0 or example.document.text[end : example.start].strip():
        return None
    checker, wanted = doctest.OutputChecker(), doctest.Example("", example.parsed)
    if checker.check_output(wanted.want, printed, FLAGS):
        return None
    if os.environ.get("FIELDCAL_PAGES") == "write" and "..." not in example.parsed:
        example.namespace[_RENEWED].append((example.start, example.end, printed))
        return None
    return checker.output_difference(wanted, printed, FLAGS | doctest.REPORT_NDIFF)
