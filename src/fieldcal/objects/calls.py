"""What a function is given, in which order: the right call is said where it is another."""

from __future__ import annotations

from typing import Any

from fieldcal.errors import InputTypeError
from fieldcal.objects.artefact import Artefact
from fieldcal.options import MADE_BY

#: What is expected: an artefact of a class, or of one of several; or something else, in words.
Expected = type[Artefact] | tuple[type[Artefact], ...] | str


def check_call(call: str, *given: tuple[Any, Expected]) -> None:
    """Refuse arguments that are not what the call takes, or not in its order.

    Parameters
    ----------
    call : as it should be written
    *given : each argument with what is expected of it
    """
    if all(_fits(value, wanted) for value, wanted in given):
        return
    words, got = ([_word(wanted) for _, wanted in given], [type(value).__name__ for value, _ in given])
    order = ", in this order" if len(given) > 1 else ""
    lost = [kind.__name__ for kind in _kinds(given) if not any(isinstance(v, kind) for v, _ in given)]
    makers = "".join(f" A {name} comes from {MADE_BY[name]}." for name in lost if name in MADE_BY)
    raise InputTypeError(
        f"{call.partition('(')[0]} takes {' and '.join(words)}{order}, but got {' and '.join(got)}. Write {call}."
        f"{makers}"
    )


def _fits(value: Any, wanted: Expected) -> bool:
    return not isinstance(value, Artefact) if isinstance(wanted, str) else isinstance(value, wanted)


def _word(wanted: Expected) -> str:
    if isinstance(wanted, str):
        return wanted
    return " or ".join(f"a {kind.__name__}" for kind in (wanted if isinstance(wanted, tuple) else (wanted,)))


def _kinds(given: tuple[tuple[Any, Expected], ...]) -> list[type[Artefact]]:
    return [wanted for _, wanted in given if isinstance(wanted, type)]
