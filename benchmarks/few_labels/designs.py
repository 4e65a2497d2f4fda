"""Labels that are no random sample: chosen by class, or picked by the plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.few_labels.files import (
    LEAST_ROWS,
    Found,
    Population,
    Settings,
    Shares,
    change,
    population,
    prediction_powered,
    rng_of,
    unknown,
)
from benchmarks.few_labels.page import Column, bar, mean_of, parts, ratio, ratio_of, table

import fieldcal

TITLE = "Other designs: labels by class, labels that the plan picks"
KEYS = {"kind": "", "n": "labels"}
MOST_REPLICAS = 10


def measure(path: Path, settings: Settings) -> Found:
    asked = population(path)
    if len(asked.y) < LEAST_ROWS:
        return Found(skipped=f"{len(asked.y)} field rows, fewer than {LEAST_ROWS}")
    before = fieldcal.estimate(asked.lab, fieldcal.count(asked.lab, asked.proba))
    return Found(
        [
            asked.about() | {"design": design, "n": n, "replica": replica} | found
            for n in settings.sizes
            for replica in range(min(settings.replicas, MOST_REPLICAS))
            for design, found in designs(asked, before, n, rng_of(asked.file, n, replica), peer=settings.peer)
        ]
    )


def designs(
    asked: Population, before: fieldcal.Prevalence, n: int, rng: np.random.Generator, *, peer: bool
) -> Iterator[tuple[str, dict[str, Any]]]:
    rows = by_class(asked.y, asked.n_classes, n, rng)
    ppi = prediction_powered(asked.proba, asked.y, rows) if peer else unknown(asked.n_classes)
    yield "by_class", judged(asked, rows, "by_class") | ppi.judged(asked.truth, "_ppi")
    yield "by_score", judged(asked, pick(before, asked.proba, n, rng), "by_score")
    yield "random", judged(asked, rng.choice(len(asked.y), n, replace=False), "random")


def by_class(y: np.ndarray, n_classes: int, n: int, rng: np.random.Generator) -> np.ndarray:
    """As many rows of each class, as far as there are."""
    of_class = (rng.permutation(np.flatnonzero(y == k)) for k in range(n_classes))
    return np.concatenate([rows[: max(n // n_classes, 1)] for rows in of_class])


def pick(before: fieldcal.Prevalence, proba: np.ndarray, n: int, rng: np.random.Generator) -> np.ndarray:
    """The rows that the plan would have labelled."""
    return np.asarray(fieldcal.rows_to_label(before, proba, n, random_state=int(rng.integers(2**31))))


def judged(asked: Population, rows: np.ndarray, design: str) -> dict[str, Any]:
    prev = fieldcal.estimate(asked.lab, asked.count(rows, design))
    rest = np.setdiff1d(np.arange(len(asked.y)), rows)
    return {
        **Shares(prev.estimate[0], prev.lower[0], prev.upper[0]).judged(asked.truth),
        "change": change(prev, asked.proba[rest], asked.y[rest]),
    }


BY_CLASS: dict[str, Column] = {
    "files": lambda some: str(len(some)),
    "MAE": mean_of("e", error=True),
    "PPI++": mean_of("e_ppi", error=True),
    "cover": mean_of("covered", 3, error=True),
    "PPI++ covers": mean_of("covered_ppi", 3),
    "width": mean_of("width"),
    "log loss": mean_of("change", sign=True, error=True),
}
PICKED: dict[str, Column] = {
    "MAE by score": mean_of("e", error=True),
    "random": mean_of("e_random", error=True),
    "ratio": ratio_of("e", "e_random"),
    "cover": mean_of("covered", 3, error=True),
    "covers, random": mean_of("covered_random", 3),
    "width": mean_of("width"),
    "width, random": mean_of("width_random"),
}


def page(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    files = frame.groupby(["design", "kind", "n", "file"]).mean(numeric_only=True)
    yield "As many labels of each class (by_class); PPI++ takes them for a random sample:"
    chosen = files.loc["by_class"].reset_index()
    yield from table(chosen, KEYS, BY_CLASS, markdown=markdown)
    yield "4. Designs"
    for (n,), some in parts(chosen, ["n"]):
        share = some.covered.mean()
        beside = f"PPI++ {some.covered_ppi.mean():.3f}"
        yield bar(f"by_class, {n} labels: cover {share:.3f} (≥ .87), {beside}", share >= 0.87)
    both = files.loc["by_score"].join(files.loc["random"].add_suffix("_random")).reset_index()
    yield from table(both, KEYS, PICKED, markdown=markdown)
    for (n,), some in parts(both, ["n"]):
        times = ratio(some, "e", "e_random")
        yield bar(f"by_score, {n} labels: MAE {times:.3f} × that of random picks (< 1)", times < 1)
