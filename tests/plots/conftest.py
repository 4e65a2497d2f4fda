"""Estimates to draw, each made once."""

from __future__ import annotations

import numpy as np
import pytest

import fieldcal
from fieldcal import regression
from fieldcal.datasets import label_shift

matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed, so nothing is drawn")
matplotlib.use("Agg")

HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    r"$\frac{$",
    r"$\frac{$ and $\nothing$",
    "x" * 10_000,
    "שלום עולם",
    "😀",
    "one\nline",
    "_nolegend_",
    "",
    None,
)


def estimated(data, *, names=None, groups=True, classes=None, rehearsed=False, every=None, **options):
    """Learn, count, estimate; with names for groups and classes, and labels of every so many rows."""
    y = data.y_lab if classes is None else np.array(classes, dtype=object)[data.y_lab]
    lab = fieldcal.learn(data.proba_lab, y, groups=data.groups_lab if rehearsed else None)
    keys = data.groups_field.tolist()
    keys = keys if names is None else [names[g] for g in keys]
    y = None
    if every is not None:
        y = [lab.classes[k] if i % every == 0 else None for i, k in enumerate(data.y_field)]
    field = fieldcal.count(lab, data.proba_field, groups=keys if groups else None, y=y)
    return fieldcal.estimate(lab, field, **options)


@pytest.fixture(scope="session")
def binary_data():
    return label_shift(n_lab=4000, n_field=12_000, n_groups=24, concentration=2.0, random_state=1)


@pytest.fixture(scope="session")
def binary(binary_data):
    return estimated(binary_data, rehearsed=True)


@pytest.fixture(scope="session")
def single(binary_data):
    """One population."""
    return estimated(binary_data, groups=False, trust=1)


@pytest.fixture(scope="session")
def three_data():
    return label_shift(n_lab=3000, n_field=6000, p_lab=(0.5, 0.3, 0.2), n_groups=5, random_state=2)


@pytest.fixture(scope="session")
def three(three_data):
    return estimated(three_data, trust=1, classes=("cat", "dog", "ox"))


@pytest.fixture(scope="session")
def many():
    """300 groups of very different size."""
    rng = np.random.default_rng(0)
    data = label_shift(n_lab=4000, n_field=60_000, n_groups=300, concentration=2.0)
    kept = rng.random(60_000) < (data.groups_field + 1) / 300
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    field = fieldcal.count(lab, data.proba_field[kept], groups=data.groups_field[kept])
    return fieldcal.estimate(lab, field, trust=1)


@pytest.fixture(scope="session")
def hostile():
    data = label_shift(n_lab=3000, n_field=5000, p_lab=(0.3, 0.3, 0.4), n_groups=len(HOSTILE))
    return estimated(data, names=HOSTILE, classes=(r"$\frac{$", "_<b>", "z" * 5000), trust=1, every=40)


@pytest.fixture(scope="session")
def empty_group(binary, binary_data):
    """Groups 0 to 2, and one of rows that do not count."""
    groups = binary_data.groups_field
    kept = groups <= 3
    field = fieldcal.count(
        binary.lab, binary_data.proba_field[kept], groups=groups[kept], sample_weight=(groups[kept] < 3) * 1.0
    )
    return fieldcal.estimate(binary.lab, field, prior="flat", trust=1)


@pytest.fixture(scope="session")
def twelve():
    """One population of twelve classes."""
    data = label_shift(n_lab=6000, n_field=3000, p_lab=np.arange(1, 13) / 78, n_groups=1, separation=3.0)
    return estimated(data, groups=False, trust=1, classes=[f"species {k:02}" for k in range(12)])


def predicted_numbers(y, rng):
    """Calibrated predictions of numbers that are N(0, 1), seen with noise of .7."""
    return regression.from_moments((y + 0.7 * rng.normal(size=len(y))) / 1.49, 0.573)


@pytest.fixture(scope="session")
def number_rows():
    """Numbers of a field that lies higher than the lab: predictions before, predictions after, truth."""
    rng = np.random.default_rng(4)
    y_lab, y = rng.normal(size=4000), rng.normal(0.8, 0.7, size=2000)
    lab = fieldcal.learn(predicted_numbers(y_lab, rng), y_lab, intervals=[-1.23456, -0.5, 0, 0.5, 1.2])
    before = predicted_numbers(y, rng)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, before), trust=1)
    return before, fieldcal.recalibrate(prev, before), y


@pytest.fixture(scope="session")
def ordered():
    """Numbers in three groups, one of them without rows that count."""
    rng = np.random.default_rng(5)
    y_lab, y = rng.normal(size=4000), rng.normal(0.8, 0.7, size=1500)
    lab = fieldcal.learn(predicted_numbers(y_lab, rng), y_lab, intervals=[-1.23456, -0.5, 0, 0.5, 1.2])
    groups = np.array(["a", "b", r"$\frac{$"], dtype=object)[rng.integers(0, 3, 1500)]
    before = predicted_numbers(y, rng)
    field = fieldcal.count(lab, before, groups=groups, sample_weight=(groups != "b") * 1.0)
    return fieldcal.estimate(lab, field, trust=1)
