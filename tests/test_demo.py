"""The demo on real captures: it must help, and say so."""

from __future__ import annotations

import numpy as np
import pytest

from fieldcal import demo
from fieldcal.metrics import log_loss

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.fixture(scope="module")
def ran():
    return demo.run()


def codes(prev, data):
    return np.searchsorted(np.array(prev.classes), data.species_field)


def test_the_demo_improves_log_loss_without_a_label_of_the_field(ran):
    _, prev, data, new = ran
    y = codes(prev, data)
    assert new.shape == data.proba_field.shape
    np.testing.assert_allclose(new.sum(axis=1), 1)
    assert log_loss(new, y) < log_loss(data.proba_field, y) - 0.03


def test_the_demo_says_that_it_is_to_be_used_with_care_and_why(ran):
    lab, prev, _, _ = ran
    assert lab.rehearsal.tau > 0.3
    assert prev.verdict.level == "care"
    assert any("whole field moved" in reason for reason in prev.verdict.reasons)


def test_the_table_has_one_line_per_plot(ran):
    _, prev, data, new = ran
    head, *lines = demo.table(prev, data, new).split("\n")
    assert head.split()[:4] == ["plot", "n", "naive", "estimate"]
    assert [int(line.split()[0]) for line in lines] == list(prev.groups)
    assert [int(line.split()[1]) for line in lines] == [(data.plots_field == g).sum() for g in prev.groups]
    for line in lines:
        before, after = (float(x) for x in line.split()[-3::2])
        assert 0 < after < before + 0.2


def test_most_plots_get_better_and_their_prevalences_nearer_to_the_truth(ran):
    _, prev, data, new = ran
    y = codes(prev, data)
    share, better = np.empty(prev.value.shape), []
    for g, plot in enumerate(prev.groups):
        rows = data.plots_field == plot
        share[g] = np.bincount(y[rows], minlength=len(prev.classes)) / rows.sum()
        better.append(log_loss(new[rows], y[rows]) < log_loss(data.proba_field[rows], y[rows]))
    assert np.mean(better) > 0.75
    assert np.abs(prev.value - share).mean() < 0.9 * np.abs(prev.naive - share).mean()


def test_the_printed_demo_ends_with_the_gain(ran, monkeypatch, capsys):
    monkeypatch.setattr(demo, "run", lambda: ran)
    demo.main()
    printed = capsys.readouterr().out
    assert printed.startswith("Lab: ")
    assert printed.rstrip().endswith("No label of the field was used.")
