"""One population with random labels: error of the share, intervals, log loss."""

from __future__ import annotations

import time
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
    best_tilt,
    change,
    error,
    population,
    prediction_powered,
    rng_of,
    shares,
    unknown,
)
from benchmarks.few_labels.page import (
    Column,
    bar,
    error_of,
    mean_of,
    number,
    parts,
    ratio,
    ratio_of,
    table,
    worst,
)
from scipy.stats import binom

import fieldcal

TITLE = "One population, random labels"
KEYS = {"kind": "", "n": "labels"}
HARM = {30: 0.02, 100: 0.007}  # the most that a file may lose, by labels


def measure(path: Path, settings: Settings) -> Found:
    asked = population(path)
    if len(asked.y) < LEAST_ROWS:
        return Found(skipped=f"{len(asked.y)} field rows, fewer than {LEAST_ROWS}")
    known = asked.about() | without_labels(asked)
    return Found(
        [
            known | {"n": n, "replica": replica} | with_labels(asked, n, replica, peer=settings.peer)
            for n in settings.sizes
            for replica in range(settings.replicas)
        ]
    )


def without_labels(asked: Population) -> dict[str, float]:
    """What there is before the first label, and the best that any tilt could do."""
    field = fieldcal.count(asked.lab, asked.proba)
    default, full = fieldcal.estimate(asked.lab, field), fieldcal.estimate(asked.lab, field, trust=1)
    return {
        "e_urc": error(full.estimate[0], asked.truth),
        "e_default": error(default.estimate[0], asked.truth),
        "e_naive": error(asked.proba.mean(axis=0), asked.truth),
        "change_default": change(default, asked.proba, asked.y),
        "best": best_tilt(asked.proba, asked.y),
    }


def with_labels(asked: Population, n: int, replica: int, *, peer: bool) -> dict[str, Any]:
    rows = rng_of(asked.file, n, replica).choice(len(asked.y), n, replace=False)
    rest = np.setdiff1d(np.arange(len(asked.y)), rows)
    field = asked.count(rows)
    start = time.perf_counter()
    prev = fieldcal.estimate(asked.lab, field)
    seconds = time.perf_counter() - start
    ppi = prediction_powered(asked.proba, asked.y, rows) if peer else unknown(asked.n_classes)
    return {
        **Shares(prev.estimate[0], prev.lower[0], prev.upper[0]).judged(asked.truth),
        **ppi.judged(asked.truth, "_ppi"),
        "e_labels": error(shares(asked.y[rows], asked.n_classes), asked.truth),
        "change": change(prev, asked.proba[rest], asked.y[rest]),
        "verdict": prev.verdict.level,
        "seconds": seconds,
    }


def page(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    files = frame.groupby(["kind", "n", "file"], as_index=False).mean(numeric_only=True)
    yield "Means over files ± standard error. Error of the share:"
    yield from table(files, KEYS, ERRORS, markdown=markdown)
    yield "Intervals, and the change of log loss of the rows without a label:"
    yield from table(files, KEYS, INTERVALS, markdown=markdown)
    yield "1. Error of the share"
    yield from error_bars(frame, files)
    yield "2. Intervals"
    yield from interval_bars(frame, files)
    yield "3. Log loss"
    yield from loss_bars(files)
    yield f"An estimate takes {1000 * frame.seconds.median():.0f} ms (median)."


def better(some: pd.DataFrame) -> float:
    """The smaller error of labels only and PPI++."""
    return float(np.nanmin([some.e_labels.mean(), some.e_ppi.mean()]))


def file_ratios(some: pd.DataFrame) -> float:
    """Width over that of PPI++, mean over files."""
    return float((some.width / some.width_ppi).mean())


def kept(some: pd.DataFrame) -> float:
    """Share of what the best tilt gains in hindsight."""
    return float(some.change.sum() / min(some.best.sum(), -1e-12))


ERRORS: dict[str, Column] = {
    "files": lambda some: str(len(some)),
    "fieldcal": mean_of("e", error=True),
    "labels only": mean_of("e_labels", error=True),
    "PPI++": mean_of("e_ppi", error=True),
    "URC without labels": mean_of("e_urc", error=True),
    "default without labels": mean_of("e_default", error=True),
    "mean prediction": mean_of("e_naive", error=True),
    "/ better of two": lambda some: number(some.e.mean() / better(some), 2),
    "/ PPI++": ratio_of("e", "e_ppi"),
}
INTERVALS: dict[str, Column] = {
    "cover": mean_of("covered", 3, error=True),
    "PPI++": mean_of("covered_ppi", 3),
    "width": mean_of("width"),
    "of PPI++": mean_of("width_ppi"),
    "ratio": ratio_of("width", "width_ppi"),
    "mean of files' ratios": lambda some: number(file_ratios(some), 2),
    "log loss": mean_of("change", sign=True, error=True),
    "worst file": lambda some: number(some.change.max(), sign=True),
    "default without labels": mean_of("change_default", sign=True),
    "best tilt": mean_of("best", sign=True),
    "kept": lambda some: f"{kept(some):.0%}",
}


def error_bars(frame: pd.DataFrame, files: pd.DataFrame) -> Iterator[str]:
    for (kind, n), some in parts(files, KEYS):
        times = some.e.mean() / better(some)
        yield bar(
            f"{kind}, {n} labels: {times:.3f} × the better of labels only and PPI++ (≤ 1.02)", times <= 1.02
        )
    still = files[(files.kind != "moved") & (files.n <= 100) & files.e_ppi.notna()]
    for (kind, n), some in parts(still, KEYS):
        times = ratio(some, "e", "e_ppi")
        yield bar(f"{kind}, {n} labels: {times:.3f} × PPI++ (≤ .6)", times <= 0.6)
    enough = frame[frame.n >= 100]
    if len(enough):
        yield from never_worse(enough.assign(excess=enough.e - 1.05 * enough.e_labels))


def never_worse(enough: pd.DataFrame) -> Iterator[str]:
    """Files in which the labels alone are better by more than 5 %, plainly and beyond the replicas' paired error."""
    each = enough.groupby(["file", "n"])
    excess, noise = each.excess.mean(), each.excess.agg(error_of)
    sure = excess > 2 * noise
    yield bar(
        f"100 labels or more, labels only better by more than 5 %: {sure.sum()} of {len(excess)} files and sizes "
        f"beyond two standard errors (0), {(excess > 0).sum()} plainly",
        not sure.any(),
    )
    times = each.e.mean() / each.e_labels.mean()
    for file, n in excess.sort_values(ascending=False).head(5).index:
        above = f"{number(excess[file, n], sign=True)} ±{number(noise[file, n])}"
        yield f"         {file} {n}: {times[file, n]:.2f} × labels only, {above} above 1.05 ×"


def interval_bars(frame: pd.DataFrame, files: pd.DataFrame) -> Iterator[str]:
    for (kind, n), some in parts(files, KEYS):
        share = some.covered.mean()
        yield bar(f"{kind}, {n} labels: 90 % intervals cover {share:.3f} (.86 to .97)", 0.86 <= share <= 0.97)
    yield from covered_everywhere(frame, ["file", "n"], "files and sizes", errors=2)
    yield from covered_everywhere(frame, ["file"], "files, all sizes together", errors=0)
    for (kind,), some in parts(files[files.width_ppi.notna()], ["kind"]):
        times, most = ratio(some, "width", "width_ppi"), 0.7 if kind == "consistent" else 1.0
        yield bar(
            f"{kind}: width {times:.3f} × that of PPI++ (≤ {most}), mean of the files' ratios {file_ratios(some):.3f}",
            times <= most,
        )


def covered_everywhere(frame: pd.DataFrame, keys: list[str], what: str, *, errors: int) -> Iterator[str]:
    """Coverage of every file. Of a few replicas chance takes some below: what is judged is beyond so many errors."""
    each = frame.groupby(keys).covered
    share, noise = each.mean(), each.agg(error_of).fillna(0)
    below, sure = ((share + times * noise < 0.8).sum() for times in (0, 2))
    chance = binom.cdf(np.ceil(0.8 * each.count()) - 1, each.count(), 0.9).sum()
    yield bar(
        f"cover < .80 in {below} of {len(share)} {what}, in {sure} beyond two standard errors "
        f"(0 {'beyond them' if errors else 'plainly'}; chance takes {chance:.1f} of exact intervals below)",
        (share + errors * noise).min() >= 0.8,
    )
    yield worst(share, noise, lowest=True, digits=2)


def loss_bars(files: pd.DataFrame) -> Iterator[str]:
    moved = files[(files.kind == "moved") & (files.n == 100)]
    if len(moved):
        yield bar(
            f"moved, 100 labels: {kept(moved):.1%} of what the best tilt gains (≥ 85 %)", kept(moved) >= 0.85
        )
    for n, most in HARM.items():
        changes = files[files.n == n].set_index("file").change
        if len(changes):
            over = int((changes > most).sum())
            yield bar(f"{n} labels: {over} files harmed by more than {number(most, 3)} (0)", over == 0)
            yield worst(changes)
