"""An option is written down once, and every command that has it has the same."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fieldcal.cli import options
from fieldcal.cli.apply import Deciding
from fieldcal.cli.dispatch import command
from fieldcal.cli.options import (
    Applying,
    Counting,
    Estimating,
    FieldColumns,
    Learning,
    ScoreColumns,
    arguments,
)
from fieldcal.cli.output import Settings


def options_of(name):
    return {p.name: p for p in command().commands[name].params if p.param_type_name == "option"}


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("learn", [Learning]),
        ("count", [FieldColumns, Counting]),
        ("estimate", [Estimating]),
        ("recalibrate", [FieldColumns, Applying]),
        ("decide", [ScoreColumns, Deciding]),
        ("run", [Learning, Counting, Estimating, Applying]),
    ],
)
def test_a_command_has_the_options_of_its_stages_once_with_their_defaults(name, groups):
    found = command().commands[name].params
    flags = [flag for param in found for flag in param.opts]
    assert len(flags) == len(set(flags))
    for group in groups:
        assert set(group.__dataclass_fields__) <= set(options_of(name))
    made = Applying()
    if Applying in groups:
        assert options_of(name)["unseen"].default == made.unseen


def test_a_command_of_dataclasses_gets_them_filled_and_shared_fields_go_to_each():
    seen = {}

    def both(settings: Settings, table: str, counting: Counting, applying: Applying) -> int:
        seen.update(settings=settings, table=table, counting=counting, applying=applying)
        return 7

    class Context:
        obj = Settings(quiet=True)

    given = {**vars(Counting(normalize=True, batch="a")), "unseen": "raw", "name": "x"}
    given |= {"acknowledge": False, "shape": "bins"}
    assert options.flat(both)(Context(), table="t", **given) == 7
    assert seen["settings"] is Context.obj
    assert seen["table"] == "t"
    assert seen["counting"] == Counting(normalize=True, batch="a")
    assert seen["applying"] == Applying(normalize=True, unseen="raw", name="x", shape="bins")


def test_texts_of_options_become_arguments():
    found = arguments(Learning(label="y", scores=["p_a,p_b"], by=["site", "day"], intervals="0,1"))
    assert (found["scores"], found["by"], found["intervals"]) == (["p_a", "p_b"], ["site", "day"], [0.0, 1.0])
    assert found["quantiles"] is None
    assert arguments(Estimating(trust="0.5"))["trust"] == 0.5
    assert arguments(Estimating(persistence="0.5"))["persistence"] == 0.5
    assert arguments(Estimating(persistence="auto"))["persistence"] == "auto"


def test_the_entry_point_stays_a_function_and_needs_no_typer_to_be_imported():
    code = """
import sys
sys.modules["typer"] = None
import fieldcal.cli.main
from fieldcal.cli.dispatch import command, run
from fieldcal.cli import main
assert callable(main), main
assert "rich" not in sys.modules and "numpy" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


@pytest.mark.parametrize(
    "option",
    [
        "--trust 2",
        "--persistence 1.5",
        "--persistence most",
        "--prior kl:strong",
        "--by a,,b",
        "--intervals many --quantiles q_* --scores p",
        "--shape bins",
    ],
)
def test_run_refuses_options_that_cannot_be_before_any_work(option, folder, call, one_error):
    line = one_error(call(f"run lab.csv field.csv --label y --scores p -o out {option}"))
    assert "error: " in line
    assert not (folder / "out").exists()
