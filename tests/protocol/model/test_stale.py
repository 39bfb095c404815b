"""Overlap on one head: what is seen, what is forgotten, and where the scan ends."""

from __future__ import annotations

import pytest

from space import ALICE
from stemmadb.protocol.model.ids import EntityId, Hash, Version
from stemmadb.protocol.model.stale import overlapping
from stemmadb.protocol.model.state import Change, EntityState, link


def head(*changes: tuple[int, tuple[str, ...] | None], seen_after: int = 0, scan_max: int = 1000) -> EntityState:
    state = EntityState(EntityId("urn:x"), Version(0), Hash(bytes(32)), None, 1, None, Version(seen_after))
    for version, writes in changes:
        chain, seen = link(state, Version(version), ALICE, writes, scan_max)
        state = EntityState(state.id, Version(version), state.hash, None, 1, chain, seen)
    return state


def found(state: EntityState, path: str | None, after: int, scan_max: int = 1000) -> int | None:
    change = overlapping(state, path, Version(after), (), scan_max)
    return None if change is None else change.version


@pytest.mark.rule("COMMIT-2")
def test_the_newest_overlapping_change_wins() -> None:
    state = head((3, ("/a",)), (5, ("/b",)), (7, ("/a", "/c")), (9, ("/b",)))
    assert found(state, "/a", 2) == 7
    assert found(state, "/a", 7) is None
    assert found(state, "/b", 2) == 9
    assert found(state, "/d", 0) is None
    assert found(state, None, 8) == 9


@pytest.mark.rule("COMMIT-2")
def test_a_fact_whose_body_is_gone_overlaps_every_path() -> None:
    assert found(head((3, None)), "/any/path", 2) == 3


@pytest.mark.rule("COMMIT-2")
def test_what_a_head_no_longer_remembers_counts_as_overlap() -> None:
    state = head((7, ("/a",)), seen_after=5)
    assert found(state, "/b", 5) is None
    assert found(state, "/b", 4) == 0  # out of sight: the winner is not known


@pytest.mark.rule("COMMIT-2")
def test_the_scan_ends_at_its_bound_and_not_one_before() -> None:
    state = head(*[(version, ("/a",)) for version in range(1, 6)])
    assert found(state, "/b", 0, scan_max=4) == 0
    assert found(state, "/b", 1, scan_max=4) is None
    assert found(state, "/b", 0, scan_max=5) is None


@pytest.mark.rule("COMMIT-2")
def test_a_head_remembers_between_one_and_two_scans_of_changes() -> None:
    for writes in range(1, 40):
        state = head(*[(version, ("/a",)) for version in range(1, writes + 1)], scan_max=4)
        assert isinstance(state.changes, Change)
        assert min(writes, 4) <= state.changes.count <= 8
        assert state.seen_after == writes - state.changes.count
        assert length(state.changes) == state.changes.count


def length(change: Change | None) -> int:
    count = 0
    while change is not None:
        count, change = count + 1, change.older
    return count
