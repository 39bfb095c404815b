"""Admission against the naive oracle: the same verdicts and the same values over random schedules."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schedules import Schedule
from stemmadb.protocol.model.commit.proposal import Proposal


@pytest.mark.rule("COMMIT-2", "COMMIT-4", "COMMIT-5", "COMMIT-6", "COMMIT-8")
@pytest.mark.parametrize("block", range(8))
def test_admission_gives_the_verdicts_and_values_of_the_oracle(block: int) -> None:
    for seed in range(block * 250, (block + 1) * 250):
        Schedule(seed).run(steps=12)


@pytest.mark.rule("COMMIT-2")
@given(seed=st.integers(min_value=10_000), steps=st.integers(min_value=1, max_value=25))
@settings(derandomize=True, deadline=None, max_examples=60)
def test_any_seed_reproduces_its_schedule(seed: int, steps: int) -> None:
    one, other = Schedule(seed), Schedule(seed)
    one.run(steps)
    other.run(steps)
    assert one.space.hash == other.space.hash


@pytest.mark.rule("COMMIT-2")
def test_the_schedules_meet_every_verdict() -> None:
    """A differential test proves little if it only ever sees acceptance."""
    seen: set[str] = set()
    for seed in range(60):
        schedule = Schedule(seed)
        decide = schedule.oracle.decide

        def noting(proposal: Proposal, decide: Any = decide) -> str:
            verdict: str = decide(proposal)
            seen.add(verdict)
            return verdict

        schedule.oracle.decide = noting  # type: ignore[method-assign]
        schedule.run(steps=12)
    assert seen == {
        "accepted",
        "repeated",
        "conflict",
        "dependency",
        "overtaken",
        "identity_clash",
        "future_version",
        "not_found",
        "patch_failed",
    }
