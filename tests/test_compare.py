"""Two estimates compared group by group."""

from __future__ import annotations

import functools
import json

import numpy as np
import pytest

import fieldcal
from fieldcal.cli import main
from fieldcal.errors import InputError


@functools.cache
def lab_and_pools():
    mix = fieldcal.datasets.label_shift(n_lab=2000, n_field=4000, prevalence=[[0.5, 0.5]], random_state=2)
    return fieldcal.learn(mix.proba_lab, mix.y_lab), [mix.proba_field[mix.y_field == k] for k in (0, 1)]


@functools.cache
def estimated(seed, shares=(("Leeds", 0.2), ("York", 0.3)), n=400):
    lab, pools = lab_and_pools()
    rng, p, groups = np.random.default_rng(seed), [], []
    for group, share in shares:
        y = rng.random(n) < share
        p.append(np.where(y, rng.choice(pools[1], n), rng.choice(pools[0], n)))
        groups += [group] * n
    return fieldcal.estimate(lab, fieldcal.count(lab, np.concatenate(p), groups=groups), trust=1)


def test_the_group_that_changed_is_found_and_the_other_is_not():
    found = fieldcal.compare(estimated(0), estimated(1, (("Leeds", 0.6), ("York", 0.3))))
    assert found.found[0].a == "Leeds"
    assert abs(found.differences[1].estimate) < 0.1
    assert found.found[0].estimate == pytest.approx(0.4, abs=0.1)
    assert found.found[0].lower < 0.4 < found.found[0].upper


def test_an_estimate_does_not_differ_from_itself():
    found = fieldcal.compare(estimated(0), estimated(0))
    assert all(d.lower < 0 == d.estimate < d.upper for d in found.differences)
    assert not found.found


def test_the_estimates_are_independent():
    before, after = estimated(0), estimated(1)
    (york,) = (d for d in fieldcal.compare(before, after).differences if d.a == "York")
    ends = [prev["York"][1] for prev in (before, after)]
    assert york.upper - york.lower == pytest.approx(np.hypot(*(e.upper - e.lower for e in ends)), rel=0.1)


def test_groups_of_one_estimate_alone_are_left_out_and_none_in_common_is_an_error():
    found = fieldcal.compare(estimated(0), estimated(1, (("York", 0.3), ("Bath", 0.3))))
    assert [d.a for d in found.differences] == ["York"]
    with pytest.raises(InputError, match="no group in common"):
        fieldcal.compare(estimated(0), estimated(1, (("Bath", 0.3), ("Hull", 0.3))))


def test_the_command_gives_the_same(tmp_path, capsys):
    before, after = estimated(0), estimated(1, (("Leeds", 0.6), ("York", 0.3)))
    before.save(tmp_path / "a.json")
    after.save(tmp_path / "b.json")
    with pytest.raises(SystemExit) as done:
        main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--of", "1", "--json"])
    assert done.value.code == 0
    wanted = fieldcal.compare(before, after, of=1).to_dict()
    assert json.loads(capsys.readouterr().out)["comparison"] == json.loads(json.dumps(wanted))
