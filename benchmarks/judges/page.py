"""Tables of the parts, and their bars: met or MISSED."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pandas as pd
from benchmarks.few_labels.page import bar, grid, number
from scipy.stats import binom

LOWEST, HIGHEST = 0.86, 0.97
COVERS = 0.86  # a peer that covers less is not held against ours
NARROWER = 0.95
OURS, PPI = "fieldcal", "ppi-python PPI++"
SHOWN = 8  # cells named under a bar

Page = Callable[..., Iterator[str]]


def simulated(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    whole, slices = frame[frame.part == "whole"], frame[frame.part == "slices"]
    yield from by_method(whole, ["kind", "design"], markdown=markdown)
    yield "The share of each of the ten slices:"
    yield from by_method(slices, ["kind", "design"], markdown=markdown)
    yield "1. Simulated judges"
    holds = whole[(whole.kind != "slices") | (whole.design == "random")]
    yield from coverage_bar(holds, "cells where the model holds")
    for (kind, design), some in holds[holds.method == OURS].groupby(["kind", "design"]):
        inside = int(some.covered.between(LOWEST, HIGHEST).sum())
        yield f"         {kind}, {design}: {inside} of {len(some)}"
    yield from width_bars(holds, ["kind", "design", "sensitivity", "specificity"])


def real(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    yield from by_method(frame, ["kind", "design"], markdown=markdown)
    yield "1. Real verdicts"
    yield from coverage_bar(frame, "files, kinds of verdict and designs")
    yield from width_bars(frame, ["kind", "design"])


def slices(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    each = frame[frame.part == "slices"]
    yield from by_method(each, ["judge", "labels"], markdown=markdown)
    yield "The whole share:"
    yield from by_method(frame[frame.part == "whole"], ["judge", "labels"], markdown=markdown)
    yield "2. Thirty slices"
    table = each.pivot(index="cell", columns="method")
    for cell in dict.fromkeys(each.cell):
        covered, mae = table.covered.loc[cell], table.mae.loc[cell]
        yield bar(f"{cell}: cover {number(covered[OURS], 3)} (≥ .86)", covered[OURS] >= LOWEST)
        beside = f"raw verdicts {number(mae['raw verdicts'])}, labels only {number(mae['labels only'])}"
        least = min(mae["raw verdicts"], mae["labels only"])
        yield bar(f"{cell}: MAE {number(mae[OURS])} (below {beside})", mae[OURS] < least)


def pairs(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    yield from by_method(frame, ["errors", "labels"], ours="fieldcal paired", markdown=markdown)
    yield "3. Paired contrasts"
    table = frame.pivot(index="cell", columns="method")
    with_pairs, without = table.width["fieldcal paired"], table.width["fieldcal unpaired"]
    narrower = int((with_pairs < without).sum())
    yield bar(
        f"narrower than unpaired in {narrower} of {len(table)} cells, "
        f"{number((with_pairs / without).mean(), 3)} × as wide",
        narrower == len(table),
    )
    yield from coverage_bar(frame, "cells", 0.87, 0.93, ours="fieldcal paired")
    mean = table.covered["fieldcal paired"].mean()
    yield bar(f"mean over the cells: {number(mean, 3)} (.87 to .93)", 0.87 <= mean <= 0.93)


def rates(frame: pd.DataFrame, *, markdown: bool) -> Iterator[str]:
    yield from by_method(frame, ["share"], markdown=markdown)
    yield "4. A test of known rates"
    apart = frame.apart.max()
    yield bar(f"Rogan–Gladen's point, to {apart:.1e} (1e-9)", apart <= 1e-9)
    covered = frame.pivot(index="cell", columns="method").covered
    below = covered[covered["Wald on Rogan–Gladen"] < 0.88]
    held = int((below[OURS] >= 0.88).sum())
    yield bar(
        f"cover ≥ .88 in {held} of {len(below)} cells where Wald on Rogan–Gladen falls below",
        held == len(below),
    )
    yield named(below[below[OURS] < 0.88][OURS])
    others = covered.drop(below.index)[OURS]
    yield f"         in the other {len(others)} cells: {number(others.min(), 3)} to {number(others.max(), 3)}"


PAGES: dict[str, Page] = {
    "simulated": simulated,
    "real": real,
    "slices": slices,
    "pairs": pairs,
    "rates": rates,
}


def by_method(frame: pd.DataFrame, keys: Sequence[str], *, ours: str = OURS, markdown: bool) -> Iterator[str]:
    """A row for each method in each part of the cells; means over cells."""
    rows = []
    for at, some in frame.groupby(list(keys), sort=False):
        own = some[some.method == ours].set_index("cell").width
        rows += [
            [*map(str, at), method, *summary(of, own)] for method, of in some.groupby("method", sort=False)
        ]
    head = ["cells", "cover", "lowest", "highest", ".86–.97", "|bias|", "MAE", "width", "× ours", "no answer"]
    yield from grid([*keys, "method", *head], rows, markdown=markdown)


def summary(of: pd.DataFrame, own: pd.Series) -> list[str]:
    ratio = (of.set_index("cell").width / own).mean()
    return [
        str(len(of)),
        number(of.covered.mean(), 3),
        number(of.covered.min(), 3),
        number(of.covered.max(), 3),
        str(int(of.covered.between(LOWEST, HIGHEST).sum())),
        number(of.bias.abs().mean()),
        number(of.mae.mean()),
        number(of.width.mean()),
        number(ratio, 2),
        f"{of.failed.mean():.1%}",
    ]


def coverage_bar(
    frame: pd.DataFrame, what: str, low: float = LOWEST, high: float = HIGHEST, *, ours: str = OURS
) -> Iterator[str]:
    """How many cells are outside, beside how many chance takes out of exact intervals."""
    own = frame[frame.method == ours].set_index("cell")
    outside = own[~own.covered.between(low, high)]
    sure = (own.covered + 2 * own.covered_error < low) | (own.covered - 2 * own.covered_error > high)
    inside = binom.cdf(high * own.replicas, own.replicas, 0.9) - binom.cdf(
        low * own.replicas - 1e-9, own.replicas, 0.9
    )
    yield bar(
        f"cover outside {number(low, 2)} to {number(high, 2)} in {len(outside)} of {len(own)} {what}, in "
        f"{int(sure.sum())} beyond two standard errors (0; chance takes {(1 - inside).sum():.1f} of exact ones)",
        outside.empty,
    )
    yield named(outside.covered)


def width_bars(frame: pd.DataFrame, judge: Sequence[str]) -> Iterator[str]:
    """Width beside PPI++, and beside every peer that covers: in the cell, and in all cells of its kind."""
    own = frame[frame.method == OURS].set_index("cell").width.rename("own")
    beside = frame[frame.method != OURS].join(own, on="cell")
    ppi = beside[(beside.method == PPI) & (beside.design == "random")].set_index("cell")
    if len(ppi):
        wider = ppi[ppi.own > ppi.width]
        yield bar(
            f"random labels: wider than PPI++ in {len(wider)} of {len(ppi)} cells (0), in "
            f"{int((wider.covered >= COVERS).sum())} where PPI++ covers; {number((ppi.own / ppi.width).mean(), 3)} × "
            "as wide",
            wider.empty,
        )
        yield named((wider.own / wider.width).sort_values(ascending=False))
    if len(beside):
        yield from narrower_peers(beside, judge)


def narrower_peers(beside: pd.DataFrame, judge: Sequence[str]) -> Iterator[str]:
    ahead = beside[(beside.covered >= COVERS) & (beside.width < NARROWER * beside.own)]
    n_cells = beside.cell.nunique()
    yield bar(
        f"a peer that covers in that cell is narrower by more than 5 % in {ahead.cell.nunique()} of {n_cells} "
        "cells (0)",
        ahead.empty,
    )
    for method, some in ahead.groupby("method"):
        yield f"         {method}: {len(some)} cells"
    always = beside.groupby([*judge, "method"]).covered.transform("min") >= COVERS
    sound = ahead[always.reindex(ahead.index)]
    yield bar(
        f"a peer that covers in all cells of that {', '.join(judge)} is: {sound.cell.nunique()} of {n_cells} (0)",
        sound.empty,
    )
    ratio = (sound.width / sound.own).set_axis(sound.method + " in " + sound.cell)
    yield named(ratio)


def named(values: pd.Series) -> str:
    """The first few, by name."""
    chosen = values.head(SHOWN)
    more = f" … and {len(values) - SHOWN} more" if len(values) > SHOWN else ""
    return "         " + ("; ".join(f"{at} {number(v, 3)}" for at, v in chosen.items()) + more or "none")
