"""Real predictions for each of the three verdicts: rodents of the Portal project, told apart by foot and weight.

Groups are trap plots, which differ in their species. Whether that is label shift depends on what is asked. Two kangaroo
rats look the same in every plot. "Onychomys or any other" does not: what "any other" looks like depends on the plot.
"""

from __future__ import annotations

import functools
import warnings

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import fieldcal

QUESTIONS = {
    "ok": ("DM", ("DM", "DO")),
    "care": (("DM", "DO", "DS"), None),
    "do_not_use": (("OL", "OT"), None),
}


@functools.cache
def judged(level):
    """The estimate for a question that deserves this verdict, and its field rows: proba, y, groups."""
    wanted, among = QUESTIONS[level]
    captures = fieldcal.datasets.portal()
    used = np.isin(captures.species, among) if among else np.ones(len(captures), dtype=bool)
    X = np.column_stack([captures.hindfoot_length, captures.weight])[used]
    y = np.where(np.isin(captures.species[used], wanted), "wanted", "other")
    plots = captures.plot[used]
    part = np.digitize(np.random.default_rng(0).random(len(captures))[used], [0.4, 0.7])
    model = HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=8, min_samples_leaf=50, random_state=0)
    proba = model.fit(X[part == 0], y[part == 0]).predict_proba(X)[:, 1]
    with warnings.catch_warnings(action="ignore", category=fieldcal.FieldcalWarning):
        known = plots[part == 1] if level != "do_not_use" else None  # where the lab's groups teach nothing
        lab = fieldcal.learn(proba[part == 1], y[part == 1], groups=known)
        field = fieldcal.count(lab, proba[part == 2], groups=plots[part == 2])
        prev = fieldcal.estimate(lab, field)
    return prev, (proba[part == 2], y[part == 2], plots[part == 2])


HOSTILE = (
    "</script><img src=x onerror=alert(1)>",
    r"$\frac{$",
    "x" * 10_000,
    "עברית וגם العربية",
    '"><svg onload=alert(1)>',
    'a style="x" id="axes_1" b',
    "=1+1|cmd",
    "line\nbreak\u202eoverride",
    "[a](javascript:alert(1)) `code` | pipe",
    "",
)


@functools.cache
def hostile():
    """An estimate over groups with hostile names."""
    data = fieldcal.datasets.label_shift(n_lab=1500, n_field=1800, n_groups=len(HOSTILE), random_state=1)
    lab = fieldcal.learn(data.proba_lab, data.y_lab, groups=[HOSTILE[g] for g in data.groups_lab])
    field = fieldcal.count(lab, data.proba_field, groups=[HOSTILE[g] for g in data.groups_field])
    return fieldcal.estimate(lab, field, trust=1)


def reported(prev, **more):
    return fieldcal.report(prev, **more)


@functools.cache
def simple(n_groups=6, n_classes=2, **options):
    """An estimate of simulated groups, and its rows."""
    data = fieldcal.datasets.label_shift(
        n_lab=2000,
        n_field=max(1500, 12 * n_groups),
        n_groups=n_groups,
        p_lab=(1 / n_classes,) * n_classes,
        random_state=2,
    )
    lab = fieldcal.learn(data.proba_lab, data.y_lab)
    field = fieldcal.count(lab, data.proba_field, groups=data.groups_field if n_groups > 1 else None)
    options = {"trust": 1, **options}
    return fieldcal.estimate(lab, field, **options), data
