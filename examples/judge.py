"""From the verdicts of a judge to true pass rates: ``python examples/judge.py``.

Simulated data, so that the truth is known. Four systems answer the same 400 questions. A judge, such as a
language model, marks each answer pass or fail. It passes 90 % of the good answers, and 25 % of the bad ones;
of system A, which is of its own family, it passes 65 % of the bad ones. People checked 300 of the 1,600
answers, drawn at random. How many answers of each system are good, and which system is best? The truth is used
for the last column only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from judged import JudgedData, judged

import fieldcal

KINDER = 0.4
SHOWN = "pass"


@dataclass(frozen=True)
class Line:
    """One system: what the judge says, what people say, what fieldcal says, and what is so."""

    system: str
    as_judged: float
    labels: int
    labels_say: float
    share: float
    lower: float
    upper: float
    true: float


def estimated(data: JudgedData) -> fieldcal.Prevalence:
    """The share of good answers of every system, from all verdicts and the few labels."""
    lab = fieldcal.learn(data.verdict, data.human, groups=data.system, kind="values", design="random")
    field = fieldcal.count(lab, data.verdict, y=data.human, groups=data.system)
    return fieldcal.estimate(lab, field)


def table(data: JudgedData, prev: fieldcal.Prevalence) -> list[Line]:
    """A line for every system."""
    k = prev.classes.index(SHOWN)
    assert prev.lower is not None
    assert prev.upper is not None
    lines = []
    for g, system in enumerate(prev.groups):
        checked = [label for label in data.human[data.system == system] if label is not None]
        lines.append(
            Line(
                str(system),
                prev.mean_prediction[g, k],
                len(checked),
                float(np.mean([label == SHOWN for label in checked])),
                prev.estimate[g, k],
                prev.lower[g, k],
                prev.upper[g, k],
                data.rates[str(system)],
            )
        )
    return lines


def text(line: Line) -> str:
    """One line of the table."""
    interval = f"{line.lower:.3f} – {line.upper:.3f}"
    return (
        f"{line.system:>6} {line.as_judged:>10.3f} {line.labels_say:>7.3f} ({line.labels:>3}) {line.share:>8.3f} "
        f"{interval:>16} {line.true:>7.3f}"
    )


def main(n_items: int = 400, n_labels: int = 300) -> list[Line]:
    """Print the table, who is best, and which systems differ."""
    data = judged(n_items=n_items, n_labels=n_labels, kinder=KINDER)
    prev = estimated(data)
    print("Share of good answers, by system (simulated: the last column is the truth).\n")
    print(
        f"{'system':>6} {'as judged':>10} {'labels say':>13} {'share':>8} {'90 % interval':>16} {'true':>7}"
    )
    lines = table(data, prev)
    for line in lines:
        print(text(line))
    off = [abs(line.as_judged - line.true) for line in lines], [abs(line.share - line.true) for line in lines]
    print(f"\nMean distance from the truth: as judged {np.mean(off[0]):.3f}, share {np.mean(off[1]):.3f}.\n")

    same_items = fieldcal.pairs(prev.lab, data.verdict, data.system, data.item, y=data.human)
    print(prev.ranking(of=SHOWN, pairs=same_items))
    print(prev.compare(of=SHOWN, pairs=same_items))
    told = prev.verdict.finding("judges_differ") or prev.verdict.finding("judge_same")
    if told is not None:
        print(f"\n{told.question} {told.text}")
    return lines


if __name__ == "__main__":
    main()
