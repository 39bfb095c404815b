"""State as a fold of the log: with and without snapshots, with bodies that are gone, and when to take one."""

from __future__ import annotations

import random
import sys
from typing import Any

import msgspec
import pytest

from space import MemorySpace, delete_, patch_, set_
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.facts import Fact, FactKind
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Hash, Version

X = "urn:x"


def fact(kind: FactKind, value: Any = None, *, gone: bool = False, version: int = 1) -> Fact:
    zero = Hash(bytes(32))
    body = None if gone or kind == "delete" else encode(value)
    return Fact(
        version=Version(version), index=0, branch=BranchName("main"), id=EntityId(X), kind=kind, parent=zero,
        digest=zero, hash=zero, salt=None if body is None else bytes(16), body=body,
    )  # fmt: skip


SET, GONE_SET = fact("set", {"n": 1}), fact("set", gone=True)
UP = fact("patch", [{"op": "increment", "path": "/n", "by": 1}])
GONE_PATCH, DELETE = fact("patch", gone=True), fact("delete")
CHECKPOINT, GONE_CHECKPOINT = fact("checkpoint", {"n": 7}), fact("checkpoint", gone=True)


@pytest.mark.rule("HISTORY-3", "PATCH-2")
def test_patches_in_a_row_copy_what_they_change_once() -> None:
    """Replaying 50 patches of a document of 4.6 MB copied its 96,000 keys 50 times."""
    start: dict[str, Any] = {"wide": {f"k{number}": number for number in range(1_000)}, "n": 0}
    before = encode(start)
    facts = [
        fact(
            "patch",
            [{"op": "replace", "path": f"/wide/k{at}", "value": -at}, {"op": "add", "path": "/n", "value": at}],
        )
        for at in range(50)
    ]
    copies: list[int] = []

    def count(_frame: object, event: str, called: Any) -> None:
        if event == "c_call" and called.__name__ == "copy":
            copies.append(1)

    sys.setprofile(count)
    try:
        state = replay.fold(start, facts)
    finally:
        sys.setprofile(None)
    assert state == {"wide": {f"k{n}": -n if n < 50 else n for n in range(1_000)}, "n": 49}
    assert len(copies) == 2
    assert encode(start) == before


@pytest.mark.rule("COMMIT-8")
@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([], Missing.ABSENT),
        ([SET], {"n": 1}),
        ([SET, UP, UP], {"n": 3}),
        ([SET, DELETE], Missing.ABSENT),
        ([SET, DELETE, SET, UP], {"n": 2}),
        ([SET, CHECKPOINT, UP], {"n": 8}),
        ([CHECKPOINT, UP], {"n": 8}),
        ([SET, GONE_CHECKPOINT, UP], {"n": 2}),
    ],
)
def test_state_is_a_fold_of_the_facts(facts: list[Fact], state: Any) -> None:
    assert replay.fold(Missing.ABSENT, facts) == state


@pytest.mark.rule("ERASE-1")
@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ([GONE_SET], Missing.ERASED),
        ([SET, GONE_PATCH], Missing.ERASED),
        ([SET, GONE_PATCH, UP, UP], Missing.ERASED),
        ([SET, GONE_PATCH, DELETE], Missing.ABSENT),
        ([GONE_SET, UP, SET], {"n": 1}),
        ([GONE_SET, GONE_CHECKPOINT], Missing.ERASED),
        ([GONE_SET, CHECKPOINT], {"n": 7}),
    ],
)
def test_what_is_replayed_from_a_body_that_is_gone_says_so_until_the_next_whole_fact(
    facts: list[Fact], state: Any
) -> None:
    assert replay.fold(Missing.ABSENT, facts) == state
    compacted = replay.fold(Missing.ABSENT, facts, erased=Missing.COMPACTED)
    assert compacted == (Missing.COMPACTED if state is Missing.ERASED else state)


@pytest.mark.rule("COMMIT-8")
def test_a_patch_of_nothing_in_the_log_is_an_internal_error() -> None:
    with pytest.raises(AssertionError, match="patch of nothing"):
        replay.fold(Missing.ABSENT, [UP])


@pytest.mark.rule("COMMIT-8")
def test_replay_can_begin_at_whole_facts_only() -> None:
    begins = [SET, DELETE, CHECKPOINT, GONE_SET]
    assert all(replay.begins_here(one) for one in begins)
    assert not any(replay.begins_here(one) for one in [UP, GONE_PATCH, GONE_CHECKPOINT])


def random_space(seed: int) -> MemorySpace:
    chance = random.Random(seed)
    space = MemorySpace()
    space.must(set_(X, {"n": 0, "list": []}, blind=True))
    for number in range(30):
        change: dict[str, Any] = {"op": "add", "path": "/list/-", "value": number}
        operation = chance.choice(
            [
                patch_(X, change, blind=True),
                patch_(X, change, blind=True),
                set_(X, {"n": number, "list": [0]}, blind=True),
                delete_(X, blind=True),
            ]
        )
        space.commit(operation)
    return space


@pytest.mark.rule("COMMIT-8", "SNAP-1")
@pytest.mark.parametrize("seed", range(20))
def test_a_snapshot_anywhere_changes_no_answer(seed: int) -> None:
    space = random_space(seed)
    facts = [one for _, its_facts in space.history for one in its_facts]
    whole = replay.fold(Missing.ABSENT, facts)
    head = space.entity(MAIN, EntityId(X)).value
    assert whole == head
    for cut in range(len(facts) + 1):
        snapshot = replay.fold(Missing.ABSENT, facts[:cut])
        assert replay.fold(snapshot, facts[cut:]) == whole


@pytest.mark.rule("COMMIT-8")
def test_replay_never_changes_what_it_starts_from() -> None:
    start: Any = {"n": 1, "list": [1]}
    before = msgspec.msgpack.encode(start)
    replay.fold(start, [fact("patch", [{"op": "add", "path": "/list/-", "value": 2}])] * 3)
    assert msgspec.msgpack.encode(start) == before


@pytest.mark.rule("SNAP-1")
@pytest.mark.parametrize(
    ("patches", "patch_bytes", "value_bytes", "due"),
    [
        (0, 0, 100, False),
        (15, 1_023, 100, False),
        (15, 1_024, 100, True),
        (16, 0, 100, True),
        (1, 15 * 1024 - 1, 10, False),
        (1, 15 * 1024, 10, True),
        (5, 200_000 - 5 * 1024 - 1, 100_000, False),
        (5, 200_000 - 5 * 1024, 100_000, True),
        (1_023, 0, 8_000_000, False),
        (1_024, 0, 8_000_000, True),
    ],
)
def test_a_snapshot_is_due_when_replay_costs_a_bounded_multiple_of_reading_the_value(
    patches: int, patch_bytes: int, value_bytes: int, due: bool
) -> None:
    assert replay.snapshot_due(patches=patches, patch_bytes=patch_bytes, value_bytes=value_bytes) is due
