"""An open space: one writer, many readers, and subscribers that get what becomes durable."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

from stemmadb.protocol.model.commit.admission import Accepted, Outcome
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, Did, Version
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.head_cache import Share
from stemmadb.server.engine.base.inputs import Inputs
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.read.batched_reads import Readers
from stemmadb.server.engine.read.past_states import PastStates
from stemmadb.server.engine.write.writer import Writer
from stemmadb.server.log_events import Log
from stemmadb.server.storage.port import Destroyed, LogReader, SpaceLog, Storage

LOG: Final = Log("space")

T = TypeVar("T")
Subscriber: TypeAlias = Callable[[Sequence[Accepted]], None]


class OpenSpace:
    """Implements `api.SpaceApi`. All of it is used from one event loop."""

    def __init__(
        self,
        did: Did,
        storage: Storage,
        executors: Executors,
        heads: Share,
        past: PastStates,
        inputs: Inputs,
    ) -> None:
        self.did = did
        self.limits = inputs.limits
        self.version = EMPTY_SPACE
        """The last version known to be durable."""
        self.past = past
        self._heads = heads
        self._log = OpenLog(storage, did, executors.writing, self._opened)
        self._readers = Readers(self._log, executors.reading, inputs.settings)
        self._writer = Writer(did, self._log, executors.writing, heads, inputs, self._durable)
        self.propose: Final = self._writer.propose
        """As `submit`, without a future: calls back once, in order, right after the subscribers."""
        self._subscribers: list[Subscriber] = []
        self._leases = 0

    async def open(self, *, create: bool = False) -> None:
        """Opens the log; `UnknownSpace` if there is none and it is not to be made, `StorageFailed` if it fails."""
        await self._log.ready(create=create)
        self._writer.start()

    async def close(self) -> None:
        """Finishes what has come so far; whatever comes now is `Unavailable`."""
        await self._writer.stop()
        await self._readers.stop()
        await self._log.close()
        self._heads.drop()
        self.past.forget()

    def lose(self) -> None:
        """The log is opened again before it is used again, and what memory has of it is read again."""
        self._log.broke()
        self.past.forget()

    # ------------------------------------------------------------ what the engine asks for

    async def decide(self, proposal: Proposal, destroyed: Destroyed | None = None) -> Outcome:
        """See `SpaceApi.decide`. The proposal is decided even if its caller stops waiting."""
        return await self._writer.submit(proposal, destroyed)

    @property
    def has_room(self) -> bool:
        """True while fewer than `queue_max` proposals wait; sessions stop reading commits while it is False."""
        return self._writer.has_room

    def submit(self, proposal: Proposal) -> asyncio.Future[Outcome]:
        """As `decide`, for callers with many at once: proposals are decided in the order of the calls."""
        return self._writer.submit(proposal)

    def read(self, ask: Callable[[LogReader], T]) -> Coroutine[Any, Any, T]:
        """See `SpaceApi.read`. `Unavailable` if the storage fails; what the question raises, it raises here."""
        return self._readers.read(ask)

    @property
    def has_one_writer(self) -> bool:
        """Whether nobody else writes it, so that the last version it knows is the newest."""
        return self._log.is_alone

    async def in_turn(self, work: Callable[[SpaceLog], T]) -> T:
        """See `SpaceApi.in_turn`. Runs after all that was asked for before it."""
        return await self._writer.in_turn(work)

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Calls it with each batch once that is durable, in order, before its verdicts are published; returns a
        function that unsubscribes.

        It is called with nothing where the log has gone on without us: by another node, or by an append that failed
        after it was durable. So a subscriber reads from the log what lies between the version it knows and the first
        of a batch, or `version` where there is none.
        """
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    # ------------------------------------------------------------ staying open

    @property
    def is_in_use(self) -> bool:
        """True if it must stay open: work waits, or there is a subscriber or a lease."""
        return bool(self._writer.is_busy or self._readers.is_busy or self._subscribers or self._leases)

    @contextmanager
    def lease(self) -> Iterator[OpenSpace]:
        """While it is held the store does not close the space."""
        self._leases += 1
        try:
            yield self
        finally:
            self._leases -= 1

    def _opened(self, version: Version) -> None:
        """A storage may have lost the end of a log that another server took over: what was known of it never was."""
        if version < self.version:
            LOG.warning("log_went_back", space=self.did, known=self.version, found=version)
            self.version = EMPTY_SPACE
            self.past.forget()
        self._durable(version, ())

    def _durable(self, version: Version, accepted: Sequence[Accepted]) -> None:
        if version <= self.version:
            return
        self.version = version
        if not accepted or not _are_ordinary_writes(accepted):
            self.past.forget()
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(accepted)
            except Exception as error:  # one subscriber must not keep the others from being called
                asyncio.get_running_loop().call_exception_handler(
                    {"message": "a subscriber of a space failed", "exception": error}
                )


def _are_ordinary_writes(accepted: Sequence[Accepted]) -> bool:
    for one in accepted:  # noqa: SIM110  # asked of every batch, and `all` takes longer
        if one.commit.arguments != NO_ARGUMENTS:
            return False
    return True
