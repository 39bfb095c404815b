"""The log of a space: commits by filter, in pages, with their facts in pieces (HISTORY-1)."""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec
import pytest

from logs import LogMaker
from random_logs import IDS, PREFIXES, SESSIONS
from read_worlds import World, every_page, random_world
from space import ALICE, BOB, SPACE, session_of, set_
from stemmadb.protocol.errors import FutureVersion, LimitExceeded, UnknownBranch
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import Commit, Contested, LocalIdentity, Merge
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.reading import LogAnswer, LogEntry
from stemmadb.server.engine.base import paging
from stemmadb.server.engine.read import commit_log
from stemmadb.server.engine.read.commit_log import LogPage
from stemmadb.server.engine.read.log_pieces import BEFORE_THE_FIRST, LogPlace, pieces
from stemmadb.server.storage.port import LogFilter

SMALL = Limits(part_bytes_max=2_048)


def pages(world: World, wanted: LogFilter = commit_log.EVERY_COMMIT, **how: Any) -> list[LogPage]:
    return every_page(lambda after: world.ask(lambda log: commit_log.page(log, wanted, after=after, **how)))


def entries(found: list[LogPage]) -> list[LogEntry]:
    return list(records.joined_entries([entry for page in found for entry in page.entries]))


def versions(found: list[LogPage]) -> list[int]:
    return [entry.version for entry in entries(found)]


def told_whole(maker: LogMaker, entry: LogEntry) -> None:
    """The entry verifies as the commit with all its facts."""
    commit = maker.commits[entry.version - 1]
    assert records.commit_of(entry) == commit
    assert [records.fact_of(item, entry.version, entry.branch) for item in entry.items] == facts_at(maker, commit)


def facts_at(maker: LogMaker, commit: Commit) -> list[Fact]:
    return [fact for fact in maker.facts if fact.version == commit.version]


def random_filter(random: Random, maker: LogMaker) -> LogFilter:
    def maybe(chosen: Any) -> Any:
        return chosen if random.random() < 0.3 else None

    return LogFilter(
        branch=maybe(random.choice(sorted(maker.branches))),
        author=maybe(random.choice([ALICE, BOB])),
        session=maybe(session_of(random.choice(SESSIONS)[1])),
        prefix=maybe(random.choice(PREFIXES)),
        since=maybe(TimeMs(random.randint(990, maker.now + 5))),
        until=maybe(TimeMs(random.randint(990, maker.now + 5))),
        upto=maybe(Version(random.randint(0, maker.version))),
        order=random.choice(["newest", "oldest"]),
        structural=random.random() < 0.1,
    )


def passes(maker: LogMaker, commit: Commit, wanted: LogFilter) -> bool:
    facts, identity = facts_at(maker, commit), commit.identity
    on = {commit.branch} if commit.branch is not None else {fact.branch for fact in facts}
    session = identity.session if isinstance(identity, LocalIdentity) else None
    return (
        (wanted.branch is None or wanted.branch in on)
        and (wanted.author is None or wanted.author == commit.author)
        and (wanted.session is None or wanted.session == session)
        and (wanted.prefix is None or any(fact.id.startswith(wanted.prefix) for fact in facts))
        and (wanted.since is None or commit.time >= wanted.since)
        and (wanted.until is None or commit.time <= wanted.until)
        and (wanted.upto is None or commit.version <= wanted.upto)
        and (not wanted.structural or commit.details is not None)
    )


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("seed", range(12))
def test_every_filter_of_a_random_log_gives_each_commit_once_whole(seed: int) -> None:
    world, random = random_world(seed), Random(seed)
    maker = world.maker
    for _ in range(40):
        wanted = random_filter(random, maker)
        expected = [commit.version for commit in maker.commits if passes(maker, commit, wanted)]
        found = pages(world, wanted, with_facts=True, limit=random.choice((1, 3, None)), limits=SMALL)
        assert versions(found) == (expected if wanted.order == "oldest" else expected[::-1])
        assert {page.version for page in found} == {maker.version if wanted.upto is None else wanted.upto}
        for entry in entries(found):
            told_whole(maker, entry)


@pytest.mark.rule("HISTORY-1", "FACT-3")
@pytest.mark.parametrize("seed", range(5))
def test_a_client_can_verify_a_space_from_its_log(seed: int) -> None:
    world = random_world(seed)
    found = entries(pages(world, LogFilter(order="oldest"), with_facts=True, limits=SMALL))
    history = [
        (records.commit_of(one), tuple(records.fact_of(item, one.version, one.branch) for item in one.items))
        for one in found
    ]
    *_, last = chain.verify(SPACE, history)
    assert last.version == world.maker.version


@pytest.mark.rule("HISTORY-1")
def test_without_facts_only_the_records_are_told() -> None:
    world = World()
    world.commit(set_("urn:x", 1, blind=True))
    (entry,) = entries(pages(world))
    assert (entry.items, len(entry.facts)) == ((), 1)
    assert records.commit_of(entry) == world.maker.commits[0]


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("limit", [None, 1, 2])
def test_a_commit_that_is_larger_than_a_part_comes_in_pieces_that_fit(limit: int | None) -> None:
    world = World()
    world.commit(set_("urn:before", 1, blind=True))
    sizes = [10, 500, 500, 500, 5_000, 10, 10, 900, 900]
    world.commit(*(set_(f"urn:n:{number}", "x" * size, blind=True) for number, size in enumerate(sizes)))
    world.commit(set_("urn:after", 1, blind=True))
    found = pages(world, LogFilter(order="oldest"), with_facts=True, limit=limit, limits=SMALL)
    assert versions(found) == [1, 2, 3]
    for entry in entries(found):
        told_whole(world.maker, entry)
    for page in found:
        size = len(encode(LogAnswer(version=page.version, entries=page.entries, next="x" * 50)))
        assert size <= SMALL.part_bytes_max or [len(entry.items) for entry in page.entries] == [1]
    going_on = [entry for page in found for entry in page.entries if entry.version == 2][1:]
    assert len(going_on) > 2
    assert all(entry.facts == () and entry.items and entry.note is None for entry in going_on)


@pytest.mark.rule("HISTORY-1")
def test_a_record_that_fills_a_part_is_told_before_its_facts() -> None:
    world = World()
    world.commit(*(set_(f"urn:n:{number}", number, blind=True) for number in range(200)))
    found = pages(world, with_facts=True, limits=SMALL)
    assert (found[0].entries[0].items, found[0].next) == ((), LogPlace(Version(1), BEFORE_THE_FIRST))
    told_whole(world.maker, entries(found)[0])
    assert all(page.next == LogPlace(Version(1), page.entries[0].items[-1].index) for page in found[1:-1])
    assert len(found) > 3


@pytest.mark.rule("HISTORY-1")
def test_pieces_of_a_space_wide_write_name_the_branches_of_their_facts() -> None:
    world = World()
    world.commit(set_("urn:x", "x" * 900, blind=True))
    for name in ("a", "b", "c"):
        world.keep(world.maker.create_branch(name))
    entry = world.maker.erase("urn:x", [1], survivor="y" * 900)
    world.keep(entry)
    told = [piece.entry for piece in pieces(entry.commit, entry.facts, SMALL)]
    assert [len(piece.items) for piece in told] == [0, 1, 1, 1, 1]
    told_whole(world.maker, records.joined_entries(told)[0])
    assert [item.branch for piece in told for item in piece.items] == [fact.branch for fact in entry.facts]


@pytest.mark.rule("HISTORY-1")
def test_pages_are_of_one_version_while_commits_go_on() -> None:
    world, found, after = World(), list[LogPage](), None
    for number in range(20):
        world.commit(*(set_(f"urn:{number}:{item}", "x" * 300, blind=True) for item in range(7)))
    while True:
        wanted = LogFilter(upto=found[0].version if found else None)
        page = world.ask(
            lambda log: commit_log.page(log, wanted, with_facts=True, after=after, limits=SMALL)  # noqa: B023
        )
        world.commit(set_("urn:later", 1, blind=True))
        found.append(page)
        after = page.next
        if after is None:
            break
    assert versions(found) == list(range(20, 0, -1))
    for entry in entries(found):
        told_whole(world.maker, entry)


@pytest.mark.rule("HISTORY-2")
def test_a_log_of_what_is_not_there_says_why() -> None:
    world = World()
    world.commit(set_("urn:x", 1, blind=True))
    with pytest.raises(UnknownBranch):
        pages(world, LogFilter(branch=BranchName("nowhere")))
    with pytest.raises(FutureVersion) as raised:
        pages(world, LogFilter(upto=Version(2)))
    assert raised.value.facts == {"version": 2, "head": 1}
    with pytest.raises(LimitExceeded):
        pages(world, limit=1_001)
    assert versions(pages(world, LogFilter(upto=Version(0)))) == []
    assert versions(pages(World())) == []


@pytest.mark.rule("ACL-2")
@pytest.mark.parametrize("seed", range(8))
def test_a_log_shows_only_what_may_be_read(seed: int) -> None:
    world, random = random_world(seed), Random(seed)
    maker = world.maker
    for _ in range(20):
        readable = set(random.sample(IDS, random.randint(0, len(IDS))))
        wanted, with_facts = random_filter(random, maker), random.random() < 0.5

        def is_told(commit: Commit, wanted: LogFilter, readable: set[str]) -> bool:
            facts = facts_at(maker, commit)
            under = [fact for fact in facts if fact.id.startswith(wanted.prefix or "")]
            erased = getattr(commit.details, "id", None)
            return (not facts or any(fact.id in readable for fact in under)) and erased in {None, *readable}

        expected = [c.version for c in maker.commits if passes(maker, c, wanted) and is_told(c, wanted, readable)]
        found = pages(world, wanted, with_facts=with_facts, limit=2, may_read=readable.__contains__, limits=SMALL)
        assert versions(found) == (expected if wanted.order == "oldest" else expected[::-1])
        for entry in entries(found):
            commit = maker.commits[entry.version - 1]
            assert records.commit_of(entry) == commit
            shown = [fact.index for fact in facts_at(maker, commit) if fact.id in readable and with_facts]
            assert [item.index for item in entry.items] == shown


@pytest.mark.rule("ACL-2")
def test_a_merge_that_names_what_may_not_be_read_is_not_told() -> None:
    world = World()
    world.commit(set_("urn:x", 1, blind=True))
    world.keep(world.maker.create_branch("draft"))
    draft, two = BranchName("draft"), Version(2)
    contested = Contested(id=EntityId("urn:x"), source=two, target=two, winner="source")
    for details in (
        Merge(source=draft, source_version=two, target_version=two, conflicts=(contested,)),
        Merge(source=draft, source_version=two, target_version=two, resolved=(EntityId("urn:x"),)),
        Merge(source=draft, source_version=two, target_version=two),
    ):
        world.keep(world.maker._structural(details, on="main"))
    assert versions(pages(world, may_read=lambda _: False)) == [5, 2]
    assert versions(pages(world, may_read=lambda id_: id_ == "urn:x")) == [5, 4, 3, 2, 1]


@pytest.mark.rule("HISTORY-1")
def test_a_call_looks_at_a_bounded_number_of_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "LOOKED_AT_MAX", 10)
    world = World()
    for number in range(25):
        world.commit(set_("urn:x" if number % 12 else "urn:y", number, blind=True))
    found = pages(world, may_read=lambda id_: id_ == "urn:y")
    assert [[entry.version for entry in page.entries] for page in found] == [[25], [13], [1]]
    assert found[0].next == LogPlace(Version(16))


@pytest.mark.rule("HISTORY-1")
def test_a_piece_tells_its_own_size() -> None:
    world = World()
    world.commit(*(set_(f"urn:n:{number}", "x" * 100, blind=True) for number in range(50)), note=encode(["y", None]))
    (commit,) = world.maker.commits
    told = list(pieces(commit, world.maker.facts, DEFAULTS))
    assert len(told) == 1
    for piece in [*told, *pieces(commit, world.maker.facts, SMALL)]:
        assert abs(piece.size - len(msgspec.msgpack.encode(piece.entry))) < 16  # but for the header of a longer list
