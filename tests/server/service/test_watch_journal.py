"""Journals: steps one after the other are one change, as far back as the bounds allow (SYNC-6, RESUME-1)."""

from __future__ import annotations

from random import Random

import pytest

from feeds import Held, applied, held, v
from stemmadb.protocol.model.values.ids import EntityId, Hash
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.service.watch.watch_journal import Delta, WatchJournal, compose

NOTHING = Delta({}, {}, frozenset())


def one(id_: str, version: int) -> dict[EntityId, EntityValue]:
    return {EntityId(id_): EntityValue(EntityId(id_), v(version), Hash(b"%d" % version), version)}


def ids(*names: str) -> frozenset[EntityId]:
    return frozenset(map(EntityId, names))


def journal(
    *steps: tuple[int, int, Delta], floor: int = 0, steps_max: int = 100, bytes_max: int = 1 << 20
) -> WatchJournal:
    made = WatchJournal(v(floor), steps_max=steps_max, bytes_max=bytes_max)
    for after, to, delta in steps:
        made.add(v(after), v(to), delta)
    return made


@pytest.mark.rule("WATCH-2")
def test_the_newest_step_is_kept_whatever_its_size() -> None:
    """One that was dropped at once made every member read the whole answer from the log, for each small patch."""
    large = {EntityId("urn:a"): EntityValue(EntityId("urn:a"), v(2), Hash(b"2"), "x" * 100)}
    entries = journal((0, 1, Delta(one("urn:b", 1), {}, ids())), bytes_max=50)
    entries.add(v(1), v(2), Delta({}, large, ids()))
    assert entries.between(v(1), v(2)) == Delta({}, large, ids())
    assert entries.between(v(0), v(2)) is None
    entries.add(v(2), v(3), Delta({}, {}, ids("urn:a")))
    assert (len(entries), entries.floor) == (1, 2)


@pytest.mark.parametrize(
    ("steps", "whole"),
    [
        ([Delta(one("a", 1), {}, ids()), Delta({}, one("a", 2), ids())], Delta(one("a", 2), {}, ids())),
        ([Delta(one("a", 1), {}, ids()), Delta({}, {}, ids("a"))], NOTHING),
        ([Delta({}, one("a", 1), ids()), Delta({}, one("a", 2), ids())], Delta({}, one("a", 2), ids())),
        ([Delta({}, one("a", 1), ids()), Delta({}, {}, ids("a"))], Delta({}, {}, ids("a"))),
        ([Delta({}, {}, ids("a")), Delta(one("a", 2), {}, ids())], Delta({}, one("a", 2), ids())),
        (
            [Delta({}, {}, ids("a")), Delta(one("a", 2), {}, ids()), Delta({}, {}, ids("a"))],
            Delta({}, {}, ids("a")),
        ),
        (
            [Delta(one("a", 1), {}, ids()), Delta({}, {}, ids("a")), Delta(one("a", 3), {}, ids())],
            Delta(one("a", 3), {}, ids()),
        ),
    ],
)
def test_steps_one_after_the_other_are_one_change(steps: list[Delta], whole: Delta) -> None:
    assert compose(steps) == whole


@pytest.mark.parametrize("seed", range(20))
def test_a_change_between_any_two_boundaries_leads_from_one_answer_to_the_other(seed: int) -> None:
    random, at = Random(seed), 0
    answers: dict[int, Held] = {}
    entries = WatchJournal(v(0), steps_max=1_000, bytes_max=1 << 20)
    answer: dict[EntityId, EntityValue] = {}
    for _ in range(30):
        after, to = at + random.randrange(3), at + random.randrange(3, 6)
        delta = random_delta(random, answer, to)
        entries.add(v(after), v(to), delta)
        for quiet in range(at, after + 1):
            answers[quiet] = held(answer)
        answer = {id_: e for id_, e in {**answer, **delta.entered, **delta.updated}.items() if id_ not in delta.left}
        answers[to], at = held(answer), to
    for after in range(at + 1):
        for to in range(after, at + 1):
            between = entries.between(v(after), v(to))
            assert (between is not None) == (after in answers and to in answers)
            if between is not None:
                assert applied(answers[after], between) == answers[to]


def random_delta(random: Random, answer: dict[EntityId, EntityValue], version: int) -> Delta:
    entered: dict[EntityId, EntityValue] = {}
    updated: dict[EntityId, EntityValue] = {}
    left: set[EntityId] = set()
    for id_ in random.sample([EntityId(f"urn:{n}") for n in range(6)], random.randrange(1, 4)):
        entity = one(id_, version)
        if id_ not in answer:
            entered.update(entity)
        elif random.random() < 0.5:
            left.add(id_)
        else:
            updated.update(entity)
    return Delta(entered, updated, frozenset(left))


def test_inside_a_step_the_answer_is_not_known() -> None:
    entries = journal((2, 5, Delta(one("a", 5), {}, ids())), (8, 9, Delta({}, {}, ids("a"))))
    for inside in (3, 4):
        assert entries.between(v(inside), v(9)) is None
        assert entries.between(v(0), v(inside)) is None
    assert entries.between(v(2), v(5)) == entries.between(v(0), v(8)) == Delta(one("a", 5), {}, ids())
    assert entries.between(v(5), v(8)) == entries.between(v(0), v(2)) == entries.between(v(9), v(20)) == NOTHING


def test_those_who_ask_for_the_same_share_the_answer() -> None:
    entries = journal((0, 1, Delta(one("a", 1), {}, ids())), (1, 2, Delta({}, one("a", 2), ids())))
    assert entries.between(v(0), v(2)) is entries.between(v(0), v(2))
    assert entries.between(v(1), v(2)) == Delta({}, one("a", 2), ids())
    entries.add(v(2), v(3), Delta({}, one("a", 3), ids()))
    assert entries.between(v(0), v(3)) == Delta(one("a", 3), {}, ids())
    entries.trim(v(1))
    assert entries.between(v(0), v(3)) is None


def test_it_reaches_back_to_its_beginning_and_no_further() -> None:
    entries = journal((4, 5, Delta(one("a", 5), {}, ids())), floor=3)
    assert entries.between(v(2), v(5)) is None
    assert entries.between(v(3), v(5)) is not None


def test_the_oldest_steps_go_first_when_there_are_too_many() -> None:
    entries = journal(*((n, n + 1, Delta(one("a", n), {}, ids())) for n in range(5)), steps_max=2)
    assert (len(entries), entries.floor) == (2, 3)
    assert entries.between(v(2), v(5)) is None
    assert entries.between(v(3), v(5)) is not None


def test_the_oldest_steps_go_first_when_they_are_too_large() -> None:
    step = Delta(one("a", 1), {}, ids("b"))
    entries = journal(*((n, n + 1, step) for n in range(5)), bytes_max=2 * step.size)
    assert (len(entries), entries.floor, entries.size) == (2, 3, 2 * step.size)
    large = Delta({n: e for n in ids(*map(str, range(50))) for e in one(n, 1).values()}, {}, ids())
    entries.add(v(9), v(10), large)
    assert (len(entries), entries.floor, entries.size) == (1, 5, large.size)
    entries.add(v(10), v(11), step)
    assert (len(entries), entries.floor, entries.size) == (1, 10, step.size)


def test_steps_up_to_a_version_can_be_forgotten() -> None:
    entries = journal(*((n, n + 1, Delta(one("a", n), {}, ids())) for n in range(5)))
    entries.trim(v(0))
    assert (len(entries), entries.floor) == (5, 0)
    entries.trim(v(2))
    assert (len(entries), entries.floor) == (3, 2)
