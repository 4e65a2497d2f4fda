"""Any life of a field, held against a plain model of it: lists of rows by the name they came under."""

from __future__ import annotations

import functools
import math
from bisect import bisect_right
from collections import Counter

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import fieldcal
from fieldcal import Field
from fieldcal.errors import InputError
from fieldcal.types import DESIGNS

IDS = ("2020-01-01", "2020-01-02", "2020-01-10", "2020-02-01")
GROUPS = (None, "a", "b", 1, True, ("a", 1))
LABELS = (*[(None, "random")] * 3, (0, "random"), (1, "random"), (1, "by_score"), (0, "by_class"))
SCORES = (0.0, 0.1, 0.3, 0.5, 0.75, 1.0, math.nan)
rows = st.lists(
    st.tuples(st.sampled_from(SCORES), st.sampled_from(GROUPS), st.sampled_from(LABELS)), max_size=6
)


@functools.cache
def lab():
    data = fieldcal.datasets.label_shift(n_lab=600, random_state=4)
    return fieldcal.learn(data.proba_lab, data.y_lab, partition=5)


def counted(some, id=None):
    """The rows of each design by themselves, and all together."""
    of_design = [[row for row in some if row[2][1] == design] for design in DESIGNS]
    field = sum(
        fieldcal.count(
            lab(),
            [s for s, _, _ in part],
            groups=[g for _, g, _ in part],
            y=[label for _, _, (label, _) in part],
            design=design,
            missing="drop",
        )
        for part, design in zip(of_design, DESIGNS, strict=True)
    )
    return field if id is None else field.named(id)


def bin_of(score):
    return bisect_right(list(lab().partition.edges), score)


class Life(RuleBasedStateMachine):
    """A field that batches come to and leave, and the rows that it should be made of."""

    def __init__(self):
        super().__init__()
        self.field = counted([])
        self.model = {None: []}

    @rule(id=st.sampled_from(IDS), some=rows)
    def a_batch_comes(self, id, some):
        if id in self.model and Counter(map(repr, self.model[id])) != Counter(map(repr, some)):
            with pytest.raises(InputError, match="exists already, with other counts"):
                self.field.add(counted(some), id)
            return
        self.field = self.field.add(counted(some), id)
        self.model[id] = some

    @rule(id=st.sampled_from(IDS))
    def a_batch_comes_twice(self, id):
        if id in self.model:
            before = self.field.to_json()
            self.field = self.field.add(counted(self.model[id], id), id)
            assert self.field.to_json() == before

    @rule(id=st.sampled_from(IDS))
    def a_batch_is_taken_back(self, id):
        if id not in self.model:
            with pytest.raises(InputError, match=id):
                self.field.retract(id)
            return
        self.field = self.field.retract(id)
        del self.model[id]

    @rule(some=rows, first=st.booleans())
    def a_shard_without_a_name_is_merged(self, some, first):
        shard = counted(some)
        self.field = shard + self.field if first else self.field + shard
        self.model[None] = self.model[None] + some

    @rule()
    def it_is_saved_and_loaded(self):
        saved = self.field.to_json()
        self.field = Field.from_json(saved)
        assert self.field.to_json() == saved

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def some_batches_are_kept(self, data):
        kept = data.draw(st.sets(st.sampled_from([id for id in self.model if id])))
        self.field = self.field.only(kept)
        self.model = {None: [], **{id: self.model[id] for id in self.model if id in kept}}

    @precondition(lambda self: len(self.model) > 1)
    @rule()
    def january_is_a_window(self):
        january = [id for id in self.model if id and id < "2020-02"]
        expected = sum((Counter(map(repr, self.model[id])) for id in january), Counter())
        window = self.field.window("2020-01-01", "2020-02-01")
        assert window.n.sum() + window.dropped == expected.total()

    @invariant()
    def it_holds_the_rows_of_the_model(self):
        seen = [row for some in self.model.values() for row in some]
        valid = [(s, g) for s, g, _ in seen if not math.isnan(s)]
        cells = Counter((repr(g), bin_of(s)) for s, g in valid)
        found = {
            (repr(g), j): int(n)
            for g, counts in zip(self.field.groups, self.field.V, strict=True)
            for j, n in enumerate(counts)
            if n
        }
        assert found == cells
        assert {repr(g) for g in self.field.groups} == {repr(g) for _, g, _ in seen}
        assert self.field.dropped == len(seen) - len(valid)
        assert set(self.field.batch_ids) == {id for id in self.model if id}

    @invariant()
    def its_labels_are_those_of_the_rows(self):
        seen = [row for some in self.model.values() for row in some if not math.isnan(row[0])]
        expected = Counter(
            (design, repr(g), label, bin_of(s)) for s, g, (label, design) in seen if label is not None
        )
        found = Counter()
        for design, labelled in self.field.labelled.items():
            for row, k, j in zip(*labelled.counts.nonzero(), strict=True):
                group = self.field.groups[labelled.at[row]]
                found[design, repr(group), int(k), int(j)] = int(labelled.counts[row, k, j])
        assert found == expected
        assert self.field.n_labelled == expected.total()

    @invariant()
    def its_mean_predictions_are_those_of_the_rows(self):
        seen = [row for some in self.model.values() for row in some if not math.isnan(row[0])]
        for group, mean in zip(self.field.groups, self.field.mean_prediction, strict=True):
            scores = [s for s, g, _ in seen if repr(g) == repr(group)]
            if scores:
                assert mean[1] == pytest.approx(math.fsum(scores) / len(scores), abs=2e-9)


TestLife = Life.TestCase
TestLife.settings = settings(max_examples=40, stateful_step_count=20, deadline=None, derandomize=True)
