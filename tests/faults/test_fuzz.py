"""A short run of the fuzzer; `make faults` runs it for longer. What it found once stays found, beside its row."""

from __future__ import annotations

import pytest

from faults import fuzz

RUNS = {
    "fault_39_fuzz_bytes_of_artefacts": ("artefact bytes", 300),
    "fault_66_fuzz_content_of_artefacts": ("artefact content", 300),
    "fault_42_fuzz_bytes_of_csv": ("CSV bytes", 12),
    "fault_60_fuzz_command_lines": ("command line", 15),
}


@pytest.mark.slow
@pytest.mark.parametrize(("target", "count"), RUNS.values(), ids=RUNS)
def test_random_damage_is_refused_in_our_words_or_does_no_harm(target, count):
    outcomes = fuzz.run(target, seed=0, count=count)
    assert {number: found.detail for number, found in outcomes.items() if found.kind == fuzz.FOREIGN} == {}
    assert any(outcome.kind == fuzz.REFUSED for outcome in outcomes.values())
