"""One population with random labels: error of the share, intervals, log loss."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import fieldcal
from benchmarks.few_labels.files import (
    Found,
    Population,
    Settings,
    Shares,
    best_tilt,
    change,
    judged,
    population,
    prediction_powered,
    shares,
    unknown,
)
from benchmarks.few_labels.page import KINDS, bar, error_of, grid, number, with_error, worst

TITLE = "One population, random labels"
LEAST_ROWS = 600
HARM = {30: 0.02, 100: 0.007}


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

    def error(estimate: np.ndarray) -> float:
        return float(judged(np.abs(estimate - asked.truth)).mean())

    return {
        "e_urc": error(full.estimate[0]),
        "e_default": error(default.estimate[0]),
        "e_naive": error(asked.proba.mean(axis=0)),
        "change_default": change(default, asked.proba, asked.y),
        "best": best_tilt(asked.proba, asked.y),
    }


def with_labels(asked: Population, n: int, replica: int, *, peer: bool) -> dict[str, Any]:
    rows = np.random.default_rng([n, replica]).choice(len(asked.y), n, replace=False)
    field = asked.count(rows)
    start = time.perf_counter()
    prev = fieldcal.estimate(asked.lab, field)
    seconds = time.perf_counter() - start
    ours = Shares(prev.estimate[0], prev.lower[0], prev.upper[0])
    ppi = prediction_powered(asked.proba, asked.y, rows) if peer else unknown(asked.n_classes)
    rest = np.setdiff1d(np.arange(len(asked.y)), rows)
    seen = shares(asked.y[rows], asked.n_classes)
    return {
        "e": ours.error(asked.truth),
        "e_labels": float(judged(np.abs(seen - asked.truth)).mean()),
        "e_ppi": ppi.error(asked.truth),
        "covered": ours.covered(asked.truth),
        "covered_ppi": ppi.covered(asked.truth) if peer else float("nan"),
        "width": ours.width,
        "width_ppi": ppi.width,
        "change": change(prev, asked.proba[rest], asked.y[rest]),
        "verdict": prev.verdict.level,
        "seconds": seconds,
    }


def by_file(frame: pd.DataFrame) -> pd.DataFrame:
    """Replicas averaged."""
    return frame.groupby(["kind", "n", "file"]).mean(numeric_only=True)


def page(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    files = by_file(frame)
    yield from errors_table(files, markdown=markdown)
    yield ""
    yield from intervals_table(files, markdown=markdown)
    yield ""
    yield "1. Error of the share"
    yield from error_bars(frame, files)
    yield "2. Intervals"
    yield from interval_bars(frame, files)
    yield "3. Log loss"
    yield from loss_bars(files)
    yield f"An estimate takes {1000 * frame.seconds.median():.0f} ms (median)."


def regimes(files: pd.DataFrame) -> Iterator[tuple[str, int, pd.DataFrame]]:
    for kind in KINDS:
        for n in sorted(set(files.index.get_level_values("n"))):
            if (kind, n) in files.index:
                yield kind, n, files.loc[(kind, n)]


def errors_table(files: pd.DataFrame, *, markdown: bool) -> list[str]:
    rivals = ("e_labels", "e_ppi", "e_urc", "e_default", "e_naive")
    head = ["MAE of the share", "labels", "files", "fieldcal", "labels only", "PPI++", "URC without labels"]
    head += ["default without labels", "mean prediction", "/ better of two", "/ PPI++"]
    rows = [
        [kind, str(n), str(len(some)), with_error(some.e), *(with_error(some[name]) for name in rivals)]
        + [number(some.e.mean() / better(some), 2), number(some.e.mean() / some.e_ppi.mean(), 2)]
        for kind, n, some in regimes(files)
    ]
    return grid(head, rows, markdown=markdown)


def better(some: pd.DataFrame) -> float:
    """The smaller error of labels only and PPI++."""
    return float(np.nanmin([some.e_labels.mean(), some.e_ppi.mean()]))


def intervals_table(files: pd.DataFrame, *, markdown: bool) -> list[str]:
    head = ["intervals, log loss", "labels", "cover", "PPI++ covers", "width", "width of PPI++", "ratio"]
    head += ["mean of files' ratios", "change", "worst file", "best tilt", "kept"]
    rows = [
        [kind, str(n), with_error(some.covered, 3), number(some.covered_ppi.mean(), 3)]
        + [number(some.width.mean()), number(some.width_ppi.mean()), number(width_ratio(some), 2)]
        + [number((some.width / some.width_ppi).mean(), 2), with_error(some.change, sign=True)]
        + [number(some.change.max(), sign=True), number(some.best.mean(), sign=True), f"{kept(some):.0%}"]
        for kind, n, some in regimes(files)
    ]
    return grid(head, rows, markdown=markdown)


def width_ratio(some: pd.DataFrame) -> float:
    return float(some.width.mean() / some.width_ppi.mean())


def kept(some: pd.DataFrame) -> float:
    """Share of what the best tilt gains in hindsight."""
    return float(some.change.sum() / min(some.best.sum(), -1e-12))


def error_bars(frame: pd.DataFrame, files: pd.DataFrame) -> Iterator[str]:
    for kind, n, some in regimes(files):
        ratio = some.e.mean() / better(some)
        yield bar(
            f"{kind}, {n} labels: {ratio:.2f} × the better of labels only and PPI++ (≤ 1.02)", ratio <= 1.02
        )
    for kind, n, some in regimes(files):
        ratio = some.e.mean() / some.e_ppi.mean()
        if kind != "moved" and n <= 100 and np.isfinite(ratio):
            yield bar(f"{kind}, {n} labels: {ratio:.2f} × PPI++ (≤ .60)", ratio <= 0.6)
    enough = frame[frame.n >= 100]
    if len(enough):
        yield from never_worse(enough.assign(excess=enough.e - 1.05 * enough.e_labels))


def never_worse(enough: pd.DataFrame) -> Iterator[str]:
    """No file in which the labels alone are better by more than 5 %; the replicas' error decides what is seen."""
    each = enough.groupby(["file", "n"])
    excess, noise = each.excess.mean(), each.excess.agg(error_of).fillna(0)
    plain, sure = excess > 0, excess > 2 * noise
    yield bar(
        f"files with 100 labels or more where labels only are better by more than 5 %: {sure.sum()} of {len(excess)} "
        f"beyond two standard errors (0), {plain.sum()} plainly",
        not sure.any(),
    )
    ratio = each.e.mean() / each.e_labels.mean()
    shown = excess.sort_values(ascending=False).head(5)
    for (file, n), value in shown.items():
        yield (
            f"         {file} {n}: {ratio[file, n]:.2f} × labels only, "
            f"{number(value, sign=True)} ±{number(noise[file, n])} above 1.05 ×"
        )


def interval_bars(frame: pd.DataFrame, files: pd.DataFrame) -> Iterator[str]:
    for kind, n, some in regimes(files):
        share = some.covered.mean()
        yield bar(f"{kind}, {n} labels: 90 % intervals cover {share:.3f} (.86 to .97)", 0.86 <= share <= 0.97)
    for what, keys in (("file and size", ["file", "n"]), ("file, all sizes together", ["file"])):
        yield from covered_everywhere(frame.groupby(keys).covered, what)
    for kind in KINDS:
        if kind in files.index:
            some, most = files.loc[kind], 0.7 if kind == "consistent" else 1.0
            if np.isfinite(width_ratio(some)):
                ratios = (some.width / some.width_ppi).mean()
                yield bar(
                    f"{kind}: width {width_ratio(some):.2f} × that of PPI++ (≤ {most:.1f}); mean of the files' "
                    f"ratios {ratios:.2f}",
                    width_ratio(some) <= most,
                )


def covered_everywhere(each: Any, what: str) -> Iterator[str]:
    """Coverage of every file, with the replicas' error."""
    share, noise = each.mean(), each.agg(error_of).fillna(0)
    plain, sure = share < 0.8, share + 2 * noise < 0.8
    yield bar(
        f"by {what}: cover ≥ .80 in all but {plain.sum()} of {len(share)} (0), {sure.sum()} of them beyond two "
        "standard errors",
        not plain.any(),
    )
    lowest = share.sort_values().head(5)
    yield "         lowest: " + ", ".join(
        f"{' '.join(map(str, at)) if isinstance(at, tuple) else at} {number(value, 2)} ±{number(noise[at], 2)}"
        for at, value in lowest.items()
    )


def loss_bars(files: pd.DataFrame) -> Iterator[str]:
    if ("moved", 100) in files.index:
        share = kept(files.loc[("moved", 100)])
        yield bar(f"moved, 100 labels: {share:.0%} of what the best tilt gains (≥ 85 %)", share >= 0.85)
    for n, most in HARM.items():
        if n in files.index.get_level_values("n"):
            changes = files.xs(n, level="n").change.droplevel("kind")
            over = int((changes > most).sum())
            yield bar(f"{n} labels: {over} files harmed by more than {number(most, 3)} (0)", over == 0)
            yield f"         worst: {worst(changes)}"
