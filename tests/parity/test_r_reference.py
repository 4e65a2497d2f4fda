"""Parity with the authors' R code, on its own answers (see tests/data/r_reference/README.md)."""

from __future__ import annotations

import csv
import gzip
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fieldcal
from fieldcal import metrics
from fieldcal.core.likelihood import nll
from fieldcal.core.reweight import class_weights, reweight_binary
from fieldcal.core.solve import solve
from known import known

#: The R code does not ask whether the lab is calibrated or the assumption plausible; fieldcal does.
pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = ROOT / "tests" / "data" / "r_reference"


@dataclass(frozen=True)
class Case:
    facts: dict[str, Any]
    dev: dict[str, np.ndarray]
    field: dict[str, np.ndarray]

    @property
    def breaks(self) -> np.ndarray:
        return np.array(self.facts["partition_breaks"])

    @property
    def M(self) -> np.ndarray:
        return np.array(self.facts["MA_row1_is_positive"])[::-1]

    @property
    def p_lab(self) -> np.ndarray:
        return pair(self.facts["baserate_train"])

    def learn(self) -> fieldcal.Lab:
        """By the preset."""
        return fieldcal.learn(
            self.dev["score"], self.dev["label"].astype(int), method="reference", partition=self.facts["m"]
        )

    def count(self, lab: fieldcal.Lab, group: str) -> fieldcal.Field:
        return fieldcal.count(lab, self.field["score"][self.rows(group)], missing="drop")

    def rows(self, group: str) -> np.ndarray:
        return np.full(len(self.field["score"]), True) if group == "ALL" else self.field["group"] == group

    def recalibrated(self, result: dict[str, Any]) -> np.ndarray:
        local = "" if result["group"] == "ALL" else "local_"
        return self.field[f"recal_{local}kl{result['kl_loss_weight']}"][self.rows(result["group"])]


def read_table(path: Path) -> dict[str, np.ndarray]:
    with gzip.open(path, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    return {k: np.array([r[k] if k == "group" else float(r[k]) for r in rows]) for k in rows[0]}


def read_case(path: Path) -> Case:
    dev, field = (read_table(path.with_name(f"{path.stem}_{part}.csv.gz")) for part in ("dev", "field"))
    return Case(json.loads(path.read_text()), dev, field)


def case_files() -> list[Path]:
    return sorted(SHIPPED.glob("case_*.json"))


@pytest.fixture(scope="module", params=case_files(), ids=lambda path: path.stem)
def case(request: pytest.FixtureRequest) -> Case:
    return read_case(request.param)


def pair(second: float) -> np.ndarray:
    return np.array([1 - second, second])


def number(value: float | str) -> float:
    return float(str(value).replace("Inf", "inf"))


def test_the_shipped_cases_are_there():
    assert {p.stem for p in SHIPPED.glob("*.json")} == {"case_02", "case_18", "case_22", "case_24"}


def test_breaks_are_those_of_r(case):
    assert_allclose(case.learn().partition.edges, case.breaks[1:-1], rtol=0, atol=1e-12)


def test_response_matrix_is_that_of_r(case):
    lab = case.learn()
    assert_allclose(lab.M, case.M, rtol=0, atol=1e-12)
    assert_allclose(lab.M.sum(axis=0), case.facts["vA_train"], rtol=0, atol=1e-12)


def test_field_histograms_are_those_of_r(case):
    lab = case.learn()
    for result in case.facts["results"]:
        assert case.count(lab, result["group"]).V[0].tolist() == result["field_histogram"]


def test_estimates_are_those_of_r_with_a_tight_optimiser(case):
    lab = case.learn()
    for result in case.facts["results"]:
        p = preset(lab, case.count(lab, result["group"]), result["kl_loss_weight"]).urc
        assert_allclose(p[0], pair(result["base_rate_tight"]), rtol=0, atol=1e-6)


def test_the_papers_own_preset_differs_only_where_there_are_scores_of_zero(case):
    paper = fieldcal.learn(
        case.dev["score"], case.dev["label"].astype(int), method="paper", partition=case.facts["m"]
    )
    assert (np.abs(paper.M - case.M).max() < 1e-12) == (case.dev["score"] > 0).all()
    assert_allclose(paper.p_lab, case.p_lab, rtol=0, atol=1e-12)


def test_estimates_of_all_groups_in_one_call_are_those_of_r():
    case = read_case(SHIPPED / "case_22.json")
    lab = case.learn()
    field = fieldcal.count(lab, case.field["score"], groups=case.field["group"])
    local = [r for r in case.facts["results"] if r["group"] != "ALL"]
    for kl in {r["kl_loss_weight"] for r in local}:
        p = preset(lab, field, kl).urc
        tight = {r["group"]: r["base_rate_tight"] for r in local if r["kl_loss_weight"] == kl}
        assert_allclose(p[:, 1], [tight[g] for g in field.groups], rtol=0, atol=1e-6)


def preset(lab: fieldcal.Lab, field: fieldcal.Field, kl: float) -> fieldcal.Prevalence:
    prior = fieldcal.priors.KLBins(kl) if kl else "auto"
    return fieldcal.estimate(lab, field, method="reference", prior=prior)


def test_recalibrated_scores_are_those_of_rs_formula_at_the_estimated_base_rate(case):
    lab = case.learn()
    for result in case.facts["results"]:
        score = case.field["score"][case.rows(result["group"])]
        prev = preset(lab, case.count(lab, result["group"]), result["kl_loss_weight"])
        up = score * prev.urc[0, 1] / case.p_lab[1]
        down = (1 - score) * prev.urc[0, 0] / case.p_lab[0]
        with np.errstate(invalid="ignore"):  # certain of a class that the estimate rules out
            expected = np.where(up + down > 0, up / (up + down), score)
        assert_allclose(fieldcal.recalibrate(prev, score), expected, rtol=1e-9, atol=0)


def test_loss_is_that_of_r_and_the_minimum_is_not_above_it(case):
    for result in case.facts["results"]:
        V = np.array([result["field_histogram"]], dtype=float)
        penalty = fieldcal.priors.KLBins(result["kl_loss_weight"]).penalty(known(case.M, case.p_lab))
        # KL(v ‖ q) = Σ v log v − Σ v log q; the first sum does not depend on p and is no part of L_reg.
        v = case.M.sum(axis=0)
        constant = result["kl_loss_weight"] * (v * np.log(v)).sum()
        tight = pair(result["base_rate_tight"])[None]
        ours = nll(tight, case.M, V) + penalty.value(tight, case.M) + constant
        assert_allclose(ours, result["loss_tight"], rtol=1e-12)
        best = solve(case.M, V, penalty).loss + constant
        assert best[0] <= result["loss_tight"] * (1 + 1e-14)


def test_recalibrated_scores_are_those_of_r(case):
    for result in case.facts["results"]:
        score = case.field["score"][case.rows(result["group"])]
        expected, rates = case.recalibrated(result), {"old": case.p_lab, "new": pair(result["base_rate"])}
        assert_allclose(fieldcal.change_prevalence(score, **rates), expected, rtol=1e-9, atol=0)
        both = np.column_stack([1 - score, score])
        assert_allclose(fieldcal.change_prevalence(both, **rates)[:, 1], expected, rtol=1e-9, atol=0)


def test_scores_of_the_predictions_are_those_of_r(case):
    for result in case.facts["results"]:
        rows = case.rows(result["group"])
        raw, y = case.field["score"][rows], case.field["label"][rows].astype(int)
        new = reweight_binary(raw, class_weights(pair(result["base_rate"]), case.p_lab))
        for score, expected in ((raw, result["scores_raw"]), (new, result["scores_recalibrated"])):
            assert_allclose(metrics.brier_parts(score, y).score, expected["brier"], rtol=1e-12, atol=1e-15)
            assert_allclose(((score > 0.5) == y).mean(), expected["accuracy"], rtol=1e-12)
            with np.errstate(
                divide="ignore"
            ):  # in R a certain prediction that is wrong costs infinitely much
                own = np.log(np.where(y == 1, score, 1 - score))
            assert_allclose(own.mean(), number(expected["mean_loglik"]), rtol=1e-12, atol=1e-15)
        assert_allclose(raw.mean(), result["mean_raw_score"], rtol=1e-12)
        assert_allclose(new.mean(), result["mean_recalibrated"], rtol=1e-12)


def test_parts_of_the_brier_score_are_those_of_r(case):
    for result in case.facts["results"]:
        rows = case.rows(result["group"])
        y = case.field["label"][rows].astype(int)
        # R tells ties at a decile apart by row number: so does a nudge far below the six digits of a score.
        raw = np.minimum(case.field["score"][rows] + 1e-11 * np.arange(len(y)) / len(y), 1)
        new = reweight_binary(raw, class_weights(pair(result["base_rate"]), case.p_lab))
        for score, expected in ((raw, result["scores_raw"]), (new, result["scores_recalibrated"])):
            parts = metrics.brier_parts(score, y)
            assert_allclose(parts.calibration, expected["brier_calibration"], rtol=0, atol=1e-11)
            assert_allclose(parts.refinement, expected["brier_refinement"], rtol=0, atol=1e-12)
