"""What the verbs on arrays say of the same rows: the truth that every engine must tell."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

import fieldcal
from fieldcal.core.trust import Trust
from fieldcal.objects import Columns, Field, Lab, Prevalence

#: The paper's plain estimator: quick, and its weights are far from one.
PLAIN: dict[str, Any] = {"prior": "flat", "point": "mode", "trust": 1, "level": None}
NAMES = ("p_a", "p_b", "p_c", "p_d")


@functools.cache
def binary_lab(partition: Any = "auto") -> Lab:
    """Two classes, the score of the second in a column ``p``."""
    data = fieldcal.datasets.label_shift(n_lab=2000, n_field=10, random_state=1)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, partition=partition)
    return with_columns(lab, "p")


@functools.cache
def wide_lab(n_classes: int = 3, partition: Any = "auto") -> Lab:
    p_lab = (0.5, 0.3, 0.2) if n_classes == 3 else tuple([1 / n_classes] * n_classes)
    data = fieldcal.datasets.label_shift(
        n_lab=1500, n_field=10, p_lab=p_lab, prevalence=[p_lab], random_state=2
    )
    return with_columns(
        fieldcal.learn(_columns(data.proba_lab), data.y_lab, partition=partition), *NAMES[:n_classes]
    )


@functools.cache
def id_lab(n: int = 4) -> Lab:
    """Two classes, bin ids in a column ``bin``."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 2, 800)
    ids = np.clip(rng.binomial(n - 1, 0.3 + 0.4 * y), 0, n - 1)
    return with_columns(fieldcal.learn(ids, y, partition=fieldcal.partitions.Bins(n)), "bin")


def _columns(proba: Any) -> Any:
    return proba if proba.ndim == 2 else np.column_stack([1 - proba, proba])


def with_columns(lab: Lab, *scores: str, by: Sequence[str] = ()) -> Lab:
    """The lab as a table would have taught it."""
    return lab.model_copy(update={"columns": Columns(scores=scores, label="y", by=tuple(by))})


def proba(table: pa.Table, scores: Sequence[str]) -> Any:
    """The scores as an array, NaN where there is none; (n,) of one column."""
    columns = [
        np.array(
            [np.nan if v is None else v if isinstance(v, str) else float(v) for v in table[name].to_pylist()]
        )
        for name in scores
    ]
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def groups(table: pa.Table, by: Sequence[str]) -> list[Any] | None:
    """The group of each row: the value, a tuple of several columns; None without columns."""
    if not by:
        return None
    columns = [table[name].to_pylist() for name in by]
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def count(
    lab: Lab, table: pa.Table, by: Sequence[str] = (), scores: Sequence[str] | None = None, **options: Any
) -> Field:
    """The counts of the same rows as arrays; only the names of the group columns are added."""
    names = lab.columns.scores if scores is None else scores
    given = (
        np.array(table[names[0]].to_pylist())
        if isinstance(lab.partition, fieldcal.partitions.Bins)
        else proba(table, names)
    )
    field = fieldcal.count(lab, given, groups=groups(table, by), **options)
    return field.model_copy(update={"by": tuple(by)})


def estimate(lab: Lab, table: pa.Table, by: Sequence[str] = (), **options: Any) -> Prevalence:
    return fieldcal.estimate(lab, count(lab, table, by, **options), **PLAIN)


#: Trust in the movement of the whole field, and in the differences between groups.
TRUSTS = ((0.3, 0.6), (0.0, 0.6), (0.3, 0.0), (1.0, 0.45), (0.0, 0.0), (1.0, 1.0))


def trusted(prev: Prevalence, overall: float, between: float) -> Prevalence:
    """The same estimate, believed as far as is said."""
    copy = prev.model_copy(update={"trust": Trust(overall, between, set_by_caller=True)})
    for remembered in ("steps", "steps_unseen"):
        vars(copy).pop(remembered, None)
    return copy


def recalibrate(prev: Prevalence, table: pa.Table, **options: Any) -> Any:
    """New probabilities of the same rows as arrays, (n, columns)."""
    scores = options.pop("scores", prev.lab.columns.scores)
    new = fieldcal.recalibrate(prev, proba(table, scores), groups=groups(table, prev.field.by), **options)
    return new[:, None] if new.ndim == 1 else new


def assert_same_counts(field: Field, truth: Field) -> None:
    """Equal to the last bit: what differs is shown first, then every byte of the files is compared."""
    assert field.groups == truth.groups
    assert list(map(type, field.groups)) == list(map(type, truth.groups))
    np.testing.assert_array_equal(field.V, truth.V)
    np.testing.assert_array_equal(field.score_sums, truth.score_sums)
    np.testing.assert_array_equal(field.weight_squares, truth.weight_squares)
    assert (field.dropped, field.clipped, field.by) == (truth.dropped, truth.clipped, truth.by)
    assert field.to_json() == truth.to_json()


def assert_same_values(new: dict[str, list[Any]], names: Sequence[str], truth: Any) -> None:
    """Recalibrated columns to 1e-12; NaN of arrays stands for null."""
    found = np.array([[np.nan if v is None else v for v in new[name]] for name in names], dtype=np.float64).T
    np.testing.assert_allclose(found.reshape(truth.shape), truth, rtol=0, atol=1e-12)
