"""Does it say yes only when it knows? ``python benchmarks/truth.py FOLDER… [--jobs 2] [--csv cases.csv]``

Folders hold parquet files with the columns ``split`` ("dev" is the lab, the rest the field), ``group``, ``y`` (class
index) and ``p_<class>`` (binary: ``p_1`` alone). The field's labels are used for measuring only. Names that start with
``SYN_`` or ``letter_`` obey label shift by construction (*consistent*); of the others, those with ``random`` have lab
and field rows drawn alike, and the rest a field that *moved*.

Every file is asked three ways: with groups in lab and field, with groups in the field only, and as one population: the
whole field, and each of its groups of at least 100 rows alone, the lab without groups. For each: the change of log loss
under the defaults and under ``trust=1`` (negative is better), the best trust in hindsight, the verdict, and whether the
90 % interval holds the share of the labels.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import sys
import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

if __name__ == "__main__":
    sys.path[0] = str(Path(__file__).resolve().parents[1])  # modules come from the root, not from this folder

from benchmarks.score_files import Data, kind_of, log_loss, read, shares

import fieldcal
from fieldcal.core.reweight import steps_of, taken
from fieldcal.objects.prevalence_table import shown_class

WAYS = {
    "lab groups": "groups in lab and field",
    "field groups": "groups in the field",
    "alone": "one population",
}
KINDS = ("consistent", "moved", "random")
TRUSTS = np.linspace(0, 1, 21)
SMALLEST_ALONE = 100  # field rows of a group that is asked alone
SMALLEST_JUDGED = 50  # field rows of a group whose interval is judged
ENOUGH = 20  # labels behind a precision or recall that is judged
PAIRS, ASKED = 30, 12  # contrasts, and groups asked for their performance, per file
HARMED, STAINED = 0.01, 0.002


@dataclass(frozen=True)
class Case:
    """One question and what came of it."""

    file: str
    kind: str
    way: str
    part: str  # "whole", or the group
    rows: int
    change: float  # of log loss, under the defaults
    full: float  # the same under trust=1
    hindsight: float  # at the trust that is best for this case
    overall: float
    between: float
    curve: tuple[float, ...]  # change at each of TRUSTS
    verdict: str
    covered: (
        float  # share of the intervals that hold the labels' share; one group and one class is one interval
    )
    intervals: int
    whole_covered: float
    contrasts: float = float("nan")
    performance: float = float("nan")


def by_trust(prev: fieldcal.Prevalence, proba: np.ndarray, y: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Change of log loss at every trust that a caller could have set."""
    raw, changes = log_loss(proba, y), []
    for trust in TRUSTS:
        steps = steps_of(
            urc=prev.urc,
            whole=prev.whole.urc,
            p_lab=prev.lab.p_lab,
            overall=trust,
            between=trust,
            grouped=prev.field.grouped,
        )
        changes.append(log_loss(taken((step.of(place) for step in steps), proba), y) - raw)
    return np.array(changes)


def inside(lower: np.ndarray, upper: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Of two classes the second says it all."""
    held = (truth >= lower - 1e-12) & (truth <= upper + 1e-12)
    return held[..., 1:] if held.shape[-1] == 2 else held


def ask(data: Data, rows: np.ndarray, lab: fieldcal.Lab, *, grouped: bool) -> dict[str, Any]:
    """One population or its groups, judged by its labels."""
    proba, y = data.proba[rows], data.y[rows]
    groups = data.groups[rows] if grouped else None
    prev = fieldcal.estimate(lab, fieldcal.count(lab, proba, groups=groups))
    new = fieldcal.recalibrate(prev, proba, groups=groups)
    known = {g: i for i, g in enumerate(prev.groups)}
    place = np.array([known[g] for g in groups]) if grouped else np.zeros(len(y), dtype=int)
    curve = by_trust(prev, proba, y, place)
    truth = shares(y, place, len(prev.groups), proba.shape[1])
    held = inside(prev.lower, prev.upper, truth)[np.asarray(prev.n) >= SMALLEST_JUDGED]
    whole = shares(y, np.zeros(len(y), dtype=int), 1, proba.shape[1])[0]
    found: dict[str, Any] = {
        "rows": len(y),
        "change": log_loss(new, y) - log_loss(proba, y),
        "full": float(curve[-1]),
        "hindsight": float(curve.min()),
        "overall": prev.trust_overall,
        "between": prev.trust_between,
        "curve": tuple(curve.tolist()),
        "verdict": prev.verdict.level,
        "covered": float(held.mean()) if held.size else float("nan"),
        "intervals": held.size,
        "whole_covered": float(inside(prev.whole.lower, prev.whole.upper, whole).mean()),
    }
    if grouped and lab.rehearsal is not None:
        found["contrasts"] = contrasts(prev, truth)
        found["performance"] = performance(prev, proba, y, place)
    return found


def contrasts(prev: fieldcal.Prevalence, truth: np.ndarray) -> float:
    """Coverage of differences between pairs of groups, of the class that differs most."""
    judged = np.flatnonzero(np.asarray(prev.n) >= SMALLEST_JUDGED)
    pairs = list(itertools.combinations(judged, 2))
    if not pairs:
        return float("nan")
    chosen = np.random.default_rng(0).permutation(len(pairs))[:PAIRS]
    k, held = shown_class(prev), []
    for a, b in (pairs[i] for i in chosen):
        found = prev.contrast(prev.groups[a], prev.groups[b], of=prev.classes[k])
        held.append(found.lower <= truth[a, k] - truth[b, k] <= found.upper)
    return float(np.mean(held))


def performance(prev: fieldcal.Prevalence, proba: np.ndarray, y: np.ndarray, place: np.ndarray) -> float:
    """Coverage of precision and recall in the largest groups, where there are labels enough to know them."""
    decided, held = proba.argmax(axis=1), []
    for g in np.argsort(-np.asarray(prev.n), kind="stable")[:ASKED]:
        found, rows = prev.performance(prev.groups[g]), place == g
        for k, name in enumerate(prev.classes):
            hits = ((decided == k) & (y == k) & rows).sum()
            for what, of in (("precision", decided), ("recall", y)):
                n = ((of == k) & rows).sum()
                if n >= ENOUGH:
                    interval = found[what][name]
                    held.append(interval.lower <= hits / n <= interval.upper)
    return float(np.mean(held)) if held else float("nan")


def cases(path: Path) -> list[Case]:
    warnings.simplefilter("ignore", fieldcal.FieldcalWarning)
    data = read(path)
    classes = range(data.proba_lab.shape[1])
    bare = fieldcal.learn(data.proba_lab, data.y_lab, classes=classes)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=data.groups_lab, classes=classes)
    everything = np.arange(len(data.y))

    def questions() -> Iterator[tuple[str, str, dict[str, Any]]]:
        yield "lab groups", "whole", ask(data, everything, lab, grouped=True)
        yield "field groups", "whole", ask(data, everything, bare, grouped=True)
        yield "alone", "whole", ask(data, everything, bare, grouped=False)
        for group in dict.fromkeys(data.groups):
            rows = np.flatnonzero(data.groups == group)
            if len(rows) >= SMALLEST_ALONE:
                yield "alone", str(group), ask(data, rows, bare, grouped=False)

    return [
        Case(file=path.stem, kind=kind_of(path.stem), way=way, part=part, **found)
        for way, part, found in questions()
    ]


def mean(values: Iterable[float]) -> float:
    known = [v for v in values if np.isfinite(v)]
    return float(np.mean(known)) if known else float("nan")


def table(found: list[Case]) -> list[str]:
    head = "cases  change  worst  harmed  trust 1  hindsight  kept  cover  whole  ok care refused"
    lines = [f"{'':34}{head}"]
    for way, kind in itertools.product(WAYS, KINDS):
        for part in ("whole", "groups") if way == "alone" else ("",):
            some = [c for c in found if (c.way, c.kind) == (way, kind)]
            some = [c for c in some if not part or (c.part == "whole") == (part == "whole")]
            if some:
                lines.append(f"{WAYS[way]:24}{kind[:6]:7}{part[:3]:3}" + row(some))
    return lines


def row(some: list[Case]) -> str:
    changes = np.array([c.change for c in some])
    best = sum(c.hindsight for c in some)
    said = [sum(c.verdict == level for c in some) for level in ("ok", "care", "do_not_use")]
    return (
        f"{len(some):5} {changes.mean():+8.4f} {changes.max():+.3f} {np.mean(changes > HARMED):6.1%} "
        f"{mean(c.full for c in some):+8.4f} {best / len(some):+10.4f} {changes.sum() / min(best, -1e-12):5.0%} "
        f"{mean(c.covered for c in some):6.3f} {mean(c.whole_covered for c in some):6.3f} "
        f"{said[0]:4} {said[1]:4} {said[2]:4}"
    )


def bar(what: str, met: bool) -> str:
    return f"{'met   ' if met else 'MISSED'} {what}"


def alone_bars(found: list[Case]) -> Iterator[str]:
    """One population, no labels: whole fields and groups."""
    some = {kind: [c for c in found if c.way == "alone" and c.kind == kind] for kind in KINDS}
    for kind, most in (("moved", -0.004), ("random", 0.0)):
        if some[kind]:
            change = mean(c.change for c in some[kind])
            yield bar(f"{kind}: mean change {change:+.4f} (≤ {most:+.3f})", change <= most)
    changes = np.array([c.change for c in found if c.way == "alone"])
    share, worst = float(np.mean(changes > HARMED)), float(changes.max())
    yield bar(f"harmed by more than .01: {share:.2%} of {len(changes)} (≤ 3 %)", share <= 0.03)
    yield bar(f"worst change {worst:+.3f} (≤ +.15)", worst <= 0.15)
    if some["consistent"]:
        change = mean(c.change for c in some["consistent"])
        best = float(np.mean([c.curve for c in some["consistent"]], axis=0).min())
        each = mean(c.hindsight for c in some["consistent"])
        yield bar(
            f"consistent: {change / best:.1%} of what the best single trust gains in hindsight (≥ 55 %); "
            f"{change / each:.1%} of the best trust of every case",
            change <= 0.55 * best,
        )


def verdict_bars(found: list[Case]) -> Iterator[str]:
    harmful = [c for c in found if c.full > HARMED]
    warned = np.mean([c.verdict != "ok" for c in harmful]) if harmful else 1.0
    yield bar(f"full correction harms by > .01, and it is not ok: {warned:.1%} (≥ 90 %)", bool(warned >= 0.9))
    refused = sum(c.kind == "consistent" and c.verdict == "do_not_use" for c in found)
    yield bar(f"consistent cases that are refused: {refused} (0)", refused == 0)
    stained = sum(c.verdict == "ok" and c.change > STAINED for c in found)
    yield bar(f"ok over a harm above .002: {stained} (0)", stained == 0)
    harm = {level: mean(max(c.full, 0.0) for c in found if c.verdict == level) for level in ("ok", "care")}
    yield bar(
        f"mean harm of the full correction: care {harm['care']:.4f}, ok {harm['ok']:.4f} (≥ 3 ×)",
        harm["care"] >= 3 * harm["ok"],
    )


def group_bars(found: list[Case]) -> Iterator[str]:
    some = {kind: [c for c in found if c.way == "lab groups" and c.kind == kind] for kind in KINDS}
    if some["random"]:
        worst = max(some["random"], key=lambda c: c.change)
        yield bar(f"random: worst file {worst.change:+.4f} (≤ +.002) {worst.file}", worst.change <= 0.002)
        kept = sum(c.change for c in some["random"]) / sum(c.hindsight for c in some["random"])
        yield bar(f"random: {kept:.1%} of the hindsight gain (≥ 90 %)", kept >= 0.9)
    if some["moved"]:
        total, best = (sum(getattr(c, name) for c in some["moved"]) for name in ("change", "hindsight"))
        yield bar(
            f"moved: net change {total:+.4f} (< 0), {total / best:.0%} of the hindsight gain", total < 0
        )
        worst = max(some["moved"], key=lambda c: c.change)
        yield bar(f"moved: worst file {worst.change:+.4f} (≤ +.01) {worst.file}", worst.change <= 0.01)
        over = float(np.mean([c.change > 0.005 for c in some["moved"]]))
        yield bar(f"moved: harmed by more than .005: {over:.1%} (≤ 5 %)", over <= 0.05)


def coverage_bars(found: list[Case]) -> Iterator[str]:
    for kind in KINDS:
        some = [c for c in found if c.way == "alone" and c.kind == kind]
        if some:
            share = mean(c.covered for c in some)
            yield bar(
                f"one population, {kind}: 90 % intervals cover {share:.3f} (.85 to .97)",
                0.85 <= share <= 0.97,
            )
    for name in ("contrasts", "performance"):
        share = mean(getattr(c, name) for c in found if c.way == "lab groups")
        yield bar(f"{name} of real groups with a rehearsal cover {share:.3f} (≥ .83)", share >= 0.83)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--csv", type=Path, help="write every case here")
    options = parser.parse_args()
    paths = sorted(path for folder in options.folders for path in folder.glob("*.parquet"))
    found: list[Case] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        for path, some in zip(paths, pool.map(cases, paths), strict=True):
            found += some
            asked = {c.way: c for c in some if c.part == "whole"}
            changes = "  ".join(
                f"{asked[way].change:+.4f} ({asked[way].full:+.4f}) {asked[way].verdict:10}" for way in WAYS
            )
            print(f"{path.stem[:44]:44} {changes}", flush=True)
    if options.csv:
        with options.csv.open("w", newline="") as target:
            names = [field.name for field in fields(Case) if field.name != "curve"]
            writer = csv.DictWriter(target, names, extrasaction="ignore")
            writer.writeheader()
            writer.writerows(asdict(c) for c in found)
    lines = [
        "",
        *table(found),
        "",
        "1. One population",
        *alone_bars(found),
        "2. Verdicts",
        *verdict_bars(found),
    ]
    print("\n".join([*lines, "3. With lab groups", *group_bars(found), "4. Coverage", *coverage_bars(found)]))


if __name__ == "__main__":
    main()
