"""Agents decide while connections are cut, and the server dies after commits or is restored: every rule holds."""

from __future__ import annotations

import pytest

from memory_storm import storm


@pytest.mark.rule("MCP-1")
@pytest.mark.rule("MCP-2")
@pytest.mark.rule("MEM-4")
@pytest.mark.rule("MEM-9")
@pytest.mark.parametrize("seed", range(4))
def test_decisions_under_faults(seed: int) -> None:
    report = storm(seed)
    assert report.operations == 48
    assert report.faults > 0
