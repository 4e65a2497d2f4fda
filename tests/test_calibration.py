"""Calibration on the lab: what it mends, what it leaves alone, and what it refuses."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.special import expit, logit
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression

import fieldcal
from fieldcal import Lab, storage
from fieldcal.core.calibration import CALIBRATIONS, Sigmoid, Steps, fit_curves, read_by, tabulated
from fieldcal.errors import ArtefactError, CalibrationWarning, FieldcalError, InputError


def sharpened(proba, power=2.0):
    """The same predictions with so many times the logits."""
    columns = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    made = columns**power
    made = made / made.sum(axis=1, keepdims=True)
    return made[:, 1] if proba.ndim == 1 else made


def shifted(n_classes=2, seed=0, n_lab=3000, n_field=3000):
    p_lab, moved = ((0.5, 0.5), (0.8, 0.2)) if n_classes == 2 else ((0.5, 0.3, 0.2), (0.2, 0.2, 0.6))
    return fieldcal.datasets.label_shift(
        n_lab=n_lab, n_field=n_field, p_lab=p_lab, prevalence=[moved], random_state=seed
    )


def log_loss(proba, y):
    columns = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    return float(-np.log(columns[np.arange(len(y)), y]).mean())


def after(data, proba_lab, proba_field, calibration=None):
    """Log loss of recalibrated field rows."""
    lab = fieldcal.learn(proba_lab, data.y_lab, calibration=calibration)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba_field), trust=1, point="mode", level=None)
    return log_loss(fieldcal.recalibrate(prev, proba_field), data.y_field), prev


# What it is for


@pytest.mark.filterwarnings("ignore::fieldcal.errors.CalibrationWarning")
@pytest.mark.parametrize("method", CALIBRATIONS)
@pytest.mark.parametrize("n_classes", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_calibration_brings_an_over_confident_model_near_the_calibrated_one(method, n_classes):
    data = shifted(n_classes)
    best, _ = after(data, data.proba_lab, data.proba_field)
    over_lab, over_field = sharpened(data.proba_lab), sharpened(data.proba_field)
    without, plain = after(data, over_lab, over_field)
    mended, prev = after(data, over_lab, over_field, method)
    assert without > best + 0.03
    assert mended < best + (0.02 if method == "isotonic" else 0.005)  # steps are noisier
    np.testing.assert_array_equal(prev.urc, plain.urc)  # bins are of what the model said


def test_a_calibrated_model_hardly_loses():
    for n_classes in (2, 3):
        for method in ("sigmoid", "temperature"):
            data = shifted(n_classes, seed=1)
            best, _ = after(data, data.proba_lab, data.proba_field)
            calibrated, _ = after(data, data.proba_lab, data.proba_field, method)
            assert calibrated < best + 0.003


def test_the_mean_prediction_in_the_lab_is_the_share_of_the_class():
    data = shifted(seed=2)
    proba = expit(2 * logit(data.proba_lab) + 1)
    with pytest.warns(CalibrationWarning, match=r"Calibrate on the lab: learn\(…, calibration='sigmoid'\)"):
        raw = fieldcal.learn(proba, data.y_lab)
    assert abs(raw.miscalibration[1]) > 0.03
    for method in ("sigmoid", "isotonic"):
        assert abs(fieldcal.learn(proba, data.y_lab, calibration=method).miscalibration[1]) < 0.003


def test_what_a_temperature_cannot_mend_is_told_with_the_way_out():
    data = shifted(seed=2)
    with pytest.warns(CalibrationWarning, match=r"still not calibrated.*calibration='isotonic'"):
        fieldcal.learn(expit(logit(data.proba_lab) + 2), data.y_lab, calibration="temperature")


# How it is fitted


def test_the_sigmoid_is_that_of_logistic_regression_on_the_logit():
    data = shifted(n_lab=20_000)
    p, hit = sharpened(data.proba_lab), (data.y_lab == 1).astype(float)
    found = Sigmoid.fit(p, hit, np.ones(len(p)))
    model = LogisticRegression(C=np.inf, tol=1e-10).fit(logit(p)[:, None], data.y_lab)
    assert found.slope == pytest.approx(model.coef_[0, 0], abs=2e-3)
    assert found.shift == pytest.approx(model.intercept_[0], abs=2e-3)


def test_steps_are_those_of_scikit_learn_but_for_half_a_row_at_the_ends():
    data = shifted(n_lab=2000)
    p = np.round(data.proba_lab, 2)
    least = 0.5 / 2001
    theirs = IsotonicRegression(y_min=least, y_max=1 - least, out_of_bounds="clip").fit(p, data.y_lab)
    grid = np.linspace(0, 1, 1001)
    curve = Steps.fit(p, (data.y_lab == 1).astype(float), np.ones(len(p)))
    np.testing.assert_allclose(
        tabulated("isotonic", [curve], (0, 1)).read(grid), theirs.predict(grid), atol=1e-9
    )


@pytest.mark.parametrize("method", CALIBRATIONS)
def test_lines_are_as_good_as_the_curve_and_never_fall(method):
    for power in (0.3, 0.5, 1.0, 2.0, 4.0):
        data = shifted(n_lab=2000)
        p = sharpened(data.proba_lab, power)
        curves = fit_curves(method, p, data.y_lab, 2, np.ones(len(p)))
        lines = tabulated(method, curves, (0, 1))
        grid = np.unique(
            np.concatenate([p, np.linspace(0, 1, 20_001), np.geomspace(1e-12, 1, 2000), lines.raw])
        )
        read = lines.read(grid)
        assert np.abs(read - read_by(curves, grid)).max() < 1e-4
        assert (np.diff(read) >= 0).all()
        assert read.min() > 0
        assert read.max() < 1
        assert len(lines.raw) < 300


@pytest.mark.filterwarnings("ignore::fieldcal.errors.IdentifiabilityWarning")
def test_a_row_is_read_by_a_fit_that_has_not_seen_it():
    rng = np.random.default_rng(0)
    p, y = rng.random(400), rng.integers(0, 2, 400)  # predictions that say nothing
    lab = fieldcal.learn(p, y, calibration="isotonic", partition=2)
    own = log_loss(lab.calibration_map.read(p), y)
    assert own < np.log(2)  # the fit flatters itself on its own rows
    assert lab.log_loss > np.log(2)


# What it goes with


def test_labs_with_the_same_map_are_merged_and_others_refused():
    data = shifted()
    p = sharpened(data.proba_lab)
    one = fieldcal.learn(p[:2000], data.y_lab[:2000], calibration="sigmoid")
    given = {"partition": one.partition, "smoothing": one.smoothing}
    two = fieldcal.learn(p[2000:], data.y_lab[2000:], calibration=one.calibration_map, **given)
    assert (one + two).calibration_map.method == "sigmoid"
    assert one + two == two + one
    three = fieldcal.learn(p[2000:], data.y_lab[2000:], calibration="isotonic", **given)
    with pytest.raises(InputError, match="have different calibrations"):
        one + three


# What is refused


def test_a_lab_that_teaches_no_calibration_is_refused():
    for proba, y, options, words in (
        ([0, 1] * 20, [0, 1] * 20, {"calibration": "platt"}, "'sigmoid', 'isotonic' or 'temperature'"),
        ([0, 1] * 20, [0, 1] * 20, {"calibration": True}, "but got bool"),
        ([0, 1] * 20, [0, 1] * 20, {"partition": fieldcal.partitions.Bins(2)}, "bins were given"),
        ([0.2, 0.7] * 9, [0, 1] * 9, {}, "at least 10 lab rows of each class"),
        ([0.0, 1.0] * 20, [0, 1] * 20, {}, "decisions"),
        (
            [0.8, 0.3, 0.6, 0.4] * 20,
            [0, 1] * 40,
            {"calibration": "isotonic"},
            "no higher on rows of the class",
        ),
        ([0.8, 0.3, 0.6, 0.4] * 20, [0, 1] * 40, {}, "no higher on rows of the class"),
    ):
        with pytest.raises(FieldcalError, match=words):
            fieldcal.learn(proba, y, **{"calibration": "sigmoid", **options})


# The artefact


def test_a_lab_without_calibration_is_written_as_before_there_was_any():
    data = shifted(n_lab=500)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    assert "calibration_map" not in json.loads(lab.to_json())["content"]
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field))
    assert b"calibration_map" not in prev.to_json()


def _edited(lab, edit):
    envelope = json.loads(lab.to_json())
    edit(envelope["content"]["calibration_map"])
    envelope["digest"] = storage.digest(envelope["content"])
    return json.dumps(envelope).encode()


def test_knots_that_were_edited_are_refused():
    data = shifted(n_lab=500)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, calibration="isotonic")
    assert Lab.from_json(lab.to_json()) == lab
    for edit, words in (
        (lambda m: m["calibrated"].__setitem__(3, 0.0), "must not decrease"),
        (lambda m: m["calibrated"].__setitem__(-1, 1.5), "at most 1"),
        (lambda m: m["calibrated"].__setitem__(0, -0.1), "above 0"),
        (lambda m: m["raw"].__setitem__(-1, 2.0), "increase from 0 to 1"),
        (lambda m: m["raw"].pop(), "one length"),
        (lambda m: m["of"].__setitem__(-1, 1.0), "lines for 2 classes"),
        (lambda m: m["of"].__setitem__(-1, 5.0), "count the lines"),
        (lambda m: m.__setitem__("method", "platt"), "method"),
        (lambda m: m.__setitem__("classes", [1, 0]), r"fitted to predictions of the classes \(1, 0\)"),
        (lambda m: m.__setitem__("classes", 2), "classes of a CalibrationMap"),
        (lambda m: m.pop("classes"), "has the fields"),
        (lambda m: m["raw"].__setitem__(1, 1e-200), "at least 1e-12"),
        (lambda m: m["raw"].__setitem__(1, None), "numbers expected"),
    ):
        with pytest.raises(ArtefactError, match=words):
            Lab.from_json(_edited(lab, edit))


def test_a_map_for_another_number_of_classes_is_refused():
    for fitted, other in ((3, 2), (2, 3)):
        one, two = shifted(fitted, n_lab=900), shifted(other, n_lab=900)
        found = fieldcal.learn(one.proba_lab, one.y_lab, calibration="sigmoid").calibration_map
        with pytest.raises(InputError, match=r"does not fit these predictions.*same classes in the same"):
            fieldcal.learn(two.proba_lab, two.y_lab, calibration=found)
    with pytest.raises(InputError, match=r"the classes \(0, 1\), and these are \(1, 0\)"):
        fieldcal.learn(1 - one.proba_lab, one.y_lab, positive=0, calibration=found)


# Trust 0: calibrated, and no more


def _only_calibrated(n_field=800):
    data = shifted(n_field=n_field)
    groups = np.arange(n_field) % 3
    lab = fieldcal.learn(sharpened(data.proba_lab), data.y_lab, calibration="sigmoid")
    field = fieldcal.count(lab, sharpened(data.proba_field), groups=groups)
    return data, groups, fieldcal.estimate(lab, field, trust=0)


def test_with_trust_0_predictions_are_calibrated_and_the_estimate_knows():
    data, groups, prev = _only_calibrated()
    p = sharpened(data.proba_field)
    new = fieldcal.recalibrate(prev, p, groups=groups)
    np.testing.assert_array_equal(new, prev.lab.calibration_map.read(p))
    assert (prev.untouched, prev.only_calibrated) == (False, True)
    raw = fieldcal.recalibrate(prev, p, groups=np.full(len(p), 9), unseen="raw")
    np.testing.assert_array_equal(raw, new)
    with pytest.warns(fieldcal.errors.UnseenGroupWarning, match="unseen='raw' to leave them uncorrected"):
        fieldcal.recalibrate(prev, p, groups=np.full(len(p), 9))
    plain = fieldcal.learn(data.proba_lab, data.y_lab)
    for trust, untouched in ((0, True), (1, False)):
        other = fieldcal.estimate(plain, fieldcal.count(plain, data.proba_field), trust=trust)
        assert (other.untouched, other.only_calibrated) == (untouched, False)
