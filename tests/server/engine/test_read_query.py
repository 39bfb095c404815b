"""Queries run on the store, whole and in pages (QUERY-1, QUERY-5, QUERY-6)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import graphs
from graphs import HERE, Entities, Stored, link
from read_worlds import World, at, counting, every_page, ids_of, whole_page
from space import delete_, set_
from stemmadb.protocol.errors import FutureVersion, InvalidQuery, LimitExceeded, UnknownBranch
from stemmadb.protocol.model.query.query import Ask, Query, Root, Unresolved, prepare
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base import moments
from stemmadb.server.engine.base.paging import MayRead, anything
from stemmadb.server.engine.read import store_queries
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.engine.read.store_queries import Queried, QueriedPage, Supplied


def run(world: World, query: Query, *, may_read: MayRead = anything, limits: Limits = DEFAULTS) -> Queried:
    prepared = prepare(query, space=HERE)
    return world.ask(lambda log: store_queries.run(log, prepared, may_read=may_read, limits=limits))


def pages(world: World, query: Query, **how: Any) -> list[QueriedPage[EntityValue]]:
    prepared = prepare(query, space=HERE)
    return every_page(lambda after: world.ask(lambda log: whole_page(log, prepared, after=after, **how)))


def roots(*ids: str, schema: Any = None, **how: Any) -> Query:
    return Query(roots=tuple(Root(id=id_, schema=schema) for id_ in ids), **how)


def store(world: World, entities: Entities, before: Entities | None = None, on: str = "main") -> None:
    """One commit that leads from one state to the other."""
    operations = [set_(id_, one.value, blind=True) for id_, one in entities.items()]
    gone = [delete_(id_, blind=True) for id_ in before or {} if id_ not in entities]
    world.commit(*operations, *gone, branch=on)


def as_stored(entities: Entities) -> Entities:
    """With the sizes that a store gives."""
    return {id_: Stored(one.value, size=len(encode(one.value))) for id_, one in entities.items()}


def graph_world(random: Random, count: int) -> tuple[World, dict[tuple[str, int], Entities]]:
    """Graphs one after another on two branches, and what each moment must hold."""
    world, held = World(), {}
    main = graphs.random_entities(random, count)
    store(world, main)
    held["main", int(world.maker.version)] = main
    world.keep(world.maker.create_branch("draft"))
    draft = graphs.random_entities(random, count)
    store(world, draft, main, on="draft")
    held["draft", int(world.maker.version)] = draft
    later = graphs.random_entities(random, count)
    store(world, later, main)
    held["main", int(world.maker.version)] = later
    return world, held


@pytest.mark.rule("QUERY-1", "QUERY-5", "QUERY-6")
@pytest.mark.parametrize("seed", range(60))
def test_a_query_at_any_moment_equals_the_oracle(seed: int) -> None:
    random = Random(seed)
    count = random.choice((3, 6, 10, 14))
    world, held = graph_world(random, count)
    for (on, version), entities in held.items():
        query = Query(roots=graphs.random_query(random, count).roots, branch=on, version=version)
        hidden = {id_ for id_ in entities if random.random() < 0.1}
        seen = as_stored({id_: one for id_, one in entities.items() if id_ not in hidden})
        limits, expected = graphs.random_limits(random), graphs.naive(query, seen)
        if passed := graphs.exceeded(expected, limits):
            with pytest.raises(LimitExceeded) as raised:
                run(world, query, limits=limits, may_read=lambda id_: id_ not in hidden)  # noqa: B023
            assert raised.value.facts["bound"] in passed
            continue
        queried = run(world, query, limits=limits, may_read=lambda id_: id_ not in hidden)  # noqa: B023
        answer = queried.answer
        assert queried.version == version
        assert {id_: one.value for id_, one in answer.entities.items()} == {
            EntityId(id_): seen[EntityId(id_)].value for id_ in expected.entities
        }
        assert answer.unresolved == expected.unresolved
        assert [tuple(visit) for visit in answer.roots] == [tuple(one) for one in expected.roots]


@pytest.mark.rule("QUERY-1")
def test_one_answer_is_of_one_version_which_a_time_can_name() -> None:
    world = World()
    for now in (1_000, 2_000, 2_000, 3_000):
        world.maker.now = now
        world.commit(set_("urn:x", now, blind=True), set_("urn:y", link("urn:x"), blind=True))
    query = roots("urn:y", schema=True, time=2_500)
    queried = run(world, query)
    assert queried.version == 3
    assert [one.version for one in queried.answer.entities.values()] == [3, 3]
    assert run(world, roots("urn:y", time=999)).answer.unresolved == {Unresolved("urn:y", "")}
    assert run(world, roots("urn:y")).version == 4


@pytest.mark.rule("QUERY-1", "HISTORY-2")
def test_a_query_of_what_cannot_be_read_fails_with_the_error_that_says_why() -> None:
    world = World()
    world.commit(set_("urn:x", 1, blind=True))
    with pytest.raises(FutureVersion):
        run(world, roots("urn:x", version=2))
    with pytest.raises(UnknownBranch):
        run(world, roots("urn:x", branch="nowhere"))
    with pytest.raises(UnknownBranch):
        pages(world, roots("urn:x", branch="nowhere"))


@pytest.mark.rule("QUERY-5")
def test_what_was_erased_or_deleted_or_may_not_be_read_is_unresolved() -> None:
    world = World()
    links = [link(f"urn:{name}") for name in ("erased", "deleted", "hidden", "never")]
    world.commit(*(set_(f"urn:{name}", 1, blind=True) for name in ("erased", "hidden", "deleted")))
    world.commit(delete_("urn:deleted", blind=True), set_("urn:root", links, blind=True))
    world.keep(world.maker.erase("urn:erased", [1]))
    answer = run(world, roots("urn:root", schema=True, version=2), may_read=lambda id_: id_ != "urn:hidden").answer
    assert list(answer.entities) == ["urn:root"]
    assert answer.unresolved == {Unresolved(f"urn:{name}", "") for name in ("erased", "deleted", "hidden", "never")}
    listed = run(world, roots("urn:*", version=2), may_read=lambda id_: id_ != "urn:hidden").answer
    assert (list(listed.entities), listed.unresolved) == (["urn:root"], frozenset())


@pytest.mark.rule("QUERY-6", "QUERY-7")
def test_a_listing_stops_reading_as_soon_as_a_bound_is_passed() -> None:
    world, calls = World(), list[int]()
    world.commit(*(set_(f"urn:n:{number:04}", 1, blind=True) for number in range(1_000)))
    prepared = prepare(roots("urn:n:*"), space=HERE)
    with pytest.raises(LimitExceeded):
        world.ask(lambda log: store_queries.run(counting(log, calls), prepared, limits=Limits(query_entities_max=20)))
    assert calls == [16, 32]


@pytest.mark.rule("QUERY-7")
def test_a_reply_has_the_named_ones_at_once_and_the_listed_ones_one_by_one() -> None:
    world = World()
    world.commit(*(set_(f"urn:n:{number}", number, blind=True) for number in range(9)), set_("urn:x", 0, blind=True))
    with world.reader() as log:
        ask = Ask((EntityId("urn:x"), EntityId("urn:none")), ("urn:n:",))
        supplied = Supplied(log, moments.resolve(log, at()), ask, lambda id_: id_ != "urn:n:4")
        assert (supplied[EntityId("urn:x")].value, supplied.get(EntityId("urn:none"))) == (0, None)
        assert [entity.value for _, entity in supplied.items()] == [0, 1, 2, 3, 5, 6, 7, 8]
        with pytest.raises(TypeError):
            len(supplied)


@pytest.mark.rule("QUERY-6")
@pytest.mark.parametrize("seed", range(20))
def test_the_pages_of_a_query_without_a_schema_are_its_answer(seed: int) -> None:
    random = Random(seed)
    world, held = graph_world(random, 12)
    for (on, version), entities in held.items():
        made = graphs.random_query(random, 12).roots
        query = Query(roots=tuple(Root(id=one.id, path=one.path) for one in made), branch=on, version=version)
        hidden = {id_ for id_ in entities if random.random() < 0.1}
        found = pages(world, query, limit=random.choice((1, 2, 5)), may_read=lambda id_: id_ not in hidden)  # noqa: B023
        whole = run(world, query, may_read=lambda id_: id_ not in hidden).answer  # noqa: B023
        told = [entity for one in found for entity in one.entities]
        assert ids_of(told) == sorted(whole.entities)
        assert {entity.id: entity for entity in told} == whole.entities
        lost = [place for one in found for place in one.unresolved]
        assert (len(lost), set(lost)) == (len(whole.unresolved), set(whole.unresolved))
        assert {one.version for one in found} == {Version(version)}


@pytest.mark.rule("QUERY-6")
def test_the_pages_of_a_query_are_all_of_the_version_of_the_first() -> None:
    world, found, after = World(), list[EntityValue](), None
    ids = [f"urn:n:{number}" for number in range(9)]
    world.commit(*(set_(id_, 0, blind=True) for id_ in ids))
    while True:
        page = world.ask(
            lambda log: whole_page(log, prepare(roots("urn:n:*", "urn:n:4", version=1)), after=after, limit=2)  # noqa: B023
        )
        world.commit(set_(f"urn:n:{world.maker.version % 9}", 1, blind=True), set_("urn:n:00", 1, blind=True))
        found += page.entities
        after = page.next
        if after is None:
            break
    assert (ids_of(found), {one.value for one in found}) == (ids, {0})


@pytest.mark.rule("QUERY-6")
def test_only_a_query_without_a_schema_comes_in_pages_of_a_bounded_size() -> None:
    world, limits = World(), Limits(part_bytes_max=4_096, page_max=3)
    with pytest.raises(InvalidQuery):
        pages(world, roots("urn:n:*", schema=True))
    with pytest.raises(LimitExceeded):
        pages(world, roots("urn:n:*"), limit=4, limits=limits)
    world.commit(*(set_(f"urn:n:{number}", "x" * 1_000, blind=True) for number in range(5)))
    assert [len(one.entities) for one in pages(world, roots("*"), limits=limits)] == [2, 2, 1]
    lost = roots(*(f"urn:none:{number}:{'x' * 400}" for number in range(14)))
    assert [len(one.unresolved) for one in pages(world, lost, limits=Limits(part_bytes_max=4_096))] == [3, 3, 3, 3, 2]
