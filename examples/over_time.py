"""Follow a prevalence over time: ``python examples/over_time.py``.

Rodents of the Portal Project. A classifier tells the species from the measurements; it was trained, and the
lab was learnt, on captures before 1988. From then on the captures of each month come in without labels, as
one batch. The field holds the last twelve months: the new month is added under its date, the one that is too
old is taken out again, and a month that is sent twice changes nothing. In these years the desert pocket mouse
went from rare to frequent, which the classifier, true to its training data, is slow to believe. The labels are
used for two things only: the last column, the share that there was; and to leave out the captures of a species
that came later, which no classifier of that time could know.
"""

from __future__ import annotations

import datetime as dt
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import fieldcal
from fieldcal.datasets import Portal, portal
from fieldcal.errors import TrustWarning

LAST_LAB_YEAR = 1987
SHOWN = "PP"  # the desert pocket mouse
MONTHS = 12


@dataclass(frozen=True)
class Month:
    """Predictions of one month, and the labels that nobody has at that time."""

    start: dt.date
    proba: NDArray[np.float64]
    species: NDArray[np.str_]


@dataclass(frozen=True)
class Line:
    """The last twelve months, at the end of a year."""

    year: int
    prevalence: fieldcal.Prevalence
    true: float


def lab_and_stream(captures: Portal, *, until: int) -> tuple[fieldcal.Lab, list[Month]]:
    """Train on 60 % of the early captures, learn the lab on the others, and predict the later months."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.impute import SimpleImputer
    from sklearn.pipeline import make_pipeline

    features = np.column_stack(
        [captures.hindfoot_length, captures.weight, captures.sex == "F", captures.sex == "M", captures.month]
    )
    early = captures.year <= LAST_LAB_YEAR
    known = np.isin(captures.species, np.unique(captures.species[early]))
    train = early & (np.random.default_rng(0).random(len(captures)) < 0.6)
    model = make_pipeline(
        SimpleImputer(strategy="constant", fill_value=-1.0),
        RandomForestClassifier(min_samples_leaf=10, random_state=0),
    )
    model.fit(features[train], captures.species[train])

    rest = early & ~train
    lab = fieldcal.learn(
        model.predict_proba(features[rest]), captures.species[rest], groups=captures.plot[rest]
    )
    months = []
    for year in range(LAST_LAB_YEAR + 1, until + 1):
        for month in range(1, 13):
            rows = (captures.year == year) & (captures.month == month) & known
            if rows.any():
                proba = model.predict_proba(features[rows])
                months.append(Month(dt.date(year, month, 1), proba, captures.species[rows]))
    return lab, months


def slide(field: fieldcal.Field | None, lab: fieldcal.Lab, month: Month) -> fieldcal.Field:
    """The field with the new month and without those that are too old."""
    id = month.start.isoformat()
    batch = fieldcal.count(lab, month.proba, batch=id)
    field = batch if field is None else field.add(batch, id)
    for old in field.window(end=_months_before(month.start, MONTHS - 1)).batch_ids:
        field = field.retract(old)
    return field


def follow(lab: fieldcal.Lab, stream: list[Month]) -> Iterator[Line]:
    """At the end of every year, an estimate from the months that are in the window then."""
    field = None
    for i, month in enumerate(stream):
        field = slide(field, lab, month)
        if i + 1 < len(stream) and stream[i + 1].start.year == month.start.year:
            continue
        seen = [m.species for m in stream if m.start.isoformat() in field.batch_ids]
        with (
            warnings.catch_warnings()
        ):  # that a movement of everything cannot be rehearsed: the verdict says so too
            warnings.simplefilter("ignore", TrustWarning)
            prevalence = fieldcal.estimate(lab, field)
        yield Line(month.start.year, prevalence, float((np.concatenate(seen) == SHOWN).mean()))


def text(line: Line) -> str:
    """year, n, mean prediction, estimate, interval, and the truth."""
    prev, k = line.prevalence, line.prevalence.classes.index(SHOWN)
    return (
        f"{line.year:>5}{prev.n[0]:>7}  {prev.mean_prediction[0, k]:>6.3f} {prev.estimate[0, k]:>9.3f} "
        f"{prev.interval_text(0, k):>15} {line.true:>6.3f}"
    )


def main(until: int = 2002) -> list[Line]:
    """Print one line per year."""
    lab, stream = lab_and_stream(portal(), until=until)
    print(lab)
    print(f"\nShare of {SHOWN} (desert pocket mouse) among the captures of the last {MONTHS} months.\n")
    print(f"{'year':>5}{'n':>7}  {'predicted':>9} {'estimate':>9} {'90 % interval':>15} {'true':>6}")
    lines = []
    for line in follow(lab, stream):
        print(text(line))
        lines.append(line)
    true, k = np.array([line.true for line in lines]), lab.classes.index(SHOWN)
    predicted = np.array([line.prevalence.mean_prediction[0, k] for line in lines])
    value = np.array([line.prevalence.estimate[0, k] for line in lines])
    print(f"\nMean distance from the truth: mean prediction {np.abs(predicted - true).mean():.3f}, ", end="")
    print(f"estimate {np.abs(value - true).mean():.3f}.")
    return lines


def _months_before(start: dt.date, months: int) -> dt.date:
    year, month = divmod(12 * start.year + start.month - 1 - months, 12)
    return dt.date(year, month + 1, 1)


if __name__ == "__main__":
    main()
