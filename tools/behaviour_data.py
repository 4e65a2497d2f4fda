"""Lab and field rows with a known shift, for `behaviour.py` and `walk.py`: the same at every call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

import fieldcal

TOWNS = np.array(["York", "Leeds", "Hull", "Bath", "Ely", "Ripon", "Wells", "Truro"])
TWO, THREE, FIVE = (0.6, 0.4), (0.5, 0.3, 0.2), (0.3, 0.25, 0.2, 0.15, 0.1)
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


class Rows(NamedTuple):
    """Lab and field of one input."""

    lab: Any
    y: Any
    lab_groups: Any
    field: Any
    field_groups: Any


def shifted(
    p_lab: Any, prevalence: Any = None, *, groups: int = 6, rehearse: bool = True, n: int = 1500
) -> Rows:
    """Label shift that holds exactly: of one population to a prevalence, or of groups around a common shift."""
    towards_last = np.asarray(p_lab) + 0.25 * np.eye(len(p_lab))[-1]
    drawn = np.random.default_rng(5).dirichlet(5.0 * len(p_lab) * towards_last, size=groups)
    p = drawn if prevalence is None else [prevalence]
    d = fieldcal.datasets.label_shift(
        n_lab=n, n_field=n, p_lab=p_lab, prevalence=p, n_groups=groups, random_state=1
    )
    lab_groups = TOWNS[d.groups_lab] if rehearse and prevalence is None else None
    field_groups = TOWNS[d.groups_field] if prevalence is None else None
    return Rows(d.proba_lab, d.y_lab, lab_groups, d.proba_field, field_groups)


def numbers(form: Callable[[Any], Any] = np.asarray, *, grouped: bool = True, n: int = 1500) -> Rows:
    """Numbers, and a blurred view of them in some form; the field has larger ones, in some towns more so."""
    rng = np.random.default_rng(3)
    known, unknown = rng.integers(5, size=(2, n))
    y = 10 + 2 * rng.normal(size=n) + 0.3 * known
    moved = 11 + 2 * rng.normal(size=n) + 0.5 * unknown
    lab, field = (10.6 + 0.67 * (x - 10.6 + 1.4 * rng.normal(size=n)) for x in (y, moved))
    groups = (TOWNS[known], TOWNS[unknown]) if grouped else (None, None)
    return Rows(form(lab), y, groups[0], form(field), groups[1])


def quantiles_of(centre: Any) -> Any:
    """Quantile columns around a centre."""
    return np.asarray(centre)[:, None] + stats.norm.ppf(LEVELS) * 1.15


def class_columns() -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables of lab and field: two classes, two group columns, times, and a code that must stay text."""
    rows, north = shifted(TWO), ("York", "Leeds", "Hull")
    lab, field = (
        {"p": p, "town": towns.tolist(), "land": ["north" if t in north else "south" for t in towns]}
        for p, towns in ((rows.lab, rows.lab_groups), (rows.field, rows.field_groups))
    )
    hours = np.datetime64("2024-05-01T00:00", "us") + np.arange(len(rows.field)) % 96 * np.timedelta64(1, "h")
    return lab | {"y": rows.y}, field | {"at": hours, "code": [f"{i:05}" for i in range(len(hours))]}


def number_columns() -> tuple[dict[str, Any], dict[str, Any]]:
    """Tables of lab and field: quantile columns in groups."""
    rows = numbers(quantiles_of)
    names = [f"q_{100 * u:g}" for u in LEVELS]
    lab, field = (dict(zip(names, table.T, strict=True)) for table in (rows.lab, rows.field))
    return lab | {"y": rows.y, "town": rows.lab_groups}, field | {"town": rows.field_groups}
