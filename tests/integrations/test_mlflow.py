"""Labs, estimates and recalibrated models in a store of MLflow, which is a folder here."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.linear_model import LogisticRegression

import fieldcal
from fieldcal.errors import ArtefactError, InputError, InputTypeError, UnseenGroupWarning

# MLflow sends what it is used for to its makers unless it is told not to, before it is imported.
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
mlflow = pytest.importorskip("mlflow", reason="mlflow-skinny is not installed, so nothing is logged")

# What MLflow says of itself, its own type hints among them, is no fault of ours.
pytestmark = [
    pytest.mark.filterwarnings("ignore:::mlflow"),
    pytest.mark.filterwarnings("ignore:.*(type hint|input example|filesystem tracking|integer column)"),
]
TOWNS = np.array(["Leeds", "York", "{{ 7*7 }}"])
CODE = """
import mlflow, numpy as np, pandas as pd

class Model(mlflow.pyfunc.PythonModel):
    def predict(self, context, model_input: pd.DataFrame, params: dict | None = None):
        {body}

mlflow.models.set_model(Model())
"""
SIGMOID = "return 1 / (1 + np.exp(-np.asarray(model_input['x'], dtype=float)))"


@pytest.fixture(scope="module", autouse=True)
def store(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mlflow") / "store"
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
        environment.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
        before = mlflow.get_tracking_uri()
        mlflow.set_tracking_uri(folder.as_uri())
        yield folder
        mlflow.set_tracking_uri(before)


@pytest.fixture(scope="module")
def data():
    """Rows with one feature, their class and town; half of them lab."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 4000)
    return pd.DataFrame(
        {"x": 2 * y - 1 + 1.4 * rng.normal(size=4000), "y": y, "town": TOWNS[rng.integers(0, 3, 4000)]}
    )


def sigmoid(frame):
    return 1 / (1 + np.exp(-frame["x"].to_numpy()))


@pytest.fixture(scope="module")
def estimates(data):
    """Of one population, by towns from arrays, and by towns from a table."""
    lab_rows, rows = data[:2000].assign(p=sigmoid(data[:2000])), data[2000:].assign(p=sigmoid(data[2000:]))
    lab = fieldcal.tables.learn(lab_rows, label="y", scores="p")
    return {
        "one": fieldcal.estimate(lab, fieldcal.count(lab, rows["p"]), trust=0.8),
        "arrays": fieldcal.estimate(lab, fieldcal.count(lab, rows["p"], groups=rows["town"]), trust=0.8),
        "table": fieldcal.estimate(lab, fieldcal.tables.count(lab, rows, by="town"), trust=0.8),
    }


def logged(folder: Path, body=SIGMOID, signature=None):
    """A model from code, which takes no time to log."""
    with mlflow.start_run():
        return logged_in_this_run(folder, body, signature)


def logged_in_this_run(folder: Path, body=SIGMOID, signature=None):
    (folder / "wrapped.py").write_text(CODE.format(body=body))
    return mlflow.pyfunc.log_model(
        name="wrapped",
        python_model=str(folder / "wrapped.py"),
        signature=signature,
        pip_requirements=["pandas"],
    )


def recalibrated(*args, **options):
    with mlflow.start_run():
        made = fieldcal.mlflow.log_recalibrated(*args, **options)
    return mlflow.pyfunc.load_model(made.model_uri)


def of_x():
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    return ModelSignature(inputs=Schema([ColSpec("double", "x")]))


def test_a_lab_comes_back_as_it_was_and_its_run_tells_of_it(estimates):
    lab = estimates["one"].lab
    with mlflow.start_run() as run:
        uri = fieldcal.mlflow.log_lab(lab, name="churn/lab")
        kept = fieldcal.mlflow.log_prevalence(estimates["table"])
    assert fieldcal.mlflow.load_lab(uri) == lab
    assert fieldcal.mlflow.load_prevalence(kept) == estimates["table"]
    told = mlflow.get_run(run.info.run_id).data
    assert told.tags["churn/lab_digest"] == lab.digest
    assert told.tags["prevalence_digest"] == estimates["table"].digest
    assert told.tags["prevalence_verdict"] == estimates["table"].verdict.level
    assert told.metrics["churn/lab_rows"] == 2000
    assert told.metrics["churn/lab_log_loss"] == pytest.approx(lab.log_loss)
    assert told.metrics["prevalence_trust_between"] == 0.8
    assert told.metrics["prevalence_groups"] == 3


def test_what_is_no_lab_is_refused_in_our_words(estimates, tmp_path):
    with pytest.raises(InputError, match="No run of MLflow is active"):
        fieldcal.mlflow.log_lab(estimates["one"].lab)
    assert mlflow.active_run() is None
    with pytest.raises(InputTypeError, match="lab must be a Lab"):
        fieldcal.mlflow.log_lab(estimates["one"])
    with mlflow.start_run():
        uri = fieldcal.mlflow.log_prevalence(estimates["one"])
        with pytest.raises(InputTypeError, match="name must be"):
            fieldcal.mlflow.log_lab(estimates["one"].lab, name="")
    with pytest.raises(ArtefactError, match="'lab' was expected"):
        fieldcal.mlflow.load_lab(uri)
    with pytest.raises(ArtefactError, match="MLflow cannot read"):
        fieldcal.mlflow.load_lab(uri.replace("prevalence", "absent"))
    with pytest.raises(ArtefactError, match="MLflow cannot read"):
        fieldcal.mlflow.load_lab("runs:/0123456789abcdef0123456789abcdef/lab.json")
    with pytest.raises(InputTypeError, match="address"):
        fieldcal.mlflow.load_lab(3)
    (tmp_path / "lab.json").write_bytes(estimates["one"].lab.to_json().replace(b"2000", b"2001"))
    with pytest.raises(ArtefactError, match="corrupt"):
        fieldcal.mlflow.load_lab((tmp_path / "lab.json").as_uri())


@pytest.mark.parametrize("signature", [None, of_x], ids=["no_signature", "signature"])
def test_a_model_gives_what_recalibrate_makes_of_the_wrapped_ones_probabilities(
    signature, estimates, data, tmp_path
):
    inner = logged(tmp_path, signature=signature and signature())
    rows = data[2000:].drop(columns="y").reset_index(drop=True)
    made = recalibrated(inner, estimates["table"]).predict(rows)
    assert_array_equal(made, fieldcal.recalibrate(estimates["table"], sigmoid(rows), groups=rows["town"]))
    alone = recalibrated(inner.model_uri, estimates["one"]).predict(rows[["x"]])
    assert_array_equal(alone, fieldcal.recalibrate(estimates["one"], sigmoid(rows)))


def test_groups_from_arrays_come_as_a_named_column_or_as_a_parameter(estimates, data, tmp_path):
    inner, prev = logged(tmp_path, signature=of_x()), estimates["arrays"]
    rows = data[2000:2050].rename(columns={"town": "place"}).drop(columns="y")
    wanted = fieldcal.recalibrate(prev, sigmoid(rows), groups=rows["place"])
    assert_array_equal(recalibrated(inner, prev, by="place").predict(rows), wanted)
    by_parameter = recalibrated(inner, prev)
    made = by_parameter.predict(rows[["x"]], params={"groups": rows["place"].tolist()})
    assert_array_equal(made, wanted)
    with pytest.raises(InputError, match="per group"):
        by_parameter.predict(rows[["x"]])


def test_groups_that_were_never_seen_are_treated_as_the_model_or_the_call_says(estimates, tmp_path):
    inner, prev = logged(tmp_path, signature=of_x()), estimates["table"]
    rows = pd.DataFrame({"x": [0.5, -1.0], "town": ["York", "never"]})
    model = recalibrated(inner, prev)
    with pytest.warns(UnseenGroupWarning, match="never"):
        whole = model.predict(rows)
    assert_allclose(model.predict(rows, params={"unseen": "raw"})[1], sigmoid(rows)[1])
    assert whole[1] != sigmoid(rows)[1]
    with pytest.raises(InputError, match="unseen='global' or unseen='raw'"):
        model.predict(rows, params={"unseen": "error"})
    with pytest.raises(InputError, match="unseen must be"):
        model.predict(rows, params={"unseen": "maybe"})
    with pytest.raises(InputError, match="unseen='global'"):
        recalibrated(inner, prev, unseen="error").predict(rows)


def test_a_wrapped_model_sees_the_groups_only_if_it_asks_for_them(estimates, tmp_path):
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    prev, rows = estimates["table"], pd.DataFrame({"x": [0.5, -1.0], "town": ["York", "Leeds"]})
    body = "return np.full(len(model_input), 0.9 if 'town' in model_input else 0.1)"
    both = ModelSignature(inputs=Schema([ColSpec("double", "x"), ColSpec("string", "town")]))
    for signature, seen in ((of_x(), 0.1), (both, 0.9), (None, 0.1)):
        made = recalibrated(logged(tmp_path, body, signature), prev).predict(rows)
        assert_allclose(made, fieldcal.recalibrate(prev, [seen, seen], groups=rows["town"]))


def test_a_table_of_probabilities_stays_a_table(estimates, tmp_path):
    body = "return pd.DataFrame({'1': [.2, .7], '0': [.8, .3]}, index=model_input.index)"
    rows = pd.DataFrame({"x": [0.0, 1.0]}, index=[7, 9])
    made = recalibrated(logged(tmp_path, body), estimates["one"]).predict(rows)
    assert list(made.columns) == ["1", "0"]
    assert list(made.index) == [7, 9]
    assert_allclose(made["1"], fieldcal.recalibrate(estimates["one"], [0.2, 0.7]))


@pytest.mark.parametrize(
    "body", ["return np.ones(len(model_input), dtype=int)", "return np.array(['a', 'b'])"]
)
def test_classes_are_not_taken_for_probabilities(body, estimates, tmp_path):
    model = recalibrated(logged(tmp_path, body), estimates["one"])
    with pytest.raises(InputError, match="predict_proba"):
        model.predict(pd.DataFrame({"x": [0.0, 1.0]}))


def test_a_column_of_groups_that_is_not_there_is_named(estimates, tmp_path):
    model = recalibrated(logged(tmp_path), estimates["table"])
    with pytest.raises(InputError, match=r"no column 'town'.*\['x'\]"):
        model.predict(pd.DataFrame({"x": [0.0, 1.0]}))


def test_what_cannot_be_logged_is_refused_before_anything_is(estimates, store):
    before = sorted(store.rglob("MLmodel"))
    prev, one = estimates["arrays"], estimates["one"]
    with mlflow.start_run():
        for model, given, options, words in (
            (LogisticRegression(), one, {}, "predict_proba"),
            ("models:/m-1", "x", {}, "must be a Prevalence"),
            ("models:/m-1", one, {"by": "town"}, "of one population"),
            ("models:/m-1", prev, {"unseen": "x"}, "unseen must be"),
            ("models:/m-1", prev, {"shape": "bins"}, "none were counted"),
            ("models:/m-1", prev, {"artifacts": {}}, "Leave it out"),
        ):
            with pytest.raises((InputError, InputTypeError), match=words):
                fieldcal.mlflow.log_recalibrated(model, given, **options)
    assert sorted(store.rglob("MLmodel")) == before


@pytest.mark.skipif(
    pd.__version__ == "3.0.0", reason="MLflow compares names of columns in a way this pandas cannot"
)
def test_options_are_handed_on_to_mlflow(estimates, tmp_path):
    example = pd.DataFrame({"x": [0.5, -1.0], "town": ["York", "Leeds"]})
    with mlflow.start_run():
        made = fieldcal.mlflow.log_recalibrated(
            logged_in_this_run(tmp_path, signature=of_x()),
            estimates["table"],
            name="other",
            input_example=example,
            tags={"of": "us"},
        )
    assert made.name == "other"
    assert made.tags["of"] == "us"
    assert made.signature.inputs.input_names() == ["x", "town"]


def test_nothing_of_ours_is_pickled_and_a_changed_estimate_is_not_loaded(estimates, tmp_path):
    inner = logged(tmp_path)
    with mlflow.start_run():
        made = fieldcal.mlflow.log_recalibrated(inner, estimates["one"], pip_requirements=["fieldcal"])
    folder = Path(mlflow.artifacts.download_artifacts(made.model_uri, dst_path=str(tmp_path / "copy")))
    names = {path.name for path in folder.rglob("*") if path.is_file()}
    assert {"recalibrated_model.py", "fieldcal_prevalence.json", "wrapped.py"} <= names
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".joblib"))]
    (kept,) = folder.rglob("fieldcal_prevalence.json")
    kept.write_bytes(kept.read_bytes().replace(b'"level":0.9', b'"level":0.8'))
    with pytest.raises(ArtefactError, match="digest"):
        mlflow.pyfunc.load_model(str(folder))


def test_a_model_of_scikit_learn_is_wrapped_and_loaded_by_another_process(data, tmp_path):
    lab_rows, rows = data[1000:2000], data[2000:]
    fitted = LogisticRegression().fit(data[["x"]][:1000], data["y"][:1000])
    lab = fieldcal.learn(fitted.predict_proba(lab_rows[["x"]]), lab_rows["y"])
    field = fieldcal.count(lab, fitted.predict_proba(rows[["x"]]), groups=rows["town"])
    prev = fieldcal.estimate(lab, field, trust=0.7)
    with mlflow.start_run():
        inner = mlflow.sklearn.log_model(
            fitted,
            name="model",
            pyfunc_predict_fn="predict_proba",
            serialization_format="cloudpickle",
            signature=of_x(),
            pip_requirements=["scikit-learn"],
        )
        made = fieldcal.mlflow.log_recalibrated(inner, prev, by="town")
    folder = mlflow.artifacts.download_artifacts(made.model_uri)
    rows[["x", "town"]].to_csv(tmp_path / "rows.csv", index=False)
    code = f"""
import mlflow, numpy, pandas
model = mlflow.pyfunc.load_model({folder!r})
numpy.save("new.npy", model.predict(pandas.read_csv("rows.csv")))
"""
    source = str(Path(fieldcal.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": source},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wanted = fieldcal.recalibrate(prev, fitted.predict_proba(rows[["x"]]), groups=rows["town"])
    assert_allclose(np.load(tmp_path / "new.npy"), wanted, atol=1e-12)
    requirements = Path(folder, "requirements.txt").read_text()
    assert {f"fieldcal=={fieldcal.__version__}", "scikit-learn"} <= set(requirements.split())
