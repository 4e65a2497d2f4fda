"""Lab, Field and Prevalence as plain data for --json."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fieldcal.cli.show import records

if TYPE_CHECKING:
    from fieldcal.objects import Field, Lab, Prevalence, Verdict
    from fieldcal.reporting import Report


def lab_data(lab: Lab) -> dict[str, Any]:
    """What a script may want to know of a lab."""
    rehearsal = lab.rehearsal
    return {
        "digest": lab.digest,
        "rows": lab.n,
        "classes": list(lab.classes),
        "prevalence": lab.p_lab.tolist(),
        "bins": lab.n_bins,
        "condition_number": lab.conditioning.condition_number,
        "log_loss": lab.log_loss,
        "accuracy": lab.accuracy,
        "columns": None if lab.columns is None else lab.columns.content(),
        "support": None if lab.support is None else lab.support.content(),
        "rehearsal": None
        if rehearsal is None
        else {
            "groups": rehearsal.n_groups,
            "rows": rehearsal.n_rows,
            "trust": rehearsal.tau,
            "change_of_log_loss": rehearsal.change,
            "standard_error": rehearsal.change_se,
        },
    }


def field_data(field: Field) -> dict[str, Any]:
    """What a script may want to know of a field."""
    return {
        "digest": field.digest,
        "rows": field.n.sum().item(),
        "groups": len(field.groups) if field.grouped else None,
        "by": list(field.by),
        "bins": field.n_bins,
        "batches": list(field.batch_ids),
        "dropped": field.dropped,
        "clipped": field.clipped,
    }


def verdict_data(verdict: Verdict) -> dict[str, Any]:
    """The verdict and its reasons."""
    return {"verdict": verdict.level, "reasons": list(verdict.reasons)}


def prevalence_data(prev: Prevalence) -> dict[str, Any]:
    """The verdict, and the table with one row per group and class."""
    return {
        "digest": prev.digest,
        **verdict_data(prev.verdict),
        "common_trust": prev.common_trust,
        "level": prev.level,
        "protected": prev.protected,
        "prevalence": records(prev.to_dict()),
    }


def report_data(report: Report) -> dict[str, Any]:
    """What stands at the top of a report, and whether labels confirm it."""
    content = report.content
    measures = content["labelled"] and content["labelled"]["measures"]
    return {
        "verdict": content["verdict"]["level"],
        "reasons": content["verdict"]["reasons"],
        "advice": content["verdict"]["advice"],
        "labelled": measures,
    }
