"""The life of an app: from the moment its space is open until it ends; what it begins, and what becomes of that."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from contextlib import suppress
from typing import Any, Protocol

from simulation.followers import Follower
from simulation.ledger import Effect, Ledger, Record
from stemmadb.client.database import Database
from stemmadb.client.journal.port import Done, Journal, JournaledCommit, JournalState, JournalStep
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.session.handle import Handle
from stemmadb.client.space import Space
from stemmadb.client.status import PendingCommit
from stemmadb.client.transactions import Transaction
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Hash, Version
from stemmadb.protocol.wire.codec.msgpack_codec import read_content


class LifeJournal:
    """A journal as one life of an app holds it: what a dead one writes reaches no disk and is told to nobody."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._to = EMPTY_SPACE
        self.keeps = journal.keeps
        self.is_cache_full = False
        self.is_dead = False

    def load(self) -> JournalState:
        state = self._journal.load()
        self._stand(state.standing)
        return state

    def write(self, step: JournalStep, done: Done) -> None:
        if not self.is_dead:
            self._stand(step.standing)
            self._check(step.add)
            self._journal.write(step, lambda error: None if self.is_dead else done(error))

    async def close(self) -> None:
        if not self.is_dead:
            await self._journal.close()

    def _stand(self, standing: tuple[Version, Hash] | None) -> None:
        self._to = self._to if standing is None else standing[0]

    def _check(self, kept: Iterable[JournaledCommit]) -> None:
        """By where it stands the server knows whether it still has what a commit has read (RESUME-4)."""
        for one in kept:
            late = [read for read in read_content(one.content).reads if read.version > self._to]
            assert not late, f"{one.name} has read {late}, and its journal stands at {self._to}"


class Owner(Protocol):
    """The app that lives."""

    did: Did
    ledger: Ledger
    records: list[Record]
    has_failed: bool
    """Whether its disk broke once."""

    def undecided(self) -> Iterable[Record]:
        """Commits of this app that are known to be nowhere but in its journal."""
        ...

    def look_up(self, record: Record) -> bool:
        """What the disk says became of it; False if it says nothing."""
        ...


class Life:
    """One run of an app."""

    def __init__(self, app: Owner, db: Database, space: Space, journal: LifeJournal) -> None:
        self.app = app
        self.db = db
        self.space = space
        self.journal = journal
        self.branches = {"main": space}
        self.followers: list[Follower] = []
        self.tasks: set[asyncio.Task[None]] = set()
        self.live: list[tuple[Record, Handle]] = []
        self._begun: list[tuple[Transaction, int, tuple[Effect, ...], bool]] = []
        self._rebind()

    def _rebind(self) -> None:
        """Commits of earlier lives that the journal gave back; some may have been decided since."""
        pending = {one._handle.name: one for one in self.space.pending() if one.note}
        for record in self.app.undecided():
            one = pending.pop(record.name, None)
            if one is None:
                self.app.look_up(record)
            else:
                assert one.note == {"mark": record.mark}, f"{record} came back as {one.note}"
                self.live.append((record, one._handle))
        if self.app.has_failed:
            self._redo(pending)
        assert not pending, f"decided, and came back: {pending}"

    def _redo(self, pending: dict[CommitName, PendingCommit]) -> None:
        """The journal refused to keep what became of these: they are sent again, and decided again."""
        for record in self.app.records:
            one = pending.get(record.name)
            if one is not None and one.note == {"mark": record.mark}:
                record.fate, record.version = "pending", None
                self.live.append((record, pending.pop(record.name)._handle))

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.add(asyncio.get_running_loop().create_task(work))

    def begin(
        self, tx: Transaction, mark: int, effects: tuple[Effect, ...] = (), *, can_repeat: bool = False
    ) -> None:
        """A transaction that may become a commit with this mark."""
        self._begun.append((tx, mark, effects, can_repeat))

    def look(self) -> None:
        """Notes the commits that were made, and what the handles say."""
        begun, self._begun = self._begun, []
        for tx, mark, effects, can_repeat in begun:
            if tx._handle is not None:
                record = Record(self.app.did, tx._handle.name, mark, effects, can_repeat)
                self.app.records.append(self.app.ledger.add(record))
                self.live.append((record, tx._handle))
            elif tx._view is not None:
                self._begun.append((tx, mark, effects, can_repeat))
        for record, handle in self.live:
            record.was_kept = record.was_kept or (handle.is_journaled and self.journal.keeps)
            if handle.status != "pending":
                record.decide(handle.status, handle.version)
        self.live = [(record, handle) for record, handle in self.live if handle.status == "pending"]
        lost = {one.name for one in self.space._session.notifier.lost}
        for record in self.app.records if lost else ():
            record.is_lost = record.is_lost or record.name in lost

    async def end_tasks(self) -> None:
        """Ends what runs in this life; raises what one of them failed with."""
        tasks, self.tasks = self.tasks, set()
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def check_tasks(self) -> None:
        """Raises what one of them failed with, and forgets those that are done."""
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.discard(task)
            task.result()

    @property
    def is_busy(self) -> bool:
        """Whether anything but followers runs."""
        return sum(not task.done() for task in self.tasks) > sum(not one.is_over for one in self.followers)

    async def die(self) -> None:
        """Kill -9: nothing that it does from now on is seen by anybody."""
        self.look()
        self.journal.is_dead = True
        for core in self.db._cores.values():
            core._task.cancel()
            for task in core.session.subscriptions._asking.values():
                task.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.gather(core._task, return_exceptions=True)
        await self.end_tasks()
