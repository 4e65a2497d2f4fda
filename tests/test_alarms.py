"""Alarms over windows: the four kinds, what each is raised by, and how often they are false."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy.stats import norm

import fieldcal
from fieldcal.cli import main
from fieldcal.core import alarms
from fieldcal.errors import InputError

EDGES = np.linspace(-1.6, 2.4, 7)
M = np.stack([np.diff(np.r_[0, norm.cdf(EDGES - mu), 1]) for mu in (0.0, 1.5)])
START = np.datetime64("2026-01-05")


def histograms(p, n, rng):
    return rng.multinomial(n, p[..., None] * M[1] + (1 - p[..., None]) * M[0])


def field_of(V):
    """Lab and field (weeks) whose bins are given as predictions, of groups g0, g1, …"""
    bins = np.repeat(np.tile(np.arange(8), 2), np.rint(2000 * M).astype(int).ravel())
    y = np.repeat([0, 1], np.rint(2000 * M).astype(int).sum(axis=1))
    lab = fieldcal.learn(bins, y, partition=fieldcal.partitions.Bins(8))
    group, window, bin = np.unravel_index(np.repeat(np.arange(V.size), V.ravel()), V.shape)
    names = np.array([f"g{i}" for i in range(len(V))])
    days = START + 7 * window.astype("timedelta64[D]")
    return lab, fieldcal.count(lab, bin, groups=names[group], time=days, every="1w")


def alarms_in(V, **given):
    lab, field = field_of(V)
    return fieldcal.estimate(lab, field, trust=1).over_time.alarms(**given)


def stable(groups=4, windows=16, n=150, seed=0):
    rng = np.random.default_rng(seed)
    share = np.linspace(0.2, 0.5, groups)[:, None] * np.ones((1, windows))
    return histograms(share, rng.poisson(n, (groups, windows)), rng)


def test_nothing_is_raised_where_nothing_happens():
    found = alarms_in(stable())
    assert len(found) == 0
    assert found.severity == 0
    assert repr(found) == "0 alarms"


def test_a_change_of_the_share_is_raised_for_its_group_alone_and_dated():
    V = stable()
    V[1, 8:] = histograms(np.full(8, 0.75), 150, np.random.default_rng(1))
    found = alarms_in(V)
    assert [a.group for a in found.of("share") if a.group is not None] == ["g1"]
    (alarm,) = (a for a in found.of("share") if a.group == "g1")
    assert alarm.since == "2026-03-02"
    assert "2026-03-02" <= alarm.window <= "2026-03-16"
    assert "rose" in alarm.text
    assert found.severity == 2
    assert found.of("assumption") == found.of("volume") == ()


def test_a_change_within_the_margin_is_not_raised():
    V = stable()
    V[1, 8:] = histograms(np.full(8, 0.75), 150, np.random.default_rng(1))
    assert not alarms_in(V, margin=0.6).of("share")


def test_alarms_before_a_window_are_left_out():
    V = stable()
    V[1, 8:] = histograms(np.full(8, 0.75), 150, np.random.default_rng(1))
    assert not alarms_in(V, since="2026-03-02").of("share")


def test_a_frozen_sensor_breaks_the_assumption():
    V = stable()
    V[2, 10:] = 0
    V[2, 10:, 5] = 150
    found = alarms_in(V)
    assert {a.group for a in found.of("assumption")} == {"g2", None}  # it has a quarter of the rows
    assert found.of("assumption")[0].window == "2026-03-16"
    assert found.severity == 3


def test_a_silent_group_breaks_the_input():
    V = stable()
    V[3, 12:] = 0
    found = alarms_in(V)
    assert [(a.group, a.window, a.last) for a in found.of("input")] == [("g3", "2026-03-30", "2026-04-20")]


def test_four_times_as_many_rows_change_the_volume():
    V = stable()
    V[0, 13] *= 4
    found = alarms_in(V)
    assert "g0" in [a.group for a in found.of("volume")]
    assert not found.of("share")


def test_a_newest_window_that_is_not_complete_is_no_alarm():
    V = stable(n=400)
    V[:, -1] //= 5
    assert len(alarms_in(V)) == 0


def test_alarms_are_a_table():
    V = stable()
    V[3, 12:] = 0
    table = alarms_in(V).to_dict()
    assert table["kind"] == ["input"]
    assert table["group"] == ["g3"]
    assert {len(column) for column in table.values()} == {1}


def test_the_command_lists_alarms_writes_their_table_and_exits_by_their_severity(tmp_path, capsys):
    V = stable()
    V[3, 12:] = 0
    lab, field = field_of(V)
    fieldcal.estimate(lab, field, trust=1).save(tmp_path / "prev.json")
    table = tmp_path / "alarms.csv"
    with pytest.raises(SystemExit) as done:
        main(["alarms", str(tmp_path / "prev.json"), "--margin", "0.05", "--table", str(table), "--json"])
    answer = json.loads(capsys.readouterr().out)
    assert done.value.code == answer["exit_code"] == 3
    assert [alarm["group"] for alarm in answer["alarms"]] == ["g3"]
    assert table.read_text().count("\n") == 2


def test_the_command_refuses_an_estimate_without_windows(tmp_path, capsys):
    fieldcal.datasets.example().prev.save(tmp_path / "prev.json")
    with pytest.raises(SystemExit) as done:
        main(["alarms", str(tmp_path / "prev.json")])
    assert done.value.code == 1
    assert "--every" in capsys.readouterr().err


@pytest.mark.parametrize("given", [{"rate": 0}, {"margin": -1}])
def test_an_impossible_rate_or_margin_is_refused(given):
    with pytest.raises(InputError, match="must be a share"):
        alarms_in(stable(2, 4), **given)


def test_one_window_is_no_evidence_and_exchanged_halves_have_the_same_size_of_change():
    V = stable(1, 8).astype(float)
    p = np.array([[0.8, 0.2]])
    found = alarms.evidence_of_change(V, M, p, 1, margin=0.0)
    turned = alarms.evidence_of_change(V[:, [1, 0, 2, 3, 4, 5, 6, 7]], M, p, 1, margin=0.0)
    assert found.log_e[0, 0] == 0
    assert found.log_e[0, 1] == pytest.approx(turned.log_e[0, 1])
    assert found.up[0, 1] != turned.up[0, 1]


def test_e_benjamini_hochberg_rejects_what_its_definition_says():
    rng = np.random.default_rng(3)
    log_e = rng.normal(3, 3, (20, 30))
    rejected = alarms.e_rejected(log_e, 0.1)
    for t in range(30):
        e = np.sort(np.exp(log_e[:, t]))[::-1]
        k = max((i + 1 for i in range(20) if (i + 1) * e[i] >= 20 / 0.1), default=0)
        assert rejected[:, t].sum() == k


def false_alarms(groups, n, share, replicas, rate=0.1):
    found = 0
    for seed in range(replicas):
        V = histograms(np.full((groups, 52), share), n, np.random.default_rng([groups, n, seed])).astype(
            float
        )
        p = np.tile([1 - share, share], (groups, 1))
        found += alarms.e_rejected(alarms.evidence_of_change(V, M, p, 1, margin=0.0).log_e, rate).any()
    return found / replicas


@pytest.mark.slow
@pytest.mark.parametrize(
    ("groups", "n", "share"), [(1, 20, 0.05), (1, 100, 0.3), (100, 20, 0.05), (100, 100, 0.3)]
)
def test_false_alarms_over_a_trajectory_are_as_rare_as_stated(groups, n, share):
    assert false_alarms(groups, n, share, 200 if groups == 1 else 20) <= 0.12


def test_a_step_of_two_interval_widths_is_found_within_three_windows():
    rng, delays = np.random.default_rng(5), []
    for _ in range(9):
        share = np.full((1, 40), 0.2)
        share[0, 20:] += 0.4
        V = histograms(share, 100, rng).astype(float)
        log_e = alarms.evidence_of_change(V, M, np.array([[0.7, 0.3]]), 1, margin=0.0).log_e
        raised = alarms.e_rejected(log_e, 0.05)[0]
        assert not raised[:20].any()
        delays.append(raised[20:].argmax() + 1)
    assert np.median(delays) <= 3
