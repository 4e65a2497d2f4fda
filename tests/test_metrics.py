from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from numpy.testing import assert_allclose

from fieldcal import metrics
from fieldcal.errors import InputError

relaxed = settings(deadline=None, derandomize=True, max_examples=60)


def predictions(seed: int, n_classes: int = 2, n: int = 200):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet(np.ones(n_classes), n)
    y = np.array([rng.choice(n_classes, p=row) for row in proba])
    y[:n_classes] = np.arange(n_classes)
    return (proba[:, 1] if n_classes == 2 else proba), y


@st.composite
def binary(draw: st.DrawFn):
    """A few rows with ties and certain predictions among them."""
    score = st.floats(0, 1) | st.sampled_from([0.0, 0.2, 0.5, 1.0])
    rows = draw(st.lists(st.tuples(score, st.integers(0, 1)), min_size=1, max_size=40))
    return np.array([r[0] for r in rows]), np.array([r[1] for r in rows])


def by_hand(score: np.ndarray, y: np.ndarray, bins: int):
    """Rows per bin, cut at the quantiles, right-closed; empty bins left out."""
    cuts = np.quantile(score, np.arange(1, bins) / bins)
    inside = np.array([(s > cuts).sum() for s in score])
    return [(score[inside == b], y[inside == b]) for b in np.unique(inside)]


@relaxed
@given(binary(), st.integers(1, 12))
def test_calibration_refinement_and_calibration_error_are_as_defined(rows, bins):
    score, y = rows
    groups = by_hand(score, y, bins)
    parts = metrics.brier_parts(score, y, bins=bins)
    n = len(y)
    calibration = sum(len(b) * (s.mean() - b.mean()) ** 2 for s, b in groups) / n
    refinement = sum(len(b) * b.mean() * (1 - b.mean()) for _, b in groups) / n
    error = sum(len(b) * abs(s.mean() - b.mean()) for s, b in groups) / n
    assert_allclose([parts.calibration, parts.refinement], [calibration, refinement], rtol=0, atol=1e-12)
    assert_allclose(metrics.calibration_error(score, y, bins=bins), error, rtol=0, atol=1e-12)


@relaxed
@given(binary(), st.integers(1, 12))
def test_the_brier_score_is_its_parts_and_what_happens_within_bins(rows, bins):
    score, y = rows
    within = sum(
        len(b) * (s.var() - 2 * ((s - s.mean()) * (b - b.mean())).mean()) for s, b in by_hand(score, y, bins)
    )
    parts = metrics.brier_parts(score, y, bins=bins)
    assert_allclose(parts.score, parts.calibration + parts.refinement + within / len(y), rtol=0, atol=1e-12)
    assert_allclose(
        parts.score, np.square(score - y).mean(), rtol=1e-12
    )  # sklearn halves it where y is one class


def test_predictions_that_are_the_share_of_their_bin_are_calibrated():
    score, y = np.repeat([0.25, 0.75], 4), [0, 0, 0, 1, 0, 1, 1, 1]
    assert metrics.brier_parts(score, y, bins=2).calibration == 0
    assert metrics.calibration_error(score, y, bins=2) == 0


def test_refinement_does_not_change_under_a_monotone_change_of_the_score():
    score, y = predictions(10, n=500)
    assert_allclose(
        metrics.brier_parts(score, y).refinement, metrics.brier_parts(score**3, y).refinement, rtol=1e-12
    )


def test_calibration_error_of_more_classes_is_the_mean_of_each_against_the_rest():
    proba, y = predictions(11, 3)
    each = [metrics.calibration_error(proba[:, k], (y == k).astype(int)) for k in range(3)]
    assert_allclose(metrics.calibration_error(proba, y), np.mean(each), rtol=1e-12)


# Prevalences ----------------------------------------------------------------------------------------------


def test_relative_error_is_smoothed_by_half_a_row():
    estimate, truth, n = np.array([0.1, 0.9]), np.array([0.0, 1.0]), 50
    smooth = [(x + 1 / 100) / (1 + 2 / 100) for x in (*estimate, *truth)]
    expected = (abs(smooth[0] - smooth[2]) / smooth[2] + abs(smooth[1] - smooth[3]) / smooth[3]) / 2
    assert_allclose(metrics.relative_absolute_error(estimate, truth, n=n), expected)
    estimate, truth = np.array([[0.2, 0.8], [0.5, 0.5]]), np.array([[0.3, 0.7], [0.5, 0.5]])
    assert_allclose(metrics.absolute_error(estimate, truth), [0.1, 0.0])


# Bad input ------------------------------------------------------------------------------------------------


def test_labels_that_are_no_class_codes_are_refused():
    for y in ([0, 1, 1], [[0, 1]], [0, 2], [-1, 0], [0.0, 1.0], ["a", "b"]):
        for metric in (metrics.brier_parts, metrics.calibration_error):
            with pytest.raises(InputError, match="labels"):
                metric([0.2, 0.7], y)
    with pytest.raises(InputError, match="two classes"):
        metrics.brier_parts(*predictions(12, 3))
    with pytest.raises(InputError, match="shape"):
        metrics.absolute_error([0.5, 0.5], [[0.5, 0.5]])
