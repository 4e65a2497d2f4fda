"""fieldcal.onnx: the correction as nodes of a graph, so that a model recalibrates wherever it runs.

`append` puts it behind the probabilities of a classifier, `graph` makes a model of it alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from fieldcal.errors import InputError, InputTypeError, Option
from fieldcal.integrations.onnx_nodes import Nodes, Shape, wire
from fieldcal.objects import Prevalence
from fieldcal.options import check_choice, check_flags
from fieldcal.storage import require
from fieldcal.verbs.recalibrate import check_applicable

if TYPE_CHECKING:
    from onnx import ModelProto, ValueInfoProto

__all__ = ["append", "graph"]

#: The versions that `graph` asks for: of 2020, which every runtime of today has.
_IR, _OPSET = 7, 13
#: Numbers broadcast, and the smaller of two is taken of doubles, from here on.
_LEAST_OPSET = 8
_ML = "ai.onnx.ml"
#: LabelEncoder has keys of its own from here on; nothing else changed between 1 and 2.
_ML_OPSET = 2
_DIGEST = "fieldcal_prevalence"


def graph(
    prev: Prevalence,
    *,
    one_column: bool = False,
    groups: Literal["key", "index"] = "key",
    unseen: Literal["global", "raw"] = "global",
    acknowledge: bool = False,
) -> ModelProto:
    """A model of the correction alone: ``probabilities`` in (and ``group``), ``recalibrated`` out, both float32.

    Parameters
    ----------
    prev : Prevalence
    one_column : bool
        Probabilities are one number per row, (n,), of the second of two classes. By default they are (n, K), the
        columns in the order of ``prev.classes``.
    groups, unseen, acknowledge : as in `append`

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field))
    >>> made = fieldcal.onnx.graph(prev, one_column=True)
    >>> [each.name for each in made.graph.input], [each.name for each in made.graph.output]
    (['probabilities', 'group'], ['recalibrated'])
    """
    onnx = _onnx()
    check_flags(one_column=one_column)
    _check(prev, groups, unseen, acknowledge)
    if one_column and len(prev.classes) != 2:
        raise InputError(
            Option("one_column", True),
            f" is for two classes, but there are {len(prev.classes)}. Leave it out.",
        )
    shape: Shape = "vector" if one_column else "columns"
    kind, size = onnx.TensorProto.FLOAT, ["n"] if one_column else ["n", len(prev.classes)]
    value_info = onnx.helper.make_tensor_value_info
    nodes = wire(prev, "probabilities", "recalibrated", "group", kind, shape, groups=groups, unseen=unseen)
    inputs = [value_info("probabilities", kind, size)]
    if nodes.group_kind is not None:
        inputs.append(value_info("group", nodes.group_kind, ["n"]))
    outputs = [value_info("recalibrated", kind, size)]
    body = onnx.helper.make_graph(nodes.nodes, "fieldcal", inputs, outputs, nodes.constants)
    versions = [onnx.helper.make_opsetid("", _OPSET), onnx.helper.make_opsetid(_ML, _ML_OPSET)]
    made = onnx.helper.make_model(body, opset_imports=versions, ir_version=_IR, producer_name="fieldcal")
    return _sealed(made, prev)


def append(
    model: ModelProto,
    prev: Prevalence,
    *,
    output: str | None = None,
    name: str = "{}_recalibrated",
    group_input: str = "group",
    groups: Literal["key", "index"] = "key",
    unseen: Literal["global", "raw"] = "global",
    acknowledge: bool = False,
) -> ModelProto:
    """A copy of a classifier that also gives recalibrated probabilities, as its last output.

    Parameters
    ----------
    model : onnx.ModelProto
        It must give probabilities as a tensor of floats, (n, K) with the columns in the order of ``prev.classes``, or
        one number per row, (n,) or (n, 1), of the second of two classes.
    prev : Prevalence
    output : str, optional
        The output that holds them; needed if more than one could.
    name : str
        The name of the new output, with ``{}`` for that of the old one.
    group_input : str
        The name of the new input, (n,), with the group of each row; there is one if the prevalence has groups.
    groups : "key" or "index"
        Whether that input holds the groups themselves, text or whole numbers; or the place of each in
        ``prev.groups``, which serves groups of every kind. Anything else is a group that was never seen.
    unseen : "global" or "raw"
        Rows of a group that `estimate` never saw: use the estimate of the whole field, or leave them alone.
    acknowledge : bool
        Apply an estimate over groups that were declared ``protected``.

    Notes
    -----
    The nodes do in float64 what `fieldcal.recalibrate` does, and give the type that they were given. A graph refuses
    no rows: those with NaN give NaN, and rows that do not sum to one are not noticed. ``shape="bins"`` is not there,
    and estimates with a calibrated lab are refused.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field))
    >>> from onnx import TensorProto, helper
    >>> x, p = (helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n"]) for n in ("x", "p"))
    >>> classifier = helper.make_model(
    ...     helper.make_graph([helper.make_node("Sigmoid", ["x"], ["p"])], "classifier", [x], [p])
    ... )
    >>> [each.name for each in fieldcal.onnx.append(classifier, prev).graph.output]
    ['p', 'p_recalibrated']
    """
    onnx = _onnx()
    if not isinstance(model, onnx.ModelProto):
        raise InputTypeError(
            f"model must be an onnx.ModelProto, but got {type(model).__name__}. Read a file with onnx.load."
        )
    _check(prev, groups, unseen, acknowledge)
    if not isinstance(group_input, str):
        raise InputTypeError(f"group_input must be the name of an input, but got {group_input!r:.60}.")
    if any(each.key == _DIGEST for each in model.metadata_props):
        raise InputError(
            "This model was recalibrated by fieldcal already. Append to the model as it was before."
        )
    made = onnx.ModelProto()
    made.CopyFrom(model)
    taken = _names(made.graph)
    old = _probabilities(made, output, len(prev.classes))
    new = _new_name("name", name.replace("{}", old.name) if isinstance(name, str) else name, taken)
    tensor = old.type.tensor_type
    nodes = wire(
        prev,
        old.name,
        new,
        group_input,
        tensor.elem_type,
        _shape(old),
        groups=groups,
        unseen=unseen,
        taken=taken,
    )
    if nodes.group_kind is not None:
        made.graph.input.append(
            _group_input(_new_name("group_input", group_input, taken | {new}), nodes, old)
        )
    _check_versions(made, looks_up=any(node.domain == _ML for node in nodes.nodes))
    made.graph.node.extend(nodes.nodes)
    made.graph.initializer.extend(nodes.constants)
    info = made.graph.output.add()
    info.CopyFrom(old)
    info.name = new
    return _sealed(made, prev)


def _onnx() -> Any:
    return require("onnx", "onnx", purpose="to make a graph of a correction")


def _check(prev: Any, groups: Any, unseen: Any, acknowledge: Any) -> None:
    check_choice("groups", groups, ("key", "index"))
    check_choice("unseen", unseen, ("global", "raw"))
    check_applicable(prev, acknowledge=acknowledge)
    if prev.lab.of_values or prev.lab.outcome.kind == "intervals":
        what = (
            "values, such as the verdicts of a judge" if prev.lab.of_values else "distributions of a number"
        )
        raise InputError(
            f"This estimate is of {what}, and a graph takes the probabilities of classes. Use fieldcal.recalibrate."
        )
    if prev.lab.calibration_map is not None:
        raise InputError(
            f"This lab is calibrated ({prev.lab.calibration_map.method}), and a graph cannot calibrate. Calibrate "
            "inside the model and learn the lab from its predictions without ",
            Option("calibration", verb="learn"),
            "; or recalibrate with fieldcal.recalibrate, or in SQL.",
        )


def _names(body: Any) -> set[str]:
    """Every name of a value in a graph."""
    named = (*body.input, *body.output, *body.initializer, *body.value_info)
    return {each.name for each in named} | {n for node in body.node for n in (*node.input, *node.output)}


def _new_name(option: str, name: Any, taken: set[str]) -> str:
    if not isinstance(name, str) or not name:
        raise InputTypeError(f"{option} must be a name, but got {name!r:.60}.")
    if name in taken:
        raise InputError(
            f"The model has something named {name!r:.80} already. Choose another ", Option(option), "."
        )
    return name


def _probabilities(model: ModelProto, output: Any, n_classes: int) -> ValueInfoProto:
    """The output that holds the probabilities, by its name or as the only one that can."""
    there = list(model.graph.output)
    listed = ", ".join(repr(each.name) for each in there)[:200]
    if output is not None:
        found = [each for each in there if each.name == output]
        if not found:
            raise InputError(f"The model has no output {output!r:.60}. Its outputs are {listed}.")
        why = _unfit(found[0], n_classes)
        if why:
            raise InputError(f"The output {output!r:.60} {why}")
        return found[0]
    fit = [each for each in there if not _unfit(each, n_classes)]
    if len(fit) == 1:
        return fit[0]
    if not fit and len(there):
        raise InputError(f"The output {there[-1].name!r:.60} {_unfit(there[-1], n_classes)}")
    raise InputError(
        f"The probabilities could be any of the outputs {listed}. Say which with ", Option("output"), "."
    )


def _unfit(value: ValueInfoProto, n_classes: int) -> str:
    """Why an output cannot hold the probabilities of so many classes, as the end of a sentence; empty if it can."""
    kind = _onnx().TensorProto
    if not value.type.HasField("tensor_type"):
        return "is no tensor. Convert the model so that it gives one: of skl2onnx, the option zipmap must be False."
    tensor = value.type.tensor_type
    if tensor.elem_type not in (kind.FLOAT, kind.DOUBLE, kind.FLOAT16):
        return "does not hold floats, so it has no probabilities."
    dims = [d.dim_value or None for d in tensor.shape.dim] if tensor.HasField("shape") else []
    if len(dims) not in (1, 2) or dims[1:] == [None]:
        return (
            f"does not say how many columns it has, and there must be {n_classes}. Set the shape of the output: "
            "onnx.helper.make_tensor_value_info."
        )
    columns = 1 if len(dims) == 1 else dims[1]
    if columns != n_classes and (columns, n_classes) != (1, 2):
        return f"has {columns} columns, but there are {n_classes} classes. Export the probability of each."
    return ""


def _shape(value: ValueInfoProto) -> Shape:
    dims = value.type.tensor_type.shape.dim
    return "vector" if len(dims) == 1 else "one column" if dims[1].dim_value == 1 else "columns"


def _group_input(name: str, nodes: Nodes, beside: ValueInfoProto) -> ValueInfoProto:
    """One group per row: as many as the probabilities."""
    info: ValueInfoProto = _onnx().helper.make_tensor_value_info(name, nodes.group_kind, [None])
    info.type.tensor_type.shape.dim[0].CopyFrom(beside.type.tensor_type.shape.dim[0])
    return info


def _check_versions(model: ModelProto, *, looks_up: bool) -> None:
    """Ask for operators with groups as keys, where the model does not yet, and refuse operators that are too old."""
    versions = {"": 0, _ML: 0}
    for each in model.opset_import:
        domain = "" if each.domain == "ai.onnx" else each.domain
        versions[domain] = max(versions.get(domain, 0), each.version)
    if versions[""] < _LEAST_OPSET:
        raise InputError(
            f"The model is of opset {versions['']}, and {_LEAST_OPSET} or newer is needed. Convert it: "
            f"onnx.version_converter.convert_version(model, {_OPSET})."
        )
    if not looks_up or versions[_ML] >= _ML_OPSET:
        return
    if any(node.op_type == "LabelEncoder" and node.domain == _ML for node in model.graph.node):
        raise InputError(
            f"The model has a LabelEncoder of {_ML} 1. Export it for {_ML} {_ML_OPSET} or newer."
        )
    for each in list(model.opset_import):
        if each.domain == _ML:
            model.opset_import.remove(each)
    model.opset_import.add(domain=_ML, version=_ML_OPSET)


def _sealed(model: ModelProto, prev: Prevalence) -> ModelProto:
    """With the digest of the estimate that it holds, and looked at as a whole."""
    model.metadata_props.add(key=_DIGEST, value=prev.digest)
    _onnx().checker.check_model(model)
    return model
