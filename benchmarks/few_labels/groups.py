"""300 labels over the groups of a field, the lab with and without groups."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.few_labels.files import Found, Settings, Shares, change, error, rng_of, thinned, with_gaps
from benchmarks.few_labels.page import Column, bar, error_of, mean_of, number, parts, ratio, ratio_of, table
from benchmarks.score_files import kind_of, read, shares

import fieldcal

TITLE = "Groups, 300 random labels among them"
LABELS = 300
LEAST, MOST, SMALLEST = 4, 40, 60  # groups of a file, and rows of a group
JUDGED = 10  # groups of the files that the bars speak of
MOST_ROWS = 15_000
LEFT_OUT = 4  # every so many replicas a third of the groups is left without labels as well
SHRUNKEN = 10  # labels that the overall share is worth, in the labels alone
WAYS = {"lab groups": True, "field groups": False}
KEYS = {"way": "", "kind": ""}


@dataclass(frozen=True)
class Grouped:
    """The larger groups of a field, and a lab."""

    file: str
    lab: fieldcal.Lab
    proba: np.ndarray
    y: np.ndarray
    groups: np.ndarray
    before: fieldcal.Prevalence  # without labels

    @property
    def place(self) -> np.ndarray:
        at = {group: i for i, group in enumerate(self.before.groups)}
        return np.array([at[group] for group in self.groups])

    @property
    def size(self) -> tuple[int, int]:
        return len(self.before.groups), self.proba.shape[1]

    def after(self, rows: np.ndarray) -> fieldcal.Prevalence:
        y = with_gaps(self.y, rows)
        return fieldcal.estimate(self.lab, fieldcal.count(self.lab, self.proba, groups=self.groups, y=y))


def measure(path: Path, settings: Settings) -> Found:
    data = read(path)
    names, rows = np.unique(data.groups.astype(str), return_counts=True)
    kept = names[np.argsort(-rows, kind="stable")][: min(MOST, (rows >= SMALLEST).sum())]
    if len(kept) < LEAST:
        return Found(skipped=f"{len(kept)} groups with {SMALLEST} field rows, fewer than {LEAST}")
    among = np.flatnonzero(np.isin(data.groups.astype(str), kept))
    among = among[thinned(len(among), MOST_ROWS)]
    if len(among) < 3 * LABELS:
        return Found(skipped=f"{len(among)} field rows, fewer than three for each of {LABELS} labels")
    records = []
    for way, lab_groups in WAYS.items():
        lab = fieldcal.learn(
            data.proba_lab,
            data.y_lab,
            groups=data.groups_lab.astype(str) if lab_groups else None,
            classes=range(data.proba_lab.shape[1]),
        )
        groups = data.groups[among].astype(str)
        before = fieldcal.estimate(lab, fieldcal.count(lab, data.proba[among], groups=groups))
        asked = Grouped(path.stem, lab, data.proba[among], data.y[among], groups, before)
        records += [{"way": way} | record for record in replicas(asked, settings.replicas)]
    return Found(records)


def replicas(asked: Grouped, n: int) -> Iterator[dict[str, Any]]:
    place, (n_groups, n_classes) = asked.place, asked.size
    truth = shares(asked.y, place, n_groups, n_classes)
    naive = np.array([asked.proba[place == g].mean(axis=0) for g in range(n_groups)])
    about = {"file": asked.file, "kind": kind_of(asked.file), "groups": n_groups, "classes": n_classes}
    known = about | {"change_none": change(asked.before, asked.proba, asked.y, asked.groups)}
    for replica in range(n):
        rng = rng_of(asked.file, LABELS, replica)
        rows = rng.choice(len(asked.y), LABELS, replace=False)
        found = spread(asked, rows, truth, naive)
        if replica % LEFT_OUT == 0:
            found |= left_out(asked, rng.permutation(n_groups)[: max(n_groups // 3, 1)], truth, rng)
        yield known | {"replica": replica} | found


def of_groups(prev: fieldcal.Prevalence, at: Any = slice(None)) -> Shares:
    return Shares(prev.estimate[at], prev.lower[at], prev.upper[at])


def spread(asked: Grouped, rows: np.ndarray, truth: np.ndarray, naive: np.ndarray) -> dict[str, Any]:
    """Labels anywhere; also of the quarter of the groups that got the fewest."""
    after, labelled = asked.after(rows), np.zeros(asked.size)
    np.add.at(labelled, (asked.place[rows], asked.y[rows]), 1)
    each = labelled.sum(axis=1, keepdims=True)
    alone = (labelled + SHRUNKEN * labelled.sum(axis=0) / LABELS) / (each + SHRUNKEN)
    few = np.flatnonzero(each[:, 0] <= np.quantile(each, 0.25))
    rest = np.setdiff1d(np.arange(len(asked.y)), rows)
    return {
        **of_groups(after).judged(truth),
        **of_groups(asked.before).judged(truth, "_none"),
        **of_groups(after, few).judged(truth[few], "_few"),
        **of_groups(asked.before, few).judged(truth[few], "_few_none"),
        "e_labels": error(alone, truth),
        "e_few_labels": error(alone[few], truth[few]),
        "e_naive": error(naive, truth),
        "change": change(after, asked.proba[rest], asked.y[rest], asked.groups[rest]),
        "verdict": after.verdict.level,
    }


def left_out(
    asked: Grouped, without: np.ndarray, truth: np.ndarray, rng: np.random.Generator
) -> dict[str, float]:
    """Some of the groups have no label: what the others' labels do for them."""
    others = np.flatnonzero(~np.isin(asked.place, without))
    after = asked.after(rng.choice(others, min(LABELS, len(others) // 2), replace=False))
    return {
        **of_groups(after, without).judged(truth[without], "_left"),
        **of_groups(asked.before, without).judged(truth[without], "_left_none"),
    }


ERRORS: dict[str, Column] = {
    "files": lambda some: str(len(some)),
    "fieldcal": mean_of("e", error=True),
    "labels only, shrunken": mean_of("e_labels", error=True),
    "without labels": mean_of("e_none", error=True),
    "mean prediction": mean_of("e_naive", error=True),
    "/ labels only": ratio_of("e", "e_labels"),
    "/ without": ratio_of("e", "e_none"),
    "cover": mean_of("covered", 3, error=True),
    "without labels ": mean_of("covered_none", 3),
    "width": mean_of("width"),
    "without labels  ": mean_of("width_none"),
    "log loss": mean_of("change", sign=True, error=True),
    "without labels   ": mean_of("change_none", sign=True),
}
FEW: dict[str, Column] = {
    "fewest labels": mean_of("e_few", error=True),
    "labels only": mean_of("e_few_labels", error=True),
    "without labels": mean_of("e_few_none", error=True),
    "cover": mean_of("covered_few", 3, error=True),
    "no label": mean_of("e_left", error=True),
    "without labels ": mean_of("e_left_none", error=True),
    "/ without": ratio_of("e_left", "e_left_none"),
    "cover ": mean_of("covered_left", 3, error=True),
}


def page(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    files = frame.groupby(["way", "kind", "file"], as_index=False).mean(numeric_only=True)
    for least in (LEAST, JUDGED):
        some = files[files.groups >= least]
        if some.empty:
            continue
        yield f"Files with {least} to {MOST} groups. Error of the groups' shares, intervals, log loss:"
        yield from table(some, KEYS, ERRORS, markdown=markdown)
        yield "The quarter of the groups with the fewest labels, and a third that has none at all:"
        yield from table(some, KEYS, FEW, markdown=markdown)
        yield f"5. Groups, files with {least} to {MOST}"
        yield from bars(some)


def bars(files: pd.DataFrame) -> Iterator[str]:
    for way, all_kinds in files.groupby("way"):
        times = ratio(all_kinds, "e", "e_labels")
        yield bar(f"{way}, all kinds: MAE {times:.3f} × labels only, shrunken (≤ .75)", times <= 0.75)
        times = ratio(all_kinds, "e_left", "e_left_none")
        yield bar(
            f"{way}, all kinds: groups without labels {times:.3f} × the estimate without labels (< 1)",
            times < 1,
        )
    for (way, kind), some in parts(files, KEYS):
        times = ratio(some, "e", "e_labels")
        yield bar(f"{way}, {kind}: MAE {times:.3f} × labels only, shrunken (≤ .75)", times <= 0.75)
        times = ratio(some, "e", "e_none")
        if kind == "random":
            yield bar(f"{way}, random: MAE {times:.3f} × the estimate without labels (≤ 1.02)", times <= 1.02)
        if kind == "moved":
            yield clearly_below(some, f"{way}, moved: MAE {times:.3f} × the estimate without labels")
            times = ratio(some, "e_left", "e_left_none")
            yield bar(
                f"{way}, moved: groups without labels {times:.3f} × the estimate without labels (< 1)",
                times < 1,
            )
        share = some.covered.mean()
        yield bar(f"{way}, {kind}: 90 % intervals cover {share:.3f} (≥ .85)", share >= 0.85)


def clearly_below(some: pd.DataFrame, what: str) -> str:
    """The estimate without labels by two standard errors over files."""
    gain = some.e - some.e_none
    shown = f"{number(gain.mean(), sign=True)} ±{number(error_of(gain))}"
    return bar(
        f"{what}, {shown} (below by two standard errors), lower in {(gain < 0).sum()} of {len(gain)} files",
        gain.mean() < -2 * error_of(gain),
    )
