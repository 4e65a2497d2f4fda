"""estimate for values: the shares behind the verdicts of a judge, or the results of a test."""

from __future__ import annotations

from typing import Any

from fieldcal.core.trust import Trust, measure
from fieldcal.errors import InputError, option
from fieldcal.objects import Field, Fit, Lab, Prevalence, Verdict, WholeField
from fieldcal.objects.judged import Judged
from fieldcal.objects.prevalence import JUDGE
from fieldcal.objects.problem import as_problem
from fieldcal.options import is_auto
from fieldcal.verbs.findings import Context, findings, group_status, warn_about_field


def is_judged(prior: Any, method: Any, trust: Any, point: Any) -> bool:
    """Whether nothing but values and labels is to decide; a caller's own prior or mode is URC's."""
    return is_auto(prior) and method == "default" and is_auto(trust) and point != "mode"


def trust_in_values(field: Field, trust: Any) -> Any:
    """Of a caller who chose a prior or a point: values have no probabilities that could be left alone."""
    if field.labelled:
        raise InputError(
            "With labelled field rows, categories support only the default prior and point estimate. Leave "
            f"{option('prior')}, {option('trust')}, {option('method')} and {option('point')} out, or count without "
            "labels."
        )
    return 1.0 if is_auto(trust) else trust


def estimate_values(
    lab: Lab, field: Field, *, level: float, design_effect: float, protected: bool, random_state: int
) -> Prevalence:
    """From every row whose class is known and all others, each counted once.

    A trust is not asked for: with labels of these rows nothing is assumed of the judge, and without them the verdict
    says what is.
    """
    judged = Judged.of(lab, field, design_effect=design_effect, seed=random_state)
    each, whole = judged.summaries(level)
    problem = as_problem(lab, field, design_effect=design_effect)
    evidence = measure(problem, urc=each.mean, whole=whole.mean[0])
    sums = field.score_sums.sum(axis=0, dtype=float)
    row = WholeField(
        n=float(field.n.sum()),
        mean_prediction=sums / sums.sum() if sums.sum() > 0 else lab.p_lab,
        urc=whole.mean[0],
        estimate=whole.mean[0],
        lower=whole.lower[0],
        upper=whole.upper[0],
    )
    context = Context(
        lab,
        field,
        evidence,
        Trust(1.0, 1.0),
        protected,
        whole=row,
        width=each.upper - each.lower,
        V=problem.V,
        shares=each.mean,
        design_effect=design_effect,
        judged=judged,
    )
    return judged_by(
        context,
        prior={"name": JUDGE},
        learnt=judged.learnt(),
        point="mean",
        level=level,
        seed=random_state,
        urc=each.mean,
        whole=row,
        estimate=each.mean,
        lower=each.lower,
        upper=each.upper,
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
