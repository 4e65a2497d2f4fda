"""pairs: which rows of several groups are about the same item."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from fieldcal.alignment import check_alignment
from fieldcal.errors import GroupWarning, InputError, InputTypeError
from fieldcal.objects import Lab, group_keys
from fieldcal.objects.artefact import check_call
from fieldcal.objects.derived import NONE, Pairs
from fieldcal.options import AS_VALUES, check_choice
from fieldcal.types import Missing
from fieldcal.verbs.count import scores_of
from fieldcal.verbs.field_labels import field_labels

_MOST = 50_000_000  # items times groups


def pairs(
    lab: Lab, predictions: Any, groups: Any, items: Any, *, y: Any = None, missing: Missing = "error"
) -> Pairs:
    """Which rows are about the same item: two systems that answered the same questions, judged on each.

    Given to `Prevalence.contrast`, `compare` and `ranking`, it takes off what two systems share: an item that is hard
    for one is hard for the other.

    Parameters
    ----------
    lab : Lab
        Learnt from values.
    predictions, groups, y, missing : as they were given to `count`
    items : array-like (n,)
        What the row is about, such as the id of a question. Each at most once in every group.

    Returns
    -------
    Pairs

    Examples
    --------
    >>> import fieldcal
    >>> verdict = ["pass", "pass", "fail", "pass", "fail", "fail"] * 20
    >>> human = ["pass", "fail", "fail", "pass", "fail", "pass"] * 20
    >>> system, question = ["a", "b"] * 60, [i // 2 for i in range(120)]
    >>> lab = fieldcal.learn(verdict, human, kind="values", design="random")
    >>> fieldcal.pairs(lab, verdict, system, question, y=human)
    Pairs: 60 items, 60 of them in two or more of 2 groups
    """
    check_call("fieldcal.pairs(lab, values, groups, items)", (lab, Lab), (predictions, "values"))
    if not lab.of_values:
        raise InputTypeError(f"pairs takes a Lab of values, learnt with {AS_VALUES}, and not of others.")
    check_choice("missing", missing, ("error", "drop"))
    check_alignment(predictions=predictions, groups=groups, items=items, y=y)
    scores = scores_of(lab, predictions, normalize=False, missing=missing)
    n = len(scores.values)
    names, group = group_keys.factorize(groups, n=n)
    ids, item = group_keys.factorize(items, n=n, name="items")
    if len(names) * len(ids) > _MOST:
        raise InputError(
            f"{len(ids):,} items in {len(names):,} groups are too many to pair. Keep the groups that are compared."
        )
    classes = np.full(n, NONE, dtype=np.intp) if y is None else field_labels(lab.outcome, y, n=n)
    kept = np.flatnonzero(scores.values >= 0)
    _refuse_repeats(item[kept], group[kept], ids, names)
    table, known = (np.full((len(ids), len(names)), NONE, dtype=np.intp) for _ in range(2))
    table[item[kept], group[kept]] = scores.values[kept]
    known[item[kept], group[kept]] = classes[kept]
    if not ((table >= 0).sum(axis=1) > 1).any():
        warnings.warn(
            "No item is in two groups: nothing is paired. Is this the id of the item, and not of the row?",
            GroupWarning,
            stacklevel=2,
        )
    return Pairs(names, table, known, lab.digest)


def _refuse_repeats(item: Any, group: Any, ids: Any, names: Any) -> None:
    cells, rows = np.unique(item * len(names) + group, return_counts=True)
    if len(rows) and rows.max() > 1:
        at = int(cells[rows.argmax()])
        raise InputError(
            f"The item {group_keys.show(ids[at // len(names)])!r:.60} is {rows.max():,} times in the group "
            f"{group_keys.show(names[at % len(names)])!r:.60}. Give each item once in a group: take the mean of its "
            "repetitions, or make the repetition part of the item."
        )
