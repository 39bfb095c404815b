"""Batched reads of a space: questions that wait are answered together, in one executor call, on one read view."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, Final, TypeVar

from stemmadb.protocol import errors
from stemmadb.server.engine.base.batch_answers import WorkResult
from stemmadb.server.engine.base.batch_answers import answer as answered
from stemmadb.server.engine.base.executors import Workers
from stemmadb.server.engine.base.open_log import OpenLog
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.port import LogReader, StorageFailed

T = TypeVar("T")


class _Question:
    __slots__ = ("ask", "future")

    def __init__(self, ask: Callable[[LogReader], Any]) -> None:
        self.ask = ask
        self.future: asyncio.Future[WorkResult[Any]] = asyncio.get_running_loop().create_future()


TOGETHER_MIN: Final = 16
"""So many that wait have an executor call of their own while another one is under way."""
LATE_SECONDS: Final = 0.002
"""So long a question waits at most for the executor call before it: that one is a long one."""


class Readers:
    """At most `readers_max` executor calls at a time.

    A read view is opened after the question came, so it has everything that was acknowledged before.

    Short questions share executor calls: what comes while one is under way goes together in the next, as commits do.
    An executor call and a read view cost more than most questions, and threads that all need the GIL only get into
    each other's way.
    """

    def __init__(self, log: OpenLog, workers: Workers, settings: Settings) -> None:
        self._log = log
        self._workers = workers
        self._calls_max = settings.readers_max
        self._batch_max = settings.reads_max
        self._waiting: deque[_Question] = deque()
        self._calls: set[asyncio.Task[None]] = set()
        self._is_called = False
        self._is_stopping = False
        self._late: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        return bool(self._waiting or self._calls)

    async def read(self, ask: Callable[[LogReader], T]) -> T:
        if self._is_stopping:
            raise errors.Unavailable
        question = _Question(ask)
        self._waiting.append(question)
        self._call()
        answer: WorkResult[T] = await question.future
        return answer.given()

    def _call(self) -> None:
        """Starts in the next turn of the loop, so that questions of one turn share an executor call."""
        if self._is_called or len(self._calls) >= self._calls_max:
            return
        if not self._calls or len(self._waiting) >= TOGETHER_MIN:
            self._is_called = True
            asyncio.get_running_loop().call_soon(self._start)
        elif self._late is None:
            self._late = asyncio.get_running_loop().call_later(LATE_SECONDS, self._start)

    async def stop(self) -> None:
        """Finishes what has come so far and refuses what comes now."""
        self._is_stopping = True
        while self.is_busy:
            self._start()
            await asyncio.wait(self._calls)

    def _start(self) -> None:
        self._is_called = False
        if self._late is not None:
            self._late.cancel()
            self._late = None
        while self._waiting and len(self._calls) < self._calls_max:
            count = min(len(self._waiting), self._batch_max)
            questions = [self._waiting.popleft() for _ in range(count)]
            call = asyncio.get_running_loop().create_task(self._run(questions))
            self._calls.add(call)
            call.add_done_callback(self._end_call)

    def _end_call(self, call: asyncio.Task[None]) -> None:
        self._calls.discard(call)
        self._start()

    async def _run(self, questions: Sequence[_Question]) -> None:
        asks = [question.ask for question in questions]
        answers: Sequence[WorkResult[Any]]
        try:
            answers = await self._log.read(self._workers, lambda reader: [answered(ask, reader) for ask in asks])
        except Exception as failure:
            # A copy for each caller: catching an exception adds to its traceback.
            answers = [WorkResult(None, copy(failure)) for _ in questions]
        for question, one in zip(questions, answers, strict=True):
            if isinstance(one.error, StorageFailed):
                self._log.broke()
                one.error = errors.Unavailable()
            if not question.future.done():
                question.future.set_result(one)
