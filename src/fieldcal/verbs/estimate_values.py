"""estimate for categories: from labels of field rows by the multilevel model, otherwise under label shift."""

from __future__ import annotations

from typing import Any

import numpy as np

from fieldcal.core.trust import Trust, measure
from fieldcal.errors import InputError, option
from fieldcal.objects import Field, Fit, Lab, Prevalence, Verdict, WholeField
from fieldcal.objects.judged import Judged
from fieldcal.objects.prevalence import JUDGE
from fieldcal.options import is_auto
from fieldcal.verbs.findings import Context, findings, group_status, warn_about_field
from fieldcal.verbs.posteriors import mean_of_field


def is_judged(lab: Lab, *, prior: Any, method: Any, trust: Any, point: Any) -> bool:
    """Whether nothing but categories and labels decides; a caller's own prior or mode is URC's."""
    defaults = is_auto(prior) and method == "default" and is_auto(trust) and point != "mode"
    return lab.of_values and defaults


def trust_in_values(field: Field, trust: Any) -> Any:
    """Of a caller who chose a prior or a point: categories have no probabilities that could be left alone."""
    if field.labelled:
        raise InputError(
            "With labelled field rows, categories support only the default prior and point estimate. Leave "
            f"{option('prior')}, {option('trust')}, {option('method')} and {option('point')} out, or count without "
            "labels."
        )
    return 1.0 if is_auto(trust) else trust


def from_labels(lab: Lab, field: Field, judged: Judged, *, level: float, **options: Any) -> Prevalence:
    """From labelled field rows and all others, each counted once: nothing is assumed of the judge over all rows."""
    posterior, V = judged.posterior, judged.problem.V
    each, whole = posterior.shares(), posterior.whole()
    lower, upper = each.interval(level, V.sum(axis=1))
    ends = whole.interval(level, np.array([V.sum()]))
    evidence = measure(judged.problem, urc=each.estimate, whole=whole.estimate[0])
    row = WholeField(
        n=float(field.n.sum()),
        mean_prediction=mean_of_field(lab, field),
        urc=whole.estimate[0],
        estimate=whole.estimate[0],
        lower=ends[0][0],
        upper=ends[1][0],
    )
    context = Context(
        lab,
        field,
        evidence,
        Trust(1.0, 1.0),
        whole=row,
        width=upper - lower,
        V=V,
        shares=each.estimate,
        judged=judged,
        **options,
    )
    return judged_by(
        context,
        prior={"name": JUDGE},
        learnt={},
        point="mean",
        level=level,
        seed=judged.seed,
        urc=each.estimate,
        whole=row,
        estimate=each.estimate,
        lower=lower,
        upper=upper,
        fit=Fit.of(None, evidence),
    )


def judged_by(context: Context, **held: Any) -> Prevalence:
    """The estimate with its verdict: what it was made from is among what it holds."""
    said = findings(context)
    verdict = Verdict(findings=said)
    warn_about_field(said)
    return Prevalence(
        lab=context.lab,
        field=context.field,
        by_model=context.by_model,
        design_effect=context.design_effect,
        trust=context.trust,
        overall_shift=context.evidence.overall,
        status=group_status(context, verdict),
        verdict=verdict,
        protected=context.protected,
        **held,
    )
