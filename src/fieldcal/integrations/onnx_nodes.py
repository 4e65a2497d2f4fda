"""The steps of a correction as nodes: `core.reweight` in the words of ONNX, in float64."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from fieldcal.core.reweight import Step
from fieldcal.errors import InputError, Option
from fieldcal.objects import Correction, Prevalence
from fieldcal.storage import require
from fieldcal.types import Floats, Keys

#: What predictions are: (n, K); or of the second of two classes alone, (n,) or (n, 1).
Shape = Literal["columns", "vector", "one column"]
#: A class that the estimate rules out keeps this share of the largest weight, so that a row which is certain of it
#: stays as it is, as in `core.reweight`.
_FLOOR = 1e-300


@dataclass(frozen=True)
class RowStep:
    """A mixture whose trust and weights are the same for all rows, () and (K,), or of a row's group.

    The latter have a row per group and a last one for groups that were never seen, (G + 1,) and (G + 1, K).
    """

    trust: Floats
    weights: Floats

    @property
    def per_group(self) -> bool:
        """Whether it depends on the group of a row."""
        return self.weights.ndim == 2


def row_steps(correction: Correction, *, unseen: Literal["global", "raw"]) -> list[RowStep]:
    """The steps that rows take, those of groups that were never seen beside those of all others."""
    seen = [step for step in correction.steps if isinstance(step, Step)]
    lost = [step for step in correction.steps_unseen if isinstance(step, Step)]
    if not correction.grouped:
        return [RowStep(np.asarray(step.trust), _floored(step.weights)) for step in seen]
    if unseen == "raw":
        lost = []
    idle = Step(0.0, np.ones(correction.n_classes))
    n = max(len(seen), len(lost))
    pairs = zip(_filled(seen, n, idle), _filled(lost, n, idle), strict=True)
    return [_beside(len(correction.groups), one, other) for one, other in pairs]


def _filled(steps: list[Step], n: int, idle: Step) -> list[Step]:
    return steps + [idle] * (n - len(steps))


def _beside(n_groups: int, seen: Step, lost: Step) -> RowStep:
    """One step of the groups, with that of a group that was never seen."""
    if seen.trust == lost.trust and seen.weights.ndim == 1 and np.array_equal(seen.weights, lost.weights):
        return RowStep(np.asarray(seen.trust), _floored(seen.weights))
    weights = np.vstack([np.broadcast_to(seen.weights, (n_groups, len(lost.weights))), lost.weights])
    return RowStep(np.array([seen.trust] * n_groups + [lost.trust]), _floored(weights))


def _floored(weights: Floats) -> Floats:
    return np.asarray(np.maximum(weights / weights.max(axis=-1, keepdims=True), _FLOOR))


@dataclass
class Nodes:
    """Nodes and constants that gather; every name of ours begins with ``fieldcal_`` and is not taken."""

    taken: set[str] = field(default_factory=set)
    nodes: list[Any] = field(default_factory=list)
    constants: list[Any] = field(default_factory=list)
    group_kind: int | None = None  # the type of the input with groups, if there is one

    def __post_init__(self) -> None:
        self.onnx = require("onnx", "onnx", purpose="to make a graph of a correction")

    def add(self, kind: str, *inputs: str, gives: str | None = None, **attributes: Any) -> str:
        """A node; the name of what it gives."""
        name = self._name(kind) if gives is None else gives
        made = self.onnx.helper.make_node(kind, inputs, [name], name=self._name("node"), **attributes)
        self.nodes.append(made)
        return name

    def constant(self, values: NDArray[Any] | float) -> str:
        """A constant in float64."""
        name = self._name("constant")
        self.constants.append(self.onnx.numpy_helper.from_array(np.asarray(values, dtype=np.float64), name))
        return name

    def _name(self, what: str) -> str:
        numbered = (f"fieldcal_{what.lower()}_{k}" for k in count())
        name = next(name for name in numbered if name not in self.taken)
        self.taken.add(name)
        return name


def wire(
    prev: Prevalence,
    old: str,
    new: str,
    group: str,
    kind: int,
    shape: Shape,
    *,
    groups: Literal["key", "index"],
    unseen: Literal["global", "raw"],
    taken: Iterable[str] = (),
) -> Nodes:
    """Everything between predictions and recalibrated ones.

    Parameters
    ----------
    old, new, group : names of the predictions, of what becomes of them, and of the groups of rows
    kind : the type of both predictions
    taken : names that the nodes must not have
    """
    nodes = Nodes({*taken, old, new, group})
    correction = prev.correction()
    steps = row_steps(correction, unseen=unseen)
    place = ""
    if correction.grouped:
        nodes.group_kind, keys = _group_keys(nodes, prev.groups, groups)
        if any(step.per_group for step in steps):
            values: dict[str, Any] = {
                "values_int64s": list(range(len(prev.groups))),
                "default_int64": len(prev.groups),
            }
            place = nodes.add("LabelEncoder", group, domain="ai.onnx.ml", **keys, **values)
    x = nodes.add("Cast", old, to=nodes.onnx.TensorProto.DOUBLE)
    # Rounding beyond 0 and 1 is taken away, as in `validation`.
    x = nodes.add("Min", nodes.add("Max", x, nodes.constant(0.0)), nodes.constant(1.0))
    for step in steps:
        x = _mixed(nodes, x, step, place, shape)
    nodes.add("Cast", x, gives=new, to=kind)
    return nodes


def _mixed(nodes: Nodes, x: str, step: RowStep, place: str, shape: Shape) -> str:
    """`core.reweight.Step`: predictions as they are, mixed with those after the lemma."""

    def rows(values: Floats) -> str:
        made = nodes.constant(values)
        return nodes.add("Gather", made, place) if step.per_group else made

    if shape == "columns":
        scaled = nodes.add("Mul", x, rows(step.weights))
        ones = nodes.constant(np.ones((step.weights.shape[-1], 1)))
        new = nodes.add("Div", scaled, nodes.add("MatMul", scaled, ones))
    else:
        first, second = (_as_column(step.weights[..., k], shape) for k in (0, 1))
        up = nodes.add("Mul", x, rows(second))
        down = nodes.add("Mul", nodes.add("Sub", nodes.constant(1.0), x), rows(first))
        new = nodes.add("Div", up, nodes.add("Add", up, down))
    if (step.trust == 1).all():
        return new
    moved = nodes.add("Mul", rows(_as_column(step.trust, shape)), nodes.add("Sub", new, x))
    return nodes.add("Add", x, moved)


def _as_column(values: Floats, shape: Shape) -> Floats:
    """A number per group such that it meets predictions of this shape."""
    return values if shape == "vector" or values.ndim == 0 else values[:, None]


def _group_keys(nodes: Nodes, groups: Keys, given: Literal["key", "index"]) -> tuple[int, dict[str, Any]]:
    """The type of the input with groups, and the keys to look up."""
    kind = nodes.onnx.TensorProto
    if given == "index":
        return kind.INT64, {"keys_int64s": list(range(len(groups)))}
    if all(type(key) is str for key in groups):
        return kind.STRING, {"keys_strings": groups}
    whole = [type(key) is int and -(2**63) <= key < 2**63 for key in groups]
    if all(whole):
        return kind.INT64, {"keys_int64s": groups}
    odd = groups[whole.index(False)]
    raise InputError(
        f"A graph looks up text, or whole numbers of 64 bits, but there is the group {odd!r:.60} among "
        f"{len(groups):,}. Pass ",
        Option("groups", "index"),
        ": the new input is then the place of each row's group in prev.groups, and anything else was never seen.",
    )
