"""The watches of a session: requested, resumed on new connections, published to the app (SYNC-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import msgspec

from stemmadb.client.cache.equality import canonical
from stemmadb.client.cache.records import AsOf
from stemmadb.client.nursery.confirmed import Membership
from stemmadb.client.nursery.entities import CachedEntity, Key
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.session.cache import RestoredWatch, SessionCache
from stemmadb.client.session.idle_watches import IdleWatch, IdleWatches
from stemmadb.client.session.request_queue import OutgoingRequests
from stemmadb.client.session.requester import SessionRequester
from stemmadb.client.watching import Change, Watcher
from stemmadb.protocol.errors import LimitExceeded, StemmaError, Unready, UnsupportedProtocol
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import BranchName, Did
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.base import Part
from stemmadb.protocol.wire.messages.reading import (
    QueriedEntity,
    QueryAnswer,
    QueryRequest,
    UnwatchRequest,
    WatchRequest,
)
from stemmadb.protocol.wire.messages.session import HeldWatch
from stemmadb.protocol.wire.version import WINDOW

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

    def __init__(
        self,
        nursery: Nursery,
        requests: OutgoingRequests,
        requester: SessionRequester,
        *,
        space: Did,
        cache: SessionCache,
        idle_max: int,
    ) -> None:
        self._nursery = nursery
        self._cache = cache
        self._idle = IdleWatches()
        """Cached watches that no app has open: the server goes on telling of them (CACHE-3)."""
        self._idle_max = idle_max
        cache.in_use, cache.evicted = self._live_numbers, self._drop_evicted
        self._requests = requests
        self._requester = requester
        self._space = space
        self._last = 0
        self._live: dict[int, Subscription] = {}
        self._rest: list[Subscription] = []
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self.give_up: Callable[[], None]
        """Gives the connection up, so that everything comes again."""
        self.as_of: Callable[[], AsOf | None]
        """How old what is shown is; None while the server tells of every change."""

    # ------------------------------------------------------------ beginning and ending

    def restore(self, watches: Iterable[RestoredWatch]) -> Iterator[RestoredWatch]:
        """The watches of the cache: they are idle until an app asks for an equal one; gives those (CACHE-3)."""
        for one in watches:
            try:
                watcher = Watcher(one.number, one.query, space=self._space, limits=self._requester.limits)
            except StemmaError:  # this server's bounds are not known yet: it comes whole when it is asked for
                self._cache.unregister(one.number)
                continue
            yield one
            self._nursery.watch(one.number, _membership(watcher), IdleWatch(watcher.branch))
            self._idle.add(one.key, one.number, one.query)
            self._last = max(self._last, one.number)

    def watch(self, query: Query) -> Subscription:
        """Begins to watch; the answer of the server says only whether it may. One that is cached goes on at once."""
        if query.has_window():
            self._requester.check_feature(WINDOW)
        limits = self._requester.limits
        idle = self._idle.take(canonical(query)) if self._cache.is_on else None
        watcher = Watcher(idle or self._last + 1, query, space=self._space, limits=limits)
        self._last = max(self._last, watcher.number)
        subscription = Subscription(watcher, self._nursery)
        if idle is not None:
            self._nursery.rewatch(idle, watcher)
            self._live[idle] = subscription
            self._cache.touch(idle)
            return subscription
        self._make_room(limits.watches_max - 1 - len(self._live))
        if len(self._live) >= limits.watches_max:  # offline too: a session with more would not be opened
            actual = len(self._live) + 1
            watcher.end(LimitExceeded(bound="watches_max", maximum=limits.watches_max, actual=actual))
            return subscription
        self._nursery.watch(watcher.number, _membership(watcher), watcher)
        self._live[watcher.number] = subscription
        if not self._is_equal_open(query, watcher.number):
            self._cache.register(watcher.number, query)
        self._begin(subscription, self._requests.opened)
        return subscription

    def _is_equal_open(self, query: Query, number: int) -> bool:
        """Whether an equal watch is cached already: one is enough."""
        return self._cache.is_on and any(
            other != number and self._cache.has(other) and canonical(one.watcher.query) == canonical(query)
            for other, one in self._live.items()
        )

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
        """Nobody looks any more. What it held is let go once the server has stopped telling of it.

        A cached one stays cached, and so the server goes on telling of it, until another takes its place.
        """
        number = subscription.watcher.number
        if self._live.pop(number, None) is None:
            return
        if self._cache.has(number) and self._nursery.is_filled(number) and self._idle_max:
            self._nursery.rewatch(number, IdleWatch(subscription.watcher.branch))
            self._idle.add(canonical(subscription.watcher.query), number, subscription.watcher.query)
            self._cache.touch(number)
            self._make_room(self._idle_max)
        else:
            self._stop(number)

    def _stop(self, number: int) -> None:
        """The server is told that nobody wants it any more."""
        self._cache.unregister(number)
        if self._requests.is_open:
            fields = {"watch": number}
            self._requests.ask(UnwatchRequest, fields, lambda _: self._nursery.unwatch(number), is_lasting=False)
        else:
            self._nursery.unwatch(number)

    def _make_room(self, idle_max: int) -> None:
        """The idle watches that were not used for longest go, until so many are left."""
        while len(self._idle) > max(idle_max, 0):
            self._stop(self._idle.pop_oldest(self._cache.used))

    def _drop_evicted(self, numbers: tuple[int, ...]) -> None:
        """The cache has no room for these: nobody needs those that are idle."""
        for number in numbers:
            if self._idle.discard(number):
                self._stop(number)

    def drop_idle(self) -> None:
        """Nothing is cached any more."""
        self._make_room(0)

    def _live_numbers(self) -> tuple[int, ...]:
        return tuple(self._live)

    def _end(self, number: int, subscription: Subscription, error: StemmaError) -> None:
        """Ends a watch; a caller that waits for a change gets the error."""
        self._live.pop(number, None)
        self._cache.unregister(number)
        self._nursery.unwatch(number)
        subscription.watcher.end(error)
        subscription.wake()

    # ------------------------------------------------------------ over connections

    def held(self) -> tuple[HeldWatch, ...]:
        """The watches to go on with on a new connection; what is not filled comes whole (RESUME-1).

        Those that do not fit into the message that opens it are asked for after it, with `begin_rest`.
        """
        self._end_unsupported()
        self._end_beyond(self._requester.limits.watches_max)
        self._nursery.keep_watches({*self._live, *self._idle.numbers()})
        self._rest.clear()
        found = []
        room = self._requester.limits.schema_bytes_max * OPENING_SHARE
        for number, query, size in self._held_queries():
            room -= size
            is_filled = room >= 0 and self._nursery.is_filled(number)
            if not is_filled:
                self._nursery.unfill(number)
            if room >= 0:
                found.append(HeldWatch(watch=number, query=query, filled=is_filled))
            elif number in self._live:
                self._rest.append(self._live[number])
            else:
                self._idle.discard(number)
                self._stop(number)
        return tuple(found)

    def _held_queries(self) -> Iterator[tuple[int, Query, int]]:
        """The watches that the app has open first, then the idle ones; each with its bytes on the wire."""
        for number, one in self._live.items():
            yield number, one.watcher.query, one.size
        for number, query in self._idle.items():
            yield number, query, len(msgspec.msgpack.encode(query))

    def _end_unsupported(self) -> None:
        """A server that knows no windows would not open a session with one."""
        try:
            self._requester.check_feature(WINDOW)
        except UnsupportedProtocol as error:
            for number, one in tuple(self._live.items()):
                if one.watcher.query.has_window():
                    self._end(number, one, error)
            for number, query in self._idle.items():
                if query.has_window():
                    self._idle.discard(number)
                    self._stop(number)

    def _end_beyond(self, maximum: int) -> None:
        """The server may take fewer than the one before: with one too many it would not open the session."""
        self._make_room(maximum - len(self._live))
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
        self._idle.discard(number)
        self._cache.unregister(number)
        subscription = self._live.pop(number, None)
        if subscription is not None:
            subscription.wake()

    def wake(self) -> None:
        """After each change: wakes the watches that have news."""
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


def _membership(watcher: Watcher) -> Membership:
    return Membership(watcher.branch, names=watcher.coverage.ids, prefixes=watcher.coverage.prefixes)


def _pause(busy: Unready) -> float:
    seconds: float = busy.facts.get("retry_after_ms", RETRY_AFTER_MS) / 1_000
    return seconds


def _entity(branch: BranchName, id_: str) -> Query:
    return Query(roots=(Root(id_),), branch=branch)


def _cached(one: QueriedEntity) -> CachedEntity:
    return CachedEntity(body.read_stored(records.whole_body(one)), one.version, one.hash)
