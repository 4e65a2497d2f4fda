"""estimate: from a Lab and a Field to prevalences per group."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np

from fieldcal.core import likelihood
from fieldcal.core.priors import Dirichlet, Flat, Penalty, Pooled, Prior, PriorLike, as_prior
from fieldcal.core.reweight import class_weights
from fieldcal.core.solve import Solution, solve
from fieldcal.errors import ConvergenceWarning, InputError
from fieldcal.inputs import Floats
from fieldcal.objects import Field, Fit, Lab, Prevalence

Point = Literal["mean", "mode"]


def estimate(
    lab: Lab,
    field: Field,
    *,
    prior: PriorLike = "auto",
    trust: float | Literal["auto"] = "auto",
    point: Point = "mean",
    level: float = 0.9,
    labelled: Any = None,
    random_state: int = 0,
    max_iter: int = 200,
) -> Prevalence:
    """Work backwards from histograms of predictions to class prevalences.

    Parameters
    ----------
    lab, field : Lab, Field
    prior : "auto", "flat", "kl", "dirichlet", "reference", "pooled", or an object such as KL(strength=10)
    trust : "auto" or float in [0, 1]
    point : "mean" or "mode"
    level : float
        Probability content of the intervals.
    labelled : array-like (K,) or (G, K), optional
        Labelled field rows per class, where a few labels have come in.
    random_state : int
    max_iter : int

    Returns
    -------
    Prevalence

    Examples
    --------
    >>> import fieldcal
    >>> data = fieldcal.datasets.label_shift(n_lab=2000, n_field=1000, random_state=0)
    >>> lab = fieldcal.learn(data.proba_lab, data.y_lab)
    >>> prev = fieldcal.estimate(lab, fieldcal.count(lab, data.proba_field, groups=data.groups_field), trust=1)
    >>> prev.value.shape
    (4, 2)
    """
    chosen = as_prior(prior)
    _check(lab, field, chosen, level=level, point=point)
    tau = _trust(trust)
    V = field.V.astype(np.float64)
    penalty = _penalty(chosen, lab, V)
    mode = solve(lab.M, V, penalty, max_iter=max_iter)
    overall = solve(lab.M, V.sum(axis=0, keepdims=True), Flat().penalty(lab.M, lab.p_lab)).p[0]
    urc = mode.p
    value = (1 - tau) * field.naive + tau * urc
    lower, upper = _interval(urc, lab, V, level)
    novel = likelihood.novel(lab.M, V)
    _warn_if_unsolved(mode)
    G = len(V)
    return Prevalence(
        lab=lab,
        field=field,
        prior={"name": chosen.name},
        point=point,
        level=level,
        urc=urc,
        value=value,
        lower=lower,
        upper=upper,
        trust=np.full(G, tau),
        weights=class_weights(urc, lab.p_lab, trust=tau),
        overall_weights=class_weights(overall, lab.p_lab, trust=tau),
        status=("ok",) * G,
        fit=Fit(gap=mode.gap, n_iter=mode.n_iter, converged=mode.converged, novel=novel),
    )


def _check(lab: Lab, field: Field, prior: Prior, *, level: float, point: str) -> None:
    if field.lab != lab.digest:
        raise InputError(
            f"This field was counted with another lab ({field.lab[:8]}…, not {lab.digest[:8]}…). Count it again "
            "with this lab."
        )
    if not 0 < level < 1:
        raise InputError(f"level must lie between 0 and 1, for instance 0.9, but got {level!r}.")
    if point not in ("mean", "mode"):
        raise InputError(f"point must be 'mean' or 'mode', but got {point!r}.")
    if lab.n_bins == 1 and isinstance(prior, Flat):
        raise InputError(
            "The prevalences cannot be identified: all lab predictions fall into one bin, so that every field "
            "looks the same. Use a classifier that varies, or a prior other than 'flat'."
        )


def _trust(trust: Any) -> float:
    if trust == "auto":
        return 1.0
    if isinstance(trust, bool) or not isinstance(trust, (int, float, np.number)) or not 0 <= trust <= 1:
        raise InputError(
            f"trust must be 'auto' or a number from 0 (leave alone) to 1 (URC), but got {trust!r}."
        )
    return float(trust)


def _penalty(prior: Prior, lab: Lab, V: Floats) -> Penalty:
    if isinstance(prior, Pooled):
        whole = solve(lab.M, V.sum(axis=0, keepdims=True), Dirichlet(2.0).penalty(lab.M, lab.p_lab)).p[0]
        return Penalty(np.zeros(lab.n_bins), 20.0 * whole, 0.0, lab.p_lab)
    return prior.penalty(lab.M, lab.p_lab)


def _interval(p: Floats, lab: Lab, V: Floats, level: float) -> tuple[Floats, Floats]:
    n = np.maximum(V.sum(axis=1, keepdims=True), 1.0)
    half = 1.645 * np.sqrt((p * (1 - p) + 0.25 / n) / n)
    return np.clip(p - half, 0, 1), np.clip(p + half, 0, 1)


def _warn_if_unsolved(mode: Solution) -> None:
    if not mode.converged.all():
        warnings.warn(
            f"{int((~mode.converged).sum())} of {len(mode.gap)} groups stopped at the iteration limit, the worst "
            f"with an optimality gap of {mode.gap.max():.2g} per row. Raise max_iter.",
            ConvergenceWarning,
            stacklevel=3,
        )
