"""What people see, word for word: the files in transcripts/ are run line by line and compared.

After a change that is meant: ``FIELDCAL_TRANSCRIPTS=write pytest tests/cli/test_transcripts.py``, and read what
changed. A line of three dots stands for any lines. A digest is the number of its first appearance, ``<1>``: its last
bits depend on the processor.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

STORIES = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


def told(line, done):
    """A command as a transcript has it: its output, its messages after !, its exit code."""
    messages = [f"! {message}" for message in done.err.splitlines()]
    return "\n".join([line, *done.out.splitlines(), *messages, f"[exit {done.code}]", ""])


def with_numbered_digests(text):
    """The same digest has the same number, whatever the processor makes of it."""
    numbers = {}
    return re.sub(r"\b[0-9a-f]{64}\b", lambda m: numbers.setdefault(m[0], f"<{len(numbers) + 1}>"), text)


def fits(seen, expected):
    """Whether the text is as expected, where a line of three dots stands for any lines."""
    parts = map(re.escape, expected.split("\n...\n"))
    return re.fullmatch(r"\n(?:.*\n)*?".join(parts), seen) is not None


@pytest.mark.slow
@pytest.mark.parametrize("story", STORIES, ids=lambda path: path.stem)
def test_every_command_prints_what_its_transcript_says(story, labelled, call):
    expected = story.read_text(encoding="utf-8")
    lines = [line for line in expected.splitlines() if line.startswith("$ fieldcal ")]
    printed = (told(line, call(line.removeprefix("$ fieldcal "))) for line in lines)
    seen = with_numbered_digests("\n".join(printed))
    if fits(seen, expected):
        return
    if os.environ.get("FIELDCAL_TRANSCRIPTS") == "write":
        story.write_text(seen, encoding="utf-8")
    assert seen == expected


def test_every_command_has_a_transcript():
    from fieldcal.cli.dispatch import command

    told = "\n".join(path.read_text(encoding="utf-8") for path in STORIES)
    commands = {name: found for name, found in command().commands.items() if name != "demo"}  # it takes long
    for name, found in commands.items():
        for below in getattr(found, "commands", {"": None}):
            assert f"$ fieldcal {name} {below}".rstrip() in told
