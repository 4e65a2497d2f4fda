"""Lab and field with a known label shift between groups, and the captures of the Portal project."""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fieldcal.errors import InputError
from fieldcal.options import MOST, as_array, as_number, check_whole
from fieldcal.types import Floats

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence


@dataclass(frozen=True)
class ShiftedData:
    """Predictions of a calibrated classifier, with true labels and prevalences.

    ``proba_…`` has shape (n,) for two classes, (n, K) for more.
    """

    proba_lab: Floats
    y_lab: NDArray[np.intp]
    groups_lab: NDArray[np.intp]
    proba_field: Floats
    y_field: NDArray[np.intp]
    groups_field: NDArray[np.intp]
    prevalence: Floats  # (G, K) true prevalences, from which the field's labels were drawn
    p_lab: Floats  # (K,)


def label_shift(
    *,
    n_lab: int = 2000,
    n_field: int = 2000,
    p_lab: ArrayLike = (0.5, 0.5),
    prevalence: ArrayLike | None = None,
    n_groups: int = 4,
    concentration: float = 5.0,
    separation: float = 1.5,
    random_state: int = 0,
) -> ShiftedData:
    """Simulated labels, and scores given the label alone; classes are normal, with means ``separation`` apart.

    Parameters
    ----------
    n_lab, n_field : numbers of rows
    p_lab : (K,) prevalences in the lab; the lab's own groups vary around them
    prevalence : (G, K), optional
        Prevalences of the field's groups; by default drawn from a Dirichlet around ``p_lab``.
    n_groups, concentration : number of groups to draw, and concentration of that Dirichlet
    separation : distance between the means of the classes
    random_state : seed

    Examples
    --------
    >>> from fieldcal.datasets import label_shift
    >>> data = label_shift(prevalence=[[0.9, 0.1], [0.2, 0.8]], n_field=1000)
    >>> data.proba_field.shape, sorted(set(data.groups_field.tolist()))
    ((1000,), [0, 1])
    """
    for name, rows in {"n_lab": n_lab, "n_field": n_field}.items():
        check_whole(name, rows, least=0, most=MOST)
    check_whole("n_groups", n_groups, least=1, most=MOST)
    check_whole("random_state", random_state, least=0)
    concentration = as_number("concentration", concentration, least=1e-6)
    separation = as_number("separation", separation, least=0)
    rng = np.random.default_rng(random_state)
    p_lab = as_array("p_lab", p_lab)
    if p_lab.ndim != 1 or len(p_lab) < 2 or p_lab.min() <= 0 or abs(p_lab.sum() - 1) > 1e-9:
        raise InputError(f"p_lab must be at least two positive prevalences that sum to one, but got {p_lab}.")
    drawn = rng.dirichlet(concentration * len(p_lab) * p_lab, size=n_groups)
    truth = drawn if prevalence is None else as_array("prevalence", prevalence)
    if truth.ndim != 2 or truth.shape[1] != len(p_lab) or not _sums_to_one(truth):
        raise InputError(
            f"prevalence must have one row per group and {len(p_lab)} columns, each row summing to one, but has "
            f"shape {truth.shape}."
        )
    means = separation * np.eye(len(p_lab))

    def draw(n: int, table: Floats) -> tuple[Floats, NDArray[np.intp], NDArray[np.intp]]:
        groups = rng.integers(len(table), size=n)
        y = (rng.random((n, 1)) > table.cumsum(axis=1)[groups]).sum(axis=1).clip(max=len(p_lab) - 1)
        x = means[y] + rng.standard_normal((n, len(p_lab)))
        log_density = np.log(p_lab) - 0.5 * ((x[:, None, :] - means) ** 2).sum(axis=2)
        density = np.exp(log_density - log_density.max(axis=1, keepdims=True))
        proba = density / density.sum(axis=1, keepdims=True)
        return (proba[:, 1] if len(p_lab) == 2 else proba), y, groups

    lab_table = rng.dirichlet(concentration * len(p_lab) * p_lab, size=n_groups)
    for _ in range(50):  # alternates until groups average to p_lab and each sums to one
        lab_table *= p_lab / lab_table.mean(axis=0)
        lab_table /= lab_table.sum(axis=1, keepdims=True)
    return ShiftedData(*draw(n_lab, lab_table), *draw(n_field, truth), truth, p_lab)


class Example(NamedTuple):
    """A small example: the data and the results of `learn`, `count` and `estimate`."""

    data: ShiftedData
    lab: Lab
    field: Field
    prev: Prevalence


def example() -> Example:
    """Two groups of 2,000 rows with 10 % and 60 % of class 1, a lab with 50 %, and the estimate under label shift.

    Examples in the documentation start from it.

    Examples
    --------
    >>> import fieldcal
    >>> data, lab, field, prev = fieldcal.datasets.example()
    >>> prev.estimate[:, 1].round(2).tolist(), data.prevalence[:, 1].tolist()
    ([0.11, 0.6], [0.1, 0.6])
    """
    from fieldcal.verbs.count import count
    from fieldcal.verbs.estimate import estimate
    from fieldcal.verbs.learn import learn

    data = label_shift(prevalence=[[0.9, 0.1], [0.4, 0.6]], n_field=4000)
    lab = learn(data.proba_lab, data.y_lab)
    field = count(lab, data.proba_field, groups=data.groups_field)
    return Example(data, lab, field, estimate(lab, field, trust=1))


def _sums_to_one(table: Floats) -> bool:
    return bool((table >= 0).all() and np.allclose(table.sum(axis=1), 1.0, rtol=0, atol=1e-9))


@dataclass(frozen=True)
class Portal:
    """Rodents of the Portal Project, a real data set close to the paper's beetles.

    32,534 captures in trap plots in Arizona, 1977 to 2002, one array per column (Portal Project Teaching Database,
    CC0). The species causes the measurements, and the groups are places. Missing measurements are NaN, a missing sex
    is "".
    """

    species: NDArray[np.str_]
    year: NDArray[np.int64]
    month: NDArray[np.int64]
    plot: NDArray[np.int64]
    sex: NDArray[np.str_]
    hindfoot_length: NDArray[np.float64]
    weight: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.species)


def portal() -> Portal:
    """Load the captures; they ship with the package.

    Examples
    --------
    >>> from fieldcal.datasets import portal
    >>> captures = portal()
    >>> len(captures), int(captures.year.min()), int(captures.year.max())
    (32534, 1977, 2002)
    """
    path = files("fieldcal.datasets").joinpath("portal.csv.gz")
    with path.open("rb") as raw, gzip.open(raw, "rt", encoding="ascii", newline="") as stream:
        header, *rows = csv.reader(stream)
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return Portal(
        species=np.array(columns["species_id"]),
        year=np.array(columns["year"], dtype=np.int64),
        month=np.array(columns["month"], dtype=np.int64),
        plot=np.array(columns["plot_id"], dtype=np.int64),
        sex=np.array(columns["sex"]),
        hindfoot_length=_numbers(columns["hindfoot_length"]),
        weight=_numbers(columns["weight"]),
    )


def _numbers(texts: tuple[str, ...]) -> NDArray[np.float64]:
    return np.array([float(t) if t else np.nan for t in texts])
