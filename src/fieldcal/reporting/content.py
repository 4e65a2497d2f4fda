"""The table of groups: one line per group, for one class or for all of them."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Hashable
from importlib.metadata import version
from typing import Any

import numpy as np

from fieldcal.objects import Field, Lab, Prevalence, group_keys
from fieldcal.plots import tables as plot_data
from fieldcal.reporting.checklist import checklist
from fieldcal.reporting.evaluation import Evaluation, Numbers
from fieldcal.types import Floats
from fieldcal.verbs.findings import whole_misfit

#: Groups times classes beyond which only one class is told on the page.
MOST_CELLS = 200_000
NAME_WIDTH = 72


def rows(prev: Prevalence, k: int, truth: Floats | None = None) -> dict[str, Any]:
    """Plain columns, the lines that most rows depend on first.

    A line is a group, or a class where there is one population. ``order`` of the lines: how many rows of the class the
    estimate adds or takes away, which is large where a group is large or far off.
    """
    if not prev.field.grouped:
        return _classes(prev, truth)
    G, K = prev.estimate.shape
    shown = [k] if K == 2 or G * K > MOST_CELLS else [k, *(j for j in range(K) if j != k)]
    change = np.abs(prev.estimate - prev.mean_prediction)
    # Of a regression one interval says little: all of them together.
    moved = np.asarray(prev.n, dtype=np.float64) * (
        change[:, k] if prev.lab.support is None else change.sum(axis=1) / 2
    )
    order = np.lexsort((np.arange(G), -np.asarray(prev.n), -moved))
    return {
        "unit": "group",
        "names": _distinct([name(prev.groups[g]) for g in order]),
        "n": _plain(prev.n[order]),
        "effect": _plain(prev.fit.effect[order]),
        "status": [prev.status[g] for g in order],
        "classes": [{"class": name(prev.classes[j]), **_numbers(prev, truth, (order, j))} for j in shown],
        "left_out": K - len(shown) if K > 2 else 0,
    }


def name(key: Any) -> str:
    """A name from the data: one line, without control or direction characters, not endless."""
    return group_keys.show(key, width=NAME_WIDTH) or '""'


def mean(prev: Prevalence, table: Floats) -> Floats:
    """The mean over all rows of the field, (K,)."""
    n = np.maximum(np.asarray(prev.n, dtype=np.float64), 1e-300)
    return np.asarray(np.average(table, axis=0, weights=n)) if len(table) else np.asarray(prev.lab.p_lab)


def variation(prev: Prevalence) -> tuple[float, Floats]:
    """The total variation between mean prediction and estimate: of the whole field, and of each group, (G,).

    It is the share of rows that the estimate puts into another class than the predictions do. Groups without rows
    have 0.
    """
    each = np.abs(prev.estimate - prev.mean_prediction).sum(axis=1) / 2.0
    whole = np.abs(mean(prev, prev.estimate) - mean(prev, prev.mean_prediction)).sum() / 2.0
    return float(whole), np.where(np.asarray(prev.n) > 0, each, 0.0)


def _classes(prev: Prevalence, truth: Floats | None) -> dict[str, Any]:
    order = np.argsort(-np.abs(prev.estimate[0] - prev.mean_prediction[0]), kind="stable")
    K = len(order)
    return {
        "unit": "class" if prev.lab.support is None else "interval",
        "names": _distinct([name(prev.classes[j]) for j in order]),
        "n": _plain(np.repeat(prev.n, K)),
        "effect": _plain(np.repeat(prev.fit.effect, K)),
        "status": [prev.status[0]] * K,
        "classes": [{"class": "", **_numbers(prev, truth, (0, order))}],
        "left_out": 0,
    }


def _numbers(prev: Prevalence, truth: Floats | None, at: Any) -> dict[str, list[float | None] | None]:
    """The columns of one class; ``at`` says which cells of the (G, K) tables."""
    tables = {
        "mean_prediction": prev.mean_prediction,
        "estimate": prev.estimate,
        "lower": prev.lower,
        "upper": prev.upper,
    }
    return {
        column: None if table is None else _nullable(table[at])
        for column, table in {**tables, "truth": truth}.items()
    }


def _distinct(names: list[str]) -> list[str]:
    """Long names that became equal when they were cut get a number."""
    if len(set(names)) == len(names):
        return names
    total, seen, found = Counter(names), Counter[str](), []
    for text in names:
        seen[text] += 1
        found.append(text if total[text] == 1 else f"{text} #{seen[text]}")
    return found


def _plain(values: Any) -> list[Any]:
    return np.asarray(values).tolist()  # type: ignore[no-any-return]


def _nullable(values: Floats) -> list[float | None]:
    """JSON has no NaN."""
    return [None if v != v else v for v in values.tolist()]


_MEANING = {
    "ok": "Nothing speaks against using the recalibrated predictions.",
    "care": "Recalibration probably helps here, but that is not certain. Read why before you use it.",
    "do_not_use": "Keep the raw predictions: the method cannot be trusted on this data.",
}
_WORDS = {"ok": "OK to use", "care": "Use with care", "do_not_use": "Do not use"}


def verdict(prev: Prevalence) -> dict[str, Any]:
    """Level, headline, what it means, the reasons and the next steps."""
    level = prev.verdict.level
    return {
        "level": level,
        "headline": _WORDS[level],
        "meaning": _UNTOUCHED if level == "care" and is_untouched(prev) else _MEANING[level],
        "reasons": list(prev.verdict.reasons),
        "advice": advice(prev),
    }


_APPLY = {
    "class": "Apply it: fieldcal recalibrate, or fieldcal.recalibrate(prev, proba, groups=…).",
    "interval": "Apply it: fieldcal.regression.recalibrate(prev, predicted, groups=…).",
}
_KINDS = {"class": "classes", "interval": "intervals"}
_UNTOUCHED = "Predictions are left as they are: nothing here earned enough trust to change them."


def outcome(prev: Prevalence) -> str:
    """What the model tells apart, in one word."""
    return "class" if prev.lab.support is None else "interval"


def is_untouched(prev: Prevalence) -> bool:
    """Whether recalibration changes no prediction."""
    return bool(prev.trust_overall == 0 and prev.trust_between == 0)


def advice(prev: Prevalence) -> list[str]:
    """What to do next, the most useful first."""
    lab, field, level = prev.lab, prev.field, prev.verdict.level
    found = []
    if level == "do_not_use":
        found.append("Keep using the raw predictions, and do not quote these prevalences as facts.")
    elif prev.protected:
        found.append("Use the prevalences to watch the groups; predictions are not to be changed by them.")
    elif is_untouched(prev):
        found.append("There is nothing to apply. The table shows what the method would have said.")
    else:
        found.append(_APPLY[outcome(prev)])
    if field.grouped and lab.rehearsal is None:
        found.append("Learn again with the groups of the lab rows, so that the correction can be rehearsed.")
    rows = lab.F.sum(axis=1)
    if rows.min() < 30:
        found.append(f"Label more rows of {name(lab.classes[int(rows.argmin())])}.")
    if any("inconsistent" in s for s in prev.status) and field.grouped:
        found.append("Look at the groups marked inconsistent: what is different about them?")
    if prev.movement.moved and level != "ok":
        found.append(
            "Label a few hundred field rows drawn at random and report again with them: they would tell."
        )
    if level == "ok":
        found.append("Report again when the model, the lab or the field has changed.")
    return found


def trust(prev: Prevalence) -> list[str]:
    """How far the method is followed, and on what evidence."""
    found = []
    rehearsal, moved = prev.lab.rehearsal, prev.movement
    if prev.field.grouped:
        tau = prev.trust_between
        found.append(f"Differences between groups are followed with strength {tau:.2f} out of 1.")
        if rehearsal is not None:
            change = f"{rehearsal.change:+.3f} ± {rehearsal.change_se:.3f}"
            end = f"At strength {rehearsal.tau:.2f} log loss changed by {change}."
            end = end if rehearsal.tau else "No strength helped for sure."
            found.append(
                f"In the rehearsal {rehearsal.n_groups:,} groups of the lab played the field, labels held out "
                f"({rehearsal.n_rows:,} rows). {end}"
            )
            if tau < rehearsal.tau:
                found.append(
                    f"Of the {rehearsal.tau:.2f} that it earned, {tau:.2f} is used: the field goes beyond what was "
                    "rehearsed."
                )
        else:
            found.append("The lab has no groups, so nothing could be rehearsed: only histograms speak.")
    found.append(
        f"The movement of the whole field is followed with strength {prev.trust_overall:.2f} out of 1."
    )
    if not moved.moved:
        found.append("The field as a whole has not moved from the lab beyond noise.")
    elif moved.testable:
        share, lower = (min(max(x, 0.0), 1.0) for x in (moved.share, moved.lower))
        found.append(
            f"A change of the mix of {_KINDS[outcome(prev)]} explains {share:.0%} of that movement ({lower:.0%} at "
            "one standard error below)."
        )
    return found


def changes(prev: Prevalence, k: int) -> list[str]:
    """What changed, and for whom."""
    if is_untouched(prev):
        return ["Nothing: trust is 0, so that every estimate equals the mean prediction."]
    if prev.lab.support is not None:
        return _whole_distribution(prev, k)
    which = name(prev.classes[k])
    before, after = mean(prev, prev.mean_prediction)[k], mean(prev, prev.estimate)[k]
    found = [
        f"Over the whole field the share of {which} is {after:.1%} by the estimate; the predictions themselves "
        f"average {before:.1%}; in the lab it was {prev.lab.p_lab[k]:.1%}."
    ]
    return found + (_for_whom(prev, k) if prev.field.grouped and len(prev.groups) else [])


def _whole_distribution(prev: Prevalence, k: int) -> list[str]:
    """Of a regression: how far the distribution of the number moves, and for whom most."""
    whole, each = variation(prev)
    from_lab = np.abs(mean(prev, prev.estimate) - prev.lab.p_lab).sum() / 2.0
    found = [
        f"Over the whole field the estimate puts {whole:.1%} of the rows into other intervals than the predictions "
        f"themselves do, and {from_lab:.1%} into others than in the lab (total variation, {len(prev.classes)} "
        "intervals)."
    ]
    if not prev.field.grouped or not len(prev.groups):
        return found
    g, n = int(np.argmax(each)), np.asarray(prev.n, dtype=np.float64)
    found.append(
        f"By group it is {np.median(each):.1%} at the median, and most in {name(prev.groups[g])} ({n[g]:,.6g} rows): "
        f"{each[g]:.1%}."
    )
    found.append(f"Where groups are compared, it is by their share of the interval {name(prev.classes[k])}.")
    return found


def _for_whom(prev: Prevalence, k: int) -> list[str]:
    found, G, n = [], len(prev.groups), np.asarray(prev.n, dtype=np.float64)
    shift = prev.estimate[:, k] - prev.mean_prediction[:, k]
    up, down = int((shift > 0).sum()), int((shift < 0).sum())
    found.append(f"It rises in {up:,} and falls in {down:,} of {G:,} groups.")
    if prev.lower is not None and prev.upper is not None:
        outside = (prev.mean_prediction[:, k] < prev.lower[:, k]) | (
            prev.mean_prediction[:, k] > prev.upper[:, k]
        )
        share = n[outside].sum() / max(n.sum(), 1e-300)
        found.append(
            f"In {int(outside.sum()):,} of them ({share:.0%} of the rows) the mean prediction lies outside the "
            f"{prev.level:.0%} interval of the estimate."
        )
    g = int(np.argmax(n * np.abs(shift)))
    found.append(
        f"The correction moves most rows in group {name(prev.groups[g])} ({n[g]:,.6g} rows): "
        f"{prev.mean_prediction[g, k]:.1%} → {prev.estimate[g, k]:.1%}{_interval(prev, g, k)}."
    )
    return found


def _interval(prev: Prevalence, g: int, k: int) -> str:
    if prev.lower is None or prev.upper is None:
        return ""
    return f" ({prev.level:.0%} interval {prev.lower[g, k]:.1%} to {prev.upper[g, k]:.1%})"


def labelled(found: Evaluation, prev: Prevalence, k: int) -> list[str]:
    """Whether it helped, and whether intervals hold, where labels say so."""
    change, se = found.change()
    words = "better" if change < -2 * se else "worse" if change > 2 * se else "no different beyond noise"
    score = "log loss" if found.numbers is None else "the log score of the intervals"
    said = [
        f"On {len(found.y):,} labelled field rows the recalibrated predictions are {words}: {score} changes by "
        f"{change:+.3f} ± {se:.3f} per row."
    ]
    within, some = found.inside(prev, k)
    if some and prev.field.grouped:
        said.append(
            f"The labelled share of {name(prev.classes[k])} lies in the estimate's {prev.level:.0%} interval, give or "
            f"take the noise of the labels, in {within:,} of {some:,} groups."
        )
    return said if found.numbers is None else said + _of_numbers(found.numbers)


def _of_numbers(found: Numbers) -> list[str]:
    before, after = found.crps
    change, se = (after - before).mean(), (after - before).std() / np.sqrt(len(before))
    held = found.covered(0.9)
    return [
        f"The continuous ranked probability score (CRPS, in units of the number, less is better) changes by "
        f"{change:+.3g} ± {se:.2g} from {before.mean():.3g}.",
        f"Intervals that should hold 90% of the numbers held {held['before']:.1%} before and hold {held['after']:.1%} "
        "after.",
    ]


SCHEMA = 1
TITLE_WIDTH = 200
#: Groups whose bins are drawn beside those of the whole field: the worst that fit badly.
WORST = 3
#: Groups whose distribution is drawn beside that of the whole field, and what counts as no change.
MOST_MOVED, SAME = 3, 1e-9


def content(
    lab: Lab,
    field: Field,
    prev: Prevalence,
    *,
    of: Hashable = None,
    found: Evaluation | None = None,
    title: str | None = None,
) -> dict[str, Any]:
    """The content of a report, section by section."""
    k = plot_data.focus(prev, of)
    truth = None if found is None else found.truth
    return {
        "fieldcal": "report",
        "schema": SCHEMA,
        "title": group_keys.show(title or "Recalibration report", width=TITLE_WIDTH),
        "verdict": verdict(prev),
        "summary": summary(lab, field, prev, k),
        "trust": trust(prev),
        "changes": changes(prev, k),
        "labelled": None if found is None else evaluated(found, prev, k),
        "figures": figures(lab, prev, k, found),
        "groups": rows(prev, k, truth),
        "quality": quality(lab, field, prev),
        "checklist": checklist(lab, field, prev, whole_misfit(lab, field, prev.common)),
        "settings": settings(lab, field, prev),
        "versions": versions(),
        "digests": {"lab": lab.digest, "field": field.digest, "prevalence": prev.digest},
    }


def summary(lab: Lab, field: Field, prev: Prevalence, k: int) -> dict[str, Any]:
    """The few numbers that everybody asks for first."""
    return {
        "outcome": outcome(prev),
        "class": name(prev.classes[k]),
        "classes": len(prev.classes),
        "groups": len(prev.groups) if field.grouped else None,
        "by": [name(column) for column in field.by],
        "field_rows": float(field.n.sum()),
        "lab_rows": lab.n,
        "level": prev.level,
        "lab": float(lab.p_lab[k]),
        "mean_prediction": float(mean(prev, prev.mean_prediction)[k]),
        "estimate": float(mean(prev, prev.estimate)[k]),
        "moved": None if lab.support is None else variation(prev)[0],
        "trust_between": prev.trust_between,
        "trust_overall": prev.trust_overall,
        "untouched": is_untouched(prev),
        "protected": prev.protected,
    }


def evaluated(found: Evaluation, prev: Prevalence, k: int) -> dict[str, Any]:
    """What labels of the field say, if there are any."""
    said = labelled(found, prev, k)
    return {"rows": len(found.y), "sentences": said, "measures": found.table()}


def figures(lab: Lab, prev: Prevalence, k: int, found: Evaluation | None) -> dict[str, Any]:
    """The table behind each picture; None where there is none."""
    of = prev.classes[k]
    worst = [g for g in np.argsort(-prev.fit.effect, kind="stable") if "inconsistent" in prev.status[g]]
    tables: dict[str, Any] = {
        "trust": None
        if lab.rehearsal is None or not prev.field.grouped
        else plot_data.trust(lab, used=prev.trust_between),
        "forest": plot_data.forest(prev, of=of, truth=None if found is None else found.truth),
        "changes": None if not prev.field.grouped or is_untouched(prev) else plot_data.changes(prev, of=of),
        "bins": [plot_data.bins(prev)],
        "curve": plot_data.curve(prev, of=of),
        # Bin ids in place of predictions leave nothing to be calibrated.
        "reliability": None if lab.partition.takes == "ids" else plot_data.reliability(lab, of=of),
        "labelled": None,
        "response": plot_data.response(lab),
        "distributions": distributions(prev),
        "pit": None,
        "coverage": None,
    }
    if prev.field.grouped:
        tables["bins"] += [plot_data.bins(prev, group=prev.groups[g]) for g in worst[:WORST]]
    if found is not None:
        tables["labelled"] = plot_data.reliability_of(
            found.before, found.after, found.y, classes=prev.classes, of=of
        )
    if found is not None and found.numbers is not None:
        tables |= {"pit": found.numbers.pit, "coverage": found.numbers.coverage}
    return tables


def distributions(prev: Prevalence) -> list[dict[str, Any]]:
    """Of classes that have an order: the whole field, and the groups whose distribution changes most."""
    if not prev.lab.ordered:
        return []
    tables = [plot_data.distribution(prev)]
    if prev.field.grouped:
        _, each = variation(prev)
        most = [g for g in np.argsort(-each, kind="stable") if each[g] > SAME]
        tables += [plot_data.distribution(prev, group=prev.groups[g]) for g in most[:MOST_MOVED]]
    return tables


def quality(lab: Lab, field: Field, prev: Prevalence) -> list[dict[str, Any]]:
    """Rows that were left out or changed, and groups to be careful with."""
    counts: list[tuple[str, float, str]] = [
        ("Field rows counted", float(field.n.sum()), "with their weights, if they had any"),
        ("Field rows dropped", field.dropped, "no prediction"),
        ("Field predictions moved into [0, 1]", field.clipped, "off by rounding only"),
        ("Lab rows", lab.n, ""),
        ("Lab predictions moved into [0, 1]", lab.clipped, "off by rounding only"),
        ("Field rows in bins that the lab never filled", float(np.sum(prev.fit.novel)), "status novel"),
    ]
    if field.batches:
        first, last = (name(field.batch_ids[i]) for i in (0, -1))
        counts.append(("Batches", len(field.batches), f"{first} … {last}"))
    if field.grouped:
        words = {
            "prior_only": "no rows, or nothing to tell classes apart by: the prior speaks",
            "few_rows": "fewer than 20 rows: they lean on the other groups",
            "inconsistent": "look like no mixture of the classes",
            "boundary": "the best fit lies outside 0 and 1",
            "not_converged": "the solver stopped at its limit",
        }
        flags = [set(s.split(",")) for s in prev.status]
        counts += [(f"Groups “{f}”", sum(f in s for s in flags), text) for f, text in words.items()]
    return [{"what": what, "count": count, "note": note} for what, count, note in counts]


def settings(lab: Lab, field: Field, prev: Prevalence) -> dict[str, Any]:
    """What was asked for and what was learnt, for whoever repeats it."""
    kind = type(lab.partition).__name__
    return {
        "bins": f"{lab.n_bins} ({kind})",
        "smoothing of the response matrix": f"{lab.smoothing:.4g} pseudo-rows per class",
        "condition number": f"{lab.conditioning.condition_number:.3g}",
        "prior": _prior(prev.prior),
        "estimate": f"posterior {prev.point}",
        "interval": "none" if prev.level is None else f"{prev.level:.0%}",
        "trust in groups": f"{prev.trust_between:.3f}",
        "trust in the common movement": f"{prev.trust_overall:.3f}",
        "labelled field rows in the estimate": "none"
        if prev.labelled is None
        else f"{float(prev.labelled.sum()):,.6g}",
        "protected groups": "yes" if prev.protected else "no",
        "seed": str(prev.seed),
        "group columns": ", ".join(name(c) for c in field.by) or "from arrays",
    }


def _prior(prior: dict[str, float | str]) -> str:
    """Its name and its numbers, in one order: a file has forgotten the one they were made in."""
    rest = [(key, prior[key]) for key in sorted(prior) if key != "name" and prior[key] != ""]
    numbers = [f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}" for key, value in rest]
    return ", ".join([str(prior["name"]), *numbers])


def versions() -> dict[str, str]:
    """Of what the numbers depend on."""
    return {
        "python": platform.python_version(),
        **{name: version(name) for name in ("fieldcal", "numpy", "scipy", "matplotlib")},
    }
