"""What questions cost: counted in steps of SQLite's machine, which are the same on every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from appends import append_to
from logs import LogMaker
from space import SPACE, patch_, set_
from stemmadb.protocol.model.log import replay
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.values.ids import MAIN, EntityId, TimeMs, Version
from stemmadb.server.engine.base import states
from stemmadb.server.service.base import cursor_cover
from stemmadb.server.service.session import resume
from stemmadb.server.storage.port import LogFilter, LogReader, Snapshot
from stemmadb.server.storage.sqlite import SqliteLog, SqliteStorage

HOT = EntityId("urn:hot")
EVERY = 16


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    backend = SqliteStorage(tmp_path)
    yield backend.open(SPACE, create=True)
    backend.close()


def steps(log: SqliteLog, ask: Callable[[LogReader], object]) -> int:
    """How many steps of its machine SQLite takes to answer."""
    counted = 0

    def step() -> bool:
        nonlocal counted
        counted += 1
        return False

    with log.reader() as reader:
        ask(reader)  # so that what is asked only once, such as the number of a branch, is not counted
        connection = reader._view._connection
        connection.set_progress_handler(step, 1)
        ask(reader)
        connection.set_progress_handler(None)
    return counted


def patches(log: SqliteLog, maker: LogMaker, count: int) -> None:
    """So many patches of one entity, with a snapshot at every sixteenth."""
    for _ in range(count // EVERY):
        expected = maker.version
        batch = [
            maker.commit(patch_(HOT, {"op": "increment", "path": "/n", "by": 1}, blind=True)) for _ in range(EVERY)
        ]
        last = maker.facts[-1]
        snapshot = maker.snapshot(last)
        assert isinstance(snapshot, Snapshot)
        append_to(log, expected, batch, [snapshot])


@pytest.mark.rule("HISTORY-3", "SNAP-1")
def test_reading_any_version_costs_the_same_however_long_the_history_is(log: SqliteLog) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_(HOT, {"n": 0}, blind=True))])
    patches(log, maker, 3 * EVERY)
    worst = max(steps(log, read_at(version)) for version in range(2 * EVERY, 3 * EVERY))
    patches(log, maker, 30 * EVERY)
    for version in (2 * EVERY, 10 * EVERY + 7, 20 * EVERY, 33 * EVERY - 1, 33 * EVERY + 1):
        assert steps(log, read_at(version)) <= worst + 1
        with log.reader() as reader:
            found = reader.replays((Span(MAIN, Version(0), Version(version)),), [HOT])[HOT]
            assert len(found.facts) <= EVERY + 1
            assert states.fold(found).value == {"n": version - 1}
    assert not replay.snapshot_due(patches=EVERY, patch_bytes=0, value_bytes=1 << 20), "as far apart as they may be"


def read_at(version: int) -> Callable[[LogReader], object]:
    return lambda reader: reader.replays((Span(MAIN, Version(0), Version(version)),), [HOT])


@pytest.mark.rule("HISTORY-3")
def test_a_fact_long_gone_by_a_whole_value_is_not_looked_at(log: SqliteLog) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_(HOT, {"n": 0}, blind=True))])
    before = steps(log, read_at(1))
    patches(log, maker, 4 * EVERY)
    append_to(log, maker.version, [maker.commit(set_(HOT, 1, blind=True))])
    with log.reader() as reader:
        found = reader.replays(maker.spans(), [HOT])[HOT]
    assert (found.snapshot, len(found.facts)) == (None, 1)
    assert steps(log, read_at(maker.version)) <= before + 30, "the snapshot before it, and that is all"


QUESTIONS: dict[str, Callable[[LogReader, Version], object]] = {
    "tip": lambda reader, _: reader.tip(),
    "changed": lambda reader, at: list(reader.changed([Span(MAIN, Version(at - 2), at)])),
    "changed_after": lambda reader, at: reader.changed_after([Span(MAIN, Version(0), at)], "", Version(at - 2), 9),
    "changed_after_of_few": lambda reader, at: reader.changed_after([Span(MAIN, Version(0), at)], "u", Version(1), 1),
    "last_write": lambda reader, at: reader.last_write(MAIN, at),
    "log": lambda reader, _: reader.log(LogFilter(branch=MAIN), 3),
    "log_of_structure": lambda reader, _: reader.log(LogFilter(structural=True, branch=MAIN), 3),
    "log_of_times": lambda reader, _: reader.log(LogFilter(since=TimeMs(1_000)), 3),
    "commits": lambda reader, at: reader.commits([at]),
    "facts": lambda reader, at: reader.facts([at]),
    "facts_of": lambda reader, _: reader.facts_of(HOT, order="newest", limit=3),
    "ids": lambda reader, _: reader.ids("urn:", None, 3),
    "history": lambda reader, at: next(reader.history(Version(at - 1))),
}


def asked_at(ask: Callable[[LogReader, Version], object], at: Version) -> Callable[[LogReader], object]:
    return lambda reader: ask(reader, at)


def test_a_question_costs_what_it_asks_for_and_not_what_there_is(log: SqliteLog) -> None:
    maker = LogMaker()
    append_to(log, Version(0), [maker.commit(set_(HOT, {"n": 0}, blind=True)), maker.create_branch("draft")])
    patches(log, maker, EVERY)
    few = {name: steps(log, asked_at(ask, maker.version)) for name, ask in QUESTIONS.items()}
    patches(log, maker, 20 * EVERY)
    many = {name: steps(log, asked_at(ask, maker.version)) for name, ask in QUESTIONS.items()}
    halvings = 5 * 40  # a time is found by halving: five more questions
    assert {name: cost for name, cost in many.items() if cost > few[name] + halvings} == {}


@pytest.mark.rule("QUERY-6", "RESUME-1")
def test_a_cursor_and_a_resume_cost_the_same_however_many_facts_the_commit_has(log: SqliteLog) -> None:
    maker = LogMaker()
    append_to(
        log,
        Version(0),
        [maker.commit(*[set_(f"urn:{n}", n, blind=True) for n in range(count)]) for count in (1, 500)],
    )
    hashes = [commit.hash for commit in maker.commits]
    asked: list[Callable[[LogReader, Version], object]] = [
        lambda reader, at: cursor_cover.cover_of(reader, [at]),
        lambda reader, at: resume._reset(reader, at, hashes[at - 1]),
    ]
    for ask in asked:
        few, many = (steps(log, asked_at(ask, Version(at))) for at in (1, 2))
        assert many <= few + 5


@pytest.mark.rule("COMMIT-2")
def test_values_that_were_replaced_since_a_read_are_not_loaded(log: SqliteLog) -> None:
    maker = LogMaker()
    up = patch_(HOT, {"op": "increment", "path": "/n", "by": 1}, blind=True)
    for _ in range(3):
        append_to(log, maker.version, [maker.commit(set_(HOT, {"n": 1}, blind=True)), maker.commit(up)])
    append_to(log, maker.version, [maker.create_branch("draft"), maker.commit(up, branch="draft")])
    with log.reader() as reader:
        for name, last in (("main", []), ("draft", [("patch", True)])):
            found = reader.replays(maker.spans(name), [HOT], {HOT: Version(0)})[HOT]
            loaded = [(fact.kind, fact.body is not None) for fact in found.facts]
            assert loaded == [("set", False), ("patch", True)] * 2 + [("set", True), ("patch", True), *last]
            assert states.fold(found).value == {"n": 2 + len(last)}
    append_to(log, maker.version, [maker.commit(set_(HOT, {"n": 1}, blind=True), branch="draft")])
    with log.reader() as reader:
        found = reader.replays(maker.spans("draft"), [HOT], {HOT: Version(0)})[HOT]
        assert [fact.version for fact in found.facts if fact.kind == "set" and fact.body] == [maker.version]
