"""A log in memory to read from, what it must hold by plain loops, and a space that can only be read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar
from weakref import ref

import pytest

from appends import append_to
from logs import LogMaker
from random_logs import RandomLog
from space import SPACE
from stemmadb.protocol.errors import Compacted
from stemmadb.protocol.model.commit.admission import Outcome
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.query.query import Prepared
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.server.engine.base import moments
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.base.states import LoadedEntity
from stemmadb.server.engine.read import entities, store_queries
from stemmadb.server.engine.read.entities import EntityValue
from stemmadb.server.engine.read.store_queries import QueriedPage
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.port import AcceptedWrite, Destroyed, LogReader, SpaceLog

T = TypeVar("T")


def at(version: int | None = None, on: str = "main", *, time: int | None = None) -> ReadMoment:
    """A moment as a test writes it."""
    return ReadMoment(
        BranchName(on), None if version is None else Version(version), None if time is None else TimeMs(time)
    )


class World:
    """Entries are made by `maker`, which knows what the log holds, and appended with `keep`."""

    def __init__(self) -> None:
        self.log: MemoryLog = MemoryStorage().open(SPACE, create=True)
        self.maker = LogMaker()

    def keep(self, entry: AcceptedWrite) -> Version:
        append_to(self.log, Version(entry.commit.version - 1), [entry])
        return entry.commit.version

    def commit(self, *operations: Operation, **how: Any) -> Version:
        return self.keep(self.maker.commit(*operations, **how))

    def ask(self, question: Callable[[LogReader], T]) -> T:
        """On a read view at the end of the log as it is now."""
        with self.log.reader() as reader:
            return question(reader)

    @contextmanager
    def reader(self) -> Iterator[LogReader]:
        with self.log.reader() as reader:
            yield reader


def whole_page(reader: LogReader, prepared: Prepared, **how: Any) -> QueriedPage[EntityValue]:
    """A page of the entities themselves."""
    return store_queries.page(reader, prepared, lambda entity: entity, **how)


class HeldValues:
    """How many of the entities that queries made were there at once, at most."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.most, self.made = 0, list[ref[EntityValue]]()
        monkeypatch.setattr(store_queries, "entity_of", self._entity_of)

    def _entity_of(self, loaded: LoadedEntity | None) -> EntityValue | None:
        entity = entities.entity_of(loaded)
        if entity is not None:
            self.made.append(ref(entity))
        self.most = max(self.most, sum(one() is not None for one in self.made))
        return entity


def random_world(seed: int, rounds: int = 12) -> World:
    """A log with branches, merges, deletes, erasures, compactions and snapshots."""
    world = World()
    made = RandomLog(seed, world.log)
    world.maker = made.run(rounds)
    return world


def readable_moments(world: World) -> list[ReadMoment]:
    """Every branch at every version that can be read."""
    everything = [at(version, on) for on in world.maker.branches for version in range(world.maker.version + 1)]
    with world.reader() as reader:
        return [moment for moment in everything if _is_kept(reader, moment)]


def _is_kept(reader: LogReader, moment: ReadMoment) -> bool:
    try:
        moments.resolve(reader, moment)
    except Compacted:
        return False
    return True


def seen_by(world: World, moment: ReadMoment, id_: str) -> list[Fact]:
    """The facts of an entity that the moment sees, oldest first."""
    return world.maker.seen(world.maker.spans(moment.branch, moment.version), id_)


class ReadOnlySpace:
    """Implements `SpaceApi` as far as reading goes."""

    def __init__(self, log: SpaceLog, limits: Limits = DEFAULTS) -> None:
        self._log = log
        self._limits = limits
        self.reads = 0

    @property
    def did(self) -> Did:
        return self._log.space

    @property
    def limits(self) -> Limits:
        return self._limits

    async def decide(self, proposal: Proposal, destroyed: Destroyed | None = None) -> Outcome:
        raise AssertionError(f"a reader writes nothing: {proposal}, {destroyed}")

    async def read(self, ask: Callable[[LogReader], T]) -> T:
        self.reads += 1
        with self._log.reader() as reader:
            return ask(reader)

    async def in_turn(self, work: Callable[[SpaceLog], T]) -> T:
        raise AssertionError(f"a reader writes nothing: {work}")


class _Counting:
    """Passes every question on, and writes down how much each reading of entities asked for."""

    def __init__(self, log: LogReader, calls: list[int]) -> None:
        self._log = log
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def replays(self, spans: Any, ids: Iterable[EntityId]) -> Any:
        asked = list(ids)
        self._calls.append(len(asked))
        return self._log.replays(spans, asked)

    def replays_upto(self, spans: Any, ids: Iterable[EntityId], bytes_max: int) -> Any:
        asked = list(ids)
        self._calls.append(len(asked))
        return self._log.replays_upto(spans, asked, bytes_max)


class _Weighing(_Counting):
    """Passes every question on, and writes down how many bytes of values each bounded reading brought."""

    def replays_upto(self, spans: Any, ids: Iterable[EntityId], bytes_max: int) -> Any:
        read = self._log.replays_upto(spans, ids, bytes_max)
        self._calls.append(sum(found.weight for found in read.found.values()))
        return read


def counting(log: LogReader, calls: list[int]) -> LogReader:
    reader: Any = _Counting(log, calls)
    checked: LogReader = reader
    return checked


def weighing(log: LogReader, read: list[int]) -> LogReader:
    reader: Any = _Weighing(log, read)
    checked: LogReader = reader
    return checked


def every_page(ask: Callable[[Any], T], pages_max: int = 1_000) -> list[T]:
    """All pages of a list; `ask` is given the place after which to go on, None first."""
    pages, after = [], None
    for _ in range(pages_max):
        page: Any = ask(after)
        pages.append(page)
        after = page.next
        if after is None:
            return pages
    raise AssertionError("the pages do not come to an end")


def ids_of(entities: Iterable[Any]) -> list[EntityId]:
    return [entity.id for entity in entities]
