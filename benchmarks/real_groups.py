"""Defaults on real predictions: does recalibration help, and never harm? ``python benchmarks/real_groups.py DIR``

DIR holds parquet files with the columns ``split`` ("dev" is the lab, the rest the field), ``group``, ``y`` (class
index) and ``p_<class>`` (binary: ``p_1`` alone). The field's labels are used for measuring only. Files whose name holds
``__lab_`` have a field that moved as a whole; names that start with ``SYN_`` or ``letter_`` obey the assumption.
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import fieldcal

TRUSTS = np.linspace(0, 1, 21)
SMALLEST = 50  # field rows of a group whose interval is judged
MANY = 20  # such groups that make a file's own coverage worth a bar


@dataclass(frozen=True)
class Data:
    proba_lab: np.ndarray
    y_lab: np.ndarray
    groups_lab: np.ndarray
    proba_field: np.ndarray
    y_field: np.ndarray
    groups_field: np.ndarray


@dataclass(frozen=True)
class Result:
    name: str
    hindsight: float
    best: float
    full: float
    change: float
    withheld: float
    coverage: float
    judged: int
    text: str


def read(path: Path) -> Data:
    table = pq.read_table(path)
    scores = [c for c in table.column_names if c.startswith("p_")]
    proba = np.column_stack([table[c].to_numpy().astype(float) for c in scores])
    proba = proba[:, 0] if len(scores) == 1 else proba / proba.sum(axis=1, keepdims=True)
    split, group = (np.array(table[c].to_pylist(), dtype=object) for c in ("split", "group"))
    y = table["y"].to_numpy().astype(int)
    lab = split == "dev"
    return Data(proba[lab], y[lab], group[lab], proba[~lab], y[~lab], group[~lab])


def log_loss(proba: np.ndarray, y: np.ndarray) -> float:
    """With predictions of exactly 0 kept finite, the same before and after."""
    proba = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    return float(-np.log(np.clip(proba[np.arange(len(y)), y], 1e-15, 1)).mean())


def estimate(data: Data, *, withhold: bool) -> tuple[fieldcal.Prevalence, float]:
    """The defaults, and the change of log loss that they bring."""
    classes = range(2 if data.proba_lab.ndim == 1 else data.proba_lab.shape[1])
    groups = None if withhold else data.groups_lab
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=groups, classes=classes)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field))
    new = fieldcal.recalibrate(prev, data.proba_field, groups=data.groups_field)
    return prev, log_loss(new, data.y_field) - log_loss(data.proba_field, data.y_field)


def hindsight(prev: fieldcal.Prevalence, data: Data, rows: np.ndarray) -> np.ndarray:
    """Change of log loss at every single trust, same estimates."""
    proba = data.proba_field
    proba = np.column_stack([1 - proba, proba]) if proba.ndim == 1 else proba
    new = proba * (np.maximum(prev.urc, 1e-12) / prev.lab.p_lab)[rows]
    new /= new.sum(axis=1, keepdims=True)
    raw = log_loss(proba, data.y_field)
    return np.array([log_loss(proba + t * (new - proba), data.y_field) - raw for t in TRUSTS])


def coverage(prev: fieldcal.Prevalence, data: Data, rows: np.ndarray) -> tuple[float, int]:
    """Share of intervals that hold the label share of their group, over groups with enough rows."""
    K = len(prev.classes)
    table = np.zeros((len(prev.groups), K))
    np.add.at(table, (rows, data.y_field), 1)
    judged = prev.n >= SMALLEST
    if not judged.any():
        return float("nan"), 0
    share = (table / np.maximum(prev.n, 1)[:, None])[judged]
    inside = (share >= prev.lower[judged]) & (share <= prev.upper[judged])
    return float(inside[:, 1:].mean() if K == 2 else inside.mean()), int(judged.sum())


def run(path: Path) -> Result:
    start = time.perf_counter()
    data = read(path)
    prev, change = estimate(data, withhold=False)
    bare, withheld = estimate(data, withhold=True)
    place = {g: i for i, g in enumerate(prev.groups)}
    rows = np.array([place[g] for g in data.groups_field])
    curve = hindsight(prev, data, rows)
    covered, judged = coverage(prev, data, rows)
    trust = f"{prev.trust_overall:.2f}/{prev.trust_between:.2f}"
    bare_trust = f"{bare.trust_overall:.2f}/{bare.trust_between:.2f}"
    best, seconds = TRUSTS[curve.argmin()], time.perf_counter() - start
    text = (
        f"{path.stem[:46]:46} {curve.min():+.4f} at {best:.2f} {curve[-1]:+8.4f} | {trust} {change:+.4f}"
        f" | {bare_trust} {withheld:+.4f} | {covered:.2f} of {judged:3d} | {prev.verdict.level:10} {seconds:4.1f}"
    )
    return Result(path.stem, curve.min(), best, curve[-1], change, withheld, covered, judged, text)


def bar(what: str, met: bool) -> str:
    return f"{'met   ' if met else 'MISSED'} {what}"


def summary(results: list[Result]) -> list[str]:
    moved = [r for r in results if "__lab_" in r.name]
    random = [r for r in results if "__lab_" not in r.name]
    holds = [r for r in results if r.name.startswith(("SYN_", "letter_"))]
    worst, worst_bare = max(results, key=lambda r: r.change), max(results, key=lambda r: r.withheld)
    lines = [
        bar(f"worst change {worst.change:+.4f} (≤ +.002) {worst.name}", worst.change <= 0.002),
        bar(
            f"worst change, groups withheld {worst_bare.withheld:+.4f} (≤ +.005) {worst_bare.name}",
            worst_bare.withheld <= 0.005,
        ),
    ]
    for title, part, attribute, least in (
        ("random files", random, "change", 0.9),
        ("files whose field moved", moved, "change", 0.5),
        ("files where the assumption holds, groups withheld", holds, "withheld", 0.75),
    ):
        if part:
            best, ours = sum(r.hindsight for r in part), sum(getattr(r, attribute) for r in part)
            lines.append(
                bar(
                    f"{title}: {ours:+.4f} of {best:+.4f} in hindsight = {ours / min(best, -1e-9):.0%} (≥ {least:.0%})",
                    ours <= least * best,
                )
            )
    judged = [r for r in results if r.judged]
    mean = float(np.mean([r.coverage for r in judged]))
    lines.append(
        bar(f"mean coverage of nominal 90 % intervals {mean:.3f} (.85 to .97)", 0.85 <= mean <= 0.97)
    )
    many = [r for r in random if r.judged >= MANY]
    if many:
        low = min(many, key=lambda r: r.coverage)
        lines.append(
            bar(
                f"lowest coverage of a random file with {MANY} groups {low.coverage:.2f} (≥ .75) {low.name}",
                low.coverage >= 0.75,
            )
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    print(
        f"{'file':46} {'best trust':>15} {'full URC':>8} | common/groups trust, change | groups withheld "
        "| coverage | verdict, s"
    )
    results = []
    for path in sorted(folder.glob("*.parquet")):
        try:
            results.append(run(path))
            print(results[-1].text, flush=True)
        except fieldcal.FieldcalError as error:
            print(f"{path.stem[:46]:46} refused: {error}", flush=True)
    print("\n".join(["", *summary(results)]))


if __name__ == "__main__":
    main()
