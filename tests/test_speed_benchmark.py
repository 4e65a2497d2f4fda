"""The benchmark of speed, on small data."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT))  # the benchmarks are no package that could be installed

from benchmarks import speed  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore::fieldcal.errors.FieldcalWarning")


@pytest.mark.parametrize(
    "part",
    [
        pytest.param("groups", marks=pytest.mark.slow),
        pytest.param("classes", marks=pytest.mark.slow),
        "learn",
        "rows",
    ],
)
def test_a_part_measures_ratios(part):
    found = speed.PARTS[part](speed.Bench(runs=1, small=True))
    assert found
    assert all(row.part == part and np.isfinite(row.ratio) and row.ratio > 0 for row in found)


def test_parts_are_chosen_by_name_and_kept_as_json(tmp_path, capsys):
    speed.main(["learn", "--small", "--runs", "1", "--json", str(tmp_path / "speed.json")])
    kept = json.loads((tmp_path / "speed.json").read_text())
    assert {row["part"] for row in kept} == {"learn"}
    assert all(row["what"] in capsys.readouterr().out for row in kept[:1])
    with pytest.raises(SystemExit):
        speed.main(["lern"])
    assert "no part 'lern'" in capsys.readouterr().err


def test_the_table_replaces_the_section_of_the_page_and_nothing_else():
    rows = [
        speed.Row("start", "import", 0.5, "numpy", 2.0, 1.0),
        speed.Row("start", "help", 0.1, "numpy", 1.0, 3.0),
    ]
    page = speed.written("# Figures\n\n## Speed (old)\n\nold\n\n## Next\n\nkept\n", rows)
    assert page.startswith("# Figures\n\n## Speed (`benchmarks/speed.py`)")
    assert page.endswith("\n## Next\n\nkept\n")
    assert "old" not in page
    assert "| import | 0.5 | numpy | 2 | 1 | **missed** |" in page
    assert "| help | 0.1 | numpy | 1 | 3 | met |" in page
