"""The inputs of `behaviour.py`: arrays, distributions, tables, bad input, and the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from behaviour_data import (
    FIVE,
    LEVELS,
    THREE,
    TWO,
    Rows,
    class_columns,
    number_columns,
    numbers,
    quantiles_of,
    shifted,
)
from behaviour_items import (
    Items,
    fields,
    of_columns,
    of_field,
    of_lab,
    of_predictions,
    of_prevalence,
    plain,
    text,
)
from scipy import stats

import fieldcal
from fieldcal import regression, tables
from fieldcal.core import partition, priors

# The adapter of functions: the old one while there is one, else the new one.


class Verbs(NamedTuple):
    """learn, count and recalibrate for one kind of prediction."""

    learn: Callable[..., Any]
    count: Callable[..., Any]
    recalibrate: Callable[..., Any]


_THREE = Verbs._fields
CLASSES = Verbs(*(getattr(fieldcal, verb) for verb in _THREE))
NUMBERS = Verbs(*(getattr(regression, verb, getattr(fieldcal, verb)) for verb in _THREE))
TABLES = Verbs(*(getattr(tables, verb) for verb in _THREE))
QUANTILES = Verbs(*(getattr(regression, f"{verb}_table", getattr(tables, verb)) for verb in _THREE))


def made_from(form: str, *given: Any) -> Any:
    """Predictive distributions from one of the forms that people have them in."""
    return (getattr(regression, form, None) or getattr(regression.PiecewiseLinear, form))(*given)


def report(prev: Any) -> Any:
    """The page of an estimate."""
    try:
        return fieldcal.report(prev)
    except TypeError:
        return fieldcal.report(prev.lab, prev.field, prev)


# Arrays and distributions.


def chain(
    rows: Rows,
    *,
    verbs: Verbs = CLASSES,
    learn: Mapping[str, Any] = {},
    count: Mapping[str, Any] = {},
    estimate: Mapping[str, Any] = {},
    applied: Any = None,
) -> Items:
    """learn → count → estimate → recalibrate; ``applied``: predictions other than those counted."""
    lab = verbs.learn(rows.lab, rows.y, groups=rows.lab_groups, **learn)
    field = verbs.count(lab, rows.field, groups=rows.field_groups, **count)
    prev = fieldcal.estimate(lab, field, **estimate)
    new = verbs.recalibrate(prev, rows.field if applied is None else applied, groups=rows.field_groups)
    return of_lab(lab) | of_field(field) | of_prevalence(prev) | of_predictions(new)


def with_labels(rows: Rows, n_classes: int) -> Items:
    """Every ninth field row has a label, of one class after the other."""
    y = [i // 9 % n_classes if i % 9 == 0 else None for i in range(len(rows.field))]
    return chain(rows, count={"y": y})


def estimates(rows: Rows, options: Mapping[str, Mapping[str, Any]], **learn: Any) -> Items:
    """The same counts under several options of `estimate`."""
    lab = fieldcal.learn(rows.lab, rows.y, groups=rows.lab_groups, **learn)
    field = fieldcal.count(lab, rows.field, groups=rows.field_groups)
    made = {name: of_prevalence(fieldcal.estimate(lab, field, **given)) for name, given in options.items()}
    return {
        f"{name}/{item.partition('/')[2]}": v for name, items in made.items() for item, v in items.items()
    }


def given_bins() -> Items:
    """Bin ids in place of predictions."""
    rows = shifted(TWO)
    ids = rows._replace(
        lab=(5 * rows.lab).astype(int).clip(0, 4), field=(5 * rows.field).astype(int).clip(0, 4)
    )
    return chain(ids, learn={"partition": partition.Bins(5)}, applied=rows.field)


def weighted(of: Callable[[int], Any]) -> Items:
    """Rows that count more than once, or less."""
    rows = shifted(TWO)
    return chain(
        rows, learn={"sample_weight": of(len(rows.lab))}, count={"sample_weight": of(len(rows.field))}
    )


def beyond() -> Items:
    """What else there is to ask."""
    rows = shifted(TWO)
    lab = fieldcal.learn(rows.lab, rows.y, groups=rows.lab_groups)
    prev = fieldcal.estimate(lab, fieldcal.count(lab, rows.field, groups=rows.field_groups))
    items = fields("contrast", prev.contrast("York", "Hull")) | {"ranking": plain(prev.ranking())}
    items |= fields("ratio", prev.contrast("York", "Hull", kind="ratio")) | {
        "draws": plain(prev.draws(["York"]))
    }
    items |= fields("poststratify", prev.poststratify({"York": 1, "Hull": 3}))
    items |= {f"performance/{name}": text(str(found)) for name, found in prev.performance("York").items()}
    for name, goal in {"accuracy": "accuracy", "balanced": "balanced", "costs": [[0, 1], [4, 0]]}.items():
        decided = fieldcal.decide(prev, rows.field, groups=rows.field_groups, goal=goal)
        items[f"decide/{name}"] = plain(decided)
    model = fieldcal.Recalibrator().fit(rows.lab, rows.y, groups=rows.lab_groups)
    model.adapt(rows.field, groups=rows.field_groups)
    items["estimator"] = plain(model.predict_proba(rows.field, groups=rows.field_groups))
    items["unseen group"] = plain(fieldcal.recalibrate(prev, [0.2, 0.7], groups=["Truro", "York"]))
    items |= {"plan": repr(fieldcal.plan(lab, n=500)), "check": str(fieldcal.check(lab, prev.field, trust=1))}
    return items | {"report": text(report(prev).markdown())}


def batches() -> Items:
    """add, retract, window, only."""
    rows = shifted(TWO)
    lab = fieldcal.learn(rows.lab, rows.y, groups=rows.lab_groups)
    day = np.arange(len(rows.field)) % 4
    parts = [fieldcal.count(lab, rows.field[day == d], groups=rows.field_groups[day == d]) for d in range(4)]
    week = parts[0]
    for d in (3, 1, 2):
        week = week.add(parts[d], id=f"2024-05-0{d}")
    made = {
        "whole": week,
        "sum": sum(parts),
        "retract": week.retract("2024-05-02"),
        "window": week.window("2024-05-02", "2024-05-04"),
        "only": week.only(["2024-05-03"]),
        "added twice": week.add(parts[1], id="2024-05-01"),
        "added and retracted": parts[0].add(parts[1], id="x").retract("x"),
    }
    items = {f"{name}/{item}": v for name, field in made.items() for item, v in of_field(field).items()}
    return items | of_prevalence(fieldcal.estimate(lab, made["window"]))


def refusals() -> Items:
    """What is said of bad input."""
    rows = shifted(TWO, (0.3, 0.7))
    lab = fieldcal.learn(rows.lab, rows.y)
    field = fieldcal.count(lab, rows.field)
    frame = ENGINES["polars"]({"p": rows.lab, "y": rows.y, "g": rows.lab})
    tried: dict[str, Callable[[], Any]] = {
        "NaN": lambda: fieldcal.count(lab, [0.5, np.nan]),
        "percentages": lambda: fieldcal.count(lab, 100 * rows.field),
        "logits": lambda: fieldcal.learn(np.log(rows.lab / (1 - rows.lab)), rows.y),
        "unknown label": lambda: fieldcal.learn(rows.lab, rows.y, classes=[0, 2]),
        "one class": lambda: fieldcal.learn(rows.lab, 0 * rows.y),
        "lengths": lambda: fieldcal.learn(rows.lab, rows.y[:-1]),
        "sums": lambda: fieldcal.count(lab, np.column_stack([rows.field, rows.field])),
        "weights": lambda: fieldcal.count(lab, [0.5], sample_weight=[-1]),
        "another lab": lambda: fieldcal.estimate(fieldcal.learn(rows.lab, rows.y, partition=4), field),
        "order of arguments": lambda: fieldcal.estimate(field, lab),
        "prior": lambda: fieldcal.estimate(lab, field, prior="flatt"),
        "trust": lambda: fieldcal.estimate(lab, field, trust=2),
        "partition": lambda: fieldcal.learn(rows.lab, rows.y, partition="quantiles"),
        "groups of one population": lambda: fieldcal.recalibrate(
            fieldcal.estimate(lab, field), [0.5], groups=["a"]
        ),
        "column": lambda: tables.learn(frame, scores="pp", label="y"),
        "float groups": lambda: tables.count(lab, frame, by="g", scores="p"),
        "crossing": lambda: made_from("from_quantiles", [[1.0, 3.0, 2.0]], [0.1, 0.5, 0.9]),
    }
    return {name: _refusal(call) for name, call in tried.items()}


def _refusal(call: Callable[[], Any]) -> str:
    try:
        return f"no error: {text(repr(call()))}"
    except Exception as error:
        return text(f"{type(error).__name__}: {error}")


# Tables.


def _polars(columns: dict[str, Any]) -> Any:
    import polars

    return polars.DataFrame(columns)


def _pandas(columns: dict[str, Any]) -> Any:
    import pandas

    return pandas.DataFrame(columns)


def _duckdb(columns: dict[str, Any]) -> Any:
    import duckdb

    return duckdb.connect().from_arrow(_polars(columns).to_arrow())


ENGINES = {"polars": _polars, "pandas": _pandas, "duckdb": _duckdb}


def frames(engine: str, verbs: Verbs, columns: Any, *, count: Mapping[str, Any] = {}, **learn: Any) -> Items:
    """The verbs on tables of one library."""
    known, unknown = map(ENGINES[engine], columns)
    lab = verbs.learn(known, **learn)
    field = verbs.count(lab, unknown, **count)
    prev = fieldcal.estimate(lab, field)
    new = verbs.recalibrate(prev, unknown)
    read = (
        new.fetchnumpy()
        if hasattr(new, "fetchnumpy")
        else {name: new[name].to_list() for name in new.columns}
    )
    return of_lab(lab) | of_field(field) | of_prevalence(prev) | of_columns(read)


# All of them.

_PRIORS = {
    "flat": {"prior": "flat"},
    "kl": {"prior": "kl"},
    "kl 10": {"prior": priors.KL(10)},
    "dirichlet": {"prior": "dirichlet"},
    "dirichlet 10": {"prior": priors.Dirichlet(10)},
    "pooled": {"prior": "pooled"},
}
_TRUST = {"trust 1": {"trust": 1}, "trust half": {"trust": 0.5}, "trust 0": {"trust": 0}}
_MODES = {
    "mode": {"point": "mode"},
    "mode flat": {"point": "mode", "prior": "flat"},
    "mode kl": {"point": "mode", "prior": "kl", "trust": 1, "level": None},
    "level half": {"level": 0.5},
    "other seed": {"random_state": 7},
    "protected": {"protected": True},
}
_ORDERED = {
    "continuity": {"prior": priors.Continuity(100)},
    "smooth": {"prior": "smooth"},
    "pooled": {"prior": "pooled"},
    "flat mode": {"prior": "flat", "point": "mode"},
}
_BY = {"scores": "p", "label": "y", "by": "town"}
_NUMBER = {"quantiles": "q_*", "label": "y", "by": "town"}

INPUTS: dict[str, Callable[[], Items]] = {
    "binary, one population": lambda: chain(shifted(TWO, (0.25, 0.75))),
    "binary, one population, not moved": lambda: chain(shifted(TWO, TWO)),
    "binary, one population, 60 rows": lambda: chain(shifted(TWO, (0.9, 0.1), n=60)),
    "binary, groups, rehearsed": lambda: chain(shifted(TWO)),
    "binary, groups, not rehearsed": lambda: chain(shifted(TWO, rehearse=False)),
    "binary, two columns": lambda: chain(
        Rows(*(np.column_stack([1 - x, x]) if i in (0, 3) else x for i, x in enumerate(shifted(TWO))))
    ),
    "three classes, groups": lambda: chain(shifted(THREE)),
    "three classes, groups, not rehearsed": lambda: chain(shifted(THREE, rehearse=False)),
    "three classes, 8 bins": lambda: chain(shifted(THREE), learn={"partition": 8}),
    "five classes, one population": lambda: chain(shifted(FIVE, (0.1, 0.1, 0.2, 0.2, 0.4))),
    "ordered": lambda: chain(shifted(FIVE, (0.1, 0.1, 0.2, 0.25, 0.35)), learn={"ordered": True}),
    "ordered, groups": lambda: chain(shifted(FIVE, groups=5), learn={"ordered": True}),
    "whole weights": lambda: weighted(lambda n: 1 + np.arange(n) % 3),
    "fractional weights": lambda: weighted(lambda n: 0.3 + 0.1 * (np.arange(n) % 7)),
    "priors, groups": lambda: estimates(shifted(TWO), _PRIORS),
    "priors, one population": lambda: estimates(shifted(TWO, (0.25, 0.75)), _PRIORS),
    "priors, three classes": lambda: estimates(shifted(THREE), _PRIORS),
    "priors, ordered": lambda: estimates(shifted(FIVE, groups=4), _ORDERED, ordered=True),
    "trust, groups": lambda: estimates(shifted(TWO), _TRUST),
    "trust, three classes": lambda: estimates(shifted(THREE), _TRUST),
    "trust, one population": lambda: estimates(shifted(TWO, (0.25, 0.75)), _TRUST),
    "options, groups": lambda: estimates(shifted(TWO), _MODES),
    "options, three classes": lambda: estimates(shifted(THREE), _MODES),
    "labelled, groups": lambda: with_labels(shifted(TWO), 2),
    "labelled, three classes": lambda: with_labels(shifted(THREE, (0.2, 0.3, 0.5)), 3),
    "partition, edges": lambda: chain(shifted(TWO), learn={"partition": partition.Edges([0.2, 0.5, 0.8])}),
    "partition, quantiles": lambda: chain(shifted(TWO), learn={"partition": partition.Quantiles(6)}),
    "partition, simplex": lambda: chain(shifted(THREE), learn={"partition": partition.Simplex(9)}),
    "partition, expected": lambda: chain(shifted(THREE), learn={"partition": partition.Expected(7)}),
    "partition, bins": given_bins,
    "numbers, quantiles": lambda: chain(
        numbers(lambda x: made_from("from_quantiles", quantiles_of(x), LEVELS)), verbs=NUMBERS
    ),
    "numbers, one population, edges": lambda: chain(
        numbers(lambda x: made_from("from_quantiles", quantiles_of(x), LEVELS), grouped=False),
        verbs=NUMBERS,
        learn={"intervals": [8, 10, 12]},
    ),
    "numbers, scipy": lambda: chain(
        numbers(lambda x: stats.norm(x, 1.15)), verbs=NUMBERS, learn={"intervals": 5}
    ),
    "numbers, samples": lambda: chain(
        numbers(lambda x: made_from("from_samples", x[:, None] + 1.15 * np.linspace(-2, 2, 21)), n=600),
        verbs=NUMBERS,
    ),
    "numbers, CDF": lambda: chain(
        numbers(lambda x: made_from("from_cdf", _cdf(x), _GRID), n=600), verbs=NUMBERS, estimate={"trust": 1}
    ),
    "batches": batches,
    "beyond": beyond,
    "refusals": refusals,
}
_GRID = np.linspace(-2, 24, 53)


def _cdf(centre: Any) -> Any:
    values = stats.norm.cdf(_GRID, np.asarray(centre)[:, None], 1.15)
    return values / values[:, -1:]


for _engine in ENGINES:
    INPUTS |= {
        f"{_engine}, classes": lambda engine=_engine: frames(engine, TABLES, class_columns(), **_BY),
        f"{_engine}, two group columns, windows": lambda engine=_engine: frames(
            engine,
            TABLES,
            class_columns(),
            count={"time": "at", "every": "1d"},
            **_BY | {"by": ["land", "town"]},
        ),
    }
    if _engine != "duckdb":  # quantiles are recalibrated in memory
        INPUTS[f"{_engine}, quantiles"] = lambda engine=_engine: frames(
            engine, QUANTILES, number_columns(), **_NUMBER
        )
