"""Rules give codes and numbers; one table has the words for them."""

from __future__ import annotations

import ast
import inspect
from string import Formatter

import pytest

import fieldcal
from fieldcal.errors import spelled
from fieldcal.objects import Finding
from fieldcal.options import flag_of
from fieldcal.verbs.findings import (
    messages,
    rules_decisions,
    rules_field,
    rules_lab,
    rules_shift,
)
from fieldcal.verbs.findings.wording import FORMATS, OPTIONS, filled_in, in_words, raised
from tool import load

RULES = (rules_lab, rules_field, rules_shift, rules_decisions)
MESSAGES = {
    code: message
    for questions in messages.TABLE.values()
    for by_code in questions.values()
    for code, message in by_code.items()
}


def fields(template):
    """Names and formats of the values of a template, those inside choices included."""
    for _, name, spec, _ in Formatter().parse(template):
        if name is not None:
            yield name, spec
            for part in spec.split("|") if "|" in spec else ():
                yield from fields(part)


def test_every_rule_has_its_words_and_all_words_have_a_rule():
    strings = {
        node.value
        for module in RULES
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    assert set(MESSAGES) <= strings
    raised_here = {
        code.value
        for module in RULES
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "raised"
        for code in ast.walk(node.args[0])
        if isinstance(code, ast.Constant) and isinstance(code.value, str)
    }
    assert len(raised_here) > 80
    assert raised_here <= set(MESSAGES)


@pytest.mark.parametrize("code", MESSAGES)
def test_a_message_is_a_sentence_with_values_it_can_format(code):
    for template in MESSAGES[code].templates():
        assert template[-1:] in ("", ".", "?", "}"), template
        for name, spec in fields(template):
            assert name.isidentifier()
            assert name.isupper() == (name in OPTIONS)
            assert "|" in spec or spec in FORMATS or "{" not in spec
            assert all("|" not in inner for _, inner in fields(spec) if "|" in spec), (
                "no choice inside a choice"
            )


def test_the_page_of_verdicts_lists_the_table():
    tool = load("verdicts")
    text = tool.PAGE.read_text("utf-8")
    assert tool.page(text) == text, "make verdicts-page writes it anew"
    assert all(f"| `{code}` |" in text for code in MESSAGES)


def test_a_choice_is_by_number_or_truth_and_names_are_no_part_of_the_template():
    text = "{n:one row|{n:,} rows} of {name:name}{more:, {first!r}|}"
    strange = "a|b {n} }{"
    assert filled_in(text, {"n": 1, "name": strange, "more": False}) == f"one row of {strange}"
    found = filled_in(text, {"n": 4_000, "name": "x", "more": True, "first": strange})
    assert found == f"4,000 rows of x, {strange!r}"


def test_a_state_that_the_table_does_not_have_is_refused():
    with pytest.raises(AssertionError):
        in_words(raised("groups_fit", state="care"), "Is it?", MESSAGES["groups_fit"])


def test_options_of_a_stored_finding_are_spelled_as_flags():
    _, lab, field, _ = fieldcal.datasets.example()
    verdict = fieldcal.Verdict.model_validate_json(fieldcal.check(lab, field).model_dump_json())
    found = verdict.finding("maybe_dependent")
    assert "estimate with design_effect=…;" in found.text
    assert "estimate with --design-effect;" in spelled(messages.marked(found), flag_of)
    by_hand = Finding(code="by_hand", question="Is it?", state="care", text="Pass design_effect=….")
    assert spelled(messages.marked(by_hand), flag_of) == "Pass design_effect=…."
