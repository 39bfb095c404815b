"""What a cache stores, and in which steps; one step is written whole or not at all (CACHE-1, CACHE-2)."""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from stemmadb.client.nursery.entities import CommitName, Key
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, TimeMs, Version

CACHE_FORMAT: Final = 1
"""The format of a cache; one of another format is dropped, and the journal beside it is not."""


class CacheHead(msgspec.Struct, frozen=True):
    """Whose cache it is, and where it stands."""

    to: Version
    hash: Hash
    time: TimeMs
    """When the frame that reached `to` came, by the client's clock."""
    server: Did | None
    delegations: bytes
    """The digest of the delegations that were shown: with others it is another cache (CACHE-4)."""
    integrated: tuple[CommitName, ...] = ()
    """Undecided own commits whose facts are among the cached values, so that they are not shown twice."""


class CacheWatch(msgspec.Struct, frozen=True):
    """A watch. One that is not whole comes whole from the server: a member of it is being asked for (SYNC-4)."""

    number: int
    query: str
    """Canonical JSON."""
    used: TimeMs
    """When an app had it open last."""
    is_whole: bool = True


class CacheEntity(NamedTuple):
    """A confirmed entity, once, however many watches hold it."""

    branch: BranchName
    id: EntityId
    version: Version
    hash: Hash
    body: bytes

    @property
    def key(self) -> Key:
        return self.branch, self.id


class CacheStep(msgspec.Struct, frozen=True, kw_only=True):
    """From one whole state of the cache to the next. First `clear`, then what goes, then what comes."""

    clear: bool = False
    """Everything that was there goes."""
    scrub: bool = False
    """Values that went or were overwritten, now or before, leave no byte in the file (CACHE-4)."""
    head: CacheHead | None = None
    """None: there is no cache after this step."""
    end: tuple[int, ...] = ()
    """Watches that go, with all their members."""
    leave: tuple[tuple[int, EntityId], ...] = ()
    remove: tuple[Key, ...] = ()
    """Entities that no cached watch holds any more."""
    watches: tuple[CacheWatch, ...] = ()
    """Watches that come, or have other fields."""
    enter: tuple[tuple[int, EntityId], ...] = ()
    put: tuple[CacheEntity, ...] = ()

    def weight(self) -> int:
        """About how many bytes it writes."""
        return sum(len(one.body) for one in self.put)


class CacheState(msgspec.Struct, frozen=True, kw_only=True):
    """What a cache holds when it is opened."""

    head: CacheHead
    watches: tuple[CacheWatch, ...] = ()
    members: dict[int, set[EntityId]] = msgspec.field(default_factory=dict)
    entities: dict[Key, CacheEntity] = msgspec.field(default_factory=dict)

    branches: dict[int, BranchName] = msgspec.field(default_factory=dict)
    """The branch of each watch."""


class AsOf(NamedTuple):
    """How old what is shown is: the confirmed version, and when the client heard of it."""

    version: Version
    time: TimeMs
