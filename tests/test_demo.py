"""The demo on real captures: it must help, and say so."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import log_loss

from fieldcal import demo

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.fixture(scope="module")
def ran():
    return demo.run()


def test_the_demo_improves_log_loss_without_a_label_of_the_field(ran):
    assert ran.new.shape == ran.data.proba_field.shape
    np.testing.assert_allclose(ran.new.sum(axis=1), 1)
    assert log_loss(ran.y, ran.new) < log_loss(ran.y, ran.data.proba_field) - 0.03


def test_the_demo_says_that_it_is_to_be_used_with_care_and_why(ran):
    assert ran.lab.rehearsal.trust > 0.3
    prev = ran.prev
    assert prev.verdict.level == "care"
    assert any("shift of the whole field" in reason for reason in prev.verdict.reasons)


def test_most_plots_get_better_and_their_prevalences_nearer_to_the_truth(ran):
    prev, data, y = ran.prev, ran.data, ran.y
    share, better = np.empty(prev.estimate.shape), []
    for g, plot in enumerate(prev.groups):
        rows = data.plots_field == plot
        share[g] = np.bincount(y[rows], minlength=len(prev.classes)) / rows.sum()
        labels = range(len(prev.classes))
        before, after = (log_loss(y[rows], p[rows], labels=labels) for p in (data.proba_field, ran.new))
        better.append(after < before)
    assert np.mean(better) > 0.75
    naive, value = (np.abs(table - share).mean() for table in (prev.mean_prediction, prev.estimate))
    assert value < 0.9 * naive
    assert demo.errors(ran) == pytest.approx((naive, value))
