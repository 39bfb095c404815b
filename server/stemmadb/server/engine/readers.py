"""Batched reads of a space: questions that wait are answered together, in one hop, on one cut."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final, TypeVar

from stemmadb.protocol import errors
from stemmadb.server.engine.answers import Answer
from stemmadb.server.engine.answers import answer as answered
from stemmadb.server.engine.lanes import Workers
from stemmadb.server.engine.opened import OpenLog
from stemmadb.server.engine.settings import Settings
from stemmadb.server.storage.port import LogReader, StorageFailed

T = TypeVar("T")


class _Question:
    __slots__ = ("ask", "future")

    def __init__(self, ask: Callable[[LogReader], Any]) -> None:
        self.ask = ask
        self.future: asyncio.Future[Answer[Any]] = asyncio.get_running_loop().create_future()


TOGETHER_MIN: Final = 16
"""So many that wait have a hop of their own while another one is under way."""
LATE_SECONDS: Final = 0.002
"""So long a question waits at most for the hop before it: that one is a long one."""


class Readers:
    """At most `readers_max` hops at a time; a cut is opened after the question came, so it has all that was
    acknowledged before.

    Short questions share hops: what comes while one is under way goes together in the next, as commits do. A hop and
    a cut cost more than most questions, and threads that all need the interpreter only get into each other's way.
    """

    def __init__(self, log: OpenLog, workers: Workers, settings: Settings) -> None:
        self._log = log
        self._workers = workers
        self._hops_max = settings.readers_max
        self._batch_max = settings.reads_max
        self._waiting: deque[_Question] = deque()
        self._hops: set[asyncio.Task[None]] = set()
        self._is_called = False
        self._is_stopping = False
        self._late: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._hops)

    async def read(self, ask: Callable[[LogReader], T]) -> T:
        if self._is_stopping:
            raise errors.Unavailable
        question = _Question(ask)
        self._waiting.append(question)
        self._call()
        told: Answer[T] = await question.future
        return told.given()

    def _call(self) -> None:
        """Not at once: those who ask in the same turn of the loop go together."""
        if self._is_called or len(self._hops) >= self._hops_max:
            return
        if not self._hops or len(self._waiting) >= TOGETHER_MIN:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._start)
        elif self._late is None:
            self._late = asyncio.get_running_loop().call_later(LATE_SECONDS, self._start)

    async def stop(self) -> None:
        """Finishes what has come so far and refuses what comes now."""
        self._is_stopping = True
        while self.is_busy:
            self._start()
            await asyncio.wait(self._hops)

    def _start(self) -> None:
        self._is_called = False
        if self._late is not None:
            self._late.cancel()
            self._late = None
        while self._waiting and len(self._hops) < self._hops_max:
            count = min(len(self._waiting), self._batch_max)
            questions = [self._waiting.popleft() for _ in range(count)]
            hop = asyncio.get_running_loop().create_task(self._hop(questions))
            self._hops.add(hop)
            hop.add_done_callback(self._end_hop)

    def _end_hop(self, hop: asyncio.Task[None]) -> None:
        self._hops.discard(hop)
        self._start()

    async def _hop(self, questions: Sequence[_Question]) -> None:
        asks = [question.ask for question in questions]
        told: Sequence[Answer[Any]]
        try:
            told = await self._log.read(self._workers, lambda reader: [answered(ask, reader) for ask in asks])
        except Exception as failure:
            # Each its own: who catches one adds to its traceback.
            told = [Answer(None, copy(failure)) for _ in questions]
        for question, one in zip(questions, told, strict=True):
            if isinstance(one.error, StorageFailed):
                self._log.broke()
                one.error = errors.Unavailable()
            if not question.future.done():
                question.future.set_result(one)
