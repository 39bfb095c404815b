"""The seam of the journal: what is kept, and in which steps; one step is durable whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import msgspec

from stemmadb.client.cache.records import CacheState, CacheStep
from stemmadb.client.nursery.entities import CommitName
from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.wire.messages.commit import Current


class CommitBase(msgspec.Struct, frozen=True):
    """What a pending commit was built on, so that it can be shown after a restart without the server."""

    branch: BranchName
    id: EntityId
    version: Version
    hash: Hash
    as_of: Version
    body: bytes | None
    """The encoded value; None if there was none."""


class JournaledCommit(msgspec.Struct, frozen=True):
    """An undecided commit, exactly as it is sent (COMMIT-5)."""

    name: CommitName
    nonce: bytes
    content: bytes
    bases: tuple[CommitBase, ...] = ()


class ConfirmedCommit(msgspec.Struct, frozen=True):
    """A commit seen confirmed; the last `lost_keep_max` tell what a restored server lost (RESUME-4)."""

    name: CommitName
    version: Version
    hash: Hash
    content: bytes


class RejectedCommit(msgspec.Struct, frozen=True):
    """A commit that was not accepted, and why: inspect it, submit it again, or drop it."""

    name: CommitName
    content: bytes
    code: str
    message: str
    time: TimeMs
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    stale: tuple[StaleRead, ...] = ()
    current: tuple[Current, ...] = ()
    decided: Version = Version(0)
    """The version at which it was decided: what `current` is as of."""
    because: CommitName | None = None
    """The rejected commit it depended on, if it was not rejected itself."""


class JournalStep(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One atomic step. What is confirmed or rejected is no longer pending; `drop` deletes rejected commits."""

    add: tuple[JournaledCommit, ...] = ()
    confirm: tuple[ConfirmedCommit, ...] = ()
    reject: tuple[RejectedCommit, ...] = ()
    drop: tuple[CommitName, ...] = ()
    forget: tuple[CommitName, ...] = ()
    """Confirmed commits to keep no longer: beyond `lost_keep_max`, or lost by a restored server and reported."""
    standing: tuple[Version, Hash] | None = None
    """`to` and its hash. Kept with each commit too: whether the server still has what that read can be told only by a
    standing that is no older (RESUME-4)."""
    session: bytes | None = None
    """New commits are made in this session from now on."""
    cache: CacheStep | None = None
    """What the cache of confirmed values becomes: written with the rest, or not at all (CACHE-2)."""


class JournalState(msgspec.Struct, frozen=True, kw_only=True):
    """What a journal holds when it is opened."""

    session: bytes | None = None
    """None in a new journal."""
    last_local: int = 0
    """The highest local ever kept in `session`; locals are never used twice."""
    standing: tuple[Version, Hash] | None = None
    pending: tuple[JournaledCommit, ...] = ()
    """In the order in which they were kept."""
    confirmed: tuple[ConfirmedCommit, ...] = ()
    """Oldest first."""
    rejected: tuple[RejectedCommit, ...] = ()
    """In the order in which they came."""
    cache: CacheState | None = None
    """None if there is none, or if it was not what was written (CACHE-2)."""


Done: TypeAlias = Callable[[Exception | None], None]
"""Called on the event loop once a step is on disk, or with the reason why it is not and never will be."""


class Journal(Protocol):
    """Steps become durable in the order in which they are written; several may share one sync of the disk."""

    keeps: bool
    """Whether anything survives a restart: False for the one without a path."""

    @property
    def is_cache_full(self) -> bool:
        """Whether the disk has no room for the cache: it takes no more of it, and everything else (CACHE-5)."""
        ...

    def load(self) -> JournalState:
        """What is there, read once, before the first step."""
        ...

    def write(self, step: JournalStep, done: Done) -> None:
        """Takes a step at once and tells when it is durable. After a failure every later step fails too."""
        ...

    async def close(self) -> None:
        """Waits for the steps that were written, and lets the file go."""
        ...
