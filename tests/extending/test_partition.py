"""A partition that fieldcal does not know: one class, and every verb, file, engine and statement takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import duckdb
import numpy as np
import pytest

import fieldcal
from fieldcal import storage, tables
from fieldcal.core.backend import every_class
from fieldcal.core.partition import Partition, Recipe, register_partition
from fieldcal.errors import ArtefactError, InputError


@register_partition
@dataclass(frozen=True)
class Margins(Partition):
    """Whether the score of each class, in turn, is the first above a bar; the last bin is for rows without any."""

    bars: tuple[float, ...]
    kind: ClassVar[str] = "margins"

    @property
    def m(self):
        return len(self.bars) + 1

    def assign(self, scores):
        proba = np.column_stack([1 - scores, scores]) if scores.ndim == 1 else scores
        above = np.column_stack([proba > self.bars, np.ones(len(proba), dtype=bool)])
        return above.argmax(axis=1)

    def expression(self, backend, columns):
        bins = backend.integer(len(self.bars))
        for k, x in reversed(list(enumerate(every_class(backend, columns)))):
            bins = backend.when(x > backend.number(self.bars[k]), backend.integer(k), bins)
        return bins

    def labels(self, classes):
        return [*(f"surely {name}" for name in classes), "unsure"]


@dataclass(frozen=True)
class QuantilesAsBars(Recipe):
    """A recipe of one's own: each bar is passed by three rows of the lab in ten."""

    def fit(self, scores, y, n_classes, *, weight=None):
        return Margins(tuple(np.quantile(scores, 0.7, axis=0).tolist()))


def rows(seed, n):
    rng = np.random.default_rng(seed)
    proba = rng.dirichlet([2.0, 1.5, 1.0], n)
    y = (proba.cumsum(axis=1) < rng.random((n, 1))).sum(axis=1).clip(0, 2)
    columns = {f"p_{k}": proba[:, k] for k in range(3)}
    return columns | {"y": y, "town": rng.choice(["York", "Leeds"], n)}


def learnt(partition):
    return tables.learn(frame(rows(0, 3_000)), scores="p_*", label="y", partition=partition)


def frame(columns):
    import polars as pl

    return pl.DataFrame(columns)


def test_the_four_verbs_take_it():
    lab, field_rows = learnt(Margins((0.5, 0.5, 0.4))), rows(1, 1_000)
    proba = np.column_stack([field_rows[f"p_{k}"] for k in range(3)])
    field = fieldcal.count(lab, proba, groups=field_rows["town"])
    prev = fieldcal.estimate(lab, field)
    assert field.V.shape == (2, 4)
    np.testing.assert_allclose(prev.estimate.sum(axis=1), 1.0)
    assert np.shape(fieldcal.recalibrate(prev, proba, groups=field_rows["town"])) == (1_000, 3)
    again = fieldcal.Lab.from_json(lab.to_json())
    assert again.partition == lab.partition == Margins((0.5, 0.5, 0.4))
    assert lab.content()["partition"] == {"kind": "margins", "bars": [0.5, 0.5, 0.4]}
    assert lab.partition.labels(lab.classes) == ["surely 0", "surely 1", "surely 2", "unsure"]


def test_duckdb_and_the_printed_statement_count_as_arrays_do():
    lab, log = learnt(QuantilesAsBars()), frame(rows(1, 5_000))
    expected = fieldcal.count(lab, log.select("p_0", "p_1", "p_2").to_numpy(), groups=log["town"].to_list())
    assert expected.V.min() > 0
    counted = tables.count(lab, duckdb.sql("SELECT * FROM log"), by="town")
    statement = tables.sql_count(lab, "log", dialect="duckdb", by="town")
    for field in (counted, tables.read_counts(lab, duckdb.sql(statement), by="town")):
        assert field.groups == expected.groups
        np.testing.assert_array_equal(field.V, expected.V)
        np.testing.assert_array_equal(field.score_sums, expected.score_sums)


def test_a_partition_that_no_file_could_hold_is_refused_at_once():
    @dataclass(frozen=True)
    class Forgotten(Margins):
        kind: ClassVar[str] = "forgotten"

    with pytest.raises(ValueError, match="decorate Forgotten with register_partition"):
        learnt(Forgotten((0.5, 0.5, 0.4)))


def test_a_file_with_a_kind_that_is_not_imported_says_what_to_do():
    data = learnt(Margins((0.5, 0.5, 0.4)))
    content = data.content() | {"partition": {"kind": "elsewhere", "bars": [0.5]}}
    envelope = {"fieldcal": "lab", "schema": 1, "digest": storage.digest(content), "content": content}
    with pytest.raises(
        ArtefactError, match="kind 'elsewhere' is unknown; if it is your own, import its module"
    ):
        fieldcal.Lab.from_json(storage.canonical(envelope))


def test_two_partitions_cannot_share_a_kind_but_one_can_be_defined_again():
    @dataclass(frozen=True)
    class Taken(Margins):
        kind: ClassVar[str] = "edges"

    with pytest.raises(InputError, match=r"kind 'edges' is that of fieldcal\.core\.partition\.Edges"):
        register_partition(Taken)
    assert register_partition(Margins) is Margins
