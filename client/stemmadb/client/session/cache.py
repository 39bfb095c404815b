"""The cache of a session: restores it when the app starts, and gathers what frames change into steps (CACHE-1..5)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec
from blake3 import blake3

from stemmadb.client.cache.equality import canonical, query_of
from stemmadb.client.cache.ledger import CacheLedger
from stemmadb.client.cache.records import CacheHead, CacheState, CacheStep
from stemmadb.client.nursery.entities import CachedEntity
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.protocol.model.query.query import Query
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, Did, Hash, TimeMs, Version

CacheStatus: TypeAlias = Literal["off", "on", "full"]
GATHER_SECONDS: Final = 0.25
"""What frames change is gathered for so long before it is written (CACHE-2)."""
RIGHTS_LOST: Final = frozenset({"unknown_space", "forbidden"})
"""Errors after which nothing may stay cached (CACHE-4)."""
CLEARED: Final = CacheStep(clear=True, scrub=True)


class RestoredWatch(NamedTuple):
    """A watch that the cache had, whole: it goes on where it stopped."""

    number: int
    query: Query
    key: str
    """Its canonical query."""
    used: TimeMs


def digest_delegations(delegations: Collection[bytes]) -> bytes:
    """Which delegations are shown, in whatever order; a renewed one is another one (CACHE-4)."""
    return blake3(msgspec.msgpack.encode(sorted(delegations))).digest()


class SessionCache:
    """What the session writes of confirmed values. Off, it does nothing."""

    def __init__(
        self,
        nursery: Nursery,
        *,
        is_on: bool,
        bytes_max: int,
        delegations: Collection[bytes],
        now: Callable[[], TimeMs],
    ) -> None:
        self._nursery = nursery
        self._ledger = CacheLedger(bytes_max=bytes_max)
        self._is_on = is_on
        self._delegations = digest_delegations(delegations)
        self._now = now
        self._server: Did | None = None
        self._is_scrub_due = False
        self.heard: TimeMs = TimeMs(0)
        """When the last frame came, by the client's clock, also in an earlier run."""
        self.in_use: Callable[[], Collection[int]] = tuple
        """The watches that the app has open."""
        self.evicted: Callable[[tuple[int, ...]], None] = _nobody
        """Is told which watches had no room."""
        if is_on:
            nursery.record_changes()

    @property
    def is_on(self) -> bool:
        return self._is_on

    # ------------------------------------------------------------ the start

    def usable(self, state: CacheState | None, standing: tuple[Version, Hash] | None) -> CacheState | None:
        """The loaded cache, if it is of these delegations and no older than the journal (CACHE-2, CACHE-4).

        The server judges what was held at `to` by the delegations of now, so under others all of it has to go.
        """
        if state is None or not self._is_on:
            return None
        head = state.head
        if standing != (head.to, head.hash) or head.delegations != self._delegations:
            return None
        self._server, self.heard = head.server, head.time
        self._ledger.restore(state)
        return state

    def whole(self, state: CacheState) -> Iterator[RestoredWatch]:
        """The watches that can go on; the others are dropped and come whole when they are asked for."""
        for one in state.watches:
            if one.is_whole:
                yield RestoredWatch(one.number, query_of(one.query), one.query, one.used)
            else:
                self._ledger.unregister(one.number)

    def restore(self, state: CacheState, watches: Collection[RestoredWatch]) -> None:
        """Puts the cached values into the nursery, whose watches are there already (CACHE-3)."""
        members = {one.number: set(state.members[one.number]) for one in watches}
        cached = {(state.branches[number], id_) for number, ids in members.items() for id_ in ids}
        read = body.read_stored
        entities = {
            key: CachedEntity(read(one.body), one.version, one.hash)
            for key, one in state.entities.items()
            if key in cached
        }
        self._nursery.restore(state.head.to, state.head.hash, entities, members)

    # ------------------------------------------------------------ which watches

    def register(self, number: int, query: Query) -> None:
        """An app opens a watch."""
        if self._is_on:
            self._ledger.register(number, canonical(query), self._branch(query), now=self._now())

    @staticmethod
    def _branch(query: Query) -> BranchName:
        return BranchName(query.branch)

    def touch(self, number: int) -> None:
        """An app opens or closes a watch that is cached."""
        self._ledger.touch(number, now=self._now())

    def unregister(self, number: int) -> None:
        self._ledger.unregister(number)

    def has(self, number: int) -> bool:
        """Whether the watch is cached, or will be."""
        return self._is_on and self._ledger.has(number)

    def used(self, number: int) -> TimeMs:
        return self._ledger.used(number)

    # ------------------------------------------------------------ steps

    @property
    def is_due(self) -> bool:
        """Whether there is something to write that need not be written at once."""
        if not self._is_on or self._ledger.is_empty:
            return False
        return self._nursery.has_changes or self._ledger.is_due

    def step(self) -> CacheStep | None:
        """What to write with where the nursery stands now; None if there is nothing."""
        if not self._is_on or self._nursery.hash is None:
            return None
        if self._ledger.is_empty:  # nothing is watched: most of what commits cost
            self._nursery.take_changes()
            return None
        made = self._ledger.step(
            self._nursery.confirmed, self._nursery.take_changes(), self._head(self._nursery.hash), self.in_use()
        )
        if made.evicted:
            self.evicted(made.evicted)
        step = made.step
        if step is not None and (step.clear or self._is_scrub_due):
            step = msgspec.structs.replace(step, scrub=True)
        self._is_scrub_due = False
        return step

    def _head(self, hash_: Hash) -> CacheHead:
        return CacheHead(
            self._nursery.to, hash_, self.heard, self._server, self._delegations, self._nursery.integrated()
        )

    def scrub(self) -> None:
        """Values that the next step overwrites may have been erased: none of their bytes may stay (CACHE-4)."""
        self._is_scrub_due = True

    # ------------------------------------------------------------ the end of it

    def is_of(self, server: Did) -> bool:
        """Whether the cache is of this server, which it is from now on; another one's is of no use (CACHE-1)."""
        before, self._server = self._server, server
        return before in (None, server)

    def drop(self) -> CacheStep | None:
        """Everything goes, on disk and here; watches that are filled again are cached again (CACHE-4)."""
        if not self._is_on:
            return None
        self._nursery.forget_confirmed()
        self._nursery.take_changes()
        self._ledger.cleared()
        return CLEARED

    def turn_off(self) -> CacheStep | None:
        """Takes everything from the disk, and caches nothing more in this run."""
        if not self._is_on:
            return None
        self._is_on = False
        self._nursery.record_changes(is_on=False)
        return CLEARED


def _nobody(_numbers: tuple[int, ...]) -> None:
    """Nobody wants to know."""
