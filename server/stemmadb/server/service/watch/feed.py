"""The feed of an open space: durable batches in order, kept a while, and the watch groups stepped with them (SYNC-3).

Where the log has gone on without us the gap is read from it; batches that come meanwhile wait behind the gap.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.log.commit_record import genesis
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Hash, Version
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.service.base import durable_batches
from stemmadb.server.service.base.durable_batches import Batch
from stemmadb.server.service.watch.idle import IDLE_MAX
from stemmadb.server.service.watch.watch_group import JournalBounds
from stemmadb.server.service.watch.watch_groups import ENTITIES_MAX, WatchGroups
from stemmadb.server.service.watch.watch_reports import AGAIN_SECONDS, report

GAP_BYTES_MAX: Final = 4 * 1024 * 1024
"""How much of a gap is read at once; one commit may be larger by itself."""
UNWATCHED_MAX: Final = 16
"""How many batches are kept where nobody watches: a watch begins at the end of the log."""
WAITING_MAX: Final = 256
"""How many batches wait behind a gap; beyond it they are read from the log as well."""


class _Waiting(NamedTuple):
    """The space went on to `version` with these; with none if it went on without us."""

    version: Version
    accepted: Sequence[Accepted]


class Feed:
    """One for an open space, used from its event loop only."""

    def __init__(
        self,
        space: OpenSpace,
        *,
        bytes_max: int,
        batches_max: int,
        groups_max: int,
        entities_max: int = ENTITIES_MAX,
        idle_max: int = IDLE_MAX,
        journals: JournalBounds | None = None,
    ) -> None:
        self.version = EMPTY_SPACE
        """Published up to here."""
        self.hash = genesis(space.did)
        """Of the commit at `version`."""
        self.erased_at = EMPTY_SPACE
        """Where the last batch that erased something ended."""
        self.on_batch: Callable[[Batch], None] = lambda _: None
        """Called for each batch in order, after the groups that could be stepped at once were."""
        self.groups = WatchGroups(
            space,
            self,
            groups_max=groups_max,
            entities_max=entities_max,
            idle_max=idle_max,
            journals=journals or JournalBounds(),
        )
        self._space = space
        self._bytes_max = bytes_max
        self._batches_max = batches_max
        self._retained: list[Batch] = []
        self._retained_bytes = 0
        self._waiting: deque[_Waiting] = deque()
        self._unsubscribe: Callable[[], None] | None = None
        self._is_reading = True
        """Whether the end of the log, or a gap, is being read: nothing is published meanwhile."""
        self._gap: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begins at the end of the log as it is now; `Unavailable` if that cannot be read, and nothing has begun."""
        self._unsubscribe = self._space.subscribe(self._durable)
        try:
            tip = await self._space.read(lambda reader: reader.tip())
        except BaseException:
            self.stop()
            raise
        self.version, self.hash = tip.version, tip.hash
        self._is_reading = False
        self._drain()

    def stop(self) -> None:
        """Publishes nothing more."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        if self._gap is not None:
            self._gap.cancel()
        self._waiting.clear()
        self.groups.stop()

    # ------------------------------------------------------------ what was published

    @property
    def retained_after(self) -> Version:
        """The version after which all batches are kept."""
        return self._retained[0].after if self._retained else self.version

    def batches(self, after: Version) -> Sequence[Batch] | None:
        """Those after a version; None if they are not kept any more, or one of them holds it inside."""
        if after == self.version:
            return ()
        if self._retained and self._retained[-1].after == after:  # as for all that are current
            return self._retained[-1:]
        index = bisect_left(self._retained, after, key=_after)
        if index == len(self._retained) or self._retained[index].after != after:
            return None
        return self._retained[index:]

    def hash_at(self, to: Version) -> Hash | None:
        """Of the commit that a batch ended with, if that is kept."""
        index = bisect_left(self._retained, to, key=_to)
        return self._retained[index].hash if index < len(self._retained) and self._retained[index].to == to else None

    # ------------------------------------------------------------ what comes

    def _durable(self, accepted: Sequence[Accepted]) -> None:
        is_next = bool(accepted) and accepted[0].commit.version == self.version + 1
        if is_next and not self._is_reading and not self._waiting:  # as nearly all are
            self._publish(durable_batches.decided(accepted))
            return
        self._waiting.append(_Waiting(self._space.version, accepted))
        if len(self._waiting) > WAITING_MAX:
            self._waiting.clear()
            self._waiting.append(_Waiting(self._space.version, ()))
        if not self._is_reading:
            self._drain()

    def _drain(self) -> None:
        while self._waiting:
            version, accepted = self._waiting[0]
            fresh = [one for one in accepted if one.commit.version > self.version]
            if version > self.version and (not fresh or fresh[0].commit.version > self.version + 1):
                self._read_gap(Version(fresh[0].commit.version - 1) if fresh else version)
                return
            self._waiting.popleft()
            if fresh:
                self._publish(durable_batches.decided(fresh))

    def _read_gap(self, to: Version) -> None:
        self._is_reading = True
        self._gap = asyncio.get_running_loop().create_task(self._cross(to))

    async def _cross(self, to: Version) -> None:
        """If the storage fails it is tried again when the next batch comes."""
        try:
            while self.version < to:
                ask = partial(durable_batches.logged, after=self.version, to=to, bytes_max=GAP_BYTES_MAX)
                self._publish(await self._space.read(ask))
        except StemmaError:
            asyncio.get_running_loop().call_later(AGAIN_SECONDS, self._go_on)
            return
        except Exception as error:
            report("a gap in the feed of a space could not be read", error)
            return
        finally:
            self._is_reading = False
        self._drain()

    def _go_on(self) -> None:
        if not self._is_reading and self._unsubscribe is not None:
            self._drain()

    def _publish(self, batch: Batch) -> None:
        assert batch.after == self.version, "batches are published in order"
        self.version, self.hash = batch.to, batch.hash
        if batch.erases:
            self.erased_at = batch.to
            self._drop(len(self._retained))
        self._keep(batch)
        self.groups.step(batch)
        try:
            self.on_batch(batch)
        except Exception as error:  # the next batch is published all the same
            report("a follower of the feed of a space failed", error)

    def _keep(self, batch: Batch) -> None:
        """The newest is kept whatever its size."""
        self._retained.append(batch)
        self._retained_bytes += batch.weight
        dropped, weight = 0, self._retained_bytes
        most = self._batches_max if self.groups.are_needed else min(self._batches_max, UNWATCHED_MAX)
        while dropped < len(self._retained) - 1 and (
            len(self._retained) - dropped > most or weight > self._bytes_max
        ):
            weight -= self._retained[dropped].weight
            dropped += 1
        if dropped:
            self._drop(dropped)

    def _drop(self, count: int) -> None:
        for batch in self._retained[:count]:
            self._retained_bytes -= batch.weight
            self.groups.forget(batch)
        del self._retained[:count]


def _after(batch: Batch) -> Version:
    return batch.after


def _to(batch: Batch) -> Version:
    return batch.to
