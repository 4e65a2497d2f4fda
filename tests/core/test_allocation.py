"""Where the next labels should come from: whole numbers that fit, and that narrow more than others."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import fieldcal
from fieldcal.core.planning import bins_to_label, cells_to_label, filled, rounded, spaced, sure_of_bins

AMOUNTS = arrays(float, st.integers(1, 30), elements=st.floats(0, 50))


@functools.cache
def posterior(grouped=False, moved=False):
    """Of a field without labels, with all hypotheses open."""
    prevalence = [[0.15, 0.85]] * 3 if moved else [[0.5, 0.5]] * 3
    data = fieldcal.datasets.label_shift(n_lab=2000, n_field=3000, prevalence=prevalence, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    groups = data.groups_field if grouped else None
    return fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=groups)).open_posterior


@given(AMOUNTS)
def test_rounding_keeps_the_sum_and_moves_no_amount_by_one_or_more(amounts):
    amounts[-1] += np.ceil(amounts.sum()) - amounts.sum()
    found = rounded(amounts)
    assert found.sum() == round(amounts.sum())
    assert (found >= 0).all()
    assert (np.abs(found - amounts) < 1 + 1e-5).all()


@given(AMOUNTS, st.data())
def test_what_is_filled_in_fits_and_follows_the_weights_where_there_is_room(weight, data):
    n = len(weight)
    held, room = (data.draw(arrays(float, n, elements=st.integers(0, 20).map(float))) for _ in range(2))
    amount = data.draw(st.integers(0, 100))
    found = filled(weight, held=held, room=room, n=np.asarray(float(amount)))
    assert found.sum() == pytest.approx(min(amount, room.sum()), abs=1e-6)
    assert (found >= 0).all()
    assert (found <= room + 1e-9).all()
    free = (found > 1e-9) & (found < room - 1e-9) & (weight > 1e-3)
    level = (found + held)[free] / weight[free]
    assert np.ptp(level) <= 1e-6 * level.max(initial=1.0) if free.any() else True


def test_only_ratios_of_weights_count_however_small_these_are():
    room, n = np.array([20.0, 20.0]), np.asarray(9.0)
    for scale in (2e-308, 1.0, 1e300):
        found = filled(scale * np.array([1.0, 2.0]), held=np.zeros(2), room=room, n=n)
        assert found == pytest.approx([3.0, 6.0])


@given(st.integers(1, 200), st.data())
def test_evenly_spaced_rows_are_as_many_as_asked_for(size, data):
    take, start = data.draw(st.integers(0, size)), data.draw(st.integers(0, size - 1))
    chosen = np.flatnonzero(spaced(np.arange(size), size=size, take=take, start=start))
    assert len(chosen) == take
    if take > 1:
        assert np.ptp(np.diff(chosen)) <= 1


def test_no_cell_is_asked_for_more_rows_than_it_has():
    for grouped in (False, True):
        for n in (1, 7, 100, 2999, 3000, 5000):
            room = posterior(grouped).model.counts.V
            cells = cells_to_label(posterior(grouped), room, n)
            assert cells.sum() == min(n, 3000)
            assert (cells <= room).all()


def test_groups_that_have_labels_get_fewer_and_small_groups_more_than_their_share():
    room = posterior(grouped=True).model.counts.V.copy()
    room[0] = np.floor(room[0] / 9)
    even = cells_to_label(posterior(grouped=True), room, 70).sum(axis=1)
    assert even.tolist() == [10, 30, 30]
    after = cells_to_label(posterior(grouped=True), room, 70, held=np.array([0.0, 40.0, 0.0])).sum(axis=1)
    assert after[1] < even[1]
    assert after[2] > even[2]


def test_a_field_that_moved_gets_labels_by_its_rows_and_a_still_one_where_classes_are_mixed():
    assert sure_of_bins(posterior(moved=True)) < 0.5
    assert sure_of_bins(posterior()) > 0.7
    fields = posterior(moved=True), posterior()
    moved, still = (cells_to_label(x, x.model.counts.V, 300)[0] / x.model.counts.V[0] for x in fields)
    P = posterior().classes_by_bin()
    assert np.corrcoef(still, P[:, 1] * P[:, 0])[0, 1] > 0.8
    assert np.ptp(moved) < 0.3 * np.ptp(still)


def test_labels_in_the_chosen_bins_leave_less_variance_than_labels_anywhere():
    found = posterior()
    room = found.model.counts.V[0]
    v, Q = room / room.sum(), found.bin_draws(2000, np.random.default_rng(1))[:, :, 1]
    C, noise = np.cov(Q.T), (Q * (1 - Q)).mean(axis=0)

    def left(n):
        seen = n > 0
        part = C[:, seen]
        gained = part @ np.linalg.solve(C[np.ix_(seen, seen)] + np.diag(noise[seen] / n[seen]), part.T)
        return v @ (C - gained) @ v

    best = left(bins_to_label(found, room, 60))
    rng = np.random.default_rng(0)
    assert best < left(60 * v)
    assert all(
        best <= 1.01 * left(rng.multinomial(60, rng.dirichlet(np.ones(len(v)))).astype(float))
        for _ in range(50)
    )


def test_draws_of_bins_have_the_mean_of_the_posterior():
    draws = posterior().bin_draws(4000, np.random.default_rng(0))
    assert np.abs(draws.sum(axis=2) - 1).max() < 1e-9
    assert np.abs(draws.mean(axis=0) - posterior().classes_by_bin()).max() < 0.01
