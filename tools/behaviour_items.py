"""From what fieldcal answers to the items of a record: plain, rounded, under the new names on any tree."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

Items = dict[str, Any]

# The adapter of names. `behaviour_inputs` has that of functions.

#: Attributes, JSON keys and columns: old name → new name.
RENAMED = {
    "value": "estimate",
    "naive": "mean_prediction",
    "trust": "trust_between",
    "common_trust": "trust_overall",
    "common": "whole",
    "movement": "shift",
    "overall_shift": "shift",
    "shift_explained": "shift",
    "curve": "change_by_trust",
    "curve_se": "change_by_trust_se",
    "change_by_exponent": "change_by_trust",
    "change_by_exponent_se": "change_by_trust_se",
    "excess": "excess_variance",
    "tau": "trust_between",  # of a rehearsal
    "tau_sure": "sure",
    "exponents": "grid",
}
#: The same words, and more, in texts for people: put into both sides before two texts are called different.
WORDS = RENAMED | {"urc": "under label shift"}


def get(owner: Any, name: str) -> Any:
    """An attribute by its new name, or by one of its old ones."""
    for spelled in (name, *(old for old, new in RENAMED.items() if new == name)):
        if hasattr(owner, spelled):
            return getattr(owner, spelled)
    return "absent"


# Values.

_SMALL = 64
_LONG_NUMBER = re.compile(r"(?<![\w.])\d+\.\d{9,}(?:[eE][-+]?\d+)?|(?<![\w.])\d+(?:\.\d+)?[eE][-+]\d+")
_DIGEST = re.compile(r"\b(?:[0-9a-f]{64}\b|[0-9a-f]{8,12}(?=…))")


def rounded(x: float, digits: int = 10) -> float:
    """Significant digits; what is nothing but noise of rounding around zero is zero."""
    return float(f"{round(x, 14):.{digits}g}")


def plain(value: Any) -> Any:
    """Anything as JSON: numbers rounded, large arrays as a digest with summaries."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        array = np.asarray(value) if len(value) else np.zeros(0)
        if array.dtype.kind not in "biuf" or array.size <= _SMALL:
            return (
                [plain(x) for x in value] if len(value) <= _SMALL else _many([str(plain(x)) for x in value])
            )
        return _large(array.astype(np.float64))
    return text(str(value))


def _large(array: np.ndarray) -> Items:
    x = array.ravel()
    sums = {"mean": x.mean(), "sd": x.std(), "min": x.min(), "max": x.max(), "first": x[0], "last": x[-1]}
    sums["mix"] = x @ np.cos(np.arange(1, len(x) + 1)) / len(x)  # changes with the order as well
    digest = _many([f"{rounded(v, 8):.8g}" for v in x])["digest"]
    return {"shape": str(array.shape), "digest": digest} | {k: rounded(float(v)) for k, v in sums.items()}


def _many(texts: list[str]) -> Items:
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    return {"n": len(texts), "digest": digest, "first": texts[0], "last": texts[-1]}


def text(words: str, folder: str = "") -> str:
    """Without machine paths and digests; long numbers rounded."""
    words = words.replace(folder, "<folder>") if folder else words
    words = _LONG_NUMBER.sub(lambda m: f"{rounded(float(m[0])):.10g}", words)
    return _DIGEST.sub("<digest>", words)


def fields(prefix: str, record: Any) -> Items:
    """The fields of a dataclass, a pydantic model or a dictionary."""
    if record is None or isinstance(record, str):
        return {prefix: record}
    if isinstance(record, Mapping):
        found = dict(record)
    else:
        names = [f.name for f in dataclasses.fields(record)] if dataclasses.is_dataclass(record) else None
        found = {name: getattr(record, name) for name in names or type(record).model_fields}
    return {f"{prefix}/{RENAMED.get(name, name)}": plain(value) for name, value in found.items()}


# Artefacts.


def _artefact(kind: str, made: Any, names: tuple[str, ...]) -> Items:
    items = {name: plain(get(made, name)) for name in names}
    items |= {"repr": text(repr(made)), "digest": made.digest}
    items["survives JSON"] = type(made).from_json(made.to_json()) == made
    return {f"{kind}/{name}": value for name, value in items.items()}


def of_lab(lab: Any) -> Items:
    """What a lab says."""
    names = (
        "classes",
        "F",
        "M",
        "p_lab",
        "smoothing",
        "n",
        "n_bins",
        "log_loss",
        "accuracy",
        "ordered",
        "clipped",
    )
    items = _artefact("lab", lab, names)
    for name in ("conditioning", "calibration", "rehearsal", "homogeneity"):
        items |= fields(f"lab/{name}", get(lab, name))
    found = lab.partition.spec() if hasattr(lab.partition, "spec") else dataclasses.asdict(lab.partition)
    return items | {"lab/partition": text(f"{lab.partition.kind} {json.dumps(found, default=str)}")}


def of_field(field: Any) -> Items:
    """What a field says."""
    names = ("groups", "V", "n", "mean_prediction", "dropped", "clipped", "batch_ids", "by")
    return _artefact("field", field, names)


def of_prevalence(prev: Any) -> Items:
    """What an estimate says."""
    names = ("estimate", "mean_prediction", "urc", "lower", "upper", "trust_overall", "status")
    items = _artefact("prevalence", prev, names)
    whole = get(prev, "whole")  # in old trees, what is now its urc
    items["prevalence/whole"] = plain(getattr(whole, "urc", whole))
    between = np.unique(get(prev, "trust_between"))  # one number; in old trees, once per group
    items["prevalence/trust_between"] = plain(between[0] if len(between) == 1 else between)
    learnt = {name: value for name, value in getattr(prev, "learnt", {}).items() if name != "alpha"}
    items |= fields("prevalence/prior", {**prev.prior, **learnt}) | fields("prevalence/fit", get(prev, "fit"))
    items |= fields("prevalence/shift", get(prev, "shift"))
    items |= {
        "prevalence/verdict": prev.verdict.level,
        "prevalence/reasons": plain(get(prev.verdict, "reasons")),
    }
    return items | {"prevalence/columns": ", ".join(prev.to_dict())}


def of_predictions(new: Any) -> Items:
    """Recalibrated predictions: an array, or distributions."""
    if isinstance(new, np.ndarray):
        return {"recalibrated": plain(new)}
    answers = {"ppf": new.ppf([0.05, 0.25, 0.5, 0.75, 0.95]), "mean": new.mean(), "cdf": new.cdf([9.0, 11.0])}
    return {f"recalibrated/{name}": plain(answer) for name, answer in answers.items()}


def of_columns(columns: Mapping[str, Any], prefix: str = "recalibrated") -> Items:
    """A table, its columns under their new names; ``header`` has them as they are."""
    items = {f"{prefix}/{RENAMED.get(name, name)}": plain(list(column)) for name, column in columns.items()}
    return items | {f"{prefix}/header": ", ".join(columns)}
