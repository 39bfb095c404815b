"""Reading an open space: each question on one read view, within the bounds of the space (QUERY-1)."""

from __future__ import annotations

import asyncio

import pytest

from engines import engine
from read_worlds import ReadOnlySpace, World, at, ids_of
from space import SPACE, patch_, set_
from stemmadb.protocol.errors import Erased, InvalidQuery, LimitExceeded, NotFound
from stemmadb.protocol.model.query.query import Query, Root, Unresolved
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.read.reader import Reader
from stemmadb.server.storage.port import LogFilter

X, Y = EntityId("urn:x"), EntityId("urn:y")


def small_world() -> World:
    world = World()
    world.commit(set_(X, {"n": 1, "to": {"/": {"link@1": {"id": Y, "space": SPACE}}}}, blind=True))
    world.commit(set_(Y, "there", blind=True))
    world.commit(patch_(X, {"op": "add", "path": "/n", "value": 2}, blind=True))
    return world


def everything() -> Query:
    return Query(roots=(Root(id="*"),))


@pytest.mark.rule("QUERY-1", "HISTORY-1")
async def test_every_question_is_answered_as_of_one_version_by_one_read() -> None:
    space = ReadOnlySpace(small_world().log)
    reader = Reader(space)
    got = await reader.get(X, at(1))
    assert got.entity is not None
    many = await reader.get_many([X, Y], at(1))
    listed = await reader.list("urn:", at(2), after=X, limit=1)
    queried = await reader.query(Query(roots=(Root(id=X, schema=True),), version=3))
    history = await reader.history(X, order="oldest", limit=1)
    later = await reader.history(X, at(3), order="oldest", after=history.next)
    log = await reader.log(LogFilter(prefix=X), with_facts=True, limit=1)
    log_after = await reader.log(LogFilter(prefix=X), after=log.next)
    diff = await reader.diff(at(0), at(), limit=1)
    diff_after = await reader.diff(at(0), at(), "urn:", after=diff.next)
    blame = await reader.blame(X, path="/n", limit=1)
    blame_after = await reader.blame(X, at(3), after=1)
    assert space.reads == 12
    assert (got.version, got.entity.version, list(many.entities)) == (1, 1, [X])
    assert (listed.version, ids_of(listed.entities)) == (2, [Y])
    assert (queried.version, list(queried.answer.entities)) == (3, [X, Y])  # a link that names the space is within
    assert [told.fact.version for told in (*history.entries, *later.entries)] == [1, 3]
    assert [(entry.version, len(entry.items)) for entry in (*log.entries, *log_after.entries)] == [(3, 1), (1, 0)]
    assert [change.id for change in (*diff.changes, *diff_after.changes)] == [X, Y]
    assert [(line.path, line.created_by and line.created_by.version) for line in blame.lines] == [("/n", 3)]
    assert [line.path for line in blame_after.lines] == ["/to/~1/link@1/id", "/to/~1/link@1/space"]


@pytest.mark.rule("ACL-2")
async def test_one_reader_sees_what_it_may_read_whatever_it_asks() -> None:
    world = small_world()
    world.keep(world.maker.erase(Y, [2], survivor="still there"))
    reader = Reader(ReadOnlySpace(world.log), may_read=lambda id_: id_ == X)
    assert (await reader.get(Y, at(2))).entity is None
    assert list((await reader.get_many([X, Y])).entities) == [X]
    assert ids_of((await reader.list()).entities) == [X]
    answer = (await reader.query(Query(roots=(Root(id=X, schema=True),)))).answer
    assert list(answer.entities) == [X]
    assert answer.unresolved == {Unresolved(Y, "")}
    assert [entry.version for entry in (await reader.log(with_facts=True)).entries] == [3, 1]
    assert [change.id for change in (await reader.diff(at(0), at())).changes] == [X]
    for question in (reader.history(Y), reader.blame(Y)):
        with pytest.raises(NotFound):
            await question
    with pytest.raises(Erased):
        await Reader(ReadOnlySpace(world.log)).get(Y, at(2))


@pytest.mark.rule("QUERY-6")
async def test_the_bounds_are_those_of_the_space() -> None:
    limits = Limits(page_max=1, query_entities_max=1, roots_max=2)
    reader = Reader(ReadOnlySpace(small_world().log, limits))
    assert len((await reader.list()).entities) == 1
    assert len((await reader.history(X)).entries) == 1
    assert len((await reader.log()).entries) == 1
    assert len((await reader.diff(at(0), at())).changes) == 1
    assert len((await reader.blame(X)).lines) == 1
    for question in (
        reader.get_many([X, Y]),
        reader.query(everything()),
        reader.query(Query(roots=(Root(id=X),) * 3)),
    ):
        with pytest.raises(LimitExceeded):
            await question


@pytest.mark.rule("QUERY-1", "COMMIT-1")
async def test_an_answer_has_all_that_was_acknowledged_before_it_was_asked_for() -> None:
    async with engine(workers=executors.threads(writers=1, readers=2)) as it:
        reader = Reader(it.space)
        for number in range(20):
            version = await it.must(set_(X, number, blind=True))
            got, listed = await asyncio.gather(reader.get(X), reader.list("urn:"))
            assert got.entity is not None
            assert (got.version, got.entity.value, ids_of(listed.entities)) == (version, number, [X])
        assert [entity.value for entity in (await reader.list(moment=at(5))).entities][1:] == [3]


@pytest.mark.rule("QUERY-1")
async def test_a_query_that_names_a_version_and_a_time_is_refused() -> None:
    reader = Reader(ReadOnlySpace(small_world().log))
    with pytest.raises(InvalidQuery):
        await reader.query(Query(roots=(Root(id=X),), version=Version(1), time=1))
