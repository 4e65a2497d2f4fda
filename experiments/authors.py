"""The authors' own quantification experiment: their data, the answers of their code, and their figures.

The paper's repository (github.com/albert-ziegler/unsupervised-calibration) holds Python code and figures in commit
f607f40, which its main branch no longer shows. The data are made here in the same way, so that a replica of ours has
the same rows as theirs; what their code and figures say of them is in ``data/``, see the README there.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from harness import HERE
from numpy.typing import NDArray
from quantification_data import QuantificationData
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression

N_LAB = 2000
METHODS = ("CC", "ACC", "EM", "URC")


def draw(*, lab: float, field: float, size: int, seed: int) -> QuantificationData:
    """One replica: a pool just large enough, a logistic regression, a lab and a field.

    Training set, lab and field are the first rows of each class in the pool, in that order. Two things differ from
    what one may expect. Of the four features two are linear combinations of the others (the paper's appendix calls two
    irrelevant). And the pool's mix of classes is that of everything drawn from it, so it depends on the size of
    the field; as every tenth label is drawn anew whatever the class was, so does the share of mislabelled rows in
    the rarer class: for a lab of 5 % and a field of 50 %, 47 % of the positives with 50 rows and 14 % with 3,000.
    """
    positive = 2 * lab * N_LAB + field * size
    negative = 2 * (1 - lab) * N_LAB + (1 - field) * size
    total = positive + negative
    X, y = make_classification(
        n_samples=int(1.2 * total),
        n_features=4,
        n_informative=2,
        n_redundant=2,
        weights=[negative / total, positive / total],
        class_sep=0.4,
        flip_y=0.1,
        random_state=seed,
    )
    rows = {k: np.flatnonzero(y == k) for k in (0, 1)}
    train, held_out, test = (take(rows, n, share) for n, share in ((N_LAB, lab), (N_LAB, lab), (size, field)))
    model = LogisticRegression().fit(X[train], y[train])
    lab_proba, field_proba = model.predict_proba(X[held_out]), model.predict_proba(X[test])
    return QuantificationData(lab_proba, y[held_out], (field_proba,), (y[test],))


def take(rows: dict[int, NDArray[np.intp]], n: int, share: float) -> NDArray[np.intp]:
    """The next ``n`` rows, of which a ``share``, rounded down, is positive; they are gone from ``rows`` then."""
    wanted = {1: int(share * n)}
    wanted[0] = n - wanted[1]
    taken = [rows[k][: wanted[k]] for k in (0, 1)]
    assert sum(map(len, taken)) == n, "the pool is too small"
    for k in (0, 1):
        rows[k] = rows[k][wanted[k] :]
    return np.concatenate(taken)


def estimates() -> pd.DataFrame:
    """What their code answers, in long form: a row per replica, size and method."""
    wide = pd.read_csv(HERE / "data" / "authors_estimates.csv")
    keys = [name for name in wide if name not in METHODS]
    return wide.melt(keys, list(METHODS), var_name="method", value_name="estimate")


def boxes() -> pd.DataFrame:
    """Quartiles and medians of the box plots in their notebooks, measured in pixels."""
    return pd.read_csv(HERE / "data" / "authors_figures.csv")
