"""The benchmark of labels, small and without PPI++: what it measures, and when it calls a bar met."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks.few_labels import command, designs, groups, one, verdict  # noqa: E402
from benchmarks.few_labels.files import Settings  # noqa: E402

import fieldcal  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")
SMALL = Settings(replicas=2, sizes=(30, 100), peer=False)


def write(path, **shift):
    """A file as the benchmark reads it, of a lab and a field that differ by label shift."""
    data = fieldcal.datasets.label_shift(n_lab=600, n_field=1000, n_groups=5, **shift)
    proba = np.concatenate([data.proba_lab, data.proba_field])
    proba = proba[:, None] if proba.ndim == 1 else proba
    names = ["p_1"] if proba.shape[1] == 1 else [f"p_{k}" for k in range(proba.shape[1])]
    table = pd.DataFrame(proba, columns=names)
    table["split"] = ["dev"] * 600 + ["field"] * 1000
    table["group"] = [f"g{g}" for g in np.concatenate([data.groups_lab, data.groups_field])]
    table["y"] = np.concatenate([data.y_lab, data.y_field])
    table.to_parquet(path)
    return path


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scores")
    two = write(folder / "SYN_two.parquet", prevalence=np.tile([0.8, 0.2], (5, 1)), random_state=1)
    three = write(folder / "three__lab_x.parquet", p_lab=(0.5, 0.3, 0.2), random_state=2)
    return [two, three]


def frame(section, paths, settings=SMALL):
    return pd.DataFrame([record for path in paths for record in section.measure(path, settings).records])


def test_one_population_has_a_record_for_every_file_size_and_replica(paths):
    found = frame(one, paths)
    assert len(found) == 2 * 2 * 2
    assert dict(found.groupby("file").kind.first()) == {"SYN_two": "consistent", "three__lab_x": "moved"}
    ours = ["e", "covered", "width", "e_labels", "e_urc", "e_default", "e_naive", "change", "best"]
    assert np.isfinite(found[ours]).all(axis=None)
    assert found[["e_ppi", "covered_ppi", "width_ppi"]].isna().all(axis=None), "the peer was not asked"
    assert (found.best <= 0).all()
    assert found.covered.between(0, 1).all()


@pytest.mark.slow
@pytest.mark.parametrize("section", [one, designs, groups, verdict])
def test_every_section_ends_in_bars_that_are_met_or_missed(section, paths):
    lines = list(section.page(frame(section, paths[:1]), markdown=True))
    bars = [line for line in lines if re.match("met   |MISSED", line)]
    assert bars
    assert not any("nan ×" in line for line in bars), "nothing is judged that was not measured"
    assert any(line.startswith("| ") for line in lines)


def test_the_command_measures_prints_and_writes_every_replica(capsys, tmp_path, paths):
    (tmp_path / paths[0].name).symlink_to(paths[0])
    target = tmp_path / "replicas.csv"
    options = ["--only", "verdict", "--replicas", "1", "--jobs", "1", "--csv", str(target)]
    command.main([str(tmp_path), *options])
    assert "6. Verdicts" in capsys.readouterr().out
    found = pd.read_csv(target)
    assert set(found.section) == {"verdict"}
    assert set(found.way) == {"lab groups", "field groups", "one population"}
