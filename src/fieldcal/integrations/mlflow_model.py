"""What a recalibrated model does where it is loaded, and what MLflow is told of its input."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from fieldcal.errors import InputError, Option
from fieldcal.objects import Prevalence
from fieldcal.storage import require
from fieldcal.types import Keys, Shape, Unseen
from fieldcal.verbs.recalibrate import recalibrate

#: The parameters of `predict` that are ours; all others are the wrapped model's.
UNSEEN, GROUPS = "unseen", "groups"


@dataclass(frozen=True)
class Settings:
    """How predictions are recalibrated."""

    by: Sequence[str] = ()
    unseen: Unseen = "global"
    acknowledge: bool = False
    shape: Shape = "tilt"

    def config(self) -> dict[str, Any]:
        """For MLflow, which keeps it as YAML."""
        return {**asdict(self), "by": list(self.by)}


class Recalibrated:
    """A loaded model whose probabilities are recalibrated.

    Made by MLflow where a model of `log_recalibrated` is loaded; a model of your own may use it.

    Parameters
    ----------
    model : what ``mlflow.pyfunc.load_model`` gives
        Anything with a ``predict`` that gives probabilities.
    prev : Prevalence
    by, unseen, acknowledge, shape : as in `log_recalibrated`

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field), trust=1)
    >>> class Model:
    ...     def predict(self, rows, params=None):
    ...         return data.proba_field[rows]
    >>> fieldcal.mlflow.Recalibrated(Model(), prev).predict([0, 1, 2]).shape
    (3,)
    """

    def __init__(
        self,
        model: Any,
        prev: Prevalence,
        *,
        by: Sequence[str] = (),
        unseen: Unseen = "global",
        acknowledge: bool = False,
        shape: Shape = "tilt",
    ) -> None:
        self._model, self._prev = model, prev
        self._settings = Settings(tuple(by), unseen, acknowledge, shape)

    @classmethod
    def load(cls, artifacts: Mapping[str, str], config: Mapping[str, Any]) -> Recalibrated:
        """From the files and the settings that `log_recalibrated` stored."""
        mlflow = require("mlflow", "mlflow", purpose="to load the wrapped model")
        prev = Prevalence.load(artifacts["prevalence"])
        return cls(mlflow.pyfunc.load_model(artifacts["model"]), prev, **config)

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Recalibrated probabilities, in the form that the wrapped model gives."""
        given = dict(params or {})
        unseen = given.pop(UNSEEN, None) or self._settings.unseen
        named = given.pop(GROUPS, None)
        groups = self._groups(model_input, named)
        answer = self._model.predict(self._features(model_input), params=given or None)
        _refuse_classes(answer)
        new = recalibrate(
            self._prev,
            answer,
            groups=groups,
            unseen=unseen,
            acknowledge=self._settings.acknowledge,
            shape=self._settings.shape,
        )
        made = np.asarray(new).reshape(np.shape(answer))
        if hasattr(answer, "columns"):
            return type(answer)(made, columns=answer.columns, index=answer.index)
        return made

    def _groups(self, model_input: Any, named: Any) -> Any:
        by = list(self._settings.by)
        if not by or not self._prev.field.grouped:
            return None if named is None or len(named) == 0 else named
        if named is not None and len(named):
            raise InputError(
                f"The groups are columns of the input, {by!r:.200}. Leave the parameter {GROUPS!r} out."
            )
        there = list(getattr(model_input, "columns", ()))
        for column in by:
            if column not in there:
                raise InputError(
                    f"The input has no column {column!r:.60}, which holds the groups. Its columns are {there!r:.200}."
                )
        return model_input[by[0]] if len(by) == 1 else model_input[by]

    def _features(self, model_input: Any) -> Any:
        """The input without the columns of the groups, but for those that the wrapped model asks for."""
        metadata = getattr(self._model, "metadata", None)
        schema = metadata.get_input_schema() if metadata is not None else None
        asked = set() if schema is None or not schema.has_input_names() else set(schema.input_names())
        ours = [column for column in self._settings.by if column not in asked]
        return model_input.drop(columns=ours) if ours else model_input


def _refuse_classes(answer: Any) -> None:
    """Classes that are 0 and 1 would pass for probabilities."""
    kinds = (
        {np.asarray(answer[c]).dtype for c in answer}
        if hasattr(answer, "columns")
        else {np.asarray(answer).dtype}
    )
    odd = next((kind for kind in kinds if kind.kind != "f"), None)
    if odd is not None:
        raise InputError(
            f"The wrapped model gives {odd}, which are no probabilities. Log it so that it gives them: of "
            "scikit-learn with mlflow.sklearn.log_model(…, pyfunc_predict_fn='predict_proba')."
        )


def signature_of(wrapped: Any, prev: Prevalence, settings: Settings) -> Any:
    """What the new model takes: what the wrapped one does, the columns of the groups, and our parameters."""
    types = require("mlflow.types", "mlflow", purpose="to describe the input of a model")
    models = require("mlflow.models", "mlflow", purpose="to describe the input of a model")
    own = [types.ParamSpec(UNSEEN, "string", settings.unseen)]
    if prev.field.grouped and not settings.by:
        own.append(types.ParamSpec(GROUPS, _type_of_parameter(prev.groups), [], shape=(-1,)))
    before = wrapped.params.params if wrapped is not None and wrapped.params is not None else []
    params = types.ParamSchema([*before, *own])
    inputs = None if wrapped is None else wrapped.inputs
    if inputs is not None and settings.by:
        inputs = _with_groups(types, inputs, prev.groups, settings.by)
    return models.ModelSignature(inputs=inputs, params=params)


def _with_groups(types: Any, inputs: Any, groups: Keys, by: Sequence[str]) -> Any:
    """None where MLflow has no word for an input: the wrapped model checks its own part all the same."""
    if inputs.is_tensor_spec() or not inputs.has_input_names():
        return None
    columns = list(inputs.inputs)
    for i, name in enumerate(by):
        if name in inputs.input_names():
            continue
        parts = {type(key[i] if isinstance(key, tuple) and len(by) > 1 else key) for key in groups}
        kind = _type_of(parts - {type(None)})
        if kind is None:
            return None
        columns.append(types.ColSpec(kind, name, required=type(None) not in parts))
    return types.Schema(columns)


def _type_of(kinds: set[type]) -> str | None:
    words = {str: "string", int: "long", bool: "boolean"}
    return words.get(next(iter(kinds))) if len(kinds) == 1 else None


def _type_of_parameter(groups: Keys) -> str:
    kind = _type_of(set(map(type, groups)))
    if kind is None:
        raise InputError(
            "Groups as a parameter must be all text, all whole numbers or all true or false. Name the columns of the "
            "input that hold them with ",
            Option("by"),
            ".",
        )
    return kind
