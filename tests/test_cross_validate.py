"""cross_validate: rows judge what they did not teach, and say what a fold by hand says."""

from __future__ import annotations

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import fieldcal
from fieldcal.core.field_model import Counts, Model
from fieldcal.core.field_posterior import posterior_of
from fieldcal.core.hypotheses import Hypothesis
from fieldcal.core.offsets import Offsets, Persistence
from fieldcal.datasets import label_shift
from fieldcal.errors import InputError
from fieldcal.verbs.cross_validate import cannot_judge, folds

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


def known(y, n, seed=0):
    """The labels of n rows at random; the others are missing."""
    chosen = set(np.random.default_rng(seed).choice(len(y), n, replace=False).tolist())
    return [int(label) if i in chosen else None for i, label in enumerate(y)]


def estimated(data, n, *, groups=False, **options):
    keys = data.groups_field if groups else None
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab if groups else None)
    field = fieldcal.count(lab, data.proba_field, groups=keys, y=known(data.y_field, n))
    return fieldcal.estimate(lab, field, **options)


def small_posterior(counts):
    """Of labels (G, K, m) worth half a row each, beside as many that were chosen by class."""
    G, K, m = counts.shape
    t = Offsets(np.zeros((G, K - 1)), np.zeros((G, K - 1, K - 1)))
    none, base = np.zeros(counts.shape), np.full((m, K), 1 / K)
    table = Counts(
        base,
        none,
        0.5 * counts,
        np.full((G, m), 100.0),
        t,
        t,
        np.zeros(G),
        np.ones(G),
        base_noise=np.full((m, K), 0.01),
        by_class=np.ones((K, m)),
    )
    unchanged = Hypothesis("unchanged", 1.0, 1.0, np.zeros(K - 1), 0.01 * np.eye(K - 1))
    return posterior_of(Model(table, (unchanged,), Persistence(np.zeros(1), np.ones(1))))


def test_every_row_is_held_out_once_and_never_among_those_that_teach():
    counts = np.random.default_rng(0).integers(0, 4, (3, 2, 5))
    posterior = small_posterior(counts)
    seen = np.zeros(counts.shape, dtype=int)
    for fold in folds(posterior, counts, 4, np.random.default_rng(1)):
        held = np.zeros(counts.shape, dtype=int)
        np.add.at(held, (fold.groups, fold.classes, fold.bins), 1)
        assert_allclose(fold.posterior.model.counts.field, 0.5 * (counts - held), atol=1e-12)
        assert_array_equal(fold.posterior.model.counts.by_class, posterior.model.counts.by_class)
        seen += held
    assert_array_equal(seen, counts)


@pytest.mark.slow
@pytest.mark.parametrize("groups", [False, True])
def test_a_fold_by_hand_with_the_public_functions_says_the_same(groups):
    data = label_shift(n_lab=2000, n_field=600, n_groups=4, random_state=3)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    y, keys = np.array(known(data.y_field, 40)), data.groups_field if groups else None
    # A row stands at the mean prediction of its bin, so that rows of a cell are one another's equals.
    at, n_bins = lab.partition.assign(data.proba_field), lab.n_bins
    field = fieldcal.count(lab, data.proba_field, groups=keys)
    place = data.groups_field if groups else np.zeros(600, dtype=int)
    labelled = np.array([label is not None for label in y])
    cells = (place * 2 + np.where(labelled, y, 0).astype(int)) * n_bins + at
    rows = np.flatnonzero(labelled)[np.argsort(cells[labelled], kind="stable")]
    dealt = np.random.default_rng([7, 4]).permutation(40) % 5
    change, bins = {"tilt": [], "bins": []}, lab.bin_means[:, 1]
    for i in range(5):
        held, others = rows[dealt == i], rows[dealt != i]
        more = fieldcal.count(
            lab,
            data.proba_field[others],
            groups=None if keys is None else keys[others],
            y=y[others].astype(int),
            only_labels=True,
        )
        prev = fieldcal.estimate(lab, field + more)
        old, truth = bins[at[held]], y[held].astype(int)
        for shape, changes in change.items():
            new = fieldcal.recalibrate(prev, old, groups=None if keys is None else keys[held], shape=shape)
            changes += list(np.log(np.where(truth, old, 1 - old)) - np.log(np.where(truth, new, 1 - new)))
    whole = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=keys, y=y.tolist()))
    found = fieldcal.cross_validate(whole, random_state=7)
    for compared, changes in ((found.tilt, change["tilt"]), (found.bins, change["bins"])):
        se = np.std(changes, ddof=1) / np.sqrt(40)
        # Folds of groups keep the variance components that were drawn with all labels, and weigh them anew.
        exact = {"rtol": 0, "atol": 0.1 * se} if groups else {"rtol": 1e-6}
        assert_allclose(compared.change, np.mean(changes), **exact)
        assert_allclose(compared.se, se, **exact)


def test_where_the_mix_of_classes_moved_recalibration_is_found_to_help():
    for seed in range(3):
        data = label_shift(prevalence=[[0.9, 0.1]], n_field=4000, random_state=seed)
        found = fieldcal.cross_validate(estimated(data, 300))
        assert found.tilt.word == "better"
        assert found.tilt.log_loss < found.log_loss
        assert_allclose(found.tilt.log_loss - found.log_loss, found.tilt.change, atol=1e-12)


def test_where_nothing_moved_the_difference_is_within_noise():
    words = []
    for seed in range(6):
        data = label_shift(prevalence=[[0.5, 0.5]], n_field=4000, random_state=seed)
        found = fieldcal.cross_validate(estimated(data, 200))
        assert abs(found.tilt.change) < 0.01
        words.append(found.tilt.word)
    assert words.count("no different beyond noise") >= 5


def test_rows_chosen_by_class_are_used_for_fitting_but_not_for_evaluation():
    data = label_shift(prevalence=[[0.9, 0.1]], n_field=4000, random_state=1)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    by_class = np.concatenate([np.flatnonzero(data.y_field == k)[:100] for k in (0, 1)])
    field = fieldcal.count(lab, data.proba_field, y=known(data.y_field, 40))
    more = fieldcal.count(
        lab, data.proba_field[by_class], y=data.y_field[by_class], design="by_class", only_labels=True
    )
    alone = fieldcal.cross_validate(fieldcal.estimate(lab, field))
    found = fieldcal.cross_validate(fieldcal.estimate(lab, field + more))
    assert (found.rows, found.not_judging, alone.not_judging) == (40, 200, 0)
    assert found.log_loss == pytest.approx(alone.log_loss)  # the same rows judge
    assert found.tilt.change != alone.tilt.change  # and more have taught
    assert "200 rows chosen by class are used for fitting, not for evaluation" in repr(found)
    only = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field) + more)
    with pytest.raises(InputError, match=r"0 labelled rows are too few .* chosen by class do not count"):
        fieldcal.cross_validate(only)


def test_what_cannot_be_judged_is_said_and_what_to_do():
    data = label_shift(n_lab=500, n_field=300, random_state=0)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)

    def prev(**options):
        return fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, **options))

    with pytest.raises(InputError, match="No row of this field has a label"):
        fieldcal.cross_validate(prev())
    with pytest.raises(InputError, match=r"9 labelled rows are too few .* Label more"):
        fieldcal.cross_validate(prev(y=known(data.y_field, 9)))
    weights = np.random.default_rng(0).random(300)
    with pytest.raises(InputError, match="weights, of which only the sums are known"):
        fieldcal.cross_validate(prev(y=known(data.y_field, 50), sample_weight=weights))
    ten = prev(y=known(data.y_field, 10))
    assert cannot_judge(ten) is None
    assert fieldcal.cross_validate(ten, folds=10).folds == 10
    with pytest.raises(InputError, match="folds must be at most 10"):
        fieldcal.cross_validate(ten, folds=11)


def test_the_answer_is_seeded_plain_data_and_the_same_from_a_file(tmp_path):
    prev = estimated(label_shift(prevalence=[[0.8, 0.2]], n_field=1000, random_state=0), 60)
    prev.save(tmp_path / "prev.json")
    found = fieldcal.cross_validate(prev)
    assert fieldcal.cross_validate(fieldcal.Prevalence.load(tmp_path / "prev.json")) == found
    assert fieldcal.cross_validate(prev, random_state=1) != found
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()
    assert repr(found).startswith(
        "Cross-validation over 60 labelled rows in 5 folds: log loss before recalibration"
    )


def test_three_classes_and_intervals_are_judged_too():
    data = label_shift(prevalence=[[0.2, 0.2, 0.6]], p_lab=(0.5, 0.3, 0.2), n_lab=3000, n_field=2000)
    assert fieldcal.cross_validate(estimated(data, 200)).tilt.word == "better"
