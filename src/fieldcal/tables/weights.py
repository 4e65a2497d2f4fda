"""What predictions are multiplied with, in the form that tables carry: ratios to the first class."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fieldcal import keys
from fieldcal.errors import InputError
from fieldcal.objects import Lab, Prevalence
from fieldcal.tables import counts

Floats = NDArray[np.float64]
Columns = dict[str, list[Any]]
Texts = tuple[str | None, ...]

#: A class that the estimate rules out keeps this share of the largest weight, so that a row which is certain of it
#: stays as it is (as in `core.reweight`), and no ratio is 0/0 or infinite.
FLOOR = 1e-300
#: The same for a warehouse: in PostgreSQL a product that underflows is an error (see `statements.TINY`).
WAREHOUSE_FLOOR = 1e-70


def ratios(weights: Floats, *, floor: float = FLOOR) -> Floats:
    """The weight of every class but the first, over the first's.

    Parameters
    ----------
    weights : (…, K)
    floor : smallest weight, as a share of the group's largest

    Returns
    -------
    (…, K − 1), between ``floor`` and ``1 / floor``

    Examples
    --------
    >>> import numpy as np
    >>> ratios(np.array([[1.0, 0.5, 0.25], [0.0, 0.0, 0.0]])).tolist()
    [[0.5, 0.25], [1.0, 1.0]]
    """
    largest = weights.max(axis=-1, keepdims=True, initial=0.0)
    scaled = np.divide(weights, largest, out=np.zeros_like(weights, dtype=np.float64), where=largest > 0)
    scaled = np.maximum(scaled, floor)
    return np.asarray(scaled[..., 1:] / scaled[..., :1])


def ratio_column(k: int) -> str:
    """The name of the weight of class k over that of class 0."""
    return f"fieldcal_ratio_{k + 1}"


def weights_table(prev: Prevalence) -> Columns:
    """The weights of all groups as columns, to be written as CSV and loaded where a statement would be too long.

    Key columns hold text: load them as such, or "01" becomes 1. ``fieldcal_null_1`` is 1 where the key is null.

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> field = fieldcal.count(lab, [0.2, 0.7] * 20, groups=["York", None] * 20)
    >>> weights_table(fieldcal.estimate(lab, field, prior="flat", trust=0))
    {'fieldcal_group_1': ['York', ''], 'fieldcal_null_1': [0, 1], 'fieldcal_ratio_2': [1.0, 1.0]}
    """
    refuse_numbers(prev.lab)
    require_groups(prev)
    first = prev.groups[0] if prev.groups else None
    parts = len(prev.field.by) or (len(first) if isinstance(first, tuple) else 1)
    return as_columns(prev, parts)


def refuse_numbers(lab: Lab) -> None:
    """Refuse a lab of a regression: its rows are distributions, which no statement bins."""
    if lab.support is not None:
        raise InputError(
            "This lab is of a regression: its predictions are distributions of a number, for which no SQL can be "
            "written. Export the table to Parquet or CSV and use `fieldcal count` and `fieldcal recalibrate`."
        )


def require_groups(prev: Prevalence) -> None:
    """Refuse an estimate that has one row of weights and no key."""
    if not prev.field.grouped:
        raise InputError(
            "This prevalence is of one population: its weights are in the statement, and no table of them is needed."
        )


def as_columns(prev: Prevalence, parts: int, *, loose_text: bool = False, has_truth: bool = True) -> Columns:
    """The weights per group, with keys as a warehouse prints them.

    Parameters
    ----------
    parts : how many columns a key has
    loose_text : whether the warehouse compares text without regard to case and to blanks at its end
    has_truth : whether it prints truth values as 'true' and 'false'
    """
    texts = [_key_texts(key, parts, has_truth) for key in prev.groups]
    _refuse_double_matches(prev.groups, texts, loose_text)
    columns: Columns = {}
    for i in range(parts):
        columns[counts.group_column(i)] = [text[i] or "" for text in texts]
        columns[counts.null_column(i)] = [int(text[i] is None) for text in texts]
    table = ratios(prev.weights, floor=WAREHOUSE_FLOOR)
    return columns | {ratio_column(k + 1): table[:, k].tolist() for k in range(table.shape[1])}


def _key_texts(key: Hashable, n_parts: int, has_truth: bool) -> Texts:
    """The parts of a key as a warehouse prints them; None where null."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != n_parts:
        raise InputError(
            f"The group {keys.show(key)!r} has {len(parts)} parts, but {n_parts} columns are to hold it. Name one "
            "per part with by=…"
        )
    return tuple(_text(part, has_truth) for part in parts)


def _text(part: Hashable, has_truth: bool) -> str | None:
    if part is None or type(part) is str:
        return part
    if type(part) is bool and has_truth:
        return "true" if part else "false"
    if type(part) in (int, dt.date):
        return str(part)
    raise InputError(
        f"The group {keys.show(part)!r} is a {type(part).__name__}, which warehouses print in different ways. Count "
        "with the statement of `fieldcal sql count`, so that groups are matched by the warehouse's own text."
    )


def _refuse_double_matches(groups: keys.Keys, texts: Sequence[Texts], loose_text: bool) -> None:
    """Two keys that a warehouse takes for one would give every row of theirs twice."""
    seen: dict[Texts, Hashable] = {}
    for key, text in zip(groups, texts, strict=True):
        same = tuple(t.casefold().rstrip(" ") if t is not None else t for t in text) if loose_text else text
        if same in seen:
            raise InputError(
                f"The groups {seen[same]!r:.60} and {key!r:.60} are one to this warehouse, and its rows would come out "
                "twice. Count with the statement of `fieldcal sql count`, or rename one."
            )
        seen[same] = key
