"""Overlap on one head: what is seen, what is forgotten, and where the scan ends."""

from __future__ import annotations

from typing import Any

import pytest

from space import ALICE
from stemmadb.protocol.model.commit.stale_reads import COMPARISONS_MAX, Scan
from stemmadb.protocol.model.log.changes import PATHS_MAX, Changes, of_fact, of_paths, push
from stemmadb.protocol.model.log.facts import Fact, FactKind
from stemmadb.protocol.model.log.state import EntityState, empty_state
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Hash, Version


def head(*made: tuple[int, tuple[str, ...] | None], seen_after: int = 0, keep: int = 1000) -> EntityState:
    state = empty_state(EntityId("urn:x"))
    changes, seen, version = state.changes, Version(seen_after), Version(0)
    for number, writes in made:
        version = Version(number)
        changes, seen = push(changes, seen, of_paths(version, ALICE, writes), keep)
    return EntityState(state.id, version, state.hash, None, 1, changes, seen, version)


def found(
    state: EntityState, path: str | None, after: int, scan_max: int = 1000, own: tuple[Version, ...] = ()
) -> int | None:
    change = Scan(scan_max).overlapping(state, path, Version(after), own)
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


@pytest.mark.rule("COMMIT-4")
def test_own_commits_do_not_use_up_the_scan() -> None:
    state = head(*[(version, ("/a",)) for version in range(1, 50)])
    own = tuple(Version(version) for version in range(2, 50))
    assert found(state, "/a", 1, scan_max=1, own=own) is None
    assert found(state, "/a", 0, scan_max=1, own=own) == 1


@pytest.mark.rule("COMMIT-2")
def test_a_change_of_very_many_paths_counts_as_one_of_the_whole() -> None:
    few, many = ([f"/{number}" for number in range(count)] for count in (PATHS_MAX, PATHS_MAX + 1))
    assert found(head((1, tuple(few))), "/z", 0) is None
    assert found(head((1, tuple(many))), "/z", 0) == 1


@pytest.mark.rule("COMMIT-2")
def test_one_proposal_may_compare_so_much_and_no_more() -> None:
    state = head(*[(version, tuple(f"/{number}" for number in range(50))) for version in range(1, 1001)])
    scan = Scan(10_000)
    verdicts = [scan.overlapping(state, "/z", Version(0), ()) for _ in range(COMPARISONS_MAX // 50_000 + 1)]
    assert [verdict is None for verdict in verdicts] == [True, True, False]


@pytest.mark.rule("COMMIT-2")
def test_a_head_remembers_between_one_and_two_scans_of_changes() -> None:
    for keep in (1, 4, 67):
        for writes in (1, keep, 2 * keep, 2 * keep + 1, 5 * keep + 2):
            state = head(*[(version, ("/a",)) for version in range(1, writes + 1)], keep=keep)
            assert state.changes is not None
            assert min(writes, keep) <= state.changes.count <= 2 * keep
            assert state.seen_after == writes - state.changes.count
            remembered = [change.version for change in state.changes]
            assert remembered == list(range(writes, state.seen_after, -1))


@pytest.mark.rule("COMMIT-10", "BRANCH-2")
def test_two_heads_that_go_on_from_the_same_one_do_not_see_each_other() -> None:
    def versions(changes: Changes | None) -> list[int]:
        return [change.version for change in changes or ()]

    first, _ = push(None, Version(0), of_paths(Version(1), ALICE, None), 10)
    one, _ = push(first, Version(0), of_paths(Version(2), ALICE, None), 10)
    other, _ = push(first, Version(0), of_paths(Version(3), ALICE, None), 10)
    further, _ = push(one, Version(0), of_paths(Version(4), ALICE, None), 10)
    assert [versions(each) for each in (first, one, other, further)] == [[1], [2, 1], [3, 1], [4, 2, 1]]


@pytest.mark.rule("COMMIT-2")
def test_a_long_history_of_changes_can_be_freed() -> None:
    state: EntityState | None = head(*[(version, None) for version in range(1, 200_001)], keep=200_000)
    assert state is not None
    del state


ZERO = Hash(bytes(32))


@pytest.mark.rule("COMMIT-2", "FACT-1")
@pytest.mark.parametrize(
    ("kind", "content", "writes"),
    [
        ("set", 1, None),
        ("delete", None, None),
        ("patch", [{"op": "add", "path": "/a/0", "value": 1}], ("/a",)),
        ("patch", None, None),
        ("set", None, None),
    ],
)
def test_a_stored_fact_makes_the_change_it_made_and_every_change_where_its_body_is_gone(
    kind: FactKind, content: Any, writes: Any
) -> None:
    body = None if content is None else encode(content)
    fact = Fact(Version(3), 0, MAIN, EntityId("urn:x"), kind, ZERO, ZERO, ZERO, None, body)
    change = of_fact(fact, ALICE)
    assert change is not None
    assert (change.version, change.author, change.writes) == (3, ALICE, writes)


@pytest.mark.rule("FACT-1")
def test_a_checkpoint_makes_no_change() -> None:
    fact = Fact(Version(3), 0, MAIN, EntityId("urn:x"), "checkpoint", ZERO, ZERO, ZERO, None, None)
    assert of_fact(fact, ALICE) is None
