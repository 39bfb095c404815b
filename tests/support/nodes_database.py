"""The tables `tip` and `node` of a PostgreSQL server with a synchronous standby, in memory and on virtual time.

A transaction locks its rows, and is visible once the standby has it. Whoever wants a row that is locked waits for
it, except an append, which leaves it out. When the server is killed, what waited for the standby is there after a
restart; after a promotion it is there or not.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple

from blake3 import blake3

from stemmadb.protocol.model.values.ids import Hash
from stemmadb.server.storage.postgres.append_statement import Move
from stemmadb.server.storage.postgres.claim_rules import SpaceSeen
from stemmadb.server.storage.postgres.connection import ServerMark

LOCK_SECONDS: Final = 5.0
LOOK_AGAIN_SECONDS: Final = 0.002


class Lost(Exception):
    """The connection ended: what was asked may have been done, or be done later."""


class NotDone(Exception):
    """It is certain that nothing was written."""


class LogEntry(NamedTuple):
    session: int
    local: int
    key: str
    hash: Hash


class Tip(NamedTuple):
    owner: int | None
    term: int
    log: tuple[LogEntry, ...]

    @property
    def hash(self) -> Hash:
        return self.log[-1].hash if self.log else GENESIS


GENESIS: Final = Hash(bytes(32))


def hash_after(previous: Hash, session: int, local: int) -> Hash:
    return Hash(blake3(previous + f"{session}:{local}".encode()).digest())


class _Writing:
    """A transaction that waits for the standby."""

    def __init__(self, rows: Collection[object], apply: Callable[[], None]) -> None:
        self.rows = rows
        self.apply = apply


class ModelDatabase:
    def __init__(self, chance: random.Random, spaces: int) -> None:
        self._chance = chance
        self.tips = {space: Tip(None, 0, ()) for space in range(spaces)}
        self.nodes: dict[int, tuple[str, float]] = {}
        """The address of each, and the end of its row by the clock of the server."""
        self.mark = ServerMark("the database", "0")
        self.epoch = 0
        self.is_up = True
        self.clock_offset = 0.0
        self.standby_seconds = 0.002
        """How long the standby takes for a transaction."""
        self._writing: list[_Writing] = []
        self._foreign: set[object] = set()

    def now(self) -> float:
        return asyncio.get_running_loop().time() + self.clock_offset

    # ------------------------------------------------------------ what nodes ask

    async def look(self, spaces: Collection[int]) -> list[SpaceSeen]:
        addresses = {node: address for node, (address, _) in self.nodes.items()}
        tips = [(space, self.tips[space]) for space in spaces]
        return [SpaceSeen(space, tip.owner, tip.term, addresses.get(tip.owner or 0)) for space, tip in tips]

    async def claim(self, node: int, wanted: Mapping[int, int]) -> dict[int, Tip]:
        await self._lock(wanted)
        changed = {
            space: Tip(node, term + 1, self.tips[space].log)
            for space, term in wanted.items()
            if self.tips[space].term == term
        }
        await self._write(changed, lambda: self.tips.update(changed))
        return changed

    async def append(self, move: Move, entry: LogEntry) -> bool:
        tip = self.tips[move.space]
        found = (tip.owner, tip.term, len(tip.log), tip.hash)
        if found != (move.owner, move.term, move.expected, move.previous) or self._is_locked(move.space):
            return False
        changed = {move.space: tip._replace(log=(*tip.log, entry))}
        await self._write(changed, lambda: self.tips.update(changed))
        return True

    async def tip(self, space: int) -> Tip:
        return self.tips[space]

    async def insert(self, node: int, address: str, seconds: float) -> ServerMark:
        row = (address, self.now() + seconds)
        await self._write([("node", node)], lambda: self.nodes.update({node: row}))
        return self.mark

    async def renew(self, node: int, seconds: float) -> ServerMark | None:
        """None if there is no row."""
        await self._lock([("node", node)])
        if node not in self.nodes:
            return None
        row = (self.nodes[node][0], self.now() + seconds)
        await self._write([("node", node)], lambda: self.nodes.update({node: row}))
        return self.mark

    async def expire(self) -> None:
        late = [node for node, (_, until) in self.nodes.items() if until < self.now()]
        rows = [("node", node) for node in late]
        await self._lock(rows)
        gone = [node for node in late if node in self.nodes and self.nodes[node][1] < self.now()]  # it looks again
        await self._write(rows, lambda: [self.nodes.pop(node, None) for node in gone])

    # ------------------------------------------------------------ locks and the standby

    def _is_locked(self, row: object) -> bool:
        return row in self._foreign or any(row in writing.rows for writing in self._writing)

    async def _lock(self, rows: Collection[object]) -> None:
        epoch, since = self.epoch, self.now()
        while any(self._is_locked(row) for row in rows):
            if self.now() - since > LOCK_SECONDS:
                raise NotDone("lock_timeout")
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
            if self.epoch != epoch:
                raise Lost

    async def _write(self, rows: Collection[object], apply: Callable[[], object]) -> None:
        """Its rows are locked until the standby has it."""
        writing = _Writing(list(rows), lambda: void(apply()))
        self._writing.append(writing)
        epoch = self.epoch
        await asyncio.sleep(self.standby_seconds * self._chance.uniform(0.5, 1.5))
        if self.epoch != epoch:
            raise Lost
        if writing not in self._writing:
            raise Lost  # the wait was cancelled: a warning, and nobody knows
        self._writing.remove(writing)
        writing.apply()

    def hold(self, space: int, *, is_held: bool) -> None:
        """A foreign transaction holds the row of a space."""
        (self._foreign.add if is_held else self._foreign.discard)(space)

    # ------------------------------------------------------------ faults

    def cancel_waits(self) -> None:
        """All that waits for the standby becomes visible at once, with a warning to whoever waited."""
        writing, self._writing = self._writing, []
        for one in writing:
            one.apply()

    def kill(self, *, is_promoted: bool) -> None:
        """Every connection ends. After a restart all that waited is there; on the standby it is there or not."""
        writing, self._writing = self._writing, []
        self.epoch += 1
        self.is_up = False
        for one in writing:
            if not is_promoted or self._chance.random() < 0.5:
                one.apply()
        if is_promoted:
            self.clock_offset += self._chance.choice([-10.0, -1.0, 0.0, 1.0, 10.0])

    def start(self) -> None:
        self.mark = self.mark._replace(started=str(self.epoch))
        self.is_up = True


def void(_: object) -> None:
    """A result that nobody wants."""


def in_order(log: Sequence[LogEntry]) -> bool:
    """Whether each hash follows from the one before it."""
    previous = GENESIS
    for entry in log:
        if entry.hash != hash_after(previous, entry.session, entry.local):
            return False
        previous = entry.hash
    return True
