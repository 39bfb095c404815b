"""The watches of a session: requested, resumed on new connections, published to the app (SYNC-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import msgspec

from stemmadb.client.nursery.confirmed import Membership
from stemmadb.client.nursery.entities import CachedEntity, Key
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.session.request_queue import RequestQueue
from stemmadb.client.session.requester import SessionRequester
from stemmadb.client.watching import Change, Watcher
from stemmadb.protocol.errors import LimitExceeded, StemmaError, Unready
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, Did
from stemmadb.protocol.wire.messages.base import Part
from stemmadb.protocol.wire.messages.reading import (
    QueriedEntity,
    QueryAnswer,
    QueryRequest,
    UnwatchRequest,
    WatchRequest,
)
from stemmadb.protocol.wire.messages.session import HeldWatch

ASKED_AGAIN_MAX: Final = 3
"""How often an entity that does not fit is asked for, before the connection is given up."""
OPENING_SHARE: Final = 0.5
"""The part of the message that opens a connection which its watches may take."""
RETRY_AFTER_MS: Final = 200
"""What is waited before something is asked for again that the server could not take, if it does not say."""


class Subscription:
    """One watch and who waits for its next change."""

    def __init__(self, watcher: Watcher, nursery: Nursery) -> None:
        self.watcher = watcher
        self.size = len(msgspec.msgpack.encode(watcher.query))
        """Of the query on the wire, in bytes."""
        self._nursery = nursery
        self._news = asyncio.Event()

    def wake(self) -> None:
        """Something may have changed."""
        if self.watcher.error is not None or self.watcher.has_news():
            self._news.set()

    async def next(self) -> Change:
        """The next visible change; raises why the watch is over."""
        while True:
            change = self.watcher.take(self._nursery)
            if change is not None:
                return change
            if self.watcher.error is not None:
                raise self.watcher.error
            self._news.clear()
            await self._news.wait()


class Subscriptions:
    """All watches of one session, by number; a number is never used twice."""

    def __init__(self, nursery: Nursery, requests: RequestQueue, requester: SessionRequester, *, space: Did) -> None:
        self._nursery = nursery
        self._requests = requests
        self._requester = requester
        self._space = space
        self._last = 0
        self._live: dict[int, Subscription] = {}
        self._rest: list[Subscription] = []
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self.give_up: Callable[[], None]
        """Gives the connection up, so that everything comes again."""

    # ------------------------------------------------------------ beginning and ending

    def watch(self, query: Query) -> Subscription:
        """Begins to watch; the answer of the server says only whether it may."""
        limits = self._requester.limits
        watcher = Watcher(self._last + 1, query, space=self._space, limits=limits)
        self._last += 1
        subscription = Subscription(watcher, self._nursery)
        if len(self._live) >= limits.watches_max:  # offline too: a session with more would not be opened
            actual = len(self._live) + 1
            watcher.end(LimitExceeded(bound="watches_max", maximum=limits.watches_max, actual=actual))
            return subscription
        coverage = watcher.coverage
        membership = Membership(watcher.branch, names=coverage.ids, prefixes=coverage.prefixes)
        self._nursery.watch(watcher.number, membership, watcher)
        self._live[watcher.number] = subscription
        self._begin(subscription, self._requests.opened)
        return subscription

    def _begin(self, subscription: Subscription, opened: int) -> None:
        """Asks for it on this connection; the next one is opened with it."""
        number = subscription.watcher.number
        if self._requests.is_open and self._requests.opened == opened and number in self._live:
            fields = {"watch": number, "query": subscription.watcher.query}
            self._requests.ask(
                WatchRequest, fields, lambda result: self._answered(subscription, result), is_lasting=False
            )

    def _answered(self, subscription: Subscription, result: Part | StemmaError) -> None:
        number = subscription.watcher.number
        if not isinstance(result, StemmaError) or number not in self._live:
            return
        if isinstance(result, Unready):  # nothing is wrong with it: it is asked for again
            asyncio.get_running_loop().call_later(_pause(result), self._begin, subscription, self._requests.opened)
            return
        self._end(number, subscription, result)

    def unwatch(self, subscription: Subscription) -> None:
        """Nobody looks any more. What it held is let go once the server has stopped telling of it."""
        number = subscription.watcher.number
        if self._live.pop(number, None) is None:
            return
        if self._requests.is_open:
            fields = {"watch": number}
            self._requests.ask(UnwatchRequest, fields, lambda _: self._nursery.unwatch(number), is_lasting=False)
        else:
            self._nursery.unwatch(number)

    def _end(self, number: int, subscription: Subscription, error: StemmaError) -> None:
        """Ends a watch; a caller that waits for a change gets the error."""
        self._live.pop(number, None)
        self._nursery.unwatch(number)
        subscription.watcher.end(error)
        subscription.wake()

    # ------------------------------------------------------------ over connections

    def held(self) -> tuple[HeldWatch, ...]:
        """The watches to go on with on a new connection; what is not filled comes whole (RESUME-1).

        Those that do not fit into the message that opens it are asked for after it, with `begin_rest`.
        """
        self._end_beyond(self._requester.limits.watches_max)
        self._nursery.keep_watches(self._live.keys())
        self._rest.clear()
        found = []
        room = self._requester.limits.schema_bytes_max * OPENING_SHARE
        for number, one in self._live.items():
            room -= one.size
            is_filled = room >= 0 and self._nursery.is_filled(number)
            if not is_filled:
                self._nursery.unfill(number)
            if room >= 0:
                found.append(HeldWatch(watch=number, query=one.watcher.query, filled=is_filled))
            else:
                self._rest.append(one)
        return tuple(found)

    def _end_beyond(self, maximum: int) -> None:
        """The server may take fewer than the one before: with one too many it would not open the session."""
        actual = len(self._live)
        for number, one in tuple(self._live.items())[maximum:]:
            self._end(number, one, LimitExceeded(bound="watches_max", maximum=maximum, actual=actual))

    def begin_rest(self) -> None:
        """The connection is opened: asks for the watches that it was not opened with."""
        for one in self._rest:
            self._begin(one, self._requests.opened)
        self._rest.clear()

    def ended(self, number: int) -> None:
        """The server has ended it; its watcher knows why."""
        subscription = self._live.pop(number, None)
        if subscription is not None:
            subscription.wake()

    def wake(self) -> None:
        """After each change: whoever has news looks."""
        for one in self._live.values():
            one.wake()

    def end_all(self, error: StemmaError) -> None:
        for number, one in tuple(self._live.items()):
            self._end(number, one, error)
        for task in self._asking.values():
            task.cancel()

    # ------------------------------------------------------------ what is asked again

    def ask_for(self, wanted: frozenset[Key]) -> None:
        """Each once, however many frames want it."""
        for key in sorted(wanted - self._asking.keys()):
            self._asking[key] = asyncio.get_running_loop().create_task(self._ask(key))

    async def _ask(self, key: Key) -> None:
        try:
            for _ in range(ASKED_AGAIN_MAX):
                answer = await self._answer(key)
                if answer is None:
                    return
                cached = next((_cached(one) for one in answer.entities), None)
                if self._nursery.answered(key, cached, answer.version):
                    self.wake()
                    return
            self.give_up()
        except StemmaError:
            return  # the server will not tell: the next frame that wants it asks again
        finally:
            self._asking.pop(key, None)

    async def _answer(self, key: Key) -> QueryAnswer | None:
        """What the server says, once it can; None if nobody wants it any more. No frame need come meanwhile."""
        while self._nursery.is_wanted(key):
            try:
                return await self._requester.ask(QueryRequest, QueryAnswer, query=_entity(*key))
            except Unready as busy:
                await asyncio.sleep(_pause(busy))
        return None


def _pause(busy: Unready) -> float:
    seconds: float = busy.facts.get("retry_after_ms", RETRY_AFTER_MS) / 1_000
    return seconds


def _entity(branch: BranchName, id_: str) -> Query:
    return Query(roots=(Root(id_),), branch=branch)


def _cached(one: QueriedEntity) -> CachedEntity:
    return CachedEntity(body.read_stored(one.body), one.version, one.hash)
