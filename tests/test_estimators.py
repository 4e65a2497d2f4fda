"""The scikit-learn contract of Recalibrator and RecalibratedClassifier."""

import copy
import pickle
from dataclasses import dataclass

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from packaging.version import Version
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, GroupKFold, ShuffleSplit, cross_val_predict
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils import estimator_checks
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.validation import validate_data

import fieldcal
from fieldcal import RecalibratedClassifier, Recalibrator
from fieldcal.errors import InputError, InputTypeError, WeightWarning
from fieldcal.estimators import AdaptedScorer

# These tests are about the contract; when an answer counts as shaky is tested where the warnings are made.
pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


# -- scikit-learn's own checks ---------------------------------------------------------------------------------


class RecalibratorOfFeatures(Recalibrator):
    """Recalibrator, with features turned into probabilities at its door."""

    def fit(self, X, y, *, groups=None, sample_weight=None):
        self.door_ = LogisticRegression().fit(X, y, sample_weight)
        return super().fit(X, y, groups=groups, sample_weight=sample_weight)

    def _input(self, X, *, reset=False):
        validate_data(self, X, reset=reset)
        return self.door_.predict_proba(X)


@pytest.mark.slow
@parametrize_with_checks([RecalibratorOfFeatures(), RecalibratedClassifier(LogisticRegression())])
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)


def test_the_quick_ones_of_scikit_learns_checks_pass():
    for estimator in (Recalibrator(), RecalibratedClassifier(LogisticRegression())):
        for check in (
            estimator_checks.check_no_attributes_set_in_init,
            estimator_checks.check_get_params_invariance,
            estimator_checks.check_set_params,
            estimator_checks.check_estimators_unfitted,
        ):
            check(type(estimator).__name__, clone(estimator))


# -- data ------------------------------------------------------------------------------------------------------


@dataclass
class Site:
    """Labelled rows: X normal given the class, the class drawn by group."""

    X: np.ndarray
    y: np.ndarray
    groups: np.ndarray


def draw(n, prevalence, seed, *, names=("no", "yes")):
    """Rows of len(prevalence) groups; prevalence[g] is the share of each class in group g."""
    rng = np.random.default_rng(seed)
    prevalence = np.atleast_2d(prevalence)
    groups = np.arange(n) % len(prevalence)
    codes = (rng.random((n, 1)) > prevalence.cumsum(axis=1)[groups]).sum(axis=1)
    means = 1.5 * np.eye(len(names), 4)
    return Site(
        means[codes] + rng.standard_normal((n, 4)), np.array(names)[codes], np.array(["a", "b", "c"])[groups]
    )


@pytest.fixture(scope="module")
def train():
    return draw(600, [0.5, 0.5], 1)


@pytest.fixture(scope="module")
def lab():
    return draw(900, [[0.5, 0.5], [0.4, 0.6], [0.6, 0.4]], 2)


@pytest.fixture(scope="module")
def field():
    return draw(900, [[0.9, 0.1], [0.8, 0.2], [0.15, 0.85]], 3)


@pytest.fixture(scope="module")
def classifier(train):
    return LogisticRegression().fit(train.X, train.y)


@pytest.fixture(scope="module")
def proba(classifier, lab, field):
    """Predictions of the lab and of the field."""
    return classifier.predict_proba(lab.X), classifier.predict_proba(field.X)


def fitted_pair(classifier, lab, **options):
    """Both estimators on the same lab, and what to feed each with."""
    by_proba = Recalibrator(**options).fit(classifier.predict_proba(lab.X), lab.y, groups=lab.groups)
    by_features = RecalibratedClassifier(FrozenEstimator(classifier), **options).fit(
        lab.X, lab.y, groups=lab.groups
    )
    return (by_proba, classifier.predict_proba), (by_features, np.asarray)


# -- the same as the verbs -------------------------------------------------------------------------------------


def test_fit_adapt_predict_proba_are_the_four_verbs(classifier, lab, field, proba):
    for grouped in (False, True):
        lab_groups, field_groups = (lab.groups, field.groups) if grouped else (None, None)
        options = {"trust": 0.7, "prior": "kl", "level": 0.8}
        the_lab = fieldcal.learn(proba[0][:, 1], lab.y, groups=lab_groups, partition=5, smoothing=0.5)
        counts = fieldcal.count(the_lab, proba[1][:, 1], groups=field_groups)
        prevalence = fieldcal.estimate(the_lab, counts, **options)
        expected = fieldcal.recalibrate(prevalence, proba[1][:, 1], groups=field_groups)

        recalibrator = Recalibrator(partition=5, smoothing=0.5, **options)
        recalibrator.fit(proba[0], lab.y, groups=lab_groups).adapt(proba[1], groups=field_groups)
        assert (recalibrator.lab_, recalibrator.field_) == (the_lab, counts)
        assert recalibrator.prevalence_ == prevalence
        answer = recalibrator.predict_proba(proba[1], groups=field_groups)
        np.testing.assert_array_equal(answer[:, 1], expected)
        np.testing.assert_allclose(answer.sum(axis=1), 1)

        around = RecalibratedClassifier(FrozenEstimator(classifier), partition=5, smoothing=0.5, **options)
        around.fit(lab.X, lab.y, groups=lab_groups).adapt(field.X, groups=field_groups)
        np.testing.assert_array_equal(around.predict_proba(field.X, groups=field_groups), answer)


def test_before_adapt_predictions_are_those_of_the_model(classifier, lab, field):
    for estimator, feed in fitted_pair(classifier, lab):
        np.testing.assert_array_equal(
            estimator.predict_proba(feed(field.X)), classifier.predict_proba(field.X)
        )
        np.testing.assert_array_equal(estimator.predict(feed(field.X)), classifier.predict(field.X))
        assert not hasattr(estimator, "prevalence_")
        assert not hasattr(estimator, "field_")


# -- streams ---------------------------------------------------------------------------------------------------


def test_batches_in_any_order_equal_one_adapt(classifier, lab, field):
    batches = np.array_split(np.random.default_rng(0).permutation(len(field.y)), 4)
    for estimator, feed in fitted_pair(classifier, lab, trust=1):
        whole = copy.deepcopy(estimator).adapt(feed(field.X), groups=field.groups)
        first, *others = batches
        estimator.adapt(feed(field.X)).adapt(feed(field.X[first]), groups=field.groups[first])
        for rows in others:
            estimator.partial_adapt(feed(field.X[rows]), groups=field.groups[rows])
        assert estimator.field_ == whole.field_
        assert estimator.prevalence_ == whole.prevalence_


def test_a_fit_that_fails_leaves_the_estimator_unfitted_and_not_half_fitted(proba, lab):
    recalibrator = Recalibrator(trust=1).fit(proba[0], lab.y).adapt(proba[1])
    before = recalibrator.field_
    with pytest.raises(InputError, match="trust"):
        recalibrator.set_params(trust=2).partial_adapt(proba[1])
    assert recalibrator.field_ is before
    with pytest.raises(InputError):
        recalibrator.fit(2 * proba[0], lab.y)
    with pytest.raises(NotFittedError):
        recalibrator.predict_proba(proba[1])


# -- shapes and tables -----------------------------------------------------------------------------------------


def test_predictions_in_any_shape_give_the_same_answer(proba, lab):
    expected = Recalibrator(trust=1).fit(proba[0], lab.y).adapt(proba[1]).predict_proba(proba[1])
    for shape in (
        lambda p: p[:, 1],
        lambda p: p[:, [1]],
        lambda p: p.tolist(),
        lambda p: p.astype(np.float32),
        lambda p: pd.DataFrame(p[:, ::-1], columns=["yes", "no"]),
        lambda p: pl.DataFrame({"yes": p[:, 1], "no": p[:, 0]}),
        lambda p: pl.Series(p[:, 1]),
    ):
        recalibrator = Recalibrator(trust=1).fit(shape(proba[0]), lab.y).adapt(shape(proba[1]))
        np.testing.assert_allclose(recalibrator.predict_proba(shape(proba[1])), expected, atol=1e-5)


def test_lab_labels_that_the_classifier_does_not_know_are_refused(classifier, lab):
    strange = np.where(np.arange(len(lab.y)) == 7, "perhaps", lab.y)
    for calibration in (None, "sigmoid"):
        with pytest.raises(InputError, match="'perhaps' is not among the classes"):
            RecalibratedClassifier(FrozenEstimator(classifier), calibration=calibration).fit(lab.X, strange)


# -- a fitted classifier, or one to fit ------------------------------------------------------------------------


def test_fault_46_an_unfitted_classifier_that_should_be_fitted_raises_with_the_way_out(lab):
    with pytest.raises(
        NotFittedError, match=r"LogisticRegression that is not fitted yet.*without FrozenEstimator"
    ):
        RecalibratedClassifier(FrozenEstimator(LogisticRegression())).fit(lab.X, lab.y)


def test_a_classifier_that_is_not_frozen_is_fitted_here_whether_it_was_fitted_or_not(train, lab):
    fitted = LogisticRegression().fit(train.X, train.y)
    coefficients = fitted.coef_.copy()
    one, other = (RecalibratedClassifier(model).fit(lab.X, lab.y) for model in (fitted, LogisticRegression()))
    assert one.lab_ == other.lab_
    np.testing.assert_array_equal(one.predict_proba(lab.X), other.predict_proba(lab.X))
    np.testing.assert_array_equal(fitted.coef_, coefficients)


def test_fault_46_an_unfitted_estimator_raises_not_fitted(classifier, proba):
    for method in ("adapt", "partial_adapt", "predict_proba", "predict"):
        for estimator in (Recalibrator(), RecalibratedClassifier(FrozenEstimator(classifier))):
            with pytest.raises(NotFittedError):
                getattr(estimator, method)(proba[0])


def test_with_cv_the_lab_is_learnt_from_predictions_out_of_fold(classifier, lab):
    for cv, folds in ((3, 3), (None, 5)):
        adaptive = RecalibratedClassifier(LogisticRegression(), cv=cv).fit(lab.X, lab.y)
        out_of_fold = cross_val_predict(LogisticRegression(), lab.X, lab.y, cv=folds, method="predict_proba")
        assert adaptive.lab_ == Recalibrator().fit(out_of_fold, lab.y).lab_
    fitted = LogisticRegression().fit(lab.X, lab.y)
    np.testing.assert_array_equal(adaptive.predict_proba(lab.X), fitted.predict_proba(lab.X))
    frozen = RecalibratedClassifier(FrozenEstimator(classifier), cv=3).fit(lab.X, lab.y)
    assert frozen.lab_ == Recalibrator().fit(classifier.predict_proba(lab.X), lab.y).lab_


def test_a_cv_that_splits_by_groups_gets_them(lab):
    adaptive = RecalibratedClassifier(LogisticRegression(), cv=GroupKFold(3)).fit(
        lab.X, lab.y, groups=lab.groups
    )
    splits = list(GroupKFold(3).split(lab.X, lab.y, lab.groups))
    by_splits = RecalibratedClassifier(LogisticRegression(), cv=splits).fit(lab.X, lab.y, groups=lab.groups)
    by_rows = RecalibratedClassifier(LogisticRegression(), cv=3).fit(lab.X, lab.y, groups=lab.groups)
    assert adaptive.lab_ == by_splits.lab_
    assert adaptive.lab_ != by_rows.lab_


def test_a_cv_that_does_not_predict_each_row_once_is_refused(lab):
    with pytest.raises(InputError, match="each row exactly once"):
        RecalibratedClassifier(LogisticRegression(), cv=ShuffleSplit(2, random_state=0)).fit(lab.X, lab.y)


def test_a_training_fold_without_a_class_is_refused_by_name(lab):
    order = np.argsort(lab.y)
    halves = np.flatnonzero(lab.y[order] == "no"), np.flatnonzero(lab.y[order] == "yes")
    with pytest.raises(InputError, match="no row of class 'no'"):
        RecalibratedClassifier(GaussianNB(), cv=[halves[::-1], halves]).fit(lab.X[order], lab.y[order])


def test_weights_reach_the_estimator_that_is_fitted_here(lab):
    weight = np.where(lab.groups == "a", 3.0, 1.0)
    adaptive = RecalibratedClassifier(LogisticRegression(), cv=2).fit(lab.X, lab.y, sample_weight=weight)
    expected = LogisticRegression().fit(lab.X, lab.y, sample_weight=weight)
    np.testing.assert_array_equal(adaptive.predict_proba(lab.X), expected.predict_proba(lab.X))
    with pytest.warns(WeightWarning, match=r"Pipeline\.fit takes no sample_weight"):
        RecalibratedClassifier(make_pipeline(LogisticRegression()), cv=2).fit(
            lab.X, lab.y, sample_weight=weight
        )


def test_parameters_for_the_fit_of_the_estimator_reach_it_or_are_refused(classifier, lab):
    weight = np.where(lab.groups == "a", 3.0, 1.0)
    inside = make_pipeline(StandardScaler(), LogisticRegression())
    adaptive = RecalibratedClassifier(inside, cv=2)
    adaptive.fit(lab.X, lab.y, logisticregression__sample_weight=weight)
    expected = clone(inside).fit(lab.X, lab.y, logisticregression__sample_weight=weight)
    np.testing.assert_array_equal(adaptive.predict_proba(lab.X), expected.predict_proba(lab.X))
    with pytest.raises(InputTypeError, match=r"not fitted again, but fit was given \['epochs'\]"):
        RecalibratedClassifier(FrozenEstimator(classifier)).fit(lab.X, lab.y, epochs=3)


def test_a_model_that_only_has_predict_proba_will_do_if_frozen(classifier, lab, field):
    class Remote:
        def predict_proba(self, X):
            return classifier.predict_proba(X)

    remote = RecalibratedClassifier(FrozenEstimator(Remote()), trust=1).fit(lab.X, lab.y).adapt(field.X)
    local = RecalibratedClassifier(FrozenEstimator(classifier), trust=1).fit(lab.X, lab.y).adapt(field.X)
    np.testing.assert_array_equal(remote.predict_proba(field.X), local.predict_proba(field.X))
    assert not hasattr(remote, "n_features_in_")
    with pytest.raises(InputTypeError, match=r"Remote has no fit.*FrozenEstimator"):
        RecalibratedClassifier(Remote()).fit(lab.X, lab.y)


# -- calibration first -----------------------------------------------------------------------------------------

#: scikit-learn has it from 1.8 on.
HAS_TEMPERATURE = ("temperature",) if Version(sklearn.__version__) >= Version("1.8") else ()


def test_temperature_of_a_scikit_learn_that_lacks_it_is_refused_with_the_version(
    monkeypatch, classifier, lab
):
    monkeypatch.setattr(sklearn, "__version__", "1.6.0")
    with pytest.raises(InputError, match=r"calibration='temperature' needs scikit-learn 1\.8 .* 1\.6\.0"):
        RecalibratedClassifier(FrozenEstimator(classifier), calibration="temperature").fit(lab.X, lab.y)


def test_calibration_of_a_fitted_classifier_is_scikit_learns(classifier, lab, field):
    for method in ("sigmoid", "isotonic", *HAS_TEMPERATURE):
        adaptive = RecalibratedClassifier(FrozenEstimator(classifier), calibration=method).fit(lab.X, lab.y)
        expected = CalibratedClassifierCV(FrozenEstimator(classifier), method=method).fit(lab.X, lab.y)
        np.testing.assert_allclose(
            adaptive.predict_proba(field.X), expected.predict_proba(field.X), rtol=1e-9
        )


def test_calibration_makes_probabilities_of_decision_values(train, lab, field):
    margins = LinearSVC(random_state=0).fit(train.X, train.y)
    with pytest.raises(InputTypeError, match="calibration='sigmoid'"):
        RecalibratedClassifier(FrozenEstimator(margins)).fit(lab.X, lab.y)
    adaptive = RecalibratedClassifier(FrozenEstimator(margins), calibration="sigmoid", trust=1).fit(
        lab.X, lab.y
    )
    raw = log_loss(field.y, adaptive.predict_proba(field.X))
    adaptive.adapt(field.X, groups=field.groups)
    assert log_loss(field.y, adaptive.predict_proba(field.X, groups=field.groups)) < raw - 0.05


# -- clone, pickle, parameters ---------------------------------------------------------------------------------


def test_fault_46_clone_keeps_parameters_and_forgets_the_rest(classifier, lab, field):
    options = {"partition": fieldcal.partitions.Quantiles(5), "prior": fieldcal.priors.KL(3.0), "trust": 0.5}
    for estimator, feed in fitted_pair(classifier, lab, **options):
        copied = clone(estimator.adapt(feed(field.X)))
        assert {name: copied.get_params()[name] for name in options} == options
        assert not [name for name in vars(copied) if name.endswith("_")]
        with pytest.raises(NotFittedError):
            copied.predict_proba(feed(field.X))


def test_fault_46_set_params_after_fit_waits_for_the_next_fit_or_adapt(proba, lab):
    recalibrator = Recalibrator(trust=1, partition=4).fit(proba[0], lab.y).adapt(proba[1])
    adapted = recalibrator.predict_proba(proba[1])
    recalibrator.set_params(trust=0, partition=6)
    np.testing.assert_array_equal(recalibrator.predict_proba(proba[1]), adapted)
    assert recalibrator.lab_.n_bins == 4
    np.testing.assert_allclose(recalibrator.adapt(proba[1]).predict_proba(proba[1]), proba[1])
    assert recalibrator.fit(proba[0], lab.y).lab_.n_bins == 6


def test_fault_46_pickling_an_adapted_estimator_changes_no_answer(classifier, lab, field):
    for calibration in (None, "sigmoid", *HAS_TEMPERATURE):
        for estimator, feed in fitted_pair(classifier, lab, trust=1, calibration=calibration):
            estimator.adapt(feed(field.X), groups=field.groups)
            again = pickle.loads(pickle.dumps(estimator))
            np.testing.assert_array_equal(
                again.predict_proba(feed(field.X), groups=field.groups),
                estimator.predict_proba(feed(field.X), groups=field.groups),
            )
            assert again.partial_adapt(feed(field.X), groups=field.groups).field_.n.sum() == 2 * len(field.y)


# -- Pipeline, GridSearchCV, routing ---------------------------------------------------------------------------


def test_the_adapted_scorer_scores_a_copy_adapted_to_the_rows(proba, lab, field):
    recalibrator = Recalibrator(trust=1).fit(proba[0], lab.y)
    score = AdaptedScorer("accuracy")(recalibrator, proba[1], field.y, groups=field.groups)
    assert not hasattr(recalibrator, "field_")
    recalibrator.adapt(proba[1], groups=field.groups)
    assert score == recalibrator.score(proba[1], field.y, groups=field.groups)


@pytest.fixture
def routing():
    with config_context(enable_metadata_routing=True):
        yield


@pytest.mark.usefixtures("routing")
def test_groups_are_routed_through_grid_search(classifier, field):
    search = GridSearchCV(
        RecalibratedClassifier(FrozenEstimator(classifier)).set_fit_request(groups=True),
        {"trust": [0, 1]},
        scoring=AdaptedScorer(),
        cv=2,
    )
    search.fit(field.X, field.y, groups=field.groups)
    without, with_trust = search.cv_results_["mean_test_score"]
    pooled = GridSearchCV(search.estimator, {"trust": [1]}, scoring=AdaptedScorer(groups=False), cv=2)
    pooled.fit(field.X, field.y, groups=field.groups)
    assert with_trust > without + 0.03  # each group gets its own prevalence
    assert with_trust > pooled.best_score_ + 0.03


@pytest.mark.usefixtures("routing")
@pytest.mark.parametrize("calibration", [None, pytest.param("sigmoid", marks=pytest.mark.slow)])
def test_weights_are_routed_into_a_pipeline_inside(lab, calibration):
    weight = np.where(lab.groups == "a", 3.0, 1.0)
    step = LogisticRegression().set_fit_request(sample_weight=True)
    inside = make_pipeline(StandardScaler().set_fit_request(sample_weight=False), step)
    adaptive = RecalibratedClassifier(inside, cv=2, calibration=calibration)
    adaptive.fit(lab.X, lab.y, groups=lab.groups, sample_weight=weight)
    expected = clone(inside)
    if calibration is not None:
        expected = CalibratedClassifierCV(expected, cv=5, ensemble=False, method=calibration)
    expected.fit(lab.X, lab.y, sample_weight=weight)
    np.testing.assert_allclose(adaptive.predict_proba(lab.X), expected.predict_proba(lab.X), rtol=1e-9)


def test_classes_with_an_order_are_learnt_as_such_by_both_estimators(classifier, lab):
    for estimator, _ in fitted_pair(classifier, lab, ordered=True):
        assert estimator.lab_.ordered
