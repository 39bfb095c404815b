"""The watches of a session: asked for, kept over connections, told to the app; and what is asked again (SYNC-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from stemmadb.client.nursery.confirmed import Membership
from stemmadb.client.nursery.held import Held, Key
from stemmadb.client.nursery.nursery import Nursery
from stemmadb.client.session.asker import SessionAsker
from stemmadb.client.session.questions import Questions
from stemmadb.client.watching import Change, Watcher
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model import body
from stemmadb.protocol.model.ids import BranchName, Did
from stemmadb.protocol.model.query import Query, Root
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


class Subscription:
    """One watch and who waits for its next change."""

    def __init__(self, watcher: Watcher, nursery: Nursery) -> None:
        self.watcher = watcher
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

    def __init__(self, nursery: Nursery, questions: Questions, asker: SessionAsker, *, space: Did) -> None:
        self._nursery = nursery
        self._questions = questions
        self._asker = asker
        self._space = space
        self._last = 0
        self._live: dict[int, Subscription] = {}
        self._asking: dict[Key, asyncio.Task[None]] = {}
        self.give_up: Callable[[], None]
        """Gives the connection up, so that everything comes again."""

    # ------------------------------------------------------------ beginning and ending

    def watch(self, query: Query) -> Subscription:
        """Begins to watch; the answer of the server says only whether it may."""
        self._last += 1
        number = self._last
        watcher = Watcher(number, query, space=self._space, limits=self._asker.limits)
        coverage = watcher.coverage
        membership = Membership(watcher.branch, names=coverage.ids, prefixes=coverage.prefixes)
        self._nursery.watch(number, membership, watcher)
        subscription = self._live[number] = Subscription(watcher, self._nursery)
        if self._questions.is_open:
            fields = {"watch": number, "query": query}
            self._questions.ask(WatchRequest, fields, lambda result: self._answered(number, result), is_lasting=False)
        return subscription

    def _answered(self, number: int, result: Part | StemmaError) -> None:
        subscription = self._live.get(number)
        if isinstance(result, StemmaError) and subscription is not None:
            self._drop(number)
            subscription.watcher.end(result)
            subscription.wake()

    def unwatch(self, subscription: Subscription) -> None:
        """Nobody looks any more. What it held is let go once the server has stopped telling of it."""
        number = subscription.watcher.number
        if self._live.pop(number, None) is None:
            return
        if self._questions.is_open:
            fields = {"watch": number}
            self._questions.ask(UnwatchRequest, fields, lambda _: self._nursery.unwatch(number), is_lasting=False)
        else:
            self._nursery.unwatch(number)

    def _drop(self, number: int) -> None:
        self._live.pop(number, None)
        self._nursery.unwatch(number)

    # ------------------------------------------------------------ over connections

    def held(self) -> tuple[HeldWatch, ...]:
        """The watches to go on with on a new connection; what is not filled comes whole (RESUME-1)."""
        self._nursery.keep_watches(self._live.keys())
        found = []
        for number, one in self._live.items():
            is_filled = self._nursery.is_filled(number)
            if not is_filled:
                self._nursery.unfill(number)
            found.append(HeldWatch(watch=number, query=one.watcher.query, filled=is_filled))
        return tuple(found)

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
            self._drop(number)
            one.watcher.end(error)
            one.wake()
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
                answer = await self._asker.ask(QueryRequest, QueryAnswer, query=_entity(*key))
                held = next((_held(one) for one in answer.entities), None)
                if self._nursery.answered(key, held, answer.version):
                    self.wake()
                    return
            self.give_up()
        except StemmaError:
            return  # the next frame that wants it asks again
        finally:
            self._asking.pop(key, None)


def _entity(branch: BranchName, id_: str) -> Query:
    return Query(roots=(Root(id_),), branch=branch)


def _held(one: QueriedEntity) -> Held:
    return Held(body.read_stored(one.body), one.version, one.hash)
