"""Getting entities at any moment (QUERY-1, HISTORY-2)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from random_logs import IDS
from read_worlds import World, at, counting, random_world, readable_moments, seen_by
from space import delete_, patch_, set_
from stemmadb.protocol.errors import (
    Compacted,
    Erased,
    FutureVersion,
    InvalidQuery,
    LimitExceeded,
    StemmaError,
    UnknownBranch,
)
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.read import entities
from stemmadb.server.engine.read.entities import EntityValue, Got, GotMany

X, Y = EntityId("urn:x"), EntityId("urn:y")


def get(world: World, id_: EntityId = X, moment: ReadMoment = entities.HEAD, **how: Any) -> Got:
    return world.ask(lambda log: entities.get(log, id_, moment, **how))


def get_many(world: World, ids: list[EntityId], moment: ReadMoment) -> GotMany:
    return world.ask(lambda log: entities.get_many(log, ids, moment))


def value(world: World, moment: ReadMoment = entities.HEAD) -> Any:
    entity = get(world, X, moment).entity
    return None if entity is None else entity.value


@pytest.mark.rule("QUERY-1")
def test_an_answer_names_its_version_and_the_last_fact_of_the_entity() -> None:
    world = World()
    world.commit(set_(X, {"n": 1}, blind=True))
    changed = world.commit(patch_(X, {"op": "add", "path": "/n", "value": 2}, blind=True))
    head = world.commit(set_(Y, 0, blind=True))
    got = get(world)
    assert got == Got(head, EntityValue(X, changed, world.maker.facts[1].hash, {"n": 2}))
    assert got.entity is not None
    assert (got.entity.body, got.entity.size) == (body.encode({"n": 2}), len(body.encode({"n": 2})))


@pytest.mark.rule("QUERY-1")
def test_the_last_fact_may_be_a_checkpoint_which_changes_nothing_but_the_hash() -> None:
    world = World()
    world.commit(set_(X, 1, blind=True))
    world.keep(world.maker.compact(1, checkpoints=[("main", X)]))
    fact = world.maker.facts[-1]
    assert fact.kind == "checkpoint"
    assert get(world).entity == EntityValue(X, fact.version, fact.hash, 1)


@pytest.mark.rule("QUERY-1")
def test_what_was_never_written_or_is_deleted_is_none() -> None:
    world = World()
    assert get(world) == Got(world.maker.version, None)
    world.commit(set_(X, None, blind=True))
    assert get(world).entity is not None  # null is a value like any other
    world.commit(delete_(X, blind=True))
    assert get(world) == Got(world.maker.version, None)


@pytest.mark.rule("QUERY-1", "HISTORY-2")
@pytest.mark.parametrize("seed", range(25))
def test_every_moment_of_a_random_log_equals_the_fold_of_all_that_it_sees(seed: int) -> None:
    world = random_world(seed)
    ids = [EntityId(id_) for id_ in IDS]
    for moment in readable_moments(world):
        many = get_many(world, ids, moment)
        assert many.version == moment.version
        for id_ in ids:
            facts = seen_by(world, moment, id_)
            expected = replay.fold(Missing.ABSENT, facts)
            assert (id_ in many.erased) is (expected is Missing.ERASED)
            if isinstance(expected, Missing):
                assert id_ not in many.entities
            else:
                assert many.entities[id_] == EntityValue(id_, facts[-1].version, facts[-1].hash, expected)


@pytest.mark.rule("QUERY-1")
def test_a_time_means_the_last_commit_at_or_before_it() -> None:
    world = World()
    for now, written in [(1_000, 1), (2_000, 2), (2_000, 3), (3_000, 4)]:
        world.maker.now = now
        world.commit(set_(X, written, blind=True))
    asked = {0: None, 999: None, 1_000: 1, 1_500: 1, 1_999: 1, 2_000: 3, 2_999: 3, 3_000: 4, 9_999: 4}
    assert {time: value(world, at(time=time)) for time in asked} == asked
    assert [get(world, moment=at(time=time)).version for time in (999, 1_000, 2_000, 9_999)] == [0, 1, 3, 4]


@pytest.mark.rule("QUERY-1")
def test_a_moment_names_a_version_or_a_time_and_not_both() -> None:
    with pytest.raises(InvalidQuery):
        get(World(), moment=at(0, time=0))


@pytest.mark.rule("HISTORY-2")
def test_what_cannot_be_read_fails_with_the_error_that_says_why() -> None:
    world = World()
    first = world.commit(set_(X, 1, blind=True))
    world.commit(set_(X, 2, blind=True))
    floor = world.keep(world.maker.erase(X, [first]))
    world.commit(set_(X, 3, blind=True))
    assert _error(world, Erased, at(first)).facts == {"id": X}
    assert _error(world, UnknownBranch, at(on="nowhere")).facts == {"branch": "nowhere"}
    assert _error(world, FutureVersion, at(99)).facts == {"version": 99, "head": world.maker.version}
    world.keep(world.maker.compact(floor))
    assert _error(world, Compacted, at(first)).facts == {"version": first, "oldest": floor}
    assert value(world, at(floor)) == 2


def _error(world: World, kind: type[StemmaError], moment: ReadMoment) -> StemmaError:
    with pytest.raises(kind) as raised:
        get(world, moment=moment)
    return raised.value


@pytest.mark.rule("HISTORY-2")
def test_an_erased_state_is_erased_until_the_next_set_or_delete() -> None:
    world = World()
    world.commit(set_(X, {"n": 1}, blind=True))
    world.commit(patch_(X, {"op": "add", "path": "/n", "value": 2}, blind=True))
    world.commit(delete_(X, blind=True))
    world.commit(set_(X, 3, blind=True))
    world.keep(world.maker.erase(X, [1]))
    for version in (1, 2):
        _error(world, Erased, at(version))
    assert [value(world, at(version)) for version in (0, 3, 4, 5)] == [None, None, 3, 3]


@pytest.mark.rule("HISTORY-1")
def test_past_answers_never_change_while_the_log_goes_on() -> None:
    world, told = World(), {}
    for number in range(30):
        operation = delete_(X, blind=True) if number % 7 == 6 else set_(X, number, blind=True)
        version = world.commit(operation, set_(f"urn:n:{number}", number, blind=True))
        told[version] = get(world)
        assert all(get(world, moment=at(past)) == answer for past, answer in told.items())


@pytest.mark.rule("ACL-2")
def test_what_may_not_be_read_looks_like_what_is_missing() -> None:
    world = World()
    world.commit(set_(X, 1, blind=True), set_(Y, 2, blind=True))
    world.keep(world.maker.erase(X, [1], survivor=0))
    assert get(world, moment=at(1), may_read=lambda id_: id_ != X) == Got(Version(1), None)  # not `Erased`
    many = world.ask(lambda log: entities.get_many(log, [X, Y], may_read=lambda id_: id_ != X))
    assert (list(many.entities), many.erased) == ([Y], ())


@pytest.mark.rule("QUERY-1")
def test_many_are_read_in_one_go_in_the_order_asked_for() -> None:
    world = World()
    world.commit(*(set_(f"urn:n:{number}", number, blind=True) for number in range(100)))
    world.keep(world.maker.erase("urn:n:7", [1]))
    calls: list[int] = []
    ids = [EntityId(f"urn:n:{number}") for number in (5, 3, 7, 500, 5, 99)]
    many = world.ask(lambda log: entities.get_many(counting(log, calls), ids, at(1)))
    assert list(many.entities) == [ids[0], ids[1], ids[5]]
    assert many.erased == (ids[2],)
    assert calls == [5]


@pytest.mark.rule("QUERY-6")
def test_how_many_are_read_in_one_go_is_bounded() -> None:
    world, limits = World(), Limits(query_entities_max=2)
    assert world.ask(lambda log: entities.get_many(log, [X, Y], limits=limits)).entities == {}
    with pytest.raises(LimitExceeded) as raised:
        world.ask(lambda log: entities.get_many(log, [X, Y, X], limits=limits))
    assert raised.value.facts == {"bound": "query_entities_max", "maximum": 2, "actual": 3}


def test_the_encoding_of_an_entity_is_made_once_and_only_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def encode(written: object) -> bytes:
        made.append(written)
        return msgspec.msgpack.encode(written)

    world = World()
    world.commit(set_(X, 1, blind=True))
    monkeypatch.setattr(body, "encode", encode)
    entity = get(world).entity
    assert entity is not None
    assert made == []
    assert (entity.body, entity.size, made) == (b"\x01", 1, [1])
