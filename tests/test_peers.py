"""The comparison with the peers, as far as it runs without them: figures of fieldcal, and how a page is made."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks.peers import command, cost, groups, intervals, methods, predictions, prevalence  # noqa: E402
from benchmarks.peers.data import Column, Table, attempt, load  # noqa: E402
from benchmarks.peers.page import cell, grid, page, paired, sentences, summary  # noqa: E402

from fieldcal.datasets import quantification  # noqa: E402

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


def row(lines, name):
    return next(line for line in lines if line.startswith(f"| {name}"))


def test_a_cell_is_a_mean_and_its_standard_error():
    column = Column("A", values={"m": [0.1, 0.3]})
    assert cell(column, "m") == ".200 ± .100"


def test_the_smallest_error_is_bold_but_never_an_oracle(table):
    lines = grid(table)
    assert "**" in row(lines, "peer, better")
    assert sum("**" in line for line in lines) == 1


def test_the_coverage_nearest_to_its_level_is_bold():
    column = Column("c", kind="coverage", values={"wide": [1.0] * 10, "right": [1.0] * 9 + [0.0]})
    lines = grid(Table("t", "T", "", [column]))
    assert "**" in row(lines, "right")
    assert "**" not in row(lines, "wide")


def test_losses_are_told_as_well_as_wins(table):
    (sentence,) = sentences(table)
    lost, won = sentence.split("; wins against ")
    assert "loses to peer, better (+.100" in lost
    assert "peer, worse (−.100" in won
    assert "undecided: peer, alike" in won
    assert "oracle" not in sentence


def test_differences_are_paired_on_the_replicas_that_both_have():
    found = paired([1.0, 2.0, None, 4.0], [0.5, 1.5, 9.0, None])
    assert found == summary([0.5, 0.5])


def test_two_replicas_decide_less_than_twenty():
    few = Column("A", values={"fieldcal": [0.10, 0.12], "peer": [0.20, 0.25]})
    many = Column("A", values={name: values * 10 for name, values in few.values.items()})
    said = [sentences(Table("t", "T", "", [column], ours=("fieldcal",)))[0] for column in (few, many)]
    assert "undecided: peer" in said[0]
    assert "wins against peer" in said[1]


def test_too_narrow_intervals_are_called_so():
    column = Column(
        "lab", kind="coverage", values={"narrow": [0.0, 1.0] * 50, "honest": [1.0] * 90 + [0.0] * 10}
    )
    (sentence,) = sentences(Table("t", "T", "", [column]))
    assert "too low: narrow (.50)" in sentence
    assert "not distinguishable from it: honest (.90)" in sentence


def test_a_slower_fieldcal_is_called_slower():
    column = Column("s", kind="time", values={"fieldcal": [3.0], "peer": [1.0]})
    assert "3.00 times the cost of" in sentences(Table("t", "T", "", [column]))[0]


def test_a_peer_that_fails_stays_in_the_table_with_its_reason(table):
    def broken():
        raise ValueError(f"no such file {Path('/somewhere/else')}\nand more")

    table.columns[0].add("peer, broken", attempt(table, "peer, broken", broken))
    lines = grid(table)
    assert "| failed |" in row(lines, "peer, broken (1)")
    note = next(line for line in lines if line.startswith("(1)"))
    assert note == "(1) failed 1 time with `ValueError: no such file …`."


def test_a_peer_that_is_not_installed_does_not_end_the_run(no_peers):
    task = quantification(sizes=(100,), n_lab=300, n_pool=2000)
    table, column = Table("t", "T", ""), Column("A")
    chosen = {name: (methods.QUAPY | methods.DEFAULTS)[name] for name in ("QuaPy EMQ", methods.DEFAULT)}
    prevalence.collect(table, column, chosen, task)
    assert column.values["QuaPy EMQ"] == [None]
    assert "quapy" in next(iter(table.failures["QuaPy EMQ"]))
    assert column.values[methods.DEFAULT][0] is not None


def test_a_table_is_taken_up_again_only_where_nothing_has_changed(table, tmp_path):
    path = tmp_path / "t.json"
    table.save(path, stamp="this code")
    assert load(path, stamp="this code") == table
    assert load(path, stamp="other code") is None
    assert load(tmp_path / "none.json", stamp="this code") is None


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


def test_five_classes_are_drawn_and_answered():
    table, column = Table("t", "T", ""), Column("MAE")
    prevalence.collect(table, column, prevalence.five_rows(), prevalence.draw_five(0))
    assert not table.failures
    assert all(values[0] < 0.2 for values in column.values.values())


def test_pooling_helps_groups_far_from_the_lab(no_peers):
    size = groups.log_uniform(0, 60)
    data = groups.draw(mean=0.1, concentration=20, size=size, seed=0)
    table, column = Table("t", "T", ""), Column("A")
    groups.add_errors(table, column, data, groups.many_calls(data, 0.1, 20))
    errors = {name: values[0] for name, values in column.values.items()}
    assert errors["QuaPy EMQ"] is None
    assert errors[groups.POOLED] < errors["fieldcal, maximum likelihood"] < errors["naive mean"]


def test_an_interval_of_every_kind_is_measured(no_peers):
    table = intervals.coverage(1, methods={intervals.OURS: intervals.ours})
    assert [column.kind for column in table.columns] == ["coverage", "share", "width", "time"] * 2
    assert all(len(column.values[intervals.OURS]) == 3 for column in table.columns)


def test_recalibrated_predictions_lose_less_than_raw_ones_and_more_than_the_oracles(no_peers):
    table, column = Table("t", "T", ""), Column("A")
    predictions.collect(table, column, quantification(sizes=(3000,)))
    losses = {name: values[0] for name, values in column.values.items()}
    assert losses[predictions.ORACLE] < losses["fieldcal, trust 1"] < losses["raw"]
    assert losses["scikit-learn, sigmoid on the lab"] == pytest.approx(losses["raw"], rel=0.1)


def test_costs_are_ratios_to_fieldcal_where_no_peer_is_installed(no_peers):
    table = cost.groups_cost(1, n_groups=20, n_rows=50)
    spent, ratio = table.columns
    assert ratio.values[cost.FLAT_ROW] == [1.0]
    assert spent.values["QuaPy EMQ"] == [None]
    assert "no peer gave an answer" in sentences(table)[0]


def test_an_unknown_table_is_refused():
    assert command.chosen("1,2") == {1, 2}
    with pytest.raises(SystemExit, match="--tables"):
        command.chosen("9")


def test_a_page_says_what_was_not_measured(table):
    table.date = "2026-01-01"
    text = page([table], versions="fieldcal 0", missing=["cost rows"])
    assert "Not measured in this run: cost rows." in text
    assert "2026-01-01" in text
    assert text.index("## In short") < text.index("## Title")


def test_the_page_in_the_docs_has_every_table_and_no_path_of_a_machine():
    text = (ROOT / "docs" / "evidence" / "peers.md").read_text(encoding="utf-8")
    assert "Not measured" not in text
    assert len(re.findall(r"^## ", text, flags=re.M)) == len(command.JOBS) + 1
    assert not re.search(r"(?<![\w.])/(home|root|tmp|work|Users)/", text)
