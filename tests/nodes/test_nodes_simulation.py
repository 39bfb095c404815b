"""Claims, leases and appends of two or three nodes on virtual time, while the network, nodes and the server fail."""

from __future__ import annotations

import pytest

from nodes_simulation import CLIENTS, COMMITS, simulate_nodes

SEEDS = 16


@pytest.mark.rule("STORE-8", "STORE-9", "COMMIT-1", "COMMIT-5", "COMMIT-10")
@pytest.mark.parametrize("seed", range(SEEDS))
def test_every_commit_is_decided_once_and_nobody_is_told_of_an_old_state(seed: int) -> None:
    report = simulate_nodes(seed)
    assert report.operations == CLIENTS * COMMITS
    assert report.faults


def test_a_seed_does_the_same_again() -> None:
    assert simulate_nodes(3) == simulate_nodes(3)
