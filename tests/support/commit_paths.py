"""Commits by two paths: admission, and the fast path in C. What the fast path accepts, admission accepts just so."""

from __future__ import annotations

import itertools
from typing import Final

from msgspec.structs import replace

from schedules import IDS, SESSIONS, Schedule
from space import ALICE, BOB, SPACE, MemorySpace, session_of
from stemmadb.protocol.model.commit.batch_base import BatchBase, Key, Session
from stemmadb.protocol.model.commit.native import FastPath
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
    """Decides every batch by the fast path, before admission decides it and the space goes on with it."""

    def __init__(self, seed: int, native: FastPath) -> None:
        super().__init__(seed)
        self.native = native
        self.fast = self.other = 0
        """Batches of fast-path commits, and others."""

    def batch(self) -> None:
        batch = [one for _ in range(self.random.randint(1, 4)) if (one := self.proposal()) is not None]
        salts = [next(self.space.salts) for _ in range(_SALTS_MAX)]
        base = batch_base_of(self.space)
        compiled = self.native.decide(batch, base, NOW, iter(salts), self.space.limits)
        self.space.salts = itertools.chain(salts, self.space.salts)
        outcomes = self.space.decide(batch)
        for proposal in batch:
            self.oracle.decide(proposal)
        if compiled is None:
            self.other += 1
            return
        self.fast += 1
        assert compiled == outcomes
        after = batch_base_of(self.space)
        assert (base.version, base.hash, base.time) == (after.version, after.hash, after.time)
        assert base.highest == after.highest
        assert {key: head.hash for key, head in base.heads.items()} == {
            key: head.hash for key, head in after.heads.items()
        }
