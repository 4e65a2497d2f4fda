"""Figures of the paper that the experiments are put beside."""

from __future__ import annotations

from collections.abc import Sequence

#: Largest dimension of the paper's images, in pixels.
SIZES = (30, 40, 50, 75, 100, 200)
#: Its table of global recalibration: before and after, by size; 4 partitions, means over 100 evaluation sets.
GLOBAL = {
    "log_loss": (
        (0.399, 0.357),
        (0.378, 0.300),
        (0.359, 0.276),
        (0.323, 0.242),
        (0.307, 0.220),
        (0.286, 0.184),
    ),
    "brier": ((0.126, 0.091), (0.118, 0.083), (0.111, 0.078), (0.099, 0.070), (0.095, 0.064), (0.087, 0.055)),
    "calibration": (
        (0.044, 0.008),
        (0.041, 0.004),
        (0.037, 0.004),
        (0.032, 0.003),
        (0.032, 0.002),
        (0.032, 0.001),
    ),
    "accuracy": (
        (0.826, 0.893),
        (0.837, 0.898),
        (0.847, 0.902),
        (0.863, 0.910),
        (0.869, 0.916),
        (0.879, 0.926),
    ),
}
#: Mean predictions before recalibration; the base rate found afterwards is nowhere higher than the last.
RAW_RATE, MOST_RATE = (0.23, 0.27), 0.17
#: Precision before and after, for the smallest and the largest images.
PRECISION = {
    "precision_beetles": ((0.32, 0.63), (0.47, 0.76)),
    "precision_butterflies": ((0.94, 0.90), (0.98, 0.94)),
}
#: Gain in accuracy, for the smallest and the largest images: least of 100 evaluation sets, and mean.
GAIN = ((0.06, 0.07), (0.04, 0.05))
#: Other numbers of bins differ by no more from 4: at any size, and without the smallest images.
ROBUST = (0.09, 0.05)
#: Calibration part of the Brier score on a balanced set, before and after Platt scaling.
PLATT = (0.03, 0.001)
#: Beetles and butterflies that are recognised at full resolution.
RECOGNISED = (0.861, 0.877)


def counterpart(sizes: Sequence[int]) -> dict[int, int]:
    """Which of the paper's sizes stands beside each of these: the same, or else the one of the same rank."""
    if set(sizes) <= set(SIZES):
        return {size: size for size in sizes}
    return dict(zip(sorted(sizes), SIZES, strict=False)) if len(sizes) == len(SIZES) else {}
