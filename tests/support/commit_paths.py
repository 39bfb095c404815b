"""Commits by three paths: general, fast in Python, fast and compiled. What one accepts, the others accept just so."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from schedules import IDS, SESSIONS, Schedule
from space import ALICE, BOB, SPACE, MemorySpace, session_of
from stemmadb.protocol.model.commit import fast_path_python
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.fast_path_python import BatchBase, Key, Session
from stemmadb.protocol.model.commit.native import FastPath
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.changes import Changes
from stemmadb.protocol.model.log.state import EntityState, empty_state
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Local, TimeMs

NOW: Final = TimeMs(1_000)
_SALTS_MAX: Final = 40


def batch_base_of(space: MemorySpace) -> BatchBase:
    """The state of main, shared with nobody: heads go on in the lists of those before them."""
    heads: dict[Key, EntityState] = {(MAIN, EntityId(id_)): _apart(space.entity(MAIN, EntityId(id_))) for id_ in IDS}
    heads[MAIN, EntityId(SPACE)] = replace(empty_state(EntityId(SPACE)), value={ALICE: "own", BOB: "write"})
    highest: dict[Session, Local] = {
        (author, session_of(name)): space.highest_local(author, session_of(name)) for author, name in SESSIONS
    }
    return BatchBase(space.space, space.version, space.hash, space.time, heads, highest)


def _apart(state: EntityState) -> EntityState:
    changes = state.changes
    if changes is None:
        return state
    return replace(state, changes=Changes(list(changes.shared[: changes.count]), changes.count))


class CommitPaths(Schedule):
    """Decides every batch by all paths, before the space goes on with it."""

    def __init__(self, seed: int, native: FastPath | None) -> None:
        super().__init__(seed)
        self.native = native
        self.plain = self.other = 0
        """Batches that were plain, and that were not."""

    def batch(self) -> None:
        batch = [one for _ in range(self.random.randint(1, 4)) if (one := self.proposal()) is not None]
        salts = [next(self.space.salts) for _ in range(_SALTS_MAX)]
        in_python, compiled = self._by_paths(batch, salts)
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

    def _by_paths(
        self, batch: Sequence[Proposal], salts: Sequence[bytes]
    ) -> tuple[list[Accepted] | None, list[Accepted] | None]:
        limits = self.space.limits
        python, other = batch_base_of(self.space), batch_base_of(self.space)
        in_python = fast_path_python.decide(batch, python, now=NOW, salts=iter(salts), limits=limits)
        if self.native is None:
            return in_python, None
        compiled = self.native.decide(batch, other, NOW, iter(salts), limits)
        if compiled is not None:
            assert (other.version, other.hash, other.time) == (python.version, python.hash, python.time)
            assert other.heads == python.heads
            assert other.highest == python.highest
        return in_python, compiled
