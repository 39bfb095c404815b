"""What differs between any two moments (HISTORY-1)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from random_logs import IDS, PREFIXES
from read_worlds import World, at, counting, every_page, random_world, readable_moments, seen_by
from space import delete_, patch_, set_
from stemmadb.protocol.errors import Compacted, FutureVersion, InvalidId, InvalidQuery, LimitExceeded, UnknownBranch
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.history import difference
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages.reading import EntityChange
from stemmadb.server.engine.base import paging
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import differences
from stemmadb.server.engine.read.differences import Changed, Differences
from stemmadb.server.storage.port import LogReader

X = "urn:x"


def pages(world: World, left: ReadMoment, right: ReadMoment, prefix: str = "", **how: Any) -> list[Differences]:
    return every_page(
        lambda after: world.ask(lambda log: differences.page(log, left, right, prefix, after=after, **how))
    )


def changes(world: World, left: ReadMoment, right: ReadMoment, prefix: str = "", **how: Any) -> list[Changed]:
    return [change for page in pages(world, left, right, prefix, **how) for change in page.changes]


def told(world: World, left: ReadMoment, right: ReadMoment) -> EntityChange:
    (change,) = changes(world, left, right)
    return change.change


def content(world: World, moment: ReadMoment, id_: str) -> Content:
    return replay.fold(Missing.ABSENT, seen_by(world, moment, id_))


@pytest.mark.rule("HISTORY-1")
@pytest.mark.parametrize("seed", range(15))
def test_any_two_moments_of_a_random_log_differ_where_their_folds_do(seed: int) -> None:
    world, random = random_world(seed), Random(seed)
    moments = readable_moments(world)
    for _ in range(60):
        left, right = random.choice(moments), random.choice(moments)
        prefix, limit = random.choice(PREFIXES), random.choice((1, 2, None))
        old = {EntityId(id_): content(world, left, id_) for id_ in IDS if id_.startswith(prefix)}
        new = {EntityId(id_): content(world, right, id_) for id_ in IDS if id_.startswith(prefix)}
        found = pages(world, left, right, prefix, limit=limit)
        assert {(page.left, page.right) for page in found} == {(left.version, right.version)}
        differing_ = [change for page in found for change in page.changes]
        assert {change.id: change.paths for change in differing_} == difference.states(old, new)
        assert [change.id for change in differing_] == sorted(change.id for change in differing_)
        for change in differing_:
            leads_from_left_to_right(change, old[change.id], new[change.id])
            assert (change.change.left, change.change.right) == tuple(
                seen_by(world, moment, change.id)[-1].version if side[change.id] is not Missing.ABSENT else None
                for moment, side in ((left, old), (right, new))
            )


def leads_from_left_to_right(change: Changed, old: Content, new: Content) -> None:
    """What is told is enough to know the right side from the left one."""
    sent = change.change
    if sent.patch is not None:
        assert not isinstance(old, Missing)
        operations: Any = body.read_stored(sent.patch)
        assert difference.same(patch.apply(old, operations), new)
    elif sent.right is None:
        assert new is Missing.ABSENT
        assert sent.body == (None if isinstance(old, Missing) else encode(old))
    elif sent.body is not None:
        assert isinstance(old, Missing)
        assert encode(new) == sent.body
    else:
        assert new is Missing.ERASED
    sides = {(False, False): None, (True, False): "left", (False, True): "right", (True, True): "both"}
    assert sent.erased == sides[difference.is_gone(old), difference.is_gone(new)]


@pytest.mark.rule("HISTORY-1")
def test_a_change_is_told_as_a_patch_or_as_the_value_of_the_side_that_has_one() -> None:
    world = World()
    world.commit(set_(X, {"n": 1, "m": 1}, blind=True))
    world.commit(patch_(X, {"op": "add", "path": "/n", "value": 2}, blind=True))
    world.commit(delete_(X, blind=True))
    one, two = world.maker.facts[0].version, world.maker.facts[1].version
    id_ = EntityId(X)
    steps = encode([{"op": "replace", "path": "/n", "value": 2}])
    assert told(world, at(1), at(2)) == EntityChange(id=id_, left=one, right=two, patch=steps)
    assert told(world, at(0), at(1)) == EntityChange(id=id_, right=one, body=encode({"n": 1, "m": 1}))
    assert told(world, at(2), at(3)) == EntityChange(id=id_, left=two, body=encode({"n": 2, "m": 1}))
    assert changes(world, at(0), at(3)) == []
    (change,) = changes(world, at(1), at(2))
    assert [(place.path, place.old, place.new) for place in change.paths] == [("/n", 1, 2)]


@pytest.mark.rule("HISTORY-1")
def test_what_was_erased_differs_from_what_is_there_and_from_what_is_not() -> None:
    world = World()
    world.commit(set_(X, 1, blind=True))
    world.commit(set_(X, 2, blind=True))
    world.keep(world.maker.erase(X, [1]))
    id_, one, two = EntityId(X), world.maker.facts[0].version, world.maker.facts[1].version
    assert told(world, at(1), at(2)) == EntityChange(id=id_, left=one, right=two, body=encode(2), erased="left")
    assert told(world, at(2), at(1)) == EntityChange(id=id_, left=two, right=one, erased="right")
    assert told(world, at(0), at(1)) == EntityChange(id=id_, right=one, erased="right")
    assert told(world, at(1), at(0)) == EntityChange(id=id_, left=one, erased="left")


@pytest.mark.rule("HISTORY-1")
def test_a_diff_reads_only_what_was_written_where_the_lineages_are_apart() -> None:
    world, calls = World(), list[int]()
    world.commit(*(set_(f"urn:n:{number}", 0, blind=True) for number in range(500)))
    world.keep(world.maker.create_branch("draft"))
    world.commit(set_("urn:n:7", 1, blind=True), branch="draft")
    world.commit(set_("urn:n:8", 1, blind=True), set_("urn:n:9", 0, blind=True))
    page = world.ask(lambda log: differences.page(counting(log, calls), at(), at(on="draft")))
    assert [change.id for change in page.changes] == ["urn:n:7", "urn:n:8"]
    assert calls == [3, 3]


@pytest.mark.rule("HISTORY-1")
def test_pages_are_of_the_same_two_versions_while_commits_go_on() -> None:
    world, found, after = World(), list[Differences](), None
    ids = [f"urn:n:{number}" for number in range(9)]
    world.commit(*(set_(id_, 0, blind=True) for id_ in ids))
    world.keep(world.maker.create_branch("draft"))
    world.commit(*(set_(id_, 1, blind=True) for id_ in ids), branch="draft")
    while True:
        left, right = (found[0].left, found[0].right) if found else (None, None)
        page = world.ask(lambda log: differences.page(log, at(left), at(right, "draft"), after=after, limit=2))  # noqa: B023
        world.commit(*(set_(id_, 1, blind=True) for id_ in ids))
        world.commit(*(delete_(id_, blind=True) for id_ in ids), branch="draft")
        world.commit(*(set_(id_, 1, blind=True) for id_ in [*ids, "urn:n:00"]), branch="draft")
        found.append(page)
        after = page.next
        if after is None:
            break
    told_ = [change for page in found for change in page.changes]
    assert [change.id for change in told_] == ids
    assert {(change.left.content, change.right.content) for change in told_} == {(0, 1)}


@pytest.mark.rule("HISTORY-1")
def test_a_page_fits_into_a_part_and_a_larger_change_comes_alone() -> None:
    world = World()
    for number, size in enumerate([2_000, 2_000, 2_000, 20_000, 10]):
        world.commit(set_(f"urn:n:{number}", "x" * size, blind=True))
    found = pages(world, at(0), at(), limits=Limits(part_bytes_max=8_192))
    assert [len(page.changes) for page in found] == [2, 1, 1, 1]


@pytest.mark.rule("HISTORY-1")
def test_a_page_of_a_large_diff_reads_what_it_returns() -> None:
    world = World()
    ids = [f"urn:n:{number:04}" for number in range(3_000)]
    for start in range(0, len(ids), 1_000):
        world.commit(*(set_(id_, 0, blind=True) for id_ in ids[start : start + 1_000]))
    read: list[str] = []
    with world.reader() as log:
        page = differences.page(_reading(log, read), at(0), at(), after=EntityId(ids[1_499]), limit=1)
    assert ([change.id for change in page.changes], page.next) == ([ids[1_500]], ids[1_500])
    assert len(read) <= 2 * differences.WALKED_AT_ONCE


def _reading(log: LogReader, read: list[str]) -> LogReader:
    class Reading:
        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

        def facts_of(self, id_: EntityId, *args: Any, **how: Any) -> Any:
            read.append(id_)
            return log.facts_of(id_, *args, **how)

        def changed(self, *args: Any) -> Any:
            found = list(log.changed(*args))
            read.extend(found)
            return iter(found)

    reader: Any = Reading()
    checked: LogReader = reader
    return checked


@pytest.mark.rule("HISTORY-1")
def test_a_call_looks_at_a_bounded_number_of_entities_and_pages_still_find_everything() -> None:
    world = World()
    count = paging.LOOKED_AT_MAX + 5
    ids = [f"urn:n:{number:05}" for number in range(count)]
    for value in (0, 1, 0):
        for start in range(0, count, 1_000):
            world.commit(*(set_(id_, value, blind=True) for id_ in ids[start : start + 1_000]))
    world.commit(set_(ids[-1], 1, blind=True))
    first, second = pages(world, at(11), at())
    assert (first.changes, first.next) == ((), ids[paging.LOOKED_AT_MAX - 1])
    assert ([change.id for change in second.changes], second.next) == ([ids[-1]], None)


@pytest.mark.rule("ACL-2")
def test_what_may_not_be_read_does_not_differ() -> None:
    world = World()
    world.commit(set_("urn:x", 1, blind=True), set_("urn:y", 1, blind=True))
    (change,) = changes(world, at(0), at(), may_read=lambda id_: id_ != "urn:x")
    assert change.id == "urn:y"


@pytest.mark.rule("HISTORY-2", "QUERY-1")
def test_a_diff_with_a_moment_that_cannot_be_read_says_why() -> None:
    world = World()
    for number in range(3):
        world.commit(set_(X, number, blind=True))
    world.keep(world.maker.compact(3))
    for moment, error in [
        (at(9), FutureVersion),
        (at(on="nowhere"), UnknownBranch),
        (at(1), Compacted),
        (at(3, time=3), InvalidQuery),
    ]:
        with pytest.raises(error):
            pages(world, moment, at())
        with pytest.raises(error):
            pages(world, at(), moment)
    with pytest.raises(InvalidId):
        pages(world, at(), at(), "no space")
    with pytest.raises(LimitExceeded):
        pages(world, at(), at(), limit=1_001)
    assert changes(world, at(), at()) == []


@pytest.mark.rule("HISTORY-1", "QUERY-1")
def test_the_moments_may_be_times() -> None:
    world = World()
    for now in (1_000, 2_000, 3_000):
        world.maker.now = now
        world.commit(set_(X, now, blind=True))
    (page,) = pages(world, at(time=999), at(time=2_999))
    assert (page.left, page.right) == (0, 2)
    assert [(change.left.content, change.right.content) for change in page.changes] == [(Missing.ABSENT, 2_000)]
