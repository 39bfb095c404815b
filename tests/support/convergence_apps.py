"""Apps for convergence: their lives end by a crash or a close, with a journal or none; watches have followers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from convergence import Effect, Ledger, Record, State, States, answer, differences, same
from stemmadb.client.database import Database, MakeJournal
from stemmadb.client.journal.memory import KeptInMemory, MemoryJournal
from stemmadb.client.journal.port import Done, Journal, JournalState, JournalStep
from stemmadb.client.nursery.applying import DoesNotApply, after
from stemmadb.client.nursery.held import ABSENT, Nothing
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.nursery.plans import Write
from stemmadb.client.session.handle import Handle
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.space import Space
from stemmadb.client.testing import World
from stemmadb.client.transactions import Transaction
from stemmadb.client.watches import Watch
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import GoingAway, Unauthenticated, Unconfirmed, UnknownBranch, Unready
from stemmadb.protocol.model.ids import Did, EntityId, Version
from stemmadb.protocol.model.query import Root
from stemmadb.protocol.model.values import Value

OPEN_PAUSE_SECONDS: Final = 0.5
SETTINGS: Final = ClientSettings(heartbeat_seconds=3.0, dead_seconds=2.0, most_pause_seconds=3.0, ask_seconds=12.0)
"""Less patient than an app would be, so that a run is short."""


class LifeJournal:
    """A journal as one life of an app holds it: what a dead one writes reaches no disk and is told to nobody."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.keeps = journal.keeps
        self.is_dead = False

    def load(self) -> JournalState:
        return self._journal.load()

    def write(self, step: JournalStep, done: Done) -> None:
        if not self.is_dead:
            self._journal.write(step, lambda error: None if self.is_dead else done(error))

    async def close(self) -> None:
        if not self.is_dead:
            await self._journal.close()


class Follower:
    """Adds up what a watch tells, and checks each change against the server's state at its version (NURSERY-4)."""

    def __init__(self, space: Space, watch: Watch, roots: Sequence[Root], states: States) -> None:
        self.space = space
        self.watch = watch
        self.roots = roots
        self.state: dict[str, Value] = {}
        self.version = Version(0)
        self.epoch = 0
        self.is_over = False
        """Whether its branch went away when the server was restored."""
        self.changes = 0
        self.checked = 0
        self._states = states
        self._is_plain = all(root.schema is None and not root.path for root in roots)

    async def follow(self, pause: Callable[[], float]) -> None:
        try:
            while True:
                self.take(await self.watch.next())
                if seconds := pause():
                    await asyncio.sleep(seconds)
        except GoingAway:
            pass
        except UnknownBranch:
            assert self._states.epoch, "a branch goes away only with its history"
            self.is_over = True

    def take(self, change: Change) -> None:
        """Right after it was told, before anything else can happen."""
        assert change or not self.changes, f"{self}: a change without a change"
        self.changes += 1
        assert not change.entered.keys() & self.state.keys(), f"{self}: {change} enters what was there"
        assert change.updated.keys() <= self.state.keys(), f"{self}: {change} updates what was not there"
        assert set(change.left) <= self.state.keys(), f"{self}: {change} takes what was not there"
        self.state |= change.entered | change.updated
        for id_ in change.left:
            del self.state[id_]
        self._compare(change)

    def _compare(self, change: Change) -> None:
        """It is right in the history it was in before, at a later version, or in one that began since."""
        found = ""
        for epoch in range(self.epoch, self._states.epoch + 1):
            found = self._wrong(change.version, epoch)
            if not found:
                self.epoch, self.version = epoch, change.version
                return
        raise AssertionError(f"{self} at {change.version}: {found}")

    def _wrong(self, version: Version, epoch: int) -> str:
        """What is wrong with the state at this version of this history.

        With own pending work it is known only where all that it writes is: under a watch without a schema.
        """
        if epoch == self.epoch and version < self.version:
            return f"goes back from {self.version}"
        state = self._states.at(self.space.branch_name, version, epoch)
        if state is None:
            return "there is no such version"
        pending = self.space._session.nursery.pending()
        if pending and not self._is_plain:
            return ""
        self.checked += 1
        try:
            expected = answer(self._shown(state, pending), self.roots)
        except DoesNotApply as error:
            return str(error)
        return "" if same(self.state, expected) else differences(self.state, expected)

    def _shown(self, state: State, pending: Iterable[Pending]) -> State:
        """The state with the pending commits on top that are said to be shown."""
        shown: dict[EntityId, Value | Nothing] = dict(state)
        for one in pending:
            if one.is_shown and one.branch == self.space.branch_name:
                for write in filter(self._covers, one.writes):
                    shown[write.id] = after(shown.get(write.id, ABSENT), (write,))
        return {id_: value for id_, value in shown.items() if not isinstance(value, Nothing)}

    def _covers(self, write: Write) -> bool:
        names = (root.id for root in self.roots)
        return any(write.id.startswith(name[:-1]) if name.endswith("*") else write.id == name for name in names)

    def is_right(self) -> bool:
        return self.is_over or not self.end()

    def end(self) -> str:
        """How what it was told differs from the query at the head, afresh."""
        expected = answer(self._states.head(self.space.branch_name), self.roots)
        return "" if same(self.state, expected) else differences(self.state, expected)

    def __repr__(self) -> str:
        return f"Follower({self.space.branch_name}, {self.roots})"


class Life:
    """One run of an app: from the moment its space is open until it ends."""

    def __init__(self, app: App, db: Database, space: Space, journal: LifeJournal) -> None:
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
        pending = {one._handle.name: one for one in self.space.pending()}
        for record in self.app.undecided():
            one = pending.pop(record.name, None)
            if one is None:
                self.app.look_up(record)
            else:
                assert one.note == {"mark": record.mark}, f"{record} came back as {one.note}"
                self.live.append((record, one._handle))
        assert not pending, f"decided, and came back: {pending}"

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)

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
                record = self.app.ledger.add(Record(self.app.did, tx._handle.name, mark, effects, can_repeat))
                self.live.append((record, tx._handle))
            elif tx._view is not None:
                self._begun.append((tx, mark, effects, can_repeat))
        for record, handle in self.live:
            record.was_kept = record.was_kept or (handle.is_kept and self.journal.keeps)
            if handle.status != "pending":
                record.decide(handle.status, handle.version)
        self.live = [(record, handle) for record, handle in self.live if record.fate == "pending"]
        for lost in self.space._session.telling.lost:
            for record in self.app.records():
                record.is_lost = record.is_lost or record.name == lost.name

    async def end_tasks(self) -> None:
        """Ends what runs in this life; raises what one of them failed with."""
        tasks, self.tasks = self.tasks, set()
        for task in tasks:
            if not task.done():
                task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, BaseException) and not isinstance(result, asyncio.CancelledError):
                raise result

    def check_tasks(self) -> None:
        """Raises what one of them failed with, and forgets those that are done."""
        for task in [task for task in self.tasks if task.done()]:
            self.tasks.discard(task)
            task.result()


class App:
    """An app of one person, on one machine."""

    def __init__(self, world: World, name: str, space: Did, ledger: Ledger, disk: KeptInMemory | None) -> None:
        self.world = world
        self.name = name
        self.did = world.identity(name).did
        self.space_did = space
        self.ledger = ledger
        self.disk = disk
        self.life: Life | None = None
        self.lives = 0

    async def start(self) -> Life:
        """A new life; tries until its space can be opened."""
        self.lives += 1
        while True:
            journal = LifeJournal(MemoryJournal() if self.disk is None else self.disk)
            db = self.world.connect(self.name, journal=_only(journal), settings=SETTINGS)
            try:
                space = await db.space(self.space_did)
            except (Unready, Unauthenticated):  # a clock that jumps twice makes two challenges expire
                await asyncio.sleep(OPEN_PAUSE_SECONDS)
                continue
            self.life = Life(self, db, space, journal)
            return self.life

    async def crash(self) -> None:
        """Kill -9: what the disk has stays, all else is gone."""
        life, self.life = self.life, None
        assert life is not None
        life.look()
        life.journal.is_dead = True
        if self.disk is not None:
            self.disk.crash()
        for core in life.db._cores.values():
            core._task.cancel()
            for task in core.session.subscriptions._asking.values():
                task.cancel()
            await asyncio.gather(core._task, return_exceptions=True)
        await life.end_tasks()
        self._bury(life)

    async def close(self, wait_seconds: float) -> None:
        """The app ends as it should."""
        life, self.life = self.life, None
        assert life is not None
        await life.end_tasks()
        undecided = len(life.space.pending())
        with suppress(Unconfirmed):
            await life.db.close(wait_seconds=wait_seconds)
        life.look()
        assert undecided >= len(life.live), "closing makes no commits"
        self._bury(life)

    def undecided(self) -> list[Record]:
        """Commits of this app that are known to be nowhere but in its journal."""
        return [one for one in self.records() if one.fate == "pending"]

    def records(self) -> Iterable[Record]:
        """All commits of this app."""
        return (one for one in self.ledger.records if one.principal == self.did)

    def _bury(self, life: Life) -> None:
        """What becomes of the commits that were not decided when the life ended (NURSERY-5)."""
        for record in () if self.disk is not None else self.records():
            record.is_forgotten = True
        for record, _ in life.live:
            if self.disk is None:
                record.decide("unknown")
            elif not self.look_up(record):
                assert not record.was_kept, f"{record} was kept and is gone"
                record.decide("unsent")

    def look_up(self, record: Record) -> bool:
        """What the disk says became of it; False if it says nothing."""
        assert self.disk is not None, "without a disk nothing comes back"
        state = self.disk.state()
        confirmed = {one.name: one.version for one in state.confirmed}
        if record.name in confirmed:
            record.decide("confirmed", confirmed[record.name])
        elif record.name in {one.name for one in state.tray}:
            record.decide("rejected")
        return record.fate != "pending" or record.name in {one.name for one in state.pending}


def _only(journal: Journal) -> MakeJournal:
    return lambda _space, _principal: journal
