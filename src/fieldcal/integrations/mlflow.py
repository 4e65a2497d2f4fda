"""fieldcal.mlflow: labs and estimates as artefacts of a run, and a model with its recalibration as one model.

Nothing is pickled here: labs and estimates travel as their JSON files, a wrapped model as the model that MLflow has
stored, and what joins them is a file of Python that says which.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from fieldcal.errors import ArtefactError, InputError, InputTypeError
from fieldcal.integrations.mlflow_model import Recalibrated, Settings, signature_of
from fieldcal.objects import Lab, Prevalence
from fieldcal.objects.artefact import Artefact
from fieldcal.options import check_kind
from fieldcal.storage import require
from fieldcal.tables.columns import group_columns
from fieldcal.types import Shape, Unseen
from fieldcal.verbs.recalibrate import check_applicable, check_options

if TYPE_CHECKING:
    from mlflow.models.model import ModelInfo

__all__ = [
    "Recalibrated",
    "load_lab",
    "load_prevalence",
    "log_lab",
    "log_prevalence",
    "log_recalibrated",
]

_Kept = TypeVar("_Kept", bound=Artefact)
_OURS = ("python_model", "artifacts", "model_config", "signature", "loader_module", "data_path")
#: What a model of ours is: MLflow copies this file and runs it where the model is loaded.
_CODE = '''\
"""A model with its recalibration: made by fieldcal.mlflow.log_recalibrated."""

from typing import Any

import mlflow
import pandas as pd

import fieldcal


class RecalibratedModel(mlflow.pyfunc.PythonModel):
    def load_context(self, context):
        self.model = fieldcal.mlflow.Recalibrated.load(context.artifacts, context.model_config)

    def predict(self, context, model_input: pd.DataFrame, params: dict[str, Any] | None = None):
        return self.model.predict(model_input, params)


mlflow.models.set_model(RecalibratedModel())
'''


def log_lab(lab: Lab, *, name: str = "lab") -> str:
    """Save a lab with the active run: its JSON file, its digest as a tag, and a few metrics.

    Parameters
    ----------
    lab : Lab
    name : str
        Of the artefact, ``lab.json``, and before the name of the tag ``lab_digest`` and of the metrics ``lab_rows``,
        ``lab_log_loss`` and so on.

    Returns
    -------
    str
        Where it is, for `load_lab`: ``runs:/…/lab.json``.

    Examples
    --------
    >>> import fieldcal
    >>> lab = fieldcal.learn([0.1, 0.2, 0.8, 0.9] * 20, [0, 0, 1, 1] * 20)
    >>> fieldcal.mlflow.log_lab(lab)
    Traceback (most recent call last):
    fieldcal.errors.InputError: No run of MLflow is active. Start one: with mlflow.start_run(): …
    """
    check_kind("lab", lab, Lab)
    metrics = {"rows": lab.n, "classes": len(lab.classes), "accuracy": lab.accuracy, "log_loss": lab.log_loss}
    if lab.rehearsal is not None:
        metrics["rehearsed_trust"] = lab.rehearsal.trust
    return _log(lab, name, metrics)


def load_lab(uri: str) -> Lab:
    """The lab that `log_lab` saved; anything damaged or foreign raises `ArtefactError`.

    Parameters
    ----------
    uri : str
        What `log_lab` gave, or any other address of the file that MLflow knows.

    Examples
    --------
    >>> import fieldcal
    >>> fieldcal.mlflow.load_lab("no_such_folder/lab.json")
    Traceback (most recent call last):
    fieldcal.errors.ArtefactError: MLflow cannot read 'no_such_folder/lab.json': ...
    """
    return _load(Lab, uri)


def log_prevalence(prev: Prevalence, *, name: str = "prevalence") -> str:
    """Save an estimate with the active run: its JSON file, digest and verdict as tags, and a few metrics.

    Parameters
    ----------
    prev : Prevalence
    name : as in `log_lab`

    Examples
    --------
    >>> import fieldcal
    >>> lab = fieldcal.learn([0.1, 0.2, 0.8, 0.9] * 20, [0, 0, 1, 1] * 20)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, [0.1, 0.9]), prior="flat", trust=1)
    >>> fieldcal.mlflow.log_prevalence(prev)
    Traceback (most recent call last):
    fieldcal.errors.InputError: No run of MLflow is active. Start one: with mlflow.start_run(): …
    """
    check_kind("prev", prev, Prevalence)
    metrics = {
        "rows": prev.field.n.sum().item(),
        "groups": len(prev.groups) if prev.field.grouped else None,
        "trust_overall": prev.trust_overall,
        "trust_between": prev.trust_between if prev.field.grouped else None,
    }
    return _log(prev, name, metrics, verdict=prev.verdict.level)


def load_prevalence(uri: str) -> Prevalence:
    """The estimate that `log_prevalence` saved; anything damaged or foreign raises `ArtefactError`.

    Parameters
    ----------
    uri : as in `load_lab`

    Examples
    --------
    >>> import fieldcal
    >>> fieldcal.mlflow.load_prevalence("no_such_folder/prevalence.json")
    Traceback (most recent call last):
    fieldcal.errors.ArtefactError: MLflow cannot read 'no_such_folder/prevalence.json': ...
    """
    return _load(Prevalence, uri)


def log_recalibrated(
    model: Any,
    prev: Prevalence,
    *,
    name: str = "recalibrated",
    by: str | Sequence[str] | None = None,
    unseen: Unseen = "global",
    acknowledge: bool = False,
    shape: Shape = "tilt",
    **options: Any,
) -> ModelInfo:
    """Log a model that asks another one for probabilities and recalibrates them.

    Parameters
    ----------
    model : str, or what ``log_model`` of MLflow gave
        The address of a logged model whose ``predict`` gives probabilities, ``models:/…`` or ``runs:/…``. Those of
        scikit-learn are logged with ``pyfunc_predict_fn="predict_proba"``.
    prev : Prevalence
    name : str
        Of the new model.
    by : column or columns of the groups, optional
        By default those that were counted. They are columns of the input, which the wrapped model sees only if its
        signature names them. Of groups that were counted from arrays and are not named here, ``predict`` takes
        ``params={"groups": […]}``.
    unseen : "global", "raw" or "error"
        As in `fieldcal.recalibrate`; a call may choose another: ``params={"unseen": "raw"}``.
    acknowledge, shape : as in `fieldcal.recalibrate`
    **options : for ``mlflow.pyfunc.log_model``
        Such as ``registered_model_name``, ``input_example``, ``pip_requirements``.

    Returns
    -------
    ModelInfo of MLflow

    Examples
    --------
    >>> import fieldcal
    >>> fieldcal.mlflow.log_recalibrated("models:/churn/1", "prevalence.json")
    Traceback (most recent call last):
    fieldcal.errors.InputTypeError: prev must be a Prevalence, but got str...
    """
    mlflow = _mlflow()
    check_options(unseen)
    check_applicable(prev, acknowledge=acknowledge, shape=shape)
    uri = _model_uri(model)
    columns = () if by is None and not prev.field.by else group_columns(prev, by)
    settings = Settings(columns, unseen, acknowledge=bool(acknowledge), shape=shape)
    for option in _OURS:
        if option in options:
            raise InputError(
                f"{option} of mlflow.pyfunc.log_model is what this function fills. Leave it out."
            )
    wrapped = mlflow.models.get_model_info(uri).signature
    requirements = {"pip_requirements": _requirements(mlflow, uri)} if _asks_for_none(options) else {}
    with tempfile.TemporaryDirectory() as folder:
        code, kept = Path(folder, "recalibrated_model.py"), Path(folder, "fieldcal_prevalence.json")
        code.write_text(_CODE, encoding="utf-8")
        prev.save(kept)
        return mlflow.pyfunc.log_model(
            name=name,
            python_model=str(code),
            artifacts={"model": uri, "prevalence": str(kept)},
            model_config=settings.config(),
            signature=signature_of(wrapped, prev, settings),
            **requirements,
            **options,
        )


def _mlflow() -> Any:
    return require("mlflow", "mlflow", purpose="to talk to a tracking server")


def _log(artefact: Artefact, name: Any, metrics: dict[str, float | None], **tags: str) -> str:
    mlflow = _mlflow()
    if not isinstance(name, str) or not name:
        raise InputTypeError(f"name must be the name of an artefact, but got {name!r:.60}.")
    run = mlflow.active_run()
    if run is None:
        raise InputError("No run of MLflow is active. Start one: with mlflow.start_run(): …")
    mlflow.log_text(artefact.to_json().decode("ascii"), f"{name}.json")
    mlflow.set_tags({f"{name}_{key}": value for key, value in {"digest": artefact.digest, **tags}.items()})
    mlflow.log_metrics({f"{name}_{key}": value for key, value in metrics.items() if value is not None})
    return f"runs:/{run.info.run_id}/{name}.json"


def _load(kind: type[_Kept], uri: Any) -> _Kept:
    mlflow = _mlflow()
    if not isinstance(uri, str) or not uri:
        raise InputTypeError(f"uri must be the address of an artefact, but got {uri!r:.60}.")
    with tempfile.TemporaryDirectory() as folder:
        try:
            path = mlflow.artifacts.download_artifacts(artifact_uri=uri, dst_path=folder)
        except (mlflow.exceptions.MlflowException, OSError) as error:
            text = " ".join(str(error).split()).rstrip(".")
            raise ArtefactError(f"MLflow cannot read {uri!r:.200}: {text:.300}.") from None
        return kind.load(os.fspath(path))


def _model_uri(model: Any) -> str:
    uri = getattr(model, "model_uri", model)
    if isinstance(uri, str) and uri:
        return uri
    raise InputTypeError(
        f"model must be the address of a logged model, such as 'models:/churn/1', or what log_model gave, but got "
        f"{type(model).__name__}. Log it first, for instance with mlflow.sklearn.log_model(…, "
        "pyfunc_predict_fn='predict_proba')."
    )


def _asks_for_none(options: dict[str, Any]) -> bool:
    return not {"pip_requirements", "extra_pip_requirements", "conda_env"} & options.keys()


def _requirements(mlflow: Any, uri: str) -> list[str]:
    """Those of the wrapped model, and this version of fieldcal."""
    own = f"fieldcal=={import_module('fieldcal').__version__}"
    try:
        path = mlflow.pyfunc.get_model_dependencies(uri)
    except (mlflow.exceptions.MlflowException, OSError):  # it was logged without any
        return [own]
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("fieldcal")] + [own]
