"""Commands are made from signatures and the table of options: nothing about an option is written down twice."""

from __future__ import annotations

import inspect
import subprocess
import sys
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

import fieldcal
from fieldcal.cli import signature
from fieldcal.cli.dispatch import all_commands, command
from fieldcal.cli.output import Settings
from fieldcal.cli.signature import flags_of, parameters_of
from fieldcal.option_rows import OPTIONS, Row

VERBS = sorted({verb for made in all_commands() for verb in made.verbs})


def imported(verb):
    """The function of a name, from Python."""
    module, _, path = verb.partition(":")
    found = __import__(f"fieldcal.{module}", fromlist=["x"])
    for name in path.split("."):
        found = inspect.getattr_static(found, name)
        found = found.__func__ if isinstance(found, classmethod) else found
    return found


def flags(name):
    """The options of a command as click has them, with their flags."""
    found = command()
    for part in name.split():
        found = found.commands[part]
    return {p.name: p.opts for p in found.params if p.param_type_name == "option"}


@pytest.mark.parametrize("verb", VERBS)
def test_the_signature_read_from_the_source_is_that_of_the_function(verb):
    found = {
        n: p for n, p in inspect.signature(imported(verb)).parameters.items() if p.kind is p.KEYWORD_ONLY
    }
    read = parameters_of(verb)
    assert list(read) == list(found)
    assert [p.default for p in read.values()] == [p.default for p in found.values()]


@pytest.mark.parametrize("made", all_commands(), ids=lambda made: made.name)
def test_every_flag_has_a_parameter_and_a_row_and_every_such_parameter_a_flag(made):
    known = {name for verb in made.verbs for name in parameters_of(verb)} | set(made.own)
    options = {n: o for n, o in flags(made.name).items() if n not in Settings.__dataclass_fields__}
    assert set(options) <= known
    arguments = {name for name, p in made.own.items() if p.kind is p.POSITIONAL_OR_KEYWORD}
    assert set(made.parameters) == set(options) | arguments
    for name, opts in options.items():
        assert opts == flags_of(name, made.row(name))
    every = [flag for opts in flags(made.name).values() for flag in opts]
    assert len(every) == len(set(every))


def test_every_row_is_used_by_a_command_a_function_or_an_estimator():
    of_commands = {f"{made.name}.{name}" for made in all_commands() for name in made.parameters}
    generic = {key.partition(".")[2] for key in of_commands}
    of_python = {name for verb in VERBS for name in parameters_of(verb)}
    functions = (fieldcal.count, fieldcal.learn, fieldcal.Prevalence.to_frame)
    of_python |= {name for function in functions for name in inspect.signature(function).parameters}
    of_python |= {"repair", "before"}  # of fieldcal.regression
    assert {key for key in OPTIONS if "." in key} <= of_commands
    assert {key for key in OPTIONS if "." not in key} <= generic | of_python


@pytest.mark.parametrize("verb", VERBS)
def test_the_words_of_an_option_are_those_of_its_type(verb):
    function = imported(verb)
    names = {"TYPE_CHECKING": True} | vars(sys.modules[function.__module__])
    for name in parameters_of(verb):
        row = OPTIONS.get(name)
        if row is None or not row.choices:
            continue
        holder = type("Holder", (), {"__annotations__": {name: function.__annotations__[name]}})
        hint = get_type_hints(holder, names)[name]
        words = {
            word for kind in (hint, *get_args(hint)) if get_origin(kind) is Literal for word in get_args(kind)
        }
        words |= {word for kind in get_args(hint) for word in get_args(kind) if isinstance(word, str)}
        assert words, name
        assert words <= set(row.choices), name


def test_an_option_added_from_outside_takes_one_parameter_and_one_row(monkeypatch):
    def verb(table, *, smoothness: float | str = 0.5, mood: Literal["calm", "wild"] = "calm") -> None:
        """A function of somebody else."""

    verb.__annotations__ = {"smoothness": "float | str", "mood": "Literal['calm', 'wild']"}
    monkeypatch.setitem(OPTIONS, "mood", Row("How to draw."))
    row = Row("How smooth it is.", "NUMBER", read=float, must="be a number", valid=lambda value: value < 9)
    monkeypatch.setitem(OPTIONS, "smoothness", row)
    seen = {}

    @signature.command(verb)
    def draw(settings: Settings, table: str, **given) -> None:
        """Draw."""
        seen.update(given, table=table, settings=settings)

    app = typer.Typer(rich_markup_mode=None)
    app.command()(draw.typed())
    runner = CliRunner()
    told = " ".join(runner.invoke(app, ["--help"]).output.split())
    assert "--smoothness NUMBER How smooth it is. [default: 0.5]" in told
    assert "--mood <calm|wild> How to draw. [default: calm]" in told
    assert runner.invoke(app, ["t.csv", "--smoothness", "2"], obj=Settings()).exit_code == 0
    assert (seen["smoothness"], seen["mood"], seen["table"]) == (2.0, "calm", "t.csv")
    for text in ("soft", "12"):
        error = runner.invoke(app, ["t.csv", "--smoothness", text], obj=Settings()).exception
        assert str(error) == f"--smoothness must be a number, but got {text!r}."


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
        "--seed -1",
    ],
)
def test_run_refuses_options_that_cannot_be_before_any_work(option, folder, call, one_error):
    line = one_error(call(f"run lab.csv field.csv --label y --scores p -o out {option}"))
    assert f"error: {option.split()[0]} " in line
    assert not (folder / "out").exists()


def test_options_are_read_as_python_takes_them(folder, call, monkeypatch):
    seen = {}

    def learn(relation, **given):
        seen.update(given)
        raise fieldcal.errors.InputError("Enough.")

    monkeypatch.setattr("fieldcal.tables.files.verbs.learn", learn)
    options = "--by site --by row --bins quantiles:4 --seed 3 --smoothing 2 --atoms none --ordered"
    call(f"learn lab.csv --label y --scores p {options} --calibration sigmoid -o lab.json")
    assert (seen["scores"], seen["by"], seen["random_state"]) == ("p", ["site", "row"], 3)
    assert (seen["smoothing"], seen["atoms"], seen["ordered"]) == (2.0, [], True)
    assert (seen["partition"], seen["calibration"]) == (fieldcal.partitions.Quantiles(4), "sigmoid")
    assert (seen["intervals"], seen["quantiles"], seen["classes"]) == ("auto", None, None)
