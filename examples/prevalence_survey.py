"""A survey with an imperfect test of published accuracy: ``python examples/prevalence_survey.py``.

The antibody survey of Santa Clara County, April 2020 (Bendavid et al. 2020): 50 of 3,330 people tested
positive. The test had found 103 of 122 samples with antibodies, and cleared 399 of 401 samples without. The
counts are as in Gelman and Carpenter (2020), Bayesian analysis of tests with unknown specificity and
sensitivity, J. R. Stat. Soc. C 69, who show how little they say: with a specificity a little below what was
measured, every positive test may be a false one.

Shown side by side: the share of positive tests; Rogan and Gladen's correction with the usual interval of Wald,
which trusts normal approximations where two false positives are all that is known; and fieldcal, which asks
which shares, sensitivities and specificities could have given these counts. As a survey of volunteers it says
nothing of the whole county in any of the three.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

import fieldcal

POSITIVE, TESTED = 50, 3330
FOUND, ILL = 103, 122
CLEARED, WELL = 399, 401
LEVEL = 0.95
_Z = 1.959964  # half an interval of 95 %, in standard errors


@dataclass(frozen=True)
class Answer:
    """A share with its interval."""

    name: str
    share: float
    lower: float
    upper: float


def apparent() -> Answer:
    """The share of positive tests, with Wald's interval."""
    q = POSITIVE / TESTED
    half = _Z * np.sqrt(q * (1 - q) / TESTED)
    return Answer("positive tests", q, q - half, q + half)


def rogan_gladen() -> Answer:
    """The correction of Rogan and Gladen (1978), with an interval by the delta method."""
    q, se, sp = POSITIVE / TESTED, FOUND / ILL, CLEARED / WELL
    share = (q + sp - 1) / (se + sp - 1)
    variance = q * (1 - q) / TESTED + share**2 * se * (1 - se) / ILL + (1 - share) ** 2 * sp * (1 - sp) / WELL
    half = _Z * np.sqrt(variance) / (se + sp - 1)
    return Answer("Rogan-Gladen, Wald", share, share - half, share + half)


def by_fieldcal() -> tuple[Answer, fieldcal.Prevalence]:
    """A lab made of the published rates, and the tests counted with it."""
    lab = fieldcal.Lab.from_rates(sensitivity=FOUND / ILL, specificity=CLEARED / WELL, n=(ILL, WELL))
    field = fieldcal.count(lab, ["positive"] * POSITIVE + ["negative"] * (TESTED - POSITIVE))
    prev = fieldcal.estimate(lab, field, level=LEVEL)
    k = prev.classes.index("positive")
    assert prev.lower is not None
    assert prev.upper is not None
    return Answer("fieldcal", prev.estimate[0, k], prev.lower[0, k], prev.upper[0, k]), prev


def text(answer: Answer) -> str:
    """One line, in percent."""
    return f"{answer.name:>20} {answer.share:>7.2%}   {answer.lower:>6.2%} to {answer.upper:>6.2%}"


def main() -> list[Answer]:
    """Print the three answers, and what the last one rests on."""
    print(f"{POSITIVE} of {TESTED:,} tests are positive. How many people have antibodies?\n")
    print(f"{'':>20} {'share':>7}   {LEVEL:.0%} interval")
    own, prev = by_fieldcal()
    answers = [apparent(), rogan_gladen(), own]
    for answer in answers:
        print(text(answer))
    (rests,) = [f for f in prev.verdict.findings if f.code == "judge_assumed"]
    print(f"\n{rests.question} {rests.text}")
    return answers


if __name__ == "__main__":
    main()
