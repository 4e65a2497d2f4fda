"""Errors and warnings mark the options in their texts, and each front end spells them its own way."""

from __future__ import annotations

import ast
import functools
import inspect
import pickle
import re
import warnings

import pytest

import fieldcal
from fieldcal import estimators, plots, regression, tables
from fieldcal.cli.dispatch import command
from fieldcal.cli.output import explain
from fieldcal.errors import FieldcalWarning, InputError, MissingExtraError, Word, option, spelled
from fieldcal.options import OPTIONS, flag_of
from sources import SOURCE, trees

#: Where ``name=`` is no advice that a front end could spell: markup, statements, and what is stored or shown as Python.
NOT_MESSAGES = {
    "cli": "speaks of its own flags",
    "objects/show.py": "HTML",
    "reporting": "HTML, and text that shows how to do it in Python",
    "tables/files/text.py": "SQL",
    "_NOT_FITTED": "a text of scikit-learn's check_is_fitted",
}


#: Options of functions that the command line does not have.
OF_PYTHON = {
    "cv",
    "family",
    "group_input",
    "high",
    "low",
    "one_column",
    "sample_weight",
    "share_above",
    "share_below",
}


def public_options():
    """Every keyword argument of a public function or class."""
    found = set()
    for module in (fieldcal, tables, regression, estimators, plots):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                try:
                    found |= set(inspect.signature(thing).parameters)
                except ValueError:  # a class without a signature
                    continue
    return found - {"args", "kwargs", "n", "strength", "values", "parts"}  # of partitions, priors and errors


def texts(path):
    """Every string of a module that is not its documentation, and the name of what it is in."""
    tree = trees().get(path) or ast.parse(path.read_text(encoding="utf-8"))
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and isinstance(node.body[0], ast.Expr)
    }

    def walk(node, inside):
        if isinstance(node, ast.FunctionDef):
            inside = node.name
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and not inside:
            inside = node.targets[0].id
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield inside, node
        for below in ast.iter_child_nodes(node):
            yield from walk(below, inside)

    yield from walk(tree, "")


def modules():
    skipped = {name for name in NOT_MESSAGES if not name.startswith("_")}
    for path in trees():
        name = path.relative_to(SOURCE).as_posix()
        if name not in skipped and name.partition("/")[0] not in skipped:
            yield path


@functools.cache
def spelled_option():
    return re.compile(rf"(?<![\w.$])(?:{'|'.join(sorted(public_options()))})=")


def named_by_hand(path):
    spelled = spelled_option()
    return [
        f"{path.name}:{node.lineno}: {node.value!r}"
        for inside, node in texts(path)
        if inside not in NOT_MESSAGES and spelled.search(node.value)
    ]


@pytest.mark.usefixtures("parsed")
def test_no_message_names_an_option_by_hand():
    by_hand = [found for path in modules() for found in named_by_hand(path)]
    assert not by_hand, "Write {option(…)} in the message: " + "\n".join(by_hand)


def named_options():
    """Every option that a message may speak of, and where."""
    yield from ((name, "options.py") for name in OPTIONS if "." not in name)
    for path, tree in trees().items():
        if path.parent.name == "cli":  # its `option` is one of typer
            continue
        for node in ast.walk(tree):
            if (
                isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "option"
            ) and isinstance(node.args[0], ast.Constant):
                yield node.args[0].value, path


def flags(group):
    for found in group.commands.values():
        yield from flags(found) if hasattr(found, "commands") else (o for p in found.params for o in p.opts)


def test_every_option_of_a_message_is_a_flag_or_known_to_have_none():
    known = set(flags(command()))
    named = list(named_options())
    assert len(named) > 40
    for name, path in named:
        flag = flag_of(name)
        assert flag is None or f"--{flag}" in known, f"{path}: {name}"
        assert flag is not None or name in OPTIONS or name in OF_PYTHON, f"{path}: {name} has no row"


def test_an_option_is_spelled_for_python_and_for_the_command_line():
    for marked, python, flag in (
        (option("missing", "drop"), "missing='drop'", "--missing drop"),
        (option("acknowledge", True), "acknowledge=True", "--acknowledge"),
        (option("groups"), "groups=…", "--by"),
        (option("groups", verb="learn"), "learn(…, groups=…)", "fieldcal learn --by"),
        (option("partition", 1), "partition=1", "--bins 1"),
        (option("every", None), "every=None", "no --every"),
        (option("time", Word("<column>")), "time=<column>", "--time <column>"),
        (option("name", "{}_new"), "name='{}_new'", "--name {}_new"),
        (option("by", ["a", "b"]), "by=['a', 'b']", "--by a,b"),
        (
            option("quantiles", {0.05: "low", 0.95: "high"}),
            "quantiles={0.05: 'low', 0.95: 'high'}",
            "--quantiles 0.05=low,0.95=high",
        ),
        (option("sample_weight"), "sample_weight=…", "sample_weight=…"),
        (option("kind", "values", flag="predictions COLUMN"), "kind='values'", "--predictions COLUMN"),
    ):
        error = InputError(f"Braces {{}} and % are text. Pass {marked}.")
        assert str(error) == f"Braces {{}} and % are text. Pass {python}."
        assert explain(error) == f"Braces {{}} and % are text. Pass {flag}."


def test_an_endless_value_is_cut():
    error = InputError(option("by", ["x" * 10_000]))
    assert len(str(error)) < 100
    assert len(explain(error)) < 100
    text = "There is no column \"missing='drop'\"."
    assert explain(InputError(text)) == text


def test_a_message_survives_a_process_boundary():
    for kind in (InputError, MissingExtraError, fieldcal.errors.TrustWarning):
        error = pickle.loads(pickle.dumps(kind(f"Pass {option('missing', 'drop')}.")))
        assert type(error) is kind
        assert str(error) == "Pass missing='drop'."
        assert repr(error) == f"{kind.__name__}(\"Pass missing='drop'.\")"
        assert error.spelled(str) == "Pass --missing drop."


def test_a_warning_with_an_option_is_caught_by_its_text():
    with pytest.warns(FieldcalWarning, match=r"^Pass groups=…\.$"):
        warnings.warn(FieldcalWarning(f"Pass {option('groups')}."), stacklevel=1)


def test_marks_of_somebody_else_are_left_alone():
    text = "\ue000 a \ue001 b \ue002"
    assert spelled(text) == spelled(text, str) == " a \ue001 b "
    inside = f"Pass {option('by', Word('a' + chr(0xE001) + 'b' + chr(0xE002)))}."
    assert spelled(inside) == "Pass by=ab."
