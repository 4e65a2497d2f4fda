"""An estimate with labels of the field, applied by every engine: weights of the group alone, or of the bin too."""

from __future__ import annotations

import functools
import math
import warnings

import numpy as np
import pyarrow as pa
import pytest

import fieldcal
from fieldcal import tables
from fieldcal.errors import InputError
from fieldcal.tables.engines import open_table
from tables import truth
from tables.engines import Engine

LABS = {
    "edges": lambda: truth.binary_lab(),
    "edges of two columns": lambda: truth.with_columns(truth.binary_lab(), "p0", "p"),
    "simplex of three": lambda: truth.wide_lab(3),
}
SHAPES = ("tilt", "bins")


@functools.cache
def rows(lab):
    """Scores on every edge of bins and beside it, certain ones, and rounding; groups, of which two are never seen."""
    lab, rng = LABS[lab](), np.random.default_rng(4)
    K = len(lab.classes)
    proba = np.vstack([rng.dirichlet(np.ones(K), 80), np.eye(K)])
    if K == 2:
        edges = np.array(getattr(lab.partition, "edges", ()))
        p = np.concatenate([proba[:, 1], edges, np.nextafter(edges, 0), np.nextafter(edges, 1), [1 + 5e-7]])
        proba = np.column_stack([1 - p, p])
    towns = np.array(["York", "Leeds", None, "Hull", "Ripon"], dtype=object)[np.arange(len(proba)) % 5]
    names = ("p0", "p") if K == 2 else truth.NAMES
    scores = {n: column for n, column in zip(names, proba.T, strict=False) if n in lab.columns.scores}
    return pa.table({**scores, "town": pa.array(towns, pa.string())})


@functools.cache
def prevalence(lab, *by):
    """Of the groups York, Leeds and null, a third of whose rows have labels that the scores do not foretell."""
    table, lab = rows(lab), LABS[lab]()
    seen = table.filter(pa.array([t not in ("Hull", "Ripon") for t in table["town"].to_pylist()]))
    y = np.random.default_rng(0).integers(0, len(lab.classes), len(seen)).tolist()
    known = [c if i % 3 == 0 else None for i, c in enumerate(y)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.FieldcalWarning)
        return fieldcal.estimate(lab, truth.count(lab, seen, by, y=known))


@pytest.fixture(scope="module")
def estimates():
    return {(lab, by): prevalence(lab, *by) for lab in LABS for by in ((), ("town",))}


def new_columns(lab):
    return [f"{n}_recalibrated" for n in LABS[lab]().columns.scores]


@pytest.mark.conformance
@pytest.mark.filterwarnings("ignore::fieldcal.errors.UnseenGroupWarning")
def test_every_engine_does_what_arrays_do(engine, estimates):
    for lab in ("simplex of three",) if engine.name == "spark" else LABS:
        frame = engine.make(rows(lab))
        cases = [("bins", (), "global"), ("bins", ("town",), "raw"), ("tilt", ("town",), "global")]
        for shape, by, unseen in cases:
            prev = estimates[lab, by]
            new = tables.recalibrate(prev, frame, shape=shape, unseen=unseen)
            expected = truth.recalibrate(prev, rows(lab), shape=shape, unseen=unseen)
            truth.assert_same_values(engine.read(new), new_columns(lab), expected)


def test_the_shape_matters_needs_labels_and_no_join_of_its_own(monkeypatch):
    frame = Engine("polars").make(rows("edges"))
    kind, asked = type(open_table(frame)), []
    plain = kind.look_up
    monkeypatch.setattr(kind, "look_up", lambda self, *given: asked.append(1) or plain(self, *given))
    tilt, bins = (tables.recalibrate(prevalence("edges"), frame, shape=shape) for shape in SHAPES)
    assert not asked
    assert not np.allclose(tilt["p_recalibrated"], bins["p_recalibrated"], atol=0.01)
    prev = truth.estimate(truth.binary_lab(), rows("edges"))
    for verb in (tables.recalibrate, tables.decide):
        with pytest.raises(InputError, match=r"labels of the field.*Label some rows"):
            verb(prev, rows("edges"), shape="bins")


def test_rows_without_scores_stay_without(local_engine):
    table = pa.table({"p": [0.2, None, 0.7, math.nan]})
    prev = prevalence("edges")
    new = local_engine.read(tables.recalibrate(prev, local_engine.make(table), shape="bins", missing="keep"))
    expected = truth.recalibrate(prev, table, shape="bins", missing="keep")
    truth.assert_same_values(new, ["p_recalibrated"], expected)
    assert np.isnan(expected[:, 0]).tolist() == [False, True, False, True]
    unchecked = tables.recalibrate(prev, local_engine.make(p=[0.2, 7, 0.7, -1.0]), shape="bins", check=False)
    got = local_engine.read(unchecked)["p_recalibrated"]
    assert [v is None or v != v for v in got] == [False, True, False, True]


def test_scores_that_are_normalized_fall_into_the_bin_of_the_normalized_ones(local_engine):
    table, names = rows("simplex of three"), truth.NAMES[:3]
    halved = table.select(["town"])
    for name in names:
        halved = halved.append_column(name, pa.array(0.5 * table[name].to_numpy()))
    prev = prevalence("simplex of three")
    new = tables.recalibrate(prev, local_engine.make(halved), shape="bins", normalize=True)
    truth.assert_same_values(
        local_engine.read(new), new_columns("simplex of three"), truth.recalibrate(prev, table, shape="bins")
    )


def test_quantiles_are_recalibrated_bin_by_bin_too():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 400))
    levels = [0.1, 0.5, 0.9]
    quantiles = x[:, None] + np.array([-1.2, 0.0, 1.2])
    frame = {f"q{k}": column for k, column in enumerate(quantiles.T)}
    named = dict(zip(levels, frame, strict=True))
    lab_rows = pa.table({**frame, "y": x + y})
    lab = tables.learn(lab_rows, quantiles=named, label="y", intervals=[-0.5, 0.5])
    labels = pa.array([v if i % 4 == 0 else None for i, v in enumerate((x + y + 0.8).tolist())])
    field_rows = pa.table({**frame, "y": labels})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", fieldcal.errors.FieldcalWarning)
        prev = fieldcal.estimate(lab, tables.count(lab, field_rows, label="y"))
    new = tables.recalibrate(prev, field_rows, shape="bins")
    expected = fieldcal.recalibrate(prev, fieldcal.regression.from_quantiles(quantiles, levels), shape="bins")
    got = np.column_stack([new[f"{n}_recalibrated"].to_numpy() for n in frame])
    np.testing.assert_array_equal(got, expected.values)
    assert not np.allclose(got, tables.recalibrate(prev, field_rows)["q0_recalibrated"].to_numpy()[:, None])
