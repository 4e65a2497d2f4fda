"""A short run of the fuzzer; `make faults` runs it for longer. What it found once stays found, beside its row."""

from __future__ import annotations

import pytest

from faults import fuzz

RUNS = {
    "fault_39_fuzz_bytes_of_artefacts": ("artefact bytes", 300),
    "fault_66_fuzz_content_of_artefacts": ("artefact content", 25),
    "fault_42_fuzz_bytes_of_csv": ("CSV bytes", 12),
    "fault_55_fuzz_bytes_of_gzip": ("gzip bytes", 40),
    "fault_60_fuzz_command_lines": ("command line", 15),
}


def findings(outcomes):
    return {number: outcome.detail for number, outcome in outcomes.items() if outcome.kind == fuzz.FOREIGN}


@pytest.mark.slow
@pytest.mark.parametrize(("target", "count"), RUNS.values(), ids=RUNS)
def test_random_damage_is_refused_in_our_words_or_does_no_harm(target, count):
    outcomes = fuzz.run_in_process(target, seed=0, count=count)
    assert findings(outcomes) == {}
    assert any(outcome.kind == fuzz.REFUSED for outcome in outcomes.values())


@pytest.mark.slow
def test_fault_55_fuzz_bytes_of_parquet():
    """In a process of its own: a reader that crashes is a finding, and not the end of the tests."""
    assert findings(fuzz.run_apart("parquet bytes", seed=0, count=25)) == {}
