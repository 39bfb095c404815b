"""Verify agrees with every healthy history, however branches fork, and misses no value that can still be read."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import msgspec
import pytest

from forging import append
from logs import LogMaker
from random_logs import RandomLog
from space import SPACE, delete_, patch_, set_
from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.maintenance.verify import verify
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.port import AcceptedWrite, FactPosition

STEP = {"op": "increment", "path": "/n", "by": 1}


def log_of(entries: Sequence[AcceptedWrite]) -> MemoryLog:
    log = MemoryStorage().open(SPACE, create=True)
    for entry in entries:
        append(log, entry)
    return log


@pytest.mark.rule("KEEP-1", "BRANCH-2")
def test_a_branch_that_begins_before_the_fork_of_its_parent_continues_the_branch_above() -> None:
    maker = LogMaker()
    entries = [
        maker.commit(set_("urn:a", {"n": 1}, blind=True)),
        maker.commit(patch_("urn:a", {"op": "add", "path": "/x", "value": 1}, blind=True)),
        maker.create_branch("late", "main", 2),
        maker.create_branch("twig", "late", 1),
        maker.commit(patch_("urn:a", STEP, blind=True), branch="twig"),
    ]
    snapshot = maker.snapshot(entries[-1].facts[0])
    assert snapshot is not None
    log = log_of(entries)
    log.store_snapshots([snapshot])
    assert verify(log).snapshots == 1


@pytest.mark.rule("KEEP-1", "BRANCH-2")
@pytest.mark.parametrize("seed", range(20))
def test_the_fold_of_every_fact_is_found_however_branches_fork(seed: int) -> None:
    chance, maker = random.Random(seed), LogMaker()
    entries = [maker.commit(set_("urn:a", {"n": 0}, blind=True))]
    for number in range(40):
        parent = chance.choice(sorted(maker.branches))
        if chance.random() < 0.4:
            entries.append(maker.create_branch(f"b{number}", parent, chance.randint(1, maker.version)))
        else:
            entries.append(maker.commit(patch_("urn:a", STEP, blind=True), branch=parent))
    snapshots = [made for fact in maker.facts if (made := maker.snapshot(fact)) is not None]
    log = log_of(entries)
    log.store_snapshots(snapshots)
    assert verify(log).snapshots == len(snapshots)


@pytest.mark.rule("KEEP-1", "COMPACT-1", "ERASE-1")
@pytest.mark.parametrize("seed", range(40))
def test_random_histories_with_erasures_and_compactions_verify(seed: int) -> None:
    log = MemoryStorage().open(SPACE, create=True)
    made = RandomLog(seed, log)
    for _ in range(25):
        made.append()
        verify(log)


def compacted(*before: Callable[[LogMaker], AcceptedWrite], floor: int, lost: FactPosition) -> MemoryLog:
    """A history with a compaction that takes one body more than it may, or the same as it does."""
    maker = LogMaker()
    entries = [make(maker) for make in before]
    entry = maker.compact(floor)
    assert entry.destroyed is not None
    facts = sorted({*entry.destroyed.facts, lost})
    return log_of(
        [*entries, msgspec.structs.replace(entry, destroyed=msgspec.structs.replace(entry.destroyed, facts=facts))]
    )


def setting(value: object, id_: str = "urn:a", branch: str = "main") -> Callable[[LogMaker], AcceptedWrite]:
    return lambda maker: maker.commit(set_(id_, value, blind=True), branch=branch)


def patching(branch: str = "main") -> Callable[[LogMaker], AcceptedWrite]:
    return lambda maker: maker.commit(patch_("urn:a", STEP, blind=True), branch=branch)


FIRST = FactPosition(Version(1), 0)
OTHERS = (setting(1, "urn:b"), setting(2, "urn:b"))


@pytest.mark.rule("KEEP-1", "COMPACT-1")
@pytest.mark.parametrize(
    ("before", "floor"),
    [
        ((setting({"n": 1}), *OTHERS), 3),  # it is the newest
        ((setting({"n": 1}), *OTHERS, setting(2)), 3),  # it is the one at the floor
        ((setting({"n": 1}), patching(), *OTHERS), 4),  # a patch at the head needs it
        ((setting({"n": 1}), patching(), *OTHERS, setting(2)), 3),  # a patch at the floor needs it
        ((setting({"n": 1}), lambda it: it.create_tag("t"), setting(2), *OTHERS), 5),
        ((setting({"n": 1}), lambda it: it.create_branch("b"), setting(2), *OTHERS), 5),
        ((setting({"n": 1}), lambda it: it.create_branch("b"), setting(2), *OTHERS, patching("b")), 4),
        (
            (
                setting({"n": 1}),
                lambda it: it.create_branch("b"),
                setting(2),
                *OTHERS,
                lambda it: it.delete_branch("b"),
            ),
            6,
        ),
        (
            (
                setting({"n": 1}),
                lambda it: it.create_branch("b"),
                setting(2),
                lambda it: it.create_branch("c", "b", 2),
                lambda it: it.delete_branch("b"),
                *OTHERS,
            ),
            7,
        ),
        (
            (
                setting({"n": 1}),
                lambda it: it.create_branch("b"),
                setting(2),
                lambda it: it.create_tag("t", "b"),
                lambda it: it.delete_branch("b"),
                *OTHERS,
            ),
            7,
        ),
    ],
)
def test_a_value_that_can_be_read_and_that_a_compaction_does_not_explain_is_found(
    before: Sequence[Callable[[LogMaker], AcceptedWrite]], floor: int
) -> None:
    with pytest.raises(BrokenChain, match="no erasure took it") as found:
        verify(compacted(*before, floor=floor, lost=FIRST))
    assert (found.value.facts["version"], found.value.facts["place"]) == (1, "fact 0 (urn:a)")


@pytest.mark.rule("KEEP-1", "COMPACT-1", "ERASE-1")
@pytest.mark.parametrize(
    ("before", "floor"),
    [
        ((setting({"n": 1}), *OTHERS, setting(2)), 4),  # replaced at the floor
        ((setting({"n": 1}), patching(), setting(2), *OTHERS), 4),
        ((lambda it: it.commit(set_("urn:a", 1, blind=True), set_("urn:a", 2, blind=True)), *OTHERS), 3),
        ((setting({"n": 1}), lambda it: it.commit(delete_("urn:a", blind=True)), *OTHERS), 4),
        ((setting({"n": 1}), lambda it: it.create_tag("t"), setting(2), lambda it: it.delete_tag("t"), *OTHERS), 6),
        (
            (
                setting({"n": 1}),
                lambda it: it.create_branch("b"),
                setting(2),
                lambda it: it.delete_branch("b"),
                *OTHERS,
            ),
            5,
        ),
        (
            (
                setting({"n": 1}),
                lambda it: it.create_branch("b"),
                lambda it: it.delete_branch("b"),
                *OTHERS,
                lambda it: it.erase("urn:a", [1], survivor=1),
            ),
            2,
        ),
        (
            (
                setting({"n": 1}),
                patching(),
                lambda it: it.create_branch("b"),
                lambda it: it.delete_branch("b"),
                lambda it: it.erase("urn:a", [1], survivor=1),
                *OTHERS,
            ),
            3,
        ),
    ],
)
def test_a_value_that_nobody_can_read_or_that_was_erased_is_not_missed(
    before: Sequence[Callable[[LogMaker], AcceptedWrite]], floor: int
) -> None:
    verify(compacted(*before, floor=floor, lost=FIRST))


@pytest.mark.rule("KEEP-1", "ERASE-1")
def test_an_erasure_explains_only_the_versions_that_it_lists() -> None:
    before = (
        setting({"n": 1}),
        lambda it: it.erase("urn:b", [3], survivor=1),
    )
    with pytest.raises(BrokenChain, match="no erasure took it"):
        verify(compacted(before[0], *OTHERS, before[1], floor=3, lost=FIRST))
    with pytest.raises(BrokenChain, match="no erasure took it") as found:
        verify(
            compacted(
                setting({"n": 1}),
                lambda it: it.erase("urn:a", [1], survivor={"n": 2}),
                patching(),
                *OTHERS,
                floor=5,
                lost=FactPosition(Version(2), 0),
            )
        )
    assert found.value.facts["version"] == 2
