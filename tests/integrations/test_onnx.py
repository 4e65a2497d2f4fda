"""The correction as a graph: what onnxruntime gives is what `fieldcal.recalibrate` gives."""

from __future__ import annotations

import datetime as dt
import functools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

import fieldcal
from fieldcal.errors import InputError, InputTypeError

onnx = pytest.importorskip("onnx", reason="onnx is not installed, so no graph is made")
ort = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed, so no graph is run")
helper, FLOAT = onnx.helper, onnx.TensorProto.FLOAT
relaxed = settings(deadline=None, derandomize=True, max_examples=40)
TOWNS = np.array(["Leeds", "York", "", "{{ 7*7 }}", "Zürich"])


@functools.cache
def shifted(n_classes):
    return fieldcal.datasets.label_shift(
        n_lab=1500, n_field=1500, p_lab=np.full(n_classes, 1 / n_classes), n_groups=4, random_state=n_classes
    )


@functools.cache
def estimated(n_classes=2, *, groups="text", labels=0, **options):
    """An estimate, by what its groups are."""
    data = shifted(n_classes)
    named = {"text": TOWNS[data.groups_field], "numbers": data.groups_field * 10**12 - 7, "none": None}
    y = None
    if labels:
        y = np.where(np.arange(len(data.y_field)) < labels, data.y_field.astype(object), None)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab)
    field = fieldcal.count(lab, data.proba_field, groups=named.get(groups, groups), y=y)
    return fieldcal.estimate(lab, field, **options)


def run(model, **inputs):
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = [each.name for each in session.get_outputs()]
    return dict(zip(outputs, session.run(None, inputs), strict=True))


def rows(n_classes, n=200, seed=1):
    """Predictions in float32, with certain ones and tiny ones among them."""
    proba = np.random.default_rng(seed).dirichlet(np.full(n_classes, 0.3), n)
    proba[:n_classes] = np.eye(n_classes)
    proba[n_classes] = [1e-38, *[0.0] * (n_classes - 2), 1.0]
    return proba.astype(np.float32)


def expected(prev, proba, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.UnseenGroupWarning)
        return fieldcal.recalibrate(prev, proba, **options)


def texts(n, seed=2):
    """Groups that were counted, and two that were not."""
    return np.random.default_rng(seed).choice([*TOWNS, "never", "york"], n).astype(object)


SETTINGS = {
    "rehearsed": {},
    "half": {"trust": 0.5},
    "whole": {"trust": 1},
    "nothing": {"trust": 0},
    "labels": {"labels": 60},
    "flat": {"prior": "flat", "point": "mode", "trust": 0.9},
}


@pytest.mark.parametrize("unseen", ["global", "raw"])
@pytest.mark.parametrize("n_classes", [2, 3, 5])
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_rows_with_groups_become_what_recalibrate_makes_of_them(options, n_classes, unseen):
    prev, proba = estimated(n_classes, **options), rows(n_classes)
    groups = texts(len(proba))
    made = run(fieldcal.onnx.graph(prev, unseen=unseen), probabilities=proba, group=groups)["recalibrated"]
    assert made.dtype == np.float32
    assert_allclose(made, expected(prev, proba, groups=groups, unseen=unseen), rtol=0, atol=1e-6)
    assert_array_equal(made[proba == 0], 0)
    assert_array_equal(made[proba == 1], 1)


@pytest.mark.parametrize("n_classes", [2, 4])
@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_rows_of_one_population_need_no_group(options, n_classes):
    prev, proba = estimated(n_classes, groups="none", **options), rows(n_classes)
    model = fieldcal.onnx.graph(prev)
    assert [each.name for each in model.graph.input] == ["probabilities"]
    made = run(model, probabilities=proba)["recalibrated"]
    assert_allclose(made, expected(prev, proba), rtol=0, atol=1e-6)


@pytest.mark.parametrize("options", SETTINGS.values(), ids=SETTINGS)
def test_one_column_is_the_probability_of_the_second_class(options):
    prev, score = estimated(2, **options), rows(2)[:, 1]
    groups = texts(len(score))
    made = run(fieldcal.onnx.graph(prev, one_column=True), probabilities=score, group=groups)["recalibrated"]
    assert made.shape == score.shape
    assert_allclose(made, expected(prev, score, groups=groups), rtol=0, atol=1e-6)
    assert_array_equal(made[score == 0], 0)
    assert_array_equal(made[score == 1], 1)


def test_the_estimates_above_take_two_steps_one_and_none():
    """Or the tests above would say less than they seem to."""
    steps = {name: len(estimated(3, **options).steps) for name, options in SETTINGS.items()}
    assert steps == {"rehearsed": 1, "half": 2, "whole": 1, "nothing": 0, "labels": 1, "flat": 2}
    assert [step.weights.ndim for step in estimated(3, trust=0.5).steps] == [1, 2]


@relaxed
@given(
    st.lists(
        st.tuples(*[st.floats(0, 1, width=32)] * 3).filter(lambda r: sum(r) > 0.01), min_size=1, max_size=9
    ),
    st.sampled_from(list(SETTINGS)),
    st.integers(0, 6),
)
def test_any_row_of_any_group_agrees_and_sums_to_one(drawn, setting, which):
    proba = np.array([np.array(row) / sum(row) for row in drawn], dtype=np.float32)
    groups = np.full(len(proba), [*TOWNS, "never", "york"][which], dtype=object)
    prev = estimated(3, **SETTINGS[setting])
    made = _session(setting).run(None, {"probabilities": proba, "group": groups})[0]
    assert_allclose(made, expected(prev, proba, groups=groups), rtol=0, atol=1e-6)
    assert_allclose(made.sum(axis=1), 1, atol=1e-6)


@functools.cache
def _session(setting):
    made = fieldcal.onnx.graph(estimated(3, **SETTINGS[setting]))
    return ort.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])


def test_whole_numbers_are_looked_up_as_such():
    prev, proba = estimated(2, groups="numbers"), rows(2)
    groups = np.random.default_rng(0).choice([*prev.groups, 0, -1, 10**15], len(proba))
    made = run(fieldcal.onnx.graph(prev), probabilities=proba, group=groups)["recalibrated"]
    assert_allclose(made, expected(prev, proba, groups=groups), rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "keys",
    [
        [("a|b", "c"), ("a", "b|c"), None, dt.date(2024, 1, 31)],
        [True, False, 1, "1"],
        [1, 2, 3, 2**63],
    ],
    ids=["tuples", "mixed", "too_large"],
)
def test_groups_of_every_kind_go_by_their_place_and_anything_else_was_never_seen(keys):
    data, proba = shifted(2), rows(2)
    column = np.empty(len(data.groups_field), dtype=object)
    column[:] = [keys[g] for g in data.groups_field]
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=column), trust=0.7)
    with pytest.raises(InputError, match="groups='index'"):
        fieldcal.onnx.graph(prev)
    place = np.random.default_rng(0).integers(-2, len(prev.groups) + 2, len(proba))
    known = (place >= 0) & (place < len(prev.groups))
    groups = np.empty(len(proba), dtype=object)
    groups[:] = [prev.groups[i] if ok else "never" for i, ok in zip(place, known, strict=True)]
    made = run(fieldcal.onnx.graph(prev, groups="index"), probabilities=proba, group=place)["recalibrated"]
    assert_allclose(made, expected(prev, proba, groups=groups), rtol=0, atol=1e-6)


def test_a_row_without_a_prediction_stays_without_and_rounding_beyond_one_is_taken_away():
    prev = estimated(2, groups="none", trust=1)
    score = np.array([np.nan, 1 + 1e-7, -1e-9, 0.5], dtype=np.float32)
    made = run(fieldcal.onnx.graph(prev, one_column=True), probabilities=score)["recalibrated"]
    assert_array_equal(made[:3], [np.nan, 1, 0])
    assert_allclose(made[3], expected(prev, [0.5])[0], atol=1e-6)


def classifier(n_classes, *, kind=FLOAT, shape=("batch",), versions=(("", 13),), softmax=True, more=()):
    """Logits in; probabilities of some shape out."""
    size = [*shape, n_classes] if len(shape) == 1 and softmax else list(shape)
    nodes = [helper.make_node("Softmax" if softmax else "Sigmoid", ["x"], ["p"]), *more]
    info = helper.make_tensor_value_info
    body = helper.make_graph(nodes, "c", [info("x", kind, size)], [info("p", kind, size)])
    return helper.make_model(body, opset_imports=[helper.make_opsetid(*v) for v in versions], ir_version=7)


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.float16])
def test_a_classifier_gives_what_it_gave_and_the_recalibrated_probabilities_last(kind):
    prev, x = estimated(3), np.random.default_rng(0).normal(size=(50, 3)).astype(kind)
    model = classifier(3, kind=helper.np_dtype_to_tensor_dtype(np.dtype(kind)))
    before = model.SerializeToString()
    groups = texts(len(x))
    made = run(fieldcal.onnx.append(model, prev, group_input="town"), x=x, town=groups)
    assert list(made) == ["p", "p_recalibrated"]
    assert_array_equal(made["p"], run(model, x=x)["p"])
    assert made["p_recalibrated"].dtype == kind
    close = {np.float16: 1e-3, np.float32: 1e-6, np.float64: 1e-12}[kind]
    wanted = expected(prev, made["p"].astype(float), groups=groups) if kind != np.float16 else None
    if wanted is not None:
        assert_allclose(made["p_recalibrated"], wanted, rtol=0, atol=close)
    assert_allclose(made["p_recalibrated"].sum(axis=1), 1, atol=3e-3)
    assert model.SerializeToString() == before


@pytest.mark.parametrize("shape", [("batch",), ("batch", 1), (7, 1)])
def test_a_sigmoid_is_the_second_of_two_classes_and_keeps_its_shape(shape):
    prev = estimated(2, groups="none")
    x = np.linspace(-3, 3, 7, dtype=np.float32).reshape(7, *shape[1:])
    made = run(fieldcal.onnx.append(classifier(2, shape=shape, softmax=False), prev), x=x)
    assert made["p_recalibrated"].shape == x.shape
    wanted = expected(prev, made["p"].ravel())
    assert_allclose(made["p_recalibrated"].ravel(), wanted, rtol=0, atol=1e-6)


def test_a_model_of_scikit_learn_is_recalibrated_from_its_features_on():
    skl2onnx = pytest.importorskip("skl2onnx", reason="skl2onnx is not installed")
    from sklearn.linear_model import LogisticRegression

    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    X = (np.eye(3)[y] * 1.5 + rng.normal(size=(3000, 3))).astype(np.float32)
    fitted = LogisticRegression().fit(X[:1000], y[:1000])
    town = TOWNS[rng.integers(0, 3, 3000)]
    lab = fieldcal.learn(fitted.predict_proba(X[1000:2000]), y[1000:2000], groups=town[1000:2000])
    field = fieldcal.count(lab, fitted.predict_proba(X[2000:]), groups=town[2000:])
    prev = fieldcal.estimate(lab, field, trust=0.8)
    model = skl2onnx.to_onnx(fitted, X[:1], options={"zipmap": False})
    made = run(fieldcal.onnx.append(model, prev), X=X[2000:], group=town[2000:].astype(object))
    assert list(made) == ["label", "probabilities", "probabilities_recalibrated"]
    wanted = fieldcal.recalibrate(prev, fitted.predict_proba(X[2000:]), groups=town[2000:])
    assert_allclose(made["probabilities_recalibrated"], wanted, rtol=0, atol=2e-6)
    with pytest.raises(InputError, match="zipmap"):
        fieldcal.onnx.append(skl2onnx.to_onnx(fitted, X[:1]), prev)


def test_a_model_holds_the_digest_of_its_estimate_and_is_not_recalibrated_twice():
    prev = estimated(3)
    made = fieldcal.onnx.append(classifier(3), prev)
    assert {each.key: each.value for each in made.metadata_props} == {"fieldcal_prevalence": prev.digest}
    with pytest.raises(InputError, match="already"):
        fieldcal.onnx.append(made, prev)


def test_names_that_the_model_has_are_left_to_it():
    odd = [
        helper.make_node("Identity", ["p"], [f"fieldcal_{n}_0"]) for n in ("cast", "mul", "constant", "max")
    ]
    prev, x = estimated(2, groups="none"), np.zeros((4, 2), dtype=np.float32)
    made = run(fieldcal.onnx.append(classifier(2, more=odd), prev), x=x)
    assert_allclose(made["p_recalibrated"], expected(prev, made["p"]), atol=1e-6)
    assert fieldcal.onnx.append(classifier(2), prev, name="{}_{x}").graph.output[-1].name == "p_{x}"
    for options in ({"name": "p"}, {"name": "x"}, {"name": "fieldcal_mul_0"}):
        with pytest.raises(InputError, match="already"):
            fieldcal.onnx.append(classifier(2, more=odd), prev, **options)
    with pytest.raises(InputError, match="group_input"):
        fieldcal.onnx.append(classifier(2), estimated(2), group_input="x")


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        (lambda: classifier(2), {}, "has 2 columns, but there are 3"),
        (lambda: classifier(3, shape=("batch", None)), {}, "how many columns"),
        (lambda: classifier(3, versions=[("", 7)]), {}, "opset 7"),
        (lambda: classifier(3), {"output": "q"}, "no output 'q'"),
        (lambda: classifier(3), {"output": 3}, "no output 3"),
        (lambda: classifier(3), {"unseen": "error"}, "'global' or 'raw'"),
        (lambda: classifier(3), {"groups": "keys"}, "'key' or 'index'"),
        (lambda: "model.onnx", {}, "onnx.load"),
        (lambda: classifier(3), {"name": 3}, "name must be a name"),
    ],
)
def test_what_cannot_be_is_refused_in_words(model, options, words):
    with pytest.raises((InputError, InputTypeError), match=words):
        fieldcal.onnx.append(model(), estimated(3), **options)


def test_a_calibrated_lab_is_refused_as_a_graph_would_leave_its_map_out():
    data = shifted(2)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, calibration="sigmoid")
    for trust in (0, 1):
        prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=trust)
        for make in (fieldcal.onnx.graph, functools.partial(fieldcal.onnx.append, classifier(2))):
            with pytest.raises(InputError, match=r"calibrated \(sigmoid\).*inside the model.*in SQL"):
                make(prev)


def test_an_old_label_encoder_is_not_given_another_meaning():
    versions = [("", 13), ("ai.onnx.ml", 1)]
    made = fieldcal.onnx.append(classifier(3, versions=versions), estimated(3))
    assert {v.domain: v.version for v in made.opset_import} == {"": 13, "ai.onnx.ml": 2}
    alone = fieldcal.onnx.append(classifier(3, versions=versions), estimated(3, groups="none"))
    assert {v.domain: v.version for v in alone.opset_import} == {"": 13, "ai.onnx.ml": 1}
    old = helper.make_node("LabelEncoder", ["p"], ["l"], domain="ai.onnx.ml", classes_strings=["a"])
    with pytest.raises(InputError, match="LabelEncoder"):
        fieldcal.onnx.append(classifier(3, versions=versions, more=[old]), estimated(3))


def test_two_outputs_that_could_be_it_must_be_told_apart():
    model = classifier(3, more=[helper.make_node("Identity", ["p"], ["q"])])
    model.graph.output.append(helper.make_tensor_value_info("q", FLOAT, ["batch", 3]))
    with pytest.raises(InputError, match=r"'p', 'q'.*output="):
        fieldcal.onnx.append(model, estimated(3))
    made = fieldcal.onnx.append(model, estimated(3), output="q")
    assert made.graph.output[-1].name == "q_recalibrated"


def test_protected_groups_are_applied_only_if_that_is_acknowledged():
    data = shifted(2)
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    field = fieldcal.count(lab, data.proba_field, groups=TOWNS[data.groups_field])
    prev = fieldcal.estimate(lab, field, trust=1, protected=True)
    with pytest.raises(InputError, match="protected"):
        fieldcal.onnx.graph(prev)
    assert fieldcal.onnx.graph(prev, acknowledge=True).graph.node


def test_values_and_numbers_have_no_probabilities_to_recalibrate():
    lab = fieldcal.learn(["pass", "fail"] * 40, [1, 0] * 40, kind="values", design="random")
    prev = fieldcal.estimate(lab, fieldcal.count(lab, ["pass", "fail"] * 9), prior="flat", trust=1)
    with pytest.raises(InputError, match="verdicts of a judge"):
        fieldcal.onnx.graph(prev)
    with pytest.raises(InputError, match="two classes"):
        fieldcal.onnx.graph(estimated(3), one_column=True)
