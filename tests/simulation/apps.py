"""Apps: each of one person on one machine, with a disk or without; one life after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from simulation.ledger import Ledger, Record
from simulation.lives import Life, LifeJournal
from stemmadb.client.database import MakeJournal
from stemmadb.client.journal.memory import MemoryJournal, SimulatedJournal
from stemmadb.client.journal.port import Journal
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.testing import World
from stemmadb.protocol.errors import JournalFailed, Unauthenticated, Unconfirmed, UnknownSpace, Unready
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol

OPEN_PAUSE_SECONDS: Final = 0.5
SETTINGS: Final = ClientSettings(heartbeat_seconds=3.0, dead_seconds=2.0, most_pause_seconds=3.0, ask_seconds=12.0)
"""Less patient than an app would be, so that a run is short."""


class App:
    """Ends by a crash or a close, and starts again on what its disk has; a copy of its disk is another app."""

    def __init__(
        self,
        world: World,
        name: str,
        space: Did,
        ledger: Ledger,
        disk: SimulatedJournal | None,
        *,
        line: str | None = None,
        subprotocol: Subprotocol = MSGPACK,
        delegations: Iterable[str] = (),
    ) -> None:
        self.world = world
        self.name = name
        self.line = line or name
        self.did = world.identity(name).did
        self.space_did = space
        self.ledger = ledger
        self.disk = disk
        self.records: list[Record] = []
        self.life: Life | None = None
        self.lives = 0
        self.has_failed = False
        self._subprotocol = subprotocol
        self._delegations = tuple(delegations)

    def copy(self, line: str) -> App:
        """The same person on another machine, with a copy of what is durable on this one's disk."""
        assert self.disk is not None, "it has a disk"
        disk = self.disk.copy()
        other = App(
            self.world, self.name, self.space_did, self.ledger, disk, line=line, subprotocol=self._subprotocol
        )
        pending = {one.name for one in disk.state().pending}
        if self.life is not None:
            self.life.look()
        for record in [one for one in self.records if one.fate == "pending" and one.name in pending]:
            other.records.append(self.ledger.add(record.copied()))
        return other

    async def start(self) -> Life:
        """A new life; tries until its space can be opened."""
        self.lives += 1
        while True:
            journal = LifeJournal(MemoryJournal() if self.disk is None else self.disk)
            db = self.world.connect(
                self.name,
                journal=_only(journal),
                settings=SETTINGS,
                delegations=self._delegations,
                dial=self.world.dial(self.line, self._subprotocol),
            )
            try:
                space = await db.space(self.space_did)
            except (Unready, Unauthenticated, UnknownSpace):  # a clock that jumps twice makes two challenges expire
                await db.close(wait_seconds=0)
                await asyncio.sleep(OPEN_PAUSE_SECONDS)
                continue
            self.life = Life(self, db, space, journal)
            return self.life

    async def crash(self) -> None:
        """Kill -9: what the disk has stays, all else is gone."""
        life, self.life = self.life, None
        assert life is not None
        if self.disk is not None:
            life.look()
            life.journal.is_dead = True
            self.disk.crash()
        await life.die()
        self._bury(life)

    def break_disk(self) -> None:
        """Nothing more is kept in this life: not what becomes of commits either."""
        if self.disk is not None:
            self.disk.fail(OSError("the disk broke"))
            self.has_failed = True

    async def close(self, wait_seconds: float) -> None:
        """The app ends as it should."""
        life, self.life = self.life, None
        assert life is not None
        await life.end_tasks()
        undecided = len(life.space.pending())
        with suppress(Unconfirmed, JournalFailed):
            await life.db.close(wait_seconds=wait_seconds)
        life.look()
        assert undecided >= len(life.live), "closing makes no commits"
        self._bury(life)

    def undecided(self) -> list[Record]:
        return [one for one in self.records if one.fate == "pending"]

    def _bury(self, life: Life) -> None:
        """What becomes of the commits that were not decided when the life ended (NURSERY-5)."""
        for record in self.records if self.disk is None or self.has_failed else ():
            record.is_forgotten = True
        for record, _ in life.live:
            if self.disk is None:
                record.decide("unknown")
            elif not self.look_up(record):
                assert not record.was_kept, f"{record} was kept and is gone"
                record.decide("unsent")

    def look_up(self, record: Record) -> bool:
        assert self.disk is not None, "without a disk nothing comes back"
        state = self.disk.state()
        confirmed = {one.name: one.version for one in state.confirmed}
        if record.name in confirmed:
            record.decide("confirmed", confirmed[record.name])
        elif record.name in {one.name for one in state.rejected}:
            record.decide("rejected")
        return record.fate != "pending" or record.name in {one.name for one in state.pending}


def _only(journal: Journal) -> MakeJournal:
    return lambda _space, _principal: journal
