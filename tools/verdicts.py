"""The lists of findings in docs/explanation/verdicts.md, written by `make verdicts-page` from the table of messages."""

from __future__ import annotations

from pathlib import Path
from string import Formatter

from fieldcal.errors import spelled
from fieldcal.verbs.findings.messages import TABLE
from fieldcal.verbs.findings.wording import OPTIONS, Message

PAGE = Path(__file__).resolve().parents[1] / "docs" / "explanation" / "verdicts.md"
BEGIN, END = "<!-- the lists of findings, by make verdicts-page -->", "<!-- end of the lists -->"
_HEAD = "| code | state | what it reports | what to do |\n|---|---|---|---|"


def page(text: str) -> str:
    """The page with its lists of findings written anew."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{lists()}\n\n{END}{rest.partition(END)[2]}"


def lists() -> str:
    """All findings by subject and question."""
    return "\n\n".join(
        f"### {subject}\n\n" + "\n\n".join(_asked(*item) for item in questions.items())
        for subject, questions in TABLE.items()
    )


def _asked(question: str, messages: dict[str, Message]) -> str:
    return "\n".join(
        [f"**{question}**", "", _HEAD, *(_row(code, message) for code, message in messages.items())]
    )


def _row(code: str, message: Message) -> str:
    states = ", ".join(f"`{state}`" for state in message.states)
    return f"| `{code}` | {states} | {_cell(message.text)} | {_cell(message.remedy)} |"


def _cell(words: str | dict[str, str]) -> str:
    """One text, or all versions of it, each on its line."""
    texts = [words] if isinstance(words, str) else words.values()
    return "<br>".join(_readable(text).replace("|", "\\|") for text in texts)


def _readable(template: str) -> str:
    """Values as dots, options in Python's spelling, parts that depend on the case in ‹ ›: brackets would be links."""
    return "".join(
        literal if name is None else literal + _field(name, spec or "")
        for literal, name, spec, _ in Formatter().parse(template)
    )


def _field(name: str, spec: str) -> str:
    if name in OPTIONS:
        return f"`{spelled(OPTIONS[name])}`"
    if "|" not in spec:
        return "…"
    one, other = (_readable(text) for text in spec.split("|"))
    if name == "n":  # a number of things: most often several
        return other
    return f"‹{one} / {other}›" if one and other else f"‹{one or other}›"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")
