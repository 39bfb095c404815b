"""The scene: what all workers of a run share, and what they note to be checked at its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from typing import Final

from check_reads import ServerRead
from simulation.ledger import Ledger
from simulation.options import Options
from simulation.states import States
from stemmadb.client.reading.delegation import read_tokens
from stemmadb.client.testing import World
from stemmadb.protocol.errors import (
    AlreadyExists,
    Compacted,
    Conflict,
    Dependency,
    Erased,
    Forbidden,
    FutureVersion,
    IdentityClash,
    JournalFailed,
    MergeConflict,
    NotFound,
    NotInView,
    Overtaken,
    PatchFailed,
    StemmaError,
    Unauthenticated,
    UnknownBranch,
    UnknownSpace,
    Unready,
)
from stemmadb.protocol.model.values.ids import Did

COUNTERS: Final = ("urn:count:a", "urn:count:b")
"""Only ever incremented, blind or not."""
TALLIES: Final = ("urn:tally:a", "urn:tally:b")
"""Read, and written with one more."""
LISTS: Final = ("urn:list:a", "urn:list:b")
"""Only ever appended to."""
ACCOUNTS: Final = tuple(f"urn:bank:{one}" for one in "abcd")
"""Something only ever moves between them: together they stay 0."""
DOCS: Final = tuple(f"urn:doc:{number}" for number in range(6))
"""Anything happens to them, on every branch."""

EXPECTED: Final[tuple[type[StemmaError], ...]] = (
    AlreadyExists,
    Compacted,
    Conflict,
    Dependency,
    Erased,
    Forbidden,
    FutureVersion,
    IdentityClash,
    JournalFailed,
    MergeConflict,
    NotFound,
    NotInView,
    Overtaken,
    PatchFailed,
    Unauthenticated,
    UnknownBranch,
    UnknownSpace,
    Unready,
)
"""What an app may be told while everything fails; anything else is a violation."""


@dataclass(slots=True)
class Scene:
    """A run, as those who work in it see it."""

    world: World
    options: Options
    states: States
    ledger: Ledger
    others: tuple[Did, ...]
    """All apps but the first, which stays an owner."""
    token: str = ""
    """What was delegated to the guest."""
    done: Counter[str] = field(default_factory=Counter)
    """Deeds by kind."""
    checks: int = 0
    reads: list[tuple[int, ServerRead]] = field(default_factory=list)
    """Server reads, each in its epoch."""

    @property
    def tokens(self) -> tuple[bytes, ...]:
        return read_tokens((self.token,)) if self.token else ()

    def now(self) -> float:
        return asyncio.get_running_loop().time()

    def note_read(self, epoch: int, read: ServerRead) -> None:
        """A read that was asked and answered in one history."""
        if epoch == self.states.epoch:
            self.reads.append((epoch, read))
