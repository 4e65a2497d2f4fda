"""Everything a report says, as plain data: numbers, texts, lists and dictionaries, ready for JSON."""

from __future__ import annotations

import platform
from collections.abc import Hashable
from importlib.metadata import version
from typing import Any

import numpy as np

from fieldcal import keys
from fieldcal.core.partition import Bins
from fieldcal.objects import Field, Lab, Prevalence
from fieldcal.plots import data
from fieldcal.reporting import groups, sentences
from fieldcal.reporting.checklist import checklist
from fieldcal.reporting.evaluation import Evaluation
from fieldcal.verbs.judging import whole_misfit

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
    k = data.focus(prev, of)
    truth = None if found is None else found.truth
    return {
        "fieldcal": "report",
        "schema": SCHEMA,
        "title": keys.show(title or "Recalibration report", width=TITLE_WIDTH),
        "verdict": sentences.verdict(prev),
        "summary": summary(lab, field, prev, k),
        "trust": sentences.trust(prev),
        "changes": sentences.changes(prev, k),
        "labelled": None if found is None else evaluated(found, prev, k),
        "figures": figures(lab, prev, k, found),
        "groups": groups.rows(prev, k, truth),
        "quality": quality(lab, field, prev),
        "checklist": checklist(lab, field, prev, whole_misfit(lab, field, prev.common)),
        "settings": settings(lab, field, prev),
        "versions": versions(),
        "digests": {"lab": lab.digest, "field": field.digest, "prevalence": prev.digest},
    }


def summary(lab: Lab, field: Field, prev: Prevalence, k: int) -> dict[str, Any]:
    """The few numbers that everybody asks for first."""
    return {
        "outcome": sentences.outcome(prev),
        "class": groups.name(prev.classes[k]),
        "classes": len(prev.classes),
        "groups": len(prev.groups) if field.grouped else None,
        "by": [groups.name(column) for column in field.by],
        "field_rows": float(field.n.sum()),
        "lab_rows": lab.n,
        "level": prev.level,
        "lab": float(lab.p_lab[k]),
        "naive": float(groups.mean(prev, prev.naive)[k]),
        "value": float(groups.mean(prev, prev.value)[k]),
        "moved": None if lab.support is None else groups.variation(prev)[0],
        "trust": float(prev.trust.max(initial=0.0)),
        "common_trust": prev.common_trust,
        "untouched": sentences.is_untouched(prev),
        "protected": prev.protected,
    }


def evaluated(found: Evaluation, prev: Prevalence, k: int) -> dict[str, Any]:
    """What labels of the field say, if there are any."""
    said = sentences.labelled(found, prev, k)
    return {"rows": len(found.y), "sentences": said, "measures": found.table()}


def figures(lab: Lab, prev: Prevalence, k: int, found: Evaluation | None) -> dict[str, Any]:
    """The table behind each picture; None where there is none."""
    of = prev.classes[k]
    worst = [g for g in np.argsort(-prev.fit.effect, kind="stable") if "inconsistent" in prev.status[g]]
    tables: dict[str, Any] = {
        "trust": None
        if lab.rehearsal is None or not prev.field.grouped
        else data.trust(lab, used=float(prev.trust.max(initial=0.0))),
        "forest": data.forest(prev, of=of, truth=None if found is None else found.truth),
        "changes": None
        if not prev.field.grouped or sentences.is_untouched(prev)
        else data.changes(prev, of=of),
        "bins": [data.bins(prev)],
        "curve": data.curve(prev, of=of),
        # Bin ids in place of predictions leave nothing to be calibrated.
        "reliability": None if isinstance(lab.partition, Bins) else data.reliability(lab, of=of),
        "labelled": None,
        "response": data.response(lab),
        "distributions": distributions(prev),
        "pit": None,
        "coverage": None,
    }
    if prev.field.grouped:
        tables["bins"] += [data.bins(prev, group=prev.groups[g]) for g in worst[:WORST]]
    if found is not None:
        tables["labelled"] = data.reliability_of(
            found.before, found.after, found.y, classes=prev.classes, of=of
        )
    if found is not None and found.numbers is not None:
        tables |= {"pit": found.numbers.pit, "coverage": found.numbers.coverage}
    return tables


def distributions(prev: Prevalence) -> list[dict[str, Any]]:
    """Of classes that have an order: the whole field, and the groups whose distribution changes most."""
    if not prev.lab.ordered:
        return []
    tables = [data.distribution(prev)]
    if prev.field.grouped:
        _, each = groups.variation(prev)
        most = [g for g in np.argsort(-each, kind="stable") if each[g] > SAME]
        tables += [data.distribution(prev, group=prev.groups[g]) for g in most[:MOST_MOVED]]
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
        first, last = (groups.name(field.batch_ids[i]) for i in (0, -1))
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
        "trust in groups": f"{float(prev.trust.max(initial=0.0)):.3f}",
        "trust in the common movement": f"{prev.common_trust:.3f}",
        "labelled field rows in the estimate": "none"
        if prev.labelled is None
        else f"{float(prev.labelled.sum()):,.6g}",
        "protected groups": "yes" if prev.protected else "no",
        "seed": str(prev.seed),
        "group columns": ", ".join(groups.name(c) for c in field.by) or "from arrays",
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
