"""What the README says can be run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from fieldcal.datasets import label_shift
from fieldcal.objects import Interval

README = Path(__file__).parents[1] / "README.md"


def test_the_ten_lines_run_as_they_stand(capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.S)
    sites = np.array(["Leeds", "York", "Bath", "Hull", "Ely", "Ripon"])
    data = label_shift(n_lab=3000, n_field=3000, n_groups=6)
    names = {
        "proba_lab": data.proba_lab,
        "y_lab": data.y_lab,
        "site_lab": sites[data.groups_lab],
        "proba_field": data.proba_field,
        "site_field": sites[data.groups_field],
    }
    exec(code, names)
    assert names["new"].shape == data.proba_field.shape
    assert "rehearsed on 6 groups, 3,000 rows" in capsys.readouterr().out
    assert isinstance(names["prev"].contrast("Leeds", "York"), Interval)


def test_both_commands_are_on_the_first_screen():
    first_screen = README.read_text(encoding="utf-8").splitlines()[:24]
    assert any(line.startswith("make demo") for line in first_screen)
    assert any(line.startswith("make test") for line in first_screen)
