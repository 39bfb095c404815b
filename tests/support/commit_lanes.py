"""Plain commits by three lanes: in general, in Python and compiled. What one accepts, the others accept just so."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from schedules import IDS, SESSIONS, Schedule
from space import ALICE, BOB, SPACE, MemorySpace, session_of
from stemmadb.protocol.model import plain
from stemmadb.protocol.model.admission import Accepted
from stemmadb.protocol.model.changes import Changes
from stemmadb.protocol.model.compiled import Lane
from stemmadb.protocol.model.ids import MAIN, EntityId, Local, TimeMs
from stemmadb.protocol.model.plain import Ground, Key, Session
from stemmadb.protocol.model.proposal import Proposal
from stemmadb.protocol.model.state import EntityState, empty_state

NOW: Final = TimeMs(1_000)
_SALTS_MAX: Final = 40


def ground_of(space: MemorySpace) -> Ground:
    """The state of main, shared with nobody: heads go on in the lists of those before them."""
    heads: dict[Key, EntityState] = {(MAIN, EntityId(id_)): _apart(space.entity(MAIN, EntityId(id_))) for id_ in IDS}
    heads[MAIN, EntityId(SPACE)] = replace(empty_state(EntityId(SPACE)), value={ALICE: "own", BOB: "write"})
    highest: dict[Session, Local] = {
        (author, session_of(name)): space.highest_local(author, session_of(name)) for author, name in SESSIONS
    }
    return Ground(space.space, space.version, space.hash, space.time, heads, highest)


def _apart(state: EntityState) -> EntityState:
    changes = state.changes
    if changes is None:
        return state
    return replace(state, changes=Changes(list(changes.shared[: changes.count]), changes.count))


class Lanes(Schedule):
    """Decides every batch by all lanes, before the space goes on with it."""

    def __init__(self, seed: int, native: Lane | None) -> None:
        super().__init__(seed)
        self.native = native
        self.plain = self.other = 0
        """Batches that were plain, and that were not."""

    def batch(self) -> None:
        batch = [one for _ in range(self.random.randint(1, 4)) if (one := self.proposal()) is not None]
        salts = [next(self.space.salts) for _ in range(_SALTS_MAX)]
        in_python, compiled = self._by_lanes(batch, salts)
        self.space.salts = itertools.chain(salts, self.space.salts)
        outcomes = self.space.decide(batch)
        for proposal in batch:
            self.oracle.decide(proposal)
        if in_python is None:
            self.other += 1
        else:
            self.plain += 1
            assert in_python == outcomes
        assert self.native is None or compiled == in_python

    def _by_lanes(
        self, batch: Sequence[Proposal], salts: Sequence[bytes]
    ) -> tuple[list[Accepted] | None, list[Accepted] | None]:
        limits = self.space.limits
        python, other = ground_of(self.space), ground_of(self.space)
        in_python = plain.decide(batch, python, now=NOW, salts=iter(salts), limits=limits)
        if self.native is None:
            return in_python, None
        compiled = self.native.decide(batch, other, NOW, iter(salts), limits)
        if compiled is not None:
            assert (other.version, other.hash, other.time) == (python.version, python.hash, python.time)
            assert other.heads == python.heads
            assert other.highest == python.highest
        return in_python, compiled
