"""Kill -9 of a process that appends: nothing acknowledged is lost, nothing is there twice (COMMIT-1, COMMIT-5)."""

from __future__ import annotations

from pathlib import Path

import pytest

import killing

CYCLES = 10


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "STORE-1")
def test_what_was_acknowledged_before_a_kill_is_there_after_it_and_once(tmp_path: Path) -> None:
    acknowledged: killing.Acknowledged = {}
    for seed in range(CYCLES):
        assert killing.cycle(tmp_path, seed, acknowledged) > 0
