"""What a classifier says of images at full resolution and of the same images made smaller.

The paper's net and its 57,742 photographs of beetles and butterflies are not to be had, so there are two sources:
`digits`, a stand-in of the same structure, and `read`, for whoever has predictions in the files of the R scripts.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, log_loss, precision_score
from sklearn.model_selection import StratifiedKFold

from fieldcal import metrics
from fieldcal.errors import InputError

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

#: A prediction that is certain has no logit: before Platt scaling, none is nearer to 0 or 1.
CERTAIN = 1e-6
SIDE = 8  # pixels of the digits
SMALLER = (2, 3, 4, 5, 6, 7)
EVEN = (0, 2, 4, 6, 8)
LOOPS = (0, 6, 8, 9)
#: How much the stand-in's classifier is regularised: so much that it is as good as the paper's net.
STRENGTH = 3e-4
CLASSES = {"beetles": ("beetles",), "butterflies": ("butterflies", "butterfiles")}


@dataclass(frozen=True)
class Predictions:
    """Ground truth, and the score of the positive class (1, "beetles") by image size, one value per image."""

    truth: Codes
    full: Floats
    small: dict[int, Floats]  # pixels -> scores, the smallest size first

    def platt(self, rows: Codes | None = None) -> Predictions:
        """Platt scaling: a logistic curve, fitted at full resolution as if the classes were equally frequent.

        Fitted on these rows, by default on all, and applied to all.
        """
        of = slice(None) if rows is None else rows
        curve = LogisticRegression(C=1e12, class_weight="balanced").fit(logit(self.full[of]), self.truth[of])

        def scaled(score: Floats) -> Floats:
            return np.asarray(curve.predict_proba(logit(score))[:, 1])

        return Predictions(
            self.truth, scaled(self.full), {size: scaled(score) for size, score in self.small.items()}
        )


def logit(score: Floats) -> Floats:
    """As a column."""
    inside = np.clip(score, CERTAIN, 1 - CERTAIN)
    return np.log(inside / (1 - inside))[:, None]


def digits(positive: tuple[int, ...] = EVEN) -> Predictions:
    """The stand-in, Platt-scaled as in the paper."""
    return unscaled_digits(positive).platt()


@cache
def unscaled_digits(positive: tuple[int, ...] = EVEN) -> Predictions:
    """The stand-in: 1,797 handwritten digits of 8 × 8 pixels; even ones are the beetles, odd ones the butterflies.

    What makes it the same experiment:

    - A general classifier that was not made for the two orders: a logistic regression for the ten digits, trained at
      full resolution only, whose probabilities are added up. It is regularised until it is about as good as the
      paper's net (.87 and .89 of the two classes are recognised, there .86 and .88). Every image is predicted by a
      model that did not see it (five folds).
    - Images are made smaller by averaging over areas, brought back to 8 × 8 for the classifier, and set to equal
      brightness and contrast, as image classifiers do.
    - Even against odd, because making an image smaller is to make the classifier worse, for both classes alike. It
      must not look like one of them: digits with a loop (0, 6, 8, 9) lose it, so that blurred images of
      all digits are taken for ones without. That is no label shift, and `LOOPS` is kept to show what happens then.
      Most other groupings behave more like `LOOPS`; docs/evidence/experiments.md says how this one was chosen.
    """
    images, digit = load_digits(return_X_y=True)
    pixels = {size: resized(images.reshape(-1, SIDE, SIDE), size) for size in (*SMALLER, SIDE)}
    scores = {size: np.zeros(len(digit)) for size in pixels}
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(images, digit):
        model = LogisticRegression(C=STRENGTH, max_iter=1000).fit(pixels[SIDE][train], digit[train])
        for size, score in scores.items():
            score[test] = model.predict_proba(pixels[size][test])[:, positive].sum(axis=1)
    full = scores.pop(SIDE)
    return Predictions(np.isin(digit, positive).astype(np.intp), full, scores)


def resized(images: Floats, size: int) -> Floats:
    """Averaged over areas to so many pixels a side, back to the old size, at equal brightness and contrast."""
    back = []
    for image in images.astype(np.float32):
        small = Image.fromarray(image).resize((size, size), Image.Resampling.BOX)
        back.append(np.asarray(small.resize((SIDE, SIDE), Image.Resampling.BILINEAR)).ravel())
    flat = np.array(back, dtype=np.float64)
    centred = flat - flat.mean(axis=1, keepdims=True)
    return np.asarray(centred / centred.std(axis=1, keepdims=True))


def read(folder: Path) -> Predictions:
    """Predictions in the file format of the authors' R scripts.

    The folders ``beetles`` and ``butterflies`` are the ground truth. Each has a file ``out_30.csv`` for images of at
    most 30 pixels, and so on, and one without a number, ``out_original.csv``, for full resolution. Columns
    ``filename``, ``beetles`` and ``butterflies`` (also spelt ``butterfiles``); the two probabilities are made to sum
    to one. The last part of ``filename`` says which image it is.
    """
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}. It should hold the folders beetles and butterflies.")
    tables = {order: _order(folder / order) for order in CLASSES}
    sizes = {order: list(table.columns) for order, table in tables.items()}
    if sizes["beetles"] != sizes["butterflies"]:
        raise InputError(
            f"beetles come in the sizes {sizes['beetles']} but butterflies in {sizes['butterflies']} (0 is full "
            "resolution). Add the missing files."
        )
    truth = np.repeat([1, 0], [len(tables["beetles"]), len(tables["butterflies"])])
    scores = pd.concat([tables["beetles"], tables["butterflies"]])
    small = {int(size): scores[size].to_numpy() for size in scores if size != 0}
    return Predictions(truth.astype(np.intp), scores[0].to_numpy(), small).platt()


def _order(folder: Path) -> pd.DataFrame:
    """Scores of one order: a row per image, a column per size, full resolution first as size 0."""
    if not folder.is_dir():
        raise InputError(f"There is no folder {folder}: the two orders have one each, named after them.")
    files = {size_in(path.name): path for path in sorted(folder.glob("out_*.csv"))}
    if 0 not in files:
        raise InputError(
            f"{folder} has no file for full resolution: a name without a number, out_original.csv, is expected."
        )
    if len(files) < 2:
        raise InputError(f"{folder} has full resolution only. Add files of smaller images, say out_30.csv.")
    columns = {size: _scores(files[size]) for size in sorted(files)}
    images = columns[0].index  # the order of the full resolution counts
    for size, column in columns.items():
        apart = images.symmetric_difference(column.index)
        if len(apart):
            raise InputError(
                f"{files[size]} and {files[0]} do not hold the same images: {apart[0]!r} is in one of them only "
                f"({len(apart)} such). Predict all images at every size."
            )
    return pd.DataFrame({size: column[images] for size, column in columns.items()})


def size_in(name: str) -> int:
    """The number in the name of a file, 0 where there is none."""
    found = re.search(r"\d+", name)
    return int(found.group()) if found else 0


def _scores(path: Path) -> pd.Series:
    """The share of beetles in the two probabilities, by image."""
    table = pd.read_csv(path)
    columns = {"filename": ("filename",), **CLASSES}
    spelt = {}
    for name, spellings in columns.items():
        present = [spelling for spelling in spellings if spelling in table]
        if not present:
            raise InputError(f"{path} has no column {name!r}, only {list(table.columns)}.")
        spelt[name] = table[present[0]]
    image = spelt.pop("filename").astype(str).str.split(r"[/\\]", regex=True).str[-1]
    if image.duplicated().any():
        raise InputError(f"{path} holds the image {image[image.duplicated()].iloc[0]!r} twice. Keep one.")
    both = pd.DataFrame(spelt).set_axis(image)
    _check_probabilities(both, path)
    return both["beetles"] / both.sum(axis=1)


def _check_probabilities(both: pd.DataFrame, path: Path) -> None:
    """Probabilities lie between 0 and 1, and at least one of the two is positive."""
    numbers = both.apply(pd.to_numeric, errors="coerce")  # what is no number is no probability either
    outside = ~(numbers.ge(0) & numbers.le(1)).all(axis=1)
    nothing = (numbers == 0).all(axis=1)
    for rows, problem in (
        (outside, "has a value that is no probability between 0 and 1"),
        (nothing, "gives both orders the probability 0, so that they cannot be made to sum to one"),
    ):
        if rows.any():
            image = rows.idxmax()
            raise InputError(f"{path} {problem}: image {image!r} has {both.loc[image].to_dict()}.")


def draw(
    predictions: Predictions, rng: np.random.Generator, *, per_class: int, base_rate: float | None
) -> tuple[Codes, Codes]:
    """Rows of a random evaluation set with so many images of each class, and of a field of others.

    The field has a given base rate, and is as large as the images allow; without one it is everything else.
    """
    positive, negative = (rng.permutation(np.flatnonzero(predictions.truth == k)) for k in (1, 0))
    least = min(len(positive), len(negative))
    if least <= per_class:
        raise InputError(
            f"The evaluation set takes {per_class} images of each class, but there are only {least} of one. Add images."
        )
    lab = np.concatenate([positive[:per_class], negative[:per_class]])
    positive, negative = positive[per_class:], negative[per_class:]
    if base_rate is not None:
        n = int(min(len(positive) / base_rate, len(negative) / (1 - base_rate)))
        wanted = round(n * base_rate)
        positive, negative = positive[:wanted], negative[: n - wanted]
    return lab, np.concatenate([positive, negative])


def scores_of(proba: Floats, truth: Codes) -> dict[str, float]:
    """What the paper reports of predictions, the Brier score's parts by deciles.

    For the log loss no prediction is nearer to 0 or 1 than `CERTAIN`, before and after: an estimate of exactly
    0 makes predictions certain, and one that is wrong would make the mean infinite.
    """
    parts = metrics.brier_parts(proba, truth)
    decided = (proba > 0.5).astype(int)
    precision = precision_score(truth, decided, labels=[0, 1], average=None, zero_division=np.nan)
    return {
        "log_loss": log_loss(truth, np.clip(proba, CERTAIN, 1 - CERTAIN), labels=[0, 1]),
        "brier": parts.score,
        "calibration": parts.calibration,
        "refinement": parts.refinement,
        "accuracy": accuracy_score(truth, decided),
        "precision_beetles": precision[1],
        "precision_butterflies": precision[0],
    }


def digest(predictions: Predictions) -> str:
    """A name for exactly these predictions, so that results of others are not taken for theirs."""
    content = hashlib.sha256(predictions.truth.tobytes() + predictions.full.tobytes())
    for score in predictions.small.values():
        content.update(score.tobytes())
    return content.hexdigest()[:16]
