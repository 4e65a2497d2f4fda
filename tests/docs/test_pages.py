"""Every block of the documentation runs, and prints what the page says that it prints."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from fieldcal.errors import FieldcalWarning
from pages import BY_HAND, DOCS, PICTURES, keep_pictures, pages, pictures_of, run

#: Blocks that cannot be run have a language of their own; all others are run or compared.
RUN, NOT_CODE = {"python", "pycon", "sh", "text"}, {"json", "sql", "toml", "yaml", "html", "markdown"}
#: Pages that the site has from the code; tests of the site see to links that lead there.
WRITTEN = {"command-line.md", "schemas.md"}
#: Pages whose blocks need packages of the extra `docs`, which is not part of the extra `test`.
NEEDS = {"model-registry": ["mlflow"], "onnx": ["onnx", "onnxruntime"]}


def with_blocks() -> list[Path]:
    return [page for page in pages() if re.search(r"^\s*```\w", page.read_text("utf-8"), re.M)]


@pytest.mark.slow
@pytest.mark.filterwarnings(f"ignore::{FieldcalWarning.__module__}.FieldcalWarning")
@pytest.mark.filterwarnings("ignore:::mlflow")  # of itself, while it is imported
@pytest.mark.parametrize("page", with_blocks(), ids=lambda page: page.stem)
def test_every_block_of_a_page_runs_in_an_empty_folder(page, tmp_path, monkeypatch):
    for module in NEEDS.get(page.stem, ()):
        pytest.importorskip(module, reason=f"{module} is not installed here; the extra docs has it")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # pictures without the time of their making
    for why in run(page):
        assert why.strip(), "a block that is skipped says why"
    missing = {name for name in pictures_of(page) if not (tmp_path / name).exists()}
    assert not missing, f"no block makes {missing}"
    if folder := os.environ.get("FIELDCAL_PICTURES"):
        keep_pictures(page, Path(folder))


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_a_block_has_a_language_and_none_escapes_by_it(page):
    opened = re.findall(r"^\s*```([^\n]*)$", page.read_text("utf-8"), re.M)[::2]
    assert set(opened) <= RUN | NOT_CODE, set(opened) - RUN - NOT_CODE


def test_every_picture_is_shown_and_every_one_that_is_shown_is_there():
    shown = set().union(*map(pictures_of, pages())) | BY_HAND
    assert {path.name for path in PICTURES.iterdir()} == shown


def test_links_lead_to_files_that_are_there():
    for page in pages():
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text("utf-8")):
            file = target.partition("#")[0]
            if file and "://" not in file and Path(file).name not in WRITTEN:
                assert (page.parent / file).exists(), f"{page.relative_to(DOCS.parent)}: {target}"
