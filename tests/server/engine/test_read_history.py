"""The history of an entity: its facts with their commits, in pages (HISTORY-1)."""

from __future__ import annotations

from typing import Any

import pytest

from random_logs import IDS
from read_worlds import World, at, every_page, random_world, readable_moments, seen_by
from space import ALICE, BOB, delete_, patch_, session_of, set_
from stemmadb.protocol.errors import Compacted, FutureVersion, LimitExceeded, NotFound, UnknownBranch
from stemmadb.protocol.model.log.commit_record import LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Local, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import entities, history
from stemmadb.server.engine.read.created_by import CreatedBy, created_by
from stemmadb.server.engine.read.history import HistoryPage
from stemmadb.server.storage.port import FactPosition, Order

X = EntityId("urn:x")


def pages(world: World, id_: str = X, moment: ReadMoment = entities.HEAD, **how: Any) -> list[HistoryPage]:
    return every_page(
        lambda after: world.ask(lambda log: history.page(log, EntityId(id_), moment, after=after, **how))
    )


def facts(found: list[HistoryPage]) -> list[Fact]:
    return [told.fact for page in found for told in page.entries]


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("order", ["newest", "oldest"])
def test_every_history_of_a_random_log_has_each_fact_once_with_its_commit(seed: int, order: Order) -> None:
    world = random_world(seed)
    commits = {commit.version: commit for commit in world.maker.commits}
    for number, moment in enumerate(readable_moments(world)):
        id_ = IDS[number % len(IDS)]
        expected = seen_by(world, moment, id_)
        if not expected:
            with pytest.raises(NotFound):
                pages(world, id_, moment, order=order)
            continue
        found = pages(world, id_, moment, order=order, limit=1 + number % 4)
        assert facts(found) == (expected if order == "oldest" else expected[::-1])
        assert {page.version for page in found} == {moment.version}
        for told in (told for page in found for told in page.entries):
            by = commits[told.fact.version]
            assert told.created_by == CreatedBy(by.version, by.identity, by.time, by.kind, by.note)


@pytest.mark.rule("HISTORY-1")
def test_a_fact_comes_with_who_made_it_when_why_and_by_which_kind_of_write() -> None:
    world = World()
    world.maker.now = 5_000
    note = encode(["why", None])
    world.commit(set_(X, 1, blind=True), author=BOB, session="bobs", local=7, note=note)
    world.maker.now = 6_000
    world.keep(world.maker.erase(X, [1]))
    (page,) = pages(world, order="oldest")
    first, second = (told.created_by for told in page.entries)
    assert first == CreatedBy(
        Version(1), LocalIdentity(BOB, session_of("bobs"), Local(7)), TimeMs(5_000), "commit", None
    )  # its note went with it
    assert (second.kind, second.author, second.time, second.note) == ("erase", ALICE, 6_000, None)
    assert isinstance(second.identity, OperationIdentity)
    assert (page.entries[0].fact.is_gone, page.entries[0].fact.salt) == (True, None)


@pytest.mark.rule("HISTORY-1")
def test_pages_are_of_one_version_while_commits_go_on() -> None:
    world = World()
    for number in range(20):
        world.commit(set_(X, number, blind=True))
    page = world.ask(lambda log: history.page(log, X, limit=3))
    found = [page]
    while page.next is not None:
        world.commit(set_(X, -1, blind=True))
        after, version = page.next, found[0].version
        page = world.ask(lambda log: history.page(log, X, at(version), after=after, limit=3))  # noqa: B023
        found.append(page)
    assert [fact.version for fact in facts(found)] == list(range(20, 0, -1))


@pytest.mark.rule("HISTORY-1")
def test_several_facts_of_one_commit_are_told_one_by_one() -> None:
    world = World()
    change = {"op": "add", "path": "/n", "value": 1}
    world.commit(set_(X, {}, blind=True), set_("urn:y", 0, blind=True), patch_(X, change, blind=True))
    found = pages(world, limit=1)
    assert [(page.next, page.entries[0].fact.index) for page in found] == [
        (FactPosition(Version(1), 2), 2),
        (None, 0),
    ]


@pytest.mark.rule("HISTORY-1")
def test_a_page_fits_into_a_part_notes_included() -> None:
    world, limits = World(), Limits(part_bytes_max=8_192)
    for number, (size, note) in enumerate([(2_000, 0), (2_000, 0), (10, 5_000), (9_000, 0), (10, 0)]):
        why = encode("x" * note) if note else None
        world.commit(set_(X, "x" * size, blind=True), note=why, local=number + 1)
    counts = [len(page.entries) for page in pages(world, order="oldest", limits=limits)]
    assert counts == [2, 1, 1, 1]


@pytest.mark.rule("HISTORY-1")
def test_a_long_history_is_told_in_full_pages() -> None:
    world = World()
    for start in range(10):
        world.commit(*(set_(X, start, blind=True) for _ in range(250)))
    assert [len(page.entries) for page in pages(world)] == [1_000, 1_000, 500]
    with pytest.raises(LimitExceeded):
        pages(world, limit=1_001)


@pytest.mark.rule("HISTORY-2")
def test_an_entity_that_was_never_written_there_is_not_found() -> None:
    world = World()
    world.keep(world.maker.create_branch("draft"))
    world.commit(set_(X, 1, blind=True), branch="draft")
    with pytest.raises(NotFound) as raised:
        pages(world)
    assert raised.value.facts == {"id": X, "branch": "main"}
    assert len(facts(pages(world, moment=at(on="draft")))) == 1
    with pytest.raises(NotFound):
        pages(world, moment=at(1, "draft"))


@pytest.mark.rule("HISTORY-2")
def test_after_its_last_fact_a_history_has_nothing_more_but_was_there() -> None:
    world = World()
    world.commit(set_(X, 1, blind=True))
    world.commit(delete_(X, blind=True))
    last = FactPosition(Version(1), 0)
    page = world.ask(lambda log: history.page(log, X, after=last))
    assert (page.entries, page.next) == ((), None)


@pytest.mark.rule("ACL-2")
def test_the_history_of_what_may_not_be_read_is_not_found() -> None:
    world = World()
    world.commit(set_(X, 1, blind=True))
    with pytest.raises(NotFound) as raised:
        pages(world, may_read=lambda id_: id_ != X)
    assert raised.value.facts == {"id": X, "branch": "main"}


@pytest.mark.rule("HISTORY-2")
def test_a_history_at_a_moment_that_cannot_be_read_says_why() -> None:
    world = World()
    for number in range(3):
        world.commit(set_(X, number, blind=True))
    world.keep(world.maker.compact(3))
    for moment, error in [(at(9), FutureVersion), (at(on="nowhere"), UnknownBranch), (at(1), Compacted)]:
        with pytest.raises(error):
            pages(world, moment=moment)
    assert [fact.is_gone for fact in facts(pages(world))] == [False, True, True]


@pytest.mark.rule("HISTORY-1")
def test_records_are_read_a_bounded_number_at_a_time() -> None:
    world = World()
    for number in range(150):
        world.commit(set_(X, number, blind=True))
    versions = [Version(number) for number in [*range(150, 0, -1), 5]]
    found = world.ask(lambda log: created_by(log, versions))
    assert sorted(found) == sorted(set(versions))
    assert all(version == one.version for version, one in found.items())
