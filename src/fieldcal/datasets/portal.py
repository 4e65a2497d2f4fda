"""Rodents of the Portal Project, a real data set close to the paper's beetles.

32,534 captures in trap plots in Arizona, 1977 to 2002: species, measurements, plot, date (Portal Project Teaching
Database, CC0). The species causes the measurements, and the groups are places.
"""

from __future__ import annotations

import csv
import gzip
from dataclasses import dataclass
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Portal:
    """The captures, one array per column; missing measurements are NaN, a missing sex is ""."""

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
