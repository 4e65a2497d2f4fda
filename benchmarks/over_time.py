"""Shares over windows: ``python benchmarks/over_time.py [simulated | real FOLDER… | speed | alarms] [--replicas N]``

simulated  Walks, jumps, seasons, standstill and no persistence at all; a lab of 2,000 rows (two classes) or 400 rows a
           class (five), under label shift, with ``trust=1``: mean absolute error of the filtered and of the smoothed
           share over that of separate windows, which is today's pooled estimate with each window of a group as a group
           of its own, and coverage of the 90 % intervals of smoothed shares, the noise of M included.
real       Score files whose groups are years or months, in that order: 80 field rows a window, defaults.
alarms     Trajectories of 52 windows of scores, 100 rows each, with and without a step of one and two widths of the
           90 % interval of a window in one group: share of trajectories with a false alarm, and windows until the step
           is found. Beside it EWMA (.2, 3 sd) and CUSUM (.5, 5 sd) on the mean prediction, and two rules of drift
           monitors on each window: Kolmogorov–Smirnov with p < .05 (Evidently below 1,000 rows) and the mean prediction
           outside 3 sd (NannyML's default thresholds), all against the first ten windows. Then 20 broken sites of 500.
speed      1,000 groups × 365 windows, and a quarter of either.
"""

from __future__ import annotations

import argparse
import os
import re
import resource
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path

if __name__ == "__main__":
    # One core, set before numpy is loaded; modules come from the root, not from this folder.
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")
    sys.path[0] = str(Path(__file__).resolve().parents[1])

import numpy as np
from scipy.special import softmax
from scipy.stats import ks_2samp, norm

import fieldcal
from fieldcal.objects.field import Field

T = 52
KINDS = ("walk .15", "walk .5", "still", "jumps", "season", "independent")
MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")


def paths(kind: str, G: int, K: int, rng: np.random.Generator) -> np.ndarray:
    """True shares (G, T, K); the first class is the reference of the log-odds."""
    k = K - 1
    start = rng.normal(-1 if K == 2 else 0, 0.8, (G, 1, k))
    e = rng.normal(size=(G, T, k))
    jumps = (rng.random((G, T, 1)) < 0.04) * rng.normal(0, 1.5, (G, T, k))
    phase = rng.uniform(0, 6, (G, 1, k))
    x = {
        "walk .15": np.cumsum(0.15 * e, axis=1),
        "walk .5": np.cumsum(0.5 * e, axis=1),
        "still": 0 * e,
        "jumps": np.cumsum(jumps, axis=1),
        "season": 0.8 * np.sin(np.arange(T)[None, :, None] / T * 4 * np.pi + phase),
        "independent": e,
    }[kind]
    x = np.clip(start + x, -5, 5)
    return softmax(np.concatenate([np.zeros((G, T, 1)), x], axis=2), axis=2)


def response(K: int, rng: np.random.Generator) -> np.ndarray:
    """Of two classes those of normal scores 1.5 deviations apart in 8 bins; of more, random rows of 20 bins."""
    if K > 2:
        return rng.dirichlet(np.full(20, 0.6), K)
    edges = np.linspace(-1.6, 2.4, 7)
    return np.stack([np.diff(np.r_[0, norm.cdf(edges - mu), 1]) for mu in (0.0, 1.5)])


def world(
    kind: str, G: int, n: int, K: int, rng: np.random.Generator
) -> tuple[np.ndarray, fieldcal.Lab, Field, Field]:
    """True shares, the lab, the field in windows, and the field with each window of a group as a group."""
    M, p = response(K, rng), paths(kind, G, K, rng)
    m, rows = M.shape[1], 1000 if K == 2 else 400
    bins = np.concatenate([rng.choice(m, rows, p=row) for row in M])
    given = fieldcal.partitions.Bins(m)
    lab = fieldcal.learn(bins, np.repeat(np.arange(K), rows), partition=given)
    V = rng.multinomial(n, p @ M)
    at = np.repeat(np.arange(V.size), V.ravel())
    group, window, bin = np.unravel_index(at, V.shape)
    days = np.datetime64("2026-01-05") + 7 * window.astype("timedelta64[D]")
    field = fieldcal.count(lab, bin, groups=group, time=days, every="1w")
    return p, lab, field, fieldcal.count(lab, bin, groups=group * T + window)


def simulated(replicas: int) -> None:
    print(f"{'':12} classes groups rows  separate  filtered smoothed  covered (± error)  widths")
    cells = [(2, G, n) for G, n in ((5, 100), (50, 20), (50, 100), (50, 500), (200, 100))] + [(5, 10, 100)]
    for K, G, n in cells:
        for kind in KINDS:
            found = []
            for replica in range(replicas):
                rng = np.random.default_rng([K, G, n, replica])
                p, lab, field, split = world(kind, G, n, K, rng)
                alone = fieldcal.estimate(lab, split, trust=1).estimate.reshape(p.shape)
                over = fieldcal.estimate(lab, field, trust=1).over_time
                held = (over.lower[1:] <= p) & (p <= over.upper[1:])
                shares = (alone, over.filtered[1:], over.estimate[1:])
                errors = [np.abs(x - p).mean() for x in shares]
                found.append([*errors, held.mean(), (over.upper - over.lower)[1:].mean()])
            a, f, s, c, w = np.mean(found, axis=0)
            error = np.std(found, axis=0)[3] / np.sqrt(replicas)
            print(
                f"{kind:12} {K:7} {G:6} {n:4}  {a:8.4f} {f / a:9.2f} {s / a:8.2f}  {c:7.3f} ± {error:.3f}  {w:.3f}",
                flush=True,
            )


def order(name: str) -> float:
    short = name.lower()[:3]
    return MONTHS.index(short) if short in MONTHS else float(re.findall(r"\d+\.?\d*", name)[0])


def real(folders: Iterable[str], replicas: int) -> None:
    from benchmarks.known_groups import loaded

    print(f"{'':40} windows  mean prediction  separate  smoothed  covered")
    for path in sorted(p for folder in folders for p in Path(folder).glob("*.parquet")):
        if not re.search(r"__(year|month|sample.yr)__", path.stem):
            continue
        data = loaded(path)
        names, sizes = np.unique(data.groups, return_counts=True)
        names = sorted(names[sizes >= 120], key=order)
        if data.proba.shape[1] > 2 or len(names) < 6:
            continue
        truth, found = np.array([data.y[data.groups == name].mean() for name in names]), []
        lab = fieldcal.learn(data.proba_lab[:, 1], data.y_lab, classes=[0, 1])
        for replica in range(replicas):
            rng = np.random.default_rng(replica)
            rows = np.concatenate(
                [rng.choice(np.flatnonzero(data.groups == g), 80, replace=False) for g in names]
            )
            s, window = data.proba[rows, 1], np.repeat(np.arange(len(names)), 80)
            alone = fieldcal.estimate(lab, fieldcal.count(lab, s, groups=data.groups[rows]))
            alone = np.array([alone[name][1].estimate for name in names])
            days = np.datetime64("2026-01-05") + 7 * window.astype("timedelta64[D]")
            over = fieldcal.estimate(lab, fieldcal.count(lab, s, time=days, every="1w")).over_time
            held = (over.lower[0, :, 1] <= truth) & (truth <= over.upper[0, :, 1])
            raw = np.array([s[window == t].mean() for t in range(len(names))])
            found.append(
                [*(np.abs(x - truth).mean() for x in (raw, alone, over.estimate[0, :, 1])), held.mean()]
            )
        r, a, s, c = np.mean(found, axis=0)
        print(f"{path.stem[:40]:40} {len(names):7} {r:16.3f} {a:9.3f} {s:9.3f} {c:8.2f}", flush=True)


def speed() -> None:
    global T
    for G, windows in ((250, 365), (1000, 91), (1000, 365)):
        T = windows
        _, lab, field, _ = world("walk .15", G, 60, 2, np.random.default_rng(0))
        prev = fieldcal.estimate(lab, field, trust=1)
        start, wall = time.process_time(), time.perf_counter()
        _ = prev.over_time
        used, memory = time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        wall = time.perf_counter() - wall
        print(
            f"{G} groups x {windows} windows: {used:.1f} s of processor time, {wall:.1f} s by the clock, "
            f"{memory:.2f} GB at most",
            flush=True,
        )


def scores(share: np.ndarray, n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities (…, n) of rows whose second class has these shares."""
    y = rng.random((*share.shape, n)) < share[..., None]
    x = rng.normal(size=y.shape) + 1.5 * y
    return y, 1 / (1 + np.exp(-(1.5 * x - 1.125)))


def rules(s: np.ndarray) -> dict[str, np.ndarray]:
    """(G, T) alarms of other rules on predictions (G, T, n), against the first ten windows."""
    mean = s.mean(axis=2)
    reference, sd = mean[:, :10].mean(axis=1, keepdims=True), mean[:, :10].std(axis=1, ddof=1, keepdims=True)
    z, later = (mean - reference) / sd, np.arange(T) >= 10
    ewma, up, down = np.zeros_like(z), np.zeros_like(z), np.zeros_like(z)
    for t in range(10, T):
        ewma[:, t] = 0.8 * ewma[:, t - 1] + 0.2 * z[:, t]
        up[:, t] = np.maximum(up[:, t - 1] + z[:, t] - 0.5, 0)
        down[:, t] = np.maximum(down[:, t - 1] - z[:, t] - 0.5, 0)
    first = s[:, :10].reshape(len(s), -1)
    ks = np.array(
        [[ks_2samp(window, own).pvalue for window in windows] for windows, own in zip(s, first, strict=True)]
    )
    return {
        "EWMA": later & (np.abs(ewma) > 3 * np.sqrt(0.2 / 1.8)),
        "CUSUM": later & (np.maximum(up, down) > 5),
        "KS, p < .05": later & (ks < 0.05),
        "mean, 3 sd": later & (np.abs(z) > 3),
    }


def ours(lab: fieldcal.Lab, s: np.ndarray) -> np.ndarray:
    """(G, T) alarms of a changed share in the groups."""
    G, _, n = s.shape
    group, window = (x.repeat(n) for x in np.divmod(np.arange(G * T), T))
    days = np.datetime64("2026-01-05") + 7 * window.astype("timedelta64[D]")
    names = group if G > 1 else None
    over = fieldcal.estimate(
        lab, fieldcal.count(lab, s.ravel(), groups=names, time=days, every="1w")
    ).over_time
    found = np.zeros((G, T), dtype=bool)
    for alarm in over.alarms(rate=0.05).of("share"):
        if alarm.group is not None or G == 1:
            found[alarm.group or 0, over.place(alarm.window)] = True
    return found


def alarms(replicas: int) -> None:
    rng = np.random.default_rng(0)
    y, s = scores(np.full((1,), 0.3), 4000, rng)
    lab = fieldcal.learn(s[0], y[0].astype(int))
    one = fieldcal.estimate(lab, fieldcal.count(lab, scores(np.array([0.2]), 100, rng)[1][0]), trust=1)
    width = float(one.upper[0, 1] - one.lower[0, 1])
    print(
        f"width of a window's interval: {width:.3f}; rate .05; {'':8} false alarms, median delay (share found)"
    )
    for G in (1, 200):
        for widths in (0, 1, 2):
            found: dict[str, list[tuple[bool, float]]] = {}
            for replica in range(replicas if G == 1 else max(2, replicas // 10)):
                rng = np.random.default_rng([G, widths, replica])
                share = np.full((G, T), 0.2)
                share[0, 26:] += widths * width
                _, s = scores(share, 100, rng)
                for name, raised in {"fieldcal": ours(lab, s), **rules(s)}.items():
                    step = raised[0, 26:] if widths else np.zeros(1, dtype=bool)
                    others = np.concatenate([raised[1:].ravel(), raised[0, : 26 if widths else T]])
                    found.setdefault(name, []).append(
                        (others.any(), step.argmax() + 1 if step.any() else np.inf)
                    )
            for name, runs in found.items():
                delay = np.array([d for _, d in runs])
                at = f"{np.median(delay):.0f} ({np.isfinite(delay).mean():.2f})" if widths else ""
                print(
                    f"{G:4} groups, step {widths} widths, {name:12} {np.mean([f for f, _ in runs]):.2f}  {at}",
                    flush=True,
                )
    rng = np.random.default_rng(1)
    _, s = scores(np.full((500, 12), 0.3), 100, rng)
    s[:20, 6:] = 0.45
    group, window = (x.repeat(100) for x in np.divmod(np.arange(6000), 12))
    days = np.datetime64("2026-01-05") + 7 * window.astype("timedelta64[D]")
    over = fieldcal.estimate(
        lab, fieldcal.count(lab, s.ravel(), groups=group, time=days, every="1w")
    ).over_time
    sites = {a.group for a in over.alarms().of("assumption") if a.group is not None}
    print(
        f"20 broken of 500 sites: {sum(g < 20 for g in sites)} found, {sum(g >= 20 for g in sites)} of 480 others"
    )


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("part", choices=("simulated", "real", "speed", "alarms"))
    parser.add_argument("folders", nargs="*")
    parser.add_argument("--replicas", type=int, default=4)
    options = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    if options.part == "simulated":
        simulated(options.replicas)
    elif options.part == "real":
        real(options.folders, options.replicas)
    elif options.part == "alarms":
        alarms(options.replicas)
    else:
        speed()


if __name__ == "__main__":
    main()
