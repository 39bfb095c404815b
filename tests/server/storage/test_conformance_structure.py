"""Every backend: branches, tags, the floor, and what finds a version by a branch or a time; exactly-once."""

from __future__ import annotations

import pytest

from appends import append_to
from backends import Backend
from logs import LogMaker
from random_logs import RandomLog
from space import ALICE, BOB, session_of, set_
from stemmadb.protocol.model.log.commit_record import Identity, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.state import BranchState, KnownCommit
from stemmadb.protocol.model.values.ids import BranchName, Local, TimeMs, Version
from stemmadb.server.storage.port import AcceptedWrite, SpaceLog, StoredTag

MAIN, DRAFT, TWIG = BranchName("main"), BranchName("draft"), BranchName("twig")
SEEDS = range(10)


def write(maker: LogMaker, id_: str = "urn:x", on: str = "main") -> AcceptedWrite:
    return maker.commit(set_(id_, 1, blind=True), branch=on)


@pytest.mark.rule("BRANCH-1")
def test_branches_say_where_they_left_their_parent_and_when_they_ended(log: SpaceLog) -> None:
    maker = LogMaker()
    entries = [write(maker), maker.create_branch("draft"), maker.create_branch("twig", "draft", 1)]
    entries += [maker.delete_branch("draft"), maker.create_branch("late", "draft", 3)]
    append_to(log, Version(0), entries)
    with log.reader() as reader:
        assert reader.branches() == [
            BranchState(name=DRAFT, parent=MAIN, fork=Version(1), depth=2, deleted=Version(4)),
            BranchState(name=BranchName("late"), parent=DRAFT, fork=Version(3), depth=3),
            BranchState(name=MAIN),
            BranchState(name=TWIG, parent=DRAFT, fork=Version(1), depth=3),
        ]
        assert reader.branch("twig") == reader.branches()[3]
        assert reader.branch("Twig") is None


@pytest.mark.rule("MERGE-1")
def test_a_branch_remembers_the_last_merge_into_it(log: SpaceLog) -> None:
    maker = LogMaker()
    entries = [write(maker), maker.create_branch("draft"), write(maker, on="draft"), maker.merge("draft")]
    entries += [maker.merge("draft"), maker.merge("main", "draft")]
    append_to(log, Version(0), entries)
    with log.reader() as reader:
        assert [(state.name, state.merged) for state in reader.branches()] == [("draft", 6), ("main", 5)]


def test_tags_are_there_until_they_are_deleted_and_can_be_made_again(backend: Backend) -> None:
    maker = LogMaker()
    log = backend.open()
    entries = [write(maker), maker.create_branch("draft"), maker.create_tag("v2", "draft"), maker.create_tag("v1")]
    entries += [
        maker.delete_tag("v2"),
        maker.create_tag("v2", "main", 1),
        maker.create_tag("v3"),
        maker.delete_tag("v3"),
    ]
    append_to(log, Version(0), entries)
    expected = [StoredTag("v1", MAIN, Version(3)), StoredTag("v2", MAIN, Version(1))]
    with log.reader() as reader:
        assert reader.tags() == expected
    with backend.reopen().reader() as reader:
        assert reader.tags() == expected


@pytest.mark.rule("COMPACT-1")
def test_the_floor_is_that_of_the_highest_compaction(log: SpaceLog) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [write(maker), write(maker), write(maker), maker.compact(3)])
    append_to(log, Version(4), [maker.compact(2)])
    with log.reader() as reader:
        assert reader.floor() == 3


@pytest.mark.rule("BRANCH-2")
def test_the_last_write_of_a_branch_is_a_commit_on_it_or_a_fact_that_a_space_wide_one_wrote_there(
    log: SpaceLog,
) -> None:
    maker = LogMaker()
    entries = [
        write(maker),
        maker.create_branch("draft"),
        write(maker, on="draft"),
        maker.create_branch("twig", "main"),
    ]
    entries += [maker.compact(1, checkpoints=[("draft", "urn:x")]), write(maker, "urn:y")]
    append_to(log, Version(0), entries)
    with log.reader() as reader:
        for branch, expected in (("main", [0, 1, 1, 1, 1, 1, 6, 6]), ("draft", [0, 0, 0, 3, 3, 5, 5, 5])):
            assert [reader.last_write(BranchName(branch), Version(at)) for at in range(8)] == expected
        assert reader.last_write(TWIG, Version(9)) == 0
        assert reader.last_write(BranchName("nowhere"), Version(9)) == 0


@pytest.mark.rule("COMMIT-7")
def test_a_time_finds_the_last_commit_at_or_before_it(log: SpaceLog) -> None:
    maker = LogMaker()
    entries = []
    for maker.now in (100, 100, 105, 90, 200):
        entries.append(write(maker))
    with log.reader() as reader:
        assert reader.version_at(TimeMs(100)) == 0
    append_to(log, Version(0), entries)
    with log.reader() as reader:
        found = [reader.version_at(TimeMs(time)) for time in (0, 99, 100, 104, 105, 106, 199, 200, 2**50)]
    assert found == [0, 0, 2, 2, 4, 4, 4, 5, 5]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_structure_of_a_random_log_is_the_fold_of_it(log: SpaceLog, seed: int) -> None:
    maker = RandomLog(seed, log).run(12)
    with log.reader() as reader:
        assert reader.tip() == maker.tip
        assert reader.branches() == [state for _, state in sorted(maker.branches.items())]
        assert reader.tags() == [tag for _, tag in sorted(maker.tags.items())]
        assert reader.floor() == maker.floor
        for name in maker.branches:
            assert reader.branch(name) == maker.branches[name]
            for upto in range(maker.version + 1):
                assert reader.last_write(name, Version(upto)) == last_write(maker, name, upto)
        for time in range(990, maker.now + 10):
            at = [record.version for record in maker.commits if record.time <= time]
            assert reader.version_at(TimeMs(time)) == max(at, default=0)


def last_write(maker: LogMaker, name: str, upto: int) -> int:
    on = [record.version for record in maker.commits if record.branch == name]
    on += [fact.version for fact in maker.facts if fact.branch == name]
    return max((version for version in on if version <= upto), default=0)


# ------------------------------------------------------------ exactly once


@pytest.mark.rule("COMMIT-5", "COMMIT-11")
def test_an_accepted_identity_is_known_with_its_version_and_request(backend: Backend) -> None:
    maker = LogMaker()
    first = maker.commit(set_("urn:x", 1, blind=True), session="s1", local=4)
    second = maker.create_tag("v1")
    append_to(backend.open(), Version(0), [first, second])
    never: list[Identity] = [
        LocalIdentity(ALICE, session_of("s1"), Local(3)),
        LocalIdentity(BOB, session_of("s1"), Local(4)),
        LocalIdentity(ALICE, session_of("s2"), Local(4)),
        OperationIdentity(BOB, session_of("op1")),
        OperationIdentity(ALICE, session_of("op2")),
    ]
    with backend.reopen().reader() as reader:
        found = reader.accepted([first.commit.identity, *never, second.commit.identity, first.commit.identity])
        assert reader.accepted([]) == reader.accepted(never) == {}
    assert found == {
        first.commit.identity: KnownCommit(Version(1), first.commit.request),
        second.commit.identity: KnownCommit(Version(2), second.commit.request),
    }


@pytest.mark.rule("COMMIT-11")
def test_an_operation_id_is_never_taken_for_a_session(log: SpaceLog) -> None:
    maker = LogMaker()
    entry = maker.create_tag("v1")
    append_to(log, Version(0), [entry])
    identity = entry.commit.identity
    assert isinstance(identity, OperationIdentity)
    with log.reader() as reader:
        assert reader.highest_locals([(ALICE, identity.operation)]) == {(ALICE, identity.operation): 0}
        assert reader.accepted([LocalIdentity(ALICE, identity.operation, Local(1))]) == {}


@pytest.mark.rule("COMMIT-5")
def test_the_highest_local_is_that_of_one_principal_and_one_session(backend: Backend) -> None:
    maker = LogMaker()
    entries = [
        maker.commit(set_("urn:x", 1, blind=True), author=author, session=session, local=local)
        for author, session, local in [(ALICE, "s1", 2), (BOB, "s1", 9), (ALICE, "s2", 5), (ALICE, "s1", 7)]
    ]
    append_to(backend.open(), Version(0), entries)
    with backend.reopen().reader() as reader:
        assert reader.highest_locals([(ALICE, session_of("s1"))]) == {(ALICE, session_of("s1")): 7}
        assert reader.highest_locals([(ALICE, session_of("s2"))]) == {(ALICE, session_of("s2")): 5}
        assert reader.highest_locals([(BOB, session_of("s1"))]) == {(BOB, session_of("s1")): 9}
        assert reader.highest_locals([(BOB, session_of("s2"))]) == {(BOB, session_of("s2")): 0}


@pytest.mark.rule("COMMIT-5", "COMMIT-11")
@pytest.mark.parametrize("seed", SEEDS)
def test_every_identity_of_a_random_log_is_known(log: SpaceLog, seed: int) -> None:
    maker = RandomLog(seed, log).run(8)
    with log.reader() as reader:
        found = reader.accepted(record.identity for record in maker.commits)
    assert found == {record.identity: KnownCommit(record.version, record.request) for record in maker.commits}
