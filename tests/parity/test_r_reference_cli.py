"""Parity with the authors' R code from the command line, by its preset: the same cases, the same tolerances."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest
from numpy.testing import assert_allclose

import fieldcal
from fieldcal.cli import main
from parity.test_r_reference import case_files, pair, read_case

pytestmark = pytest.mark.filterwarnings("ignore")


def run(capsys, *arguments) -> dict:
    with pytest.raises(SystemExit) as ended:
        main([*map(str, arguments), "--json"])
    told = capsys.readouterr()
    assert ended.value.code == 0, told.err
    return json.loads(told.out)


@pytest.mark.slow
@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_learn_count_and_estimate_by_the_preset(path, tmp_path, capsys):
    case, lab_file, field_file = read_case(path), tmp_path / "lab.json", tmp_path / "field.json"
    dev, field = (path.with_name(f"{path.stem}_{part}.csv.gz") for part in ("dev", "field"))
    preset = ["--method", "reference"]
    columns = ["--label", "label", "--scores", "score", "--bins", case.facts["m"]]
    run(capsys, "learn", dev, *columns, *preset, "-o", lab_file)
    lab = fieldcal.Lab.load(lab_file)
    assert_allclose(lab.partition.edges, case.breaks[1:-1], rtol=0, atol=1e-12)
    assert_allclose(lab.M, case.M, rtol=0, atol=1e-12)
    assert_allclose(lab.p_lab, case.p_lab, rtol=0, atol=1e-12)
    grouped = {result["group"] for result in case.facts["results"]} > {"ALL"}
    for groups in ([], ["--by", "group"]) if grouped else ([],):
        run(capsys, "count", lab_file, field, *groups, "--missing", "drop", "-o", field_file)
        for kl in {result["kl_loss_weight"] for result in case.facts["results"]}:
            prior = ["--prior", f"kl_bins:{kl}"] if kl else []
            target = tmp_path / "prevalence.json"
            run(capsys, "estimate", lab_file, field_file, *preset, *prior, "-o", target)
            prev = fieldcal.Prevalence.load(target)
            known = {r["group"]: r for r in case.facts["results"] if r["kl_loss_weight"] == kl}
            for name, estimate in zip(prev.groups, prev.urc, strict=True):
                wanted = known["ALL" if name is None else name]["base_rate_tight"]
                assert_allclose(estimate, pair(wanted), rtol=0, atol=1e-6)
                assert prev.trust.overall == prev.trust.between == 1


@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_the_known_base_rate_is_applied_as_r_applies_it(path, tmp_path, capsys):
    case, target = read_case(path), tmp_path / "new.csv"
    result = next(r for r in case.facts["results"] if r["group"] == "ALL")
    rates = ["--old", case.facts["baserate_train"], "--new", result["base_rate"]]
    table = path.with_name(f"{path.stem}_field.csv.gz")
    run(capsys, "change-prevalence", table, "--scores", "score", *rates, "-o", target)
    with target.open() as lines:
        found = [float(row["score_recalibrated"]) for row in csv.DictReader(lines)]
    assert_allclose(found, case.recalibrated(result), rtol=1e-9, atol=0)
    assert np.isfinite(found).all()
