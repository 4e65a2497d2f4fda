"""fieldcal watch: what is new is counted once, a kill leaves old or new, and outputs follow from the files alone."""

from __future__ import annotations

import functools
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import fieldcal
from fieldcal.cli import main
from fieldcal.objects.alarms import _sample

ARGUMENTS = ["watch", "lab.json", "log", "--time", "at", "--every", "1d", "--by", "site", "-o", "out"]
OUTPUTS = ("state.json", "prevalence.json", "prevalence.csv", "alarms.csv", "metrics.prom", "report.html")


@functools.cache
def mix():
    return fieldcal.datasets.label_shift(n_lab=2000, n_field=2000, prevalence=[[0.5, 0.5]], random_state=2)


def rows(day, share, n=60):
    """A CSV of one day of two sites."""
    rng = np.random.default_rng(day)
    lines = ["site,p,at"]
    for site, of in (("Leeds", share), ("York", 0.3)):
        pools = [mix().proba_field[mix().y_field == k] for k in (0, 1)]
        p = np.where(rng.random(n) < of, rng.choice(pools[1], n), rng.choice(pools[0], n))
        lines += [f"{site},{x:.6f},2026-03-{2 + day:02}T12:00:00" for x in p]
    return "\n".join(lines) + "\n"


class Page:
    def html(self):
        return "<p>a page</p>"


@pytest.fixture
def log(tmp_path, monkeypatch):
    """A folder with a lab and six days, the last three of which have more of the second class in Leeds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(fieldcal, "report", lambda prev: Page())
    frame = pd.DataFrame({"p": mix().proba_lab, "y": mix().y_lab})
    fieldcal.tables.learn(frame, scores="p", label="y").save("lab.json")
    for day in range(6):
        folder = Path(f"log/month=3/day={day}")
        folder.mkdir(parents=True)
        (folder / "part.csv").write_text(rows(day, 0.2 if day < 3 else 0.8))
    return tmp_path


def watch(*more):
    with pytest.raises(SystemExit) as done:
        main([*ARGUMENTS, *more])
    return done.value.code


def contents(folder="out"):
    return {name: Path(folder, name).read_bytes() for name in OUTPUTS}


def test_alarms_are_found_written_and_returned_as_exit_code(log, capsys):
    assert watch("--json") == 2
    answer = json.loads(capsys.readouterr().out)
    assert "Leeds" in [alarm["group"] for alarm in answer["alarms"]]
    assert answer["exit_code"] == 2
    metrics = Path("out/metrics.prom").read_text()
    assert metrics.endswith("# EOF\n")
    assert 'fieldcal_share{group="Leeds",class="1",value="estimate"}' in metrics
    assert "fieldcal_severity 2\n" in metrics


def test_names_in_metrics_are_escaped():
    line = _sample("rows", 3, {"group": 'a "quoted" \\ name\nof two lines'})
    assert line == r'fieldcal_rows{group="a \"quoted\" \\ name\nof two lines"} 3'


def test_a_second_run_changes_nothing_and_has_the_same_exit_code(log, capsys):
    assert watch() == 2
    before = contents()
    assert watch("--log-format", "json") == 2
    assert contents() == before
    assert json.loads(capsys.readouterr().err.splitlines()[-1])["message"] == "nothing new"


@pytest.mark.slow
def test_files_that_come_one_by_one_make_what_all_of_them_at_once_make(log):
    shutil.move("log", "later")
    for day in range(6):
        target = Path(f"log/month=3/day={day}")
        target.mkdir(parents=True)
        shutil.copy2(f"later/month=3/day={day}/part.csv", target / "part.csv")
        watch()
    one_by_one = contents()
    shutil.rmtree("out")
    watch()
    assert contents() == one_by_one


def test_a_file_that_has_changed_is_counted_again_in_place_of_its_old_rows(log):
    watch()
    Path("log/month=3/day=5/part.csv").write_text(rows(5, 0.2, n=70))
    watch()
    changed = contents()
    shutil.rmtree("out")
    watch()
    assert contents() == changed


def test_a_file_that_cannot_be_counted_breaks_the_input_and_the_others_are_counted(log, capsys):
    Path("log/month=3/day=4/part.csv").write_text("site,q\nLeeds,1\n")
    assert watch("--json") == 3
    first = json.loads(capsys.readouterr().out)["alarms"][0]
    assert first["kind"] == "input"
    assert "day=4/part.csv" in first["text"]
    assert len(json.loads(Path("out/state.json").read_bytes())["files"]) == 5
    Path("log/month=3/day=4/part.csv").write_text(rows(4, 0.8))
    assert watch() == 2


def test_a_file_with_many_rows_without_a_time_breaks_the_input(log):
    text = rows(4, 0.8).replace("2026-03-06T12:00:00", "", 30)
    Path("log/month=3/day=4/part.csv").write_text(text)
    assert watch() == 3
    assert "30 of 120 rows have no time" in Path("out/alarms.csv").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("at", range(1, 7))
def test_a_run_that_stops_between_two_files_is_completed_by_the_next(log, monkeypatch, at):
    watch()
    whole = contents()
    shutil.rmtree("out")
    replace, done = os.replace, []

    def stop(*given):
        done.append(given)
        if len(done) == at:
            raise KeyboardInterrupt
        replace(*given)

    monkeypatch.setattr(os, "replace", stop)
    assert watch() == 130
    assert not Path("out/state.json").exists()
    monkeypatch.setattr(os, "replace", replace)
    watch()
    assert contents() == whole


def test_other_options_make_the_estimate_and_the_counts_again(log):
    assert watch() == 2
    assert watch("--since", "2026-03-05") == 0
    assert watch("--every", "2d") == watch("--every", "2d")
    assert json.loads(Path("out/state.json").read_bytes())["field"]["content"]["every"] == "2d"


def test_a_state_of_another_lab_is_refused(log, capsys):
    watch()
    _, lab, *_ = fieldcal.datasets.example()
    lab.save("lab.json")
    assert watch() == 1
    assert "another lab" in capsys.readouterr().err


def test_a_length_and_a_column_of_times_are_needed(log, capsys):
    with pytest.raises(SystemExit) as done:
        main(["watch", "lab.json", "log", "-o", "out"])
    assert done.value.code == 1
    assert "--time" in capsys.readouterr().err


@pytest.mark.slow
def test_killed_at_random_moments_and_restarted_it_ends_where_an_undisturbed_run_ends(log):
    command = [sys.executable, "-m", "fieldcal", *ARGUMENTS, "-q"]
    assert subprocess.run(command, check=False).returncode == 2
    whole = contents()
    rng = np.random.default_rng(int(os.environ.get("FIELDCAL_SEED", "0")))
    for _ in range(int(os.environ.get("FIELDCAL_KILLS", "5"))):
        shutil.rmtree("out")
        job = subprocess.Popen(command)
        try:
            job.wait(timeout=rng.uniform(0.2, 6))
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGKILL)
            job.wait()
        assert subprocess.run(command, check=False).returncode == 2
        assert contents() == whole
