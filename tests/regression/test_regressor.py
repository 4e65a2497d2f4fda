"""RecalibratedRegressor: any regressor, with distributions, adapted to the field; scikit-learn's own rules."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import BayesianRidge, LinearRegression, LogisticRegression, Ridge
from sklearn.model_selection import GroupKFold, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from fieldcal import RecalibratedRegressor
from fieldcal.errors import InputError, InputTypeError
from fieldcal.regression import from_moments

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


def data(n=3000, shift=1.0, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.standard_normal(2 * n)
    y[n:] += shift
    X = np.column_stack([y + 0.8 * rng.standard_normal(2 * n), rng.standard_normal(2 * n)])
    return (X[:n], y[:n]), (X[n:], y[n:])


class WithQuantiles(RegressorMixin, BaseEstimator):
    """A regressor that predicts quantiles itself, some of which cross."""

    def fit(self, X, y):
        self.line_ = LinearRegression().fit(X, y)
        self.sd_ = (y - self.line_.predict(X)).std()
        return self

    def predict(self, X):
        return self.line_.predict(X)

    def predict_quantiles(self, X, alpha):
        values = from_moments(self.predict(X), np.full(len(X), self.sd_)).ppf(alpha)
        values[0, :2] = values[0, 1::-1]
        return values


@pytest.mark.slow
@parametrize_with_checks([RecalibratedRegressor(Ridge())])
def test_scikit_learns_own_check_passes(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", [LinearRegression(), BayesianRidge(), WithQuantiles()], ids=repr)
def test_every_kind_of_regressor_gains_in_a_field_that_has_moved(estimator):
    (X, y), (field, truth) = data()
    model = RecalibratedRegressor(estimator, trust=1).fit(X, y)
    before, raw = model.score(field, truth), model.predict_distribution(field).crps(truth).mean()
    assert_allclose(model.predict(X), model.model_.predict(X), atol=0.05)
    model.adapt(field)
    assert model.score(field, truth) > before + 0.05
    assert model.predict_distribution(field).crps(truth).mean() < 0.95 * raw
    low, high = model.predict_interval(field, coverage=0.8).T
    assert abs(((low <= truth) & (truth <= high)).mean() - 0.8) < 0.03
    quantiles = model.predict_quantiles(field, [0.1, 0.5, 0.9])
    assert_allclose(quantiles[:, [0, 2]], np.column_stack([low, high]))
    assert (np.diff(quantiles, axis=1) >= 0).all()


@pytest.mark.slow
def test_groups_are_adapted_to_each_for_itself():
    rng = np.random.default_rng(0)
    (X, y), (field, truth) = data(shift=0.0)
    groups = rng.integers(0, 6, len(truth))
    moved = np.linspace(-1, 1, 6)[groups]
    truth, field = truth + moved, field + np.column_stack([moved, np.zeros(len(moved))])
    model = RecalibratedRegressor(Ridge(), trust=1).fit(X, y).adapt(field, groups=groups)
    assert model.prevalence_.groups == tuple(range(6))
    assert model.score(field, truth, groups=groups) > model.model_.score(field, truth) + 0.02
    with pytest.raises(InputError, match="pass groups="):
        model.predict(field)


@pytest.mark.slow
def test_a_frozen_model_is_used_as_it_is():
    (X, y), (field, _) = data()
    fitted = make_pipeline(StandardScaler(), Ridge()).fit(X[:1000], y[:1000])
    coefficients = fitted[-1].coef_.copy()
    model = RecalibratedRegressor(FrozenEstimator(fitted)).fit(X[1000:], y[1000:])
    assert model.model_.estimator is fitted
    assert_array_equal(fitted[-1].coef_, coefficients)
    assert model.adapt(field).predict(field).shape == (len(field),)
    with pytest.raises(NotFittedError, match="Ridge that is not fitted yet"):
        RecalibratedRegressor(FrozenEstimator(Ridge())).fit(X, y)


def test_folds_must_predict_every_row_once_and_may_follow_the_groups():
    (X, y), _ = data(n=300)
    with pytest.raises(InputError, match="each row exactly once"):
        RecalibratedRegressor(Ridge(), cv=ShuffleSplit(3, random_state=0)).fit(X, y)
    model = RecalibratedRegressor(Ridge(), cv=GroupKFold(3)).fit(X, y, groups=np.arange(300) % 7)
    assert model.lab_.rehearsal is not None
    with pytest.raises(InputTypeError, match="LogisticRegression is a classifier"):
        RecalibratedRegressor(LogisticRegression()).fit([[0.0], [1.0]] * 10, [0, 1] * 10)


def test_the_errors_behind_a_point_forecast_are_those_of_rows_it_was_not_fitted_on():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((60, 40)), rng.standard_normal(60)  # it can only overfit
    model = RecalibratedRegressor(LinearRegression(), cv=6).fit(X, y)
    assert np.ptp(model.errors_) > 3 * np.std(y - model.model_.predict(X))


def test_it_is_cloned_and_refitted_without_a_trace_of_the_old_field():
    (X, y), (field, _) = data(n=500)
    model = RecalibratedRegressor(Ridge(), trust=1).fit(X, y).adapt(field)
    again = clone(model)
    assert not hasattr(again, "lab_")
    assert not hasattr(model.fit(X, y), "prevalence_")
