"""Seeds of the simulation that once failed."""

from __future__ import annotations

import pytest

from simulation.options import changed, expand
from simulation.run import run, run_with

LONGER_SECONDS = 12.0
"""Of virtual time, as the runs of the kind `client` have."""


SHUT_OUT_FAULTS = (
    "cut",
    "silence",
    "crash",
    "silent_crash",
    "crash_before_append",
    "fail_append",
    "lose_sync",
    "restart",
    "kill_app",
    "fail_journal",
    "copy_journal",
    "restore",
)


@pytest.mark.parametrize("seed", [34, 71, 154, 195, 207, 283])
def test_the_seeds_that_found_something_find_nothing_any_more(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("seed", [1_000_071, 1_000_258, 1_000_960, 1_001_800, 1_002_128])
def test_a_seed_of_a_long_run_that_showed_something_passes(seed: int) -> None:
    """An app that came back without rights; commits on others of the same name, twice; reverts after a restore,
    twice."""
    assert run(seed).checks > 0


def test_whoever_is_shut_out_by_a_commit_that_was_pending_at_the_end_is_let_in_again() -> None:
    """Seed 2002318: a copied journal had a commit that took the rights of its own app, and the run did not wait."""
    options = changed(
        expand(2_002_318), ("journals=1", "seconds=1.6", "life_seconds=0.4", f"faults={','.join(SHUT_OUT_FAULTS)}")
    )
    assert run_with(2_002_318, options).checks > 0


@pytest.mark.parametrize("seed", [1_000_312])
def test_a_seed_of_a_longer_life_that_showed_something_passes(seed: int) -> None:
    """A commit that had read a lost history."""
    assert run(seed, LONGER_SECONDS).checks > 0
