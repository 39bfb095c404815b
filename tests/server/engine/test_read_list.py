"""Listing entities under a prefix, in pages of one read view (QUERY-6)."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from random_logs import IDS, PREFIXES
from read_worlds import World, at, counting, every_page, ids_of, random_world, readable_moments, seen_by, weighing
from space import delete_, set_
from stemmadb.protocol.errors import FutureVersion, InvalidId, LimitExceeded
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import paging, state_chunks
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import entities, listing
from stemmadb.server.engine.read.listing import ListedEntity
from stemmadb.server.storage.port import LogReader


def page(world: World, prefix: str = "", moment: ReadMoment = entities.HEAD, **how: Any) -> ListedEntity:
    return world.ask(lambda log: listing.page(log, prefix, moment, **how))


def pages(world: World, prefix: str = "", moment: ReadMoment = entities.HEAD, **how: Any) -> list[ListedEntity]:
    return every_page(lambda after: page(world, prefix, moment, after=after, **how))


def fill(world: World, count: int, value: Any = 0) -> list[str]:
    ids = [f"urn:n:{number:05}" for number in range(count)]
    for start in range(0, count, 1_000):
        world.commit(*(set_(id_, value, blind=True) for id_ in ids[start : start + 1_000]))
    return ids


@pytest.mark.rule("QUERY-6")
@pytest.mark.parametrize("seed", range(15))
def test_every_listing_of_a_random_log_has_each_entity_once_and_in_order(seed: int) -> None:
    world = random_world(seed)
    for number, moment in enumerate(readable_moments(world)):
        prefix, limit = PREFIXES[number % len(PREFIXES)], 1 + number % 3
        states = {id_: replay.fold(Missing.ABSENT, seen_by(world, moment, id_)) for id_ in sorted(IDS)}
        under = {id_: state for id_, state in states.items() if id_.startswith(prefix)}
        found = pages(world, prefix, moment, limit=limit)
        assert {one.version for one in found} == {moment.version}
        told = [entity for one in found for entity in one.entities]
        assert {one.id: one.value for one in told} == {i: v for i, v in under.items() if not isinstance(v, Missing)}
        assert [id_ for one in found for id_ in one.erased] == [i for i, v in under.items() if v is Missing.ERASED]
        assert all(before.id < after.id for before, after in pairwise(told))
        assert all(len(one.entities) + len(one.erased) == limit for one in found[:-1])


@pytest.mark.rule("QUERY-6")
def test_pages_are_of_the_first_ones_version_while_commits_go_on() -> None:
    world = World()
    ids = fill(world, 20)
    first = page(world, limit=3)
    found, after = list(first.entities), first.next
    for number in range(100):
        world.commit(set_(f"urn:n:{number % 25:05}:new", 1, blind=True), set_(ids[number % 20], number, blind=True))
        world.commit(delete_(ids[number % 20], blind=True))
        if after is not None:
            later = page(world, moment=at(first.version), after=after, limit=3)
            assert later.version == first.version
            found, after = [*found, *later.entities], later.next
    assert after is None
    assert ids_of(found) == ids
    assert {entity.value for entity in found} == {0}


@pytest.mark.rule("QUERY-6")
def test_a_full_last_page_says_that_it_is_the_last() -> None:
    world = World()
    fill(world, 6)
    assert [len(one.entities) for one in pages(world, limit=3)] == [3, 3]
    assert page(world, "urn:m:").next is None


@pytest.mark.rule("QUERY-6")
def test_a_page_fits_into_a_part_and_a_larger_value_comes_alone() -> None:
    world, limits = World(), Limits(part_bytes_max=8_192)
    for number, size in enumerate([2_000, 2_000, 2_000, 20_000, 10, 10, 3_000]):
        world.commit(set_(f"urn:n:{number}", "x" * size, blind=True))
    world.keep(world.maker.erase("urn:n:6", [7]))
    found = pages(world, moment=at(7), limits=limits)
    assert [ids_of(one.entities) for one in found] == [
        ["urn:n:0", "urn:n:1"],
        ["urn:n:2"],
        ["urn:n:3"],
        ["urn:n:4", "urn:n:5"],
    ]
    assert found[-1].erased == ("urn:n:6",)
    sizes = [sum(len(encode((one.id, one.version, one.hash, one.body))) for one in each.entities) for each in found]
    assert [size <= limits.part_bytes_max for size in sizes] == [True, True, False, True]


@pytest.mark.rule("QUERY-6")
def test_erased_entities_count_towards_a_page() -> None:
    world = World()
    for id_ in fill(world, 4):
        world.keep(world.maker.erase(id_, [1]))
    assert [(len(one.entities), len(one.erased)) for one in pages(world, moment=at(1), limit=2)] == [(0, 2), (0, 2)]


@pytest.mark.rule("QUERY-6")
def test_a_call_looks_at_a_bounded_number_of_ids_and_pages_still_find_everything() -> None:
    world = World()
    ids = fill(world, paging.LOOKED_AT_MAX + 5)
    for start in range(0, len(ids), 1_000):
        world.commit(*(delete_(id_, blind=True) for id_ in ids[start : start + 1_000]))
    world.commit(set_(ids[-1], 7, blind=True))
    first, second = pages(world)
    assert (first.entities, first.next) == ((), ids[paging.LOOKED_AT_MAX - 1])
    assert (ids_of(second.entities), second.next) == ([ids[-1]], None)


@pytest.mark.rule("QUERY-6")
def test_values_are_read_in_chunks_that_shrink_when_they_are_large() -> None:
    world = World()
    fill(world, 1_000)
    assert _chunks(world) == [16, 32, 64, 128, 256, 256, 248]
    world = World()
    for number in range(40):
        world.commit(set_(f"urn:n:{number:05}", "x" * 200_000, blind=True))
    assert _chunks(world) == [16, 4, 8, 2, 4, 6]


def _chunks(world: World) -> list[int]:
    chunks: list[int] = []
    world.ask(lambda log: listing.page(counting(log, chunks), limits=Limits(part_bytes_max=1 << 30)))
    return chunks


@pytest.mark.rule("ACL-2")
def test_what_may_not_be_read_is_not_listed() -> None:
    world = World()
    ids = fill(world, 5)
    world.keep(world.maker.erase(ids[1], [1]))
    world.keep(world.maker.erase(ids[2], [1]))
    listed = page(world, moment=at(1), may_read=lambda id_: id_ not in ids[:2])
    assert (ids_of(listed.entities), listed.erased) == (ids[3:], (ids[2],))


@pytest.mark.rule("QUERY-6")
def test_a_page_has_a_bound_and_a_listing_the_errors_of_any_read() -> None:
    world = World()
    fill(world, 10)
    limits = Limits(page_max=4)
    assert [len(one.entities) for one in pages(world, limits=limits)] == [4, 4, 2]
    assert len(page(world, limit=4, limits=limits).entities) == 4
    with pytest.raises(LimitExceeded) as raised:
        page(world, limit=5, limits=limits)
    assert raised.value.facts == {"bound": "page_max", "maximum": 4, "actual": 5}
    with pytest.raises(FutureVersion):
        page(world, moment=at(99))
    with pytest.raises(InvalidId):
        page(world, "no space")


@pytest.mark.rule("QUERY-6")
@pytest.mark.parametrize("sides", [1, 2])
def test_large_values_after_many_small_ones_are_not_read_all_at_once(
    sides: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How large a value is shows when it is read, and up to 256 are asked for by then."""
    size, room = 20_000, 100_000
    monkeypatch.setattr(paging.Pace, "READ_MAX", room)
    world, read = World(), list[int]()
    ids = fill(world, 700)
    ids += [f"urn:o:{number:05}" for number in range(300)]
    for id_ in ids[700:]:
        world.commit(set_(id_, "x" * size, blind=True))

    def ask(log: LogReader) -> list[str]:
        lineage = entities.resolve_moment(log, entities.HEAD).spans
        found = state_chunks.scan(weighing(log, read), [lineage] * sides, state_chunks.ids_under(log, "urn:"))
        return [one.id for one in found if all(state is not None for state in one.states)]

    assert world.ask(ask) == ids
    assert room < max(read) <= room + 2 * (size + 10)
