"""The comparison with the peers, as far as it runs without them: figures of fieldcal, and how a page is made."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks.peers import command, methods, prevalence  # noqa: E402
from benchmarks.peers.data import Column, Table  # noqa: E402
from benchmarks.peers.page import sentences  # noqa: E402
from experiments.quantification_data import quantification  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.fixture
def no_peers(monkeypatch):
    for name in ("quapy", "mlquantify", "quantificationlib"):
        monkeypatch.setitem(sys.modules, name, None)


@pytest.fixture
def table():
    values = {
        "peer, worse": [0.30, 0.32, 0.31, 0.33],
        "peer, better": [0.10, 0.12, 0.11, 0.13],
        "peer, alike": [0.21, 0.21, 0.21, 0.21],
        "fieldcal, defaults": [0.20, 0.22, 0.21, 0.23],
        "oracle": [0.01, 0.01, 0.01, 0.01],
    }
    column = Column("A", values={name: list(v) for name, v in values.items()})
    return Table("t", "Title", "Text.", [column], ours=("fieldcal, defaults",), oracles=("oracle",))


def test_losses_are_told_as_well_as_wins(table):
    (sentence,) = sentences(table)
    lost, won = sentence.split("; wins against ")
    assert "loses to peer, better (+.100" in lost
    assert "peer, worse (−.100" in won
    assert "undecided: peer, alike" in won
    assert "oracle" not in sentence


def test_a_peer_that_is_not_installed_does_not_end_the_run(no_peers):
    task = quantification(sizes=(100,), n_lab=300, n_pool=2000)
    table, column = Table("t", "T", ""), Column("A")
    chosen = {name: (methods.QUAPY | methods.DEFAULTS)[name] for name in ("QuaPy EMQ", methods.DEFAULT)}
    prevalence.collect(table, column, chosen, task)
    assert column.values["QuaPy EMQ"] == [None]
    assert "quapy" in next(iter(table.failures["QuaPy EMQ"]))
    assert column.values[methods.DEFAULT][0] is not None


def test_every_row_of_fieldcal_is_nearer_than_counting_in_the_papers_experiment():
    table, column = Table("t", "T", ""), Column("A")
    rows = {"naive mean": methods.naive} | prevalence.flat_rows() | methods.DEFAULTS
    for seed in range(2):
        task = quantification(sizes=(3000,), random_state=seed)
        prevalence.collect(table, column, rows, task)
    errors = {name: np.mean(values) for name, values in column.values.items()}
    assert not table.failures
    naive, after_trust = errors.pop("naive mean"), errors.pop(methods.DEFAULT_ESTIMATE)
    assert all(error < naive / 2 for error in errors.values())
    assert after_trust < naive


def test_the_page_in_the_docs_has_every_table_and_no_path_of_a_machine():
    text = (ROOT / "docs" / "evidence" / "peers.md").read_text(encoding="utf-8")
    assert "Not measured" not in text
    assert len(re.findall(r"^## ", text, flags=re.M)) == len(command.JOBS) + 1
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text)
