"""The peers, each called as its documentation says; a method answers for one class of a trial.

truescore and GLIDE take one file in which some rows have a label: labelled rows that are none of those in question are
part of that file. judgy and ppi-python take labelled rows, and the others.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from benchmarks.few_labels.files import LEVEL, power_tuned
from benchmarks.judges.tally import Answer
from benchmarks.judges.trial import Trial

RESAMPLES = (
    500  # of judgy; its default of 20,000, in a Python loop, takes half a second for the same quantiles
)
Interval = tuple[float, float, float]
Method = Callable[[Trial, int], Interval]


def truescore_file(trial: Trial) -> tuple[Any, np.ndarray, np.ndarray]:
    """All rows, the labels, and where they are."""
    rows = trial.rows + trial.beside
    index = np.concatenate([trial.labelled, np.arange(len(trial.rows), len(rows))])
    return rows, rows.y[index], index


def truescore_ppi(trial: Trial, k: int) -> Interval:
    import truescore

    rows, y, index = truescore_file(trial)
    gold = (y == k).astype(float)
    return limits(truescore.ppi_estimate(trial.score(rows, k), gold, index, alpha=1 - LEVEL))


def truescore_rogan_gladen(trial: Trial, k: int) -> Interval:
    import truescore

    rows, y, index = truescore_file(trial)
    gold = (y == k).astype(int)
    verdict = trial.verdict(rows, k).astype(int)
    return limits(truescore.rogan_gladen_estimate(verdict, gold, index, alpha=1 - LEVEL))


def truescore_gold_only(trial: Trial, k: int) -> Interval:
    import truescore

    gold = (trial.calibration.y == k).astype(float)
    return limits(truescore.gold_only_estimate(gold, alpha=1 - LEVEL, n_total=len(trial.rows)))


def truescore_judge_only(trial: Trial, k: int) -> Interval:
    import truescore

    return limits(truescore.judge_only_estimate(trial.verdict(trial.rows, k), alpha=1 - LEVEL))


def truescore_post_stratified(trial: Trial, k: int) -> Interval:
    """By slices, to the mix that the rows in question have."""
    import truescore

    rows, y, index = truescore_file(trial)
    slices = rows.slices.astype(str)
    mix = truescore.eval_composition(slices[: len(trial.rows)])
    gold = (y == k).astype(float)
    score = trial.score(rows, k)
    return limits(truescore.post_stratified_estimate(score, gold, index, slices, mix, alpha=1 - LEVEL))


def truescore_slices(trial: Trial) -> Answer:
    """Its report of slices: corrected where a slice has the labels for it, else the judge's number."""
    import truescore

    rows, y, index = truescore_file(trial)
    columns = []
    for k in trial.asked:
        report = truescore.estimate_slices(
            trial.score(rows, k), (y == k).astype(float), index, rows.slices.astype(str), alpha=1 - LEVEL
        )
        found = {int(each.name): limits(each.corrected or each.naive) for each in report.estimates}
        columns.append([found[g] for g in range(len(trial.slice_truth))])
    return Answer(*np.array(columns, dtype=float).transpose(2, 1, 0))


def limits(found: Any) -> Interval:
    return found.point, found.low, found.high


def judgy(trial: Trial, k: int) -> Interval:
    from judgy import estimate_success_rate

    state = np.random.get_state()  # noqa: NPY002 – judgy draws from numpy's global generator
    np.random.seed(trial.seed)  # noqa: NPY002
    try:
        return estimate_success_rate(
            (trial.calibration.y == k).astype(int),
            trial.verdict(trial.calibration, k).astype(int),
            trial.verdict(trial.unlabelled, k).astype(int),
            bootstrap_iterations=RESAMPLES,
            confidence_level=LEVEL,
        )
    finally:
        np.random.set_state(state)  # noqa: NPY002


def prediction_powered(trial: Trial, k: int) -> Interval:
    known = trial.calibration
    return power_tuned(known.y == k, trial.score(known, k), trial.score(trial.unlabelled, k))


def glide_of(name: str, **options: Any) -> Method:
    def method(trial: Trial, k: int) -> Interval:
        from glide import estimators

        rows, y, index = truescore_file(trial)
        gold = np.full(len(rows), np.nan)
        gold[index] = y == k
        given = dict(options)
        if "groups" in given:
            given["groups"] = rows.slices
        if "random_seed" in given:
            given["random_seed"] = trial.seed
        found = getattr(estimators, name)().estimate(
            gold, trial.score(rows, k), confidence_level=LEVEL, **given
        )
        interval = found.confidence_interval
        return interval.mean, interval.lower_bound, interval.upper_bound

    return method


WHOLE: dict[str, Method] = {
    "truescore ppi": truescore_ppi,
    "truescore rogan_gladen": truescore_rogan_gladen,
    "truescore gold_only": truescore_gold_only,
    "truescore judge_only": truescore_judge_only,
    "judgy": judgy,
    "ppi-python PPI++": prediction_powered,
    "GLIDE PPI++": glide_of("PPIMeanEstimator"),
    "GLIDE PTD": glide_of("PTDMeanEstimator", random_seed=None),
}
SLICED: dict[str, Method] = {
    "truescore post_stratified": truescore_post_stratified,
    "GLIDE stratified PPI++": glide_of("StratifiedPPIMeanEstimator", groups=None),
}
PACKAGES = {"truescore": "truescore", "judgy": "judgy", "ppi-python": "ppi_py", "GLIDE": "glide.estimators"}


@cache
def installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(PACKAGES[name.split()[0]]) is not None
    except ModuleNotFoundError:  # of a parent package
        return False


def absent() -> list[str]:
    return [package for package in PACKAGES if not installed(package)]


def answers(trial: Trial, *, sliced: bool = False) -> dict[str, Answer]:
    """What each peer that is here says of the whole share."""
    methods = WHOLE | (SLICED if sliced else {})
    return {
        name: Answer.of([attempt(method, trial, k) for k in trial.asked])
        for name, method in methods.items()
        if installed(name)
    }


def attempt(method: Method, trial: Trial, k: int) -> Interval:
    """Nothing where it refuses, as for labels of one class or a judge no better than chance."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return method(trial, k)
        except (ValueError, RuntimeError, ZeroDivisionError):
            return np.nan, np.nan, np.nan
