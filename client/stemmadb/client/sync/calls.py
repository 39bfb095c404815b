"""One call through a portal: begun on the thread of the event loop, awaited on that of the caller."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, Generic, NoReturn, ParamSpec, TypeVar

from stemmadb.protocol.errors import OutOfOrder

INTERRUPT_SECONDS: Final = 5.0
"""How long a call that was interrupted may take to end before the interruption goes on."""
NOTICE_SECONDS: Final = 1.0
"""How late Ctrl-C may be noticed: a wait is not always broken off by it, on some systems never."""

P = ParamSpec("P")
T = TypeVar("T")


def closed() -> OutOfOrder:
    """What calls raise after the end, and those that were under way when it came."""
    return OutOfOrder("The database was closed. Connect again to go on.", type="call", why="the database was closed")


class Errands:
    """What a coroutine has the calling thread do for it, so that the app's own functions run where the app is."""

    def __init__(self, loop: asyncio.AbstractEventLoop, give: Callable[[Callable[[], object]], None]) -> None:
        self._loop = loop
        self._give = give

    async def run(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the function returns or raises on the calling thread, which does nothing else meanwhile."""
        done: asyncio.Future[Callable[[], T]] = self._loop.create_future()

        def errand() -> None:
            outcome = _outcome_of(partial(work, *args, **kwargs))
            with suppress(RuntimeError):  # the loop was closed meanwhile, and so was the call
                self._loop.call_soon_threadsafe(_settle, done, outcome)

        self._give(errand)
        return (await done)()

    def post(self, work: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Has the function called on the calling thread, soon; what it raises there ends the call."""
        self._give(partial(work, *args, **kwargs))


class Call(Generic[T]):
    """A coroutine that a thread waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._task: asyncio.Task[None] | None = None
        self._todo: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self._outcome: Callable[[], T] = partial(_raise, closed())

    def answer(self, submit: Callable[[], bool]) -> T:
        """On the caller's thread: has the call begun, and runs errands until the answer is there."""
        try:
            errand = self._next() if submit() else None
            while errand is not None:
                errand()
                errand = self._next()
        except BaseException:  # Ctrl-C, or whatever else a signal raises here or in an errand
            self._interrupt()
            raise
        return self._outcome()

    def _next(self) -> Callable[[], object] | None:
        while True:
            try:
                return self._todo.get(timeout=NOTICE_SECONDS)
            except queue.Empty:
                continue

    def begin(self, work: Callable[[Errands], Coroutine[Any, Any, T]]) -> None:
        """On the loop's thread."""
        self._task = self._loop.create_task(self._run(work))
        self._task.add_done_callback(lambda _: self._todo.put(None))

    async def _run(self, work: Callable[[Errands], Coroutine[Any, Any, T]]) -> None:
        try:
            result = await work(Errands(self._loop, self._todo.put))
        except Exception as failure:
            self._outcome = partial(_raise, failure)
        else:
            self._outcome = lambda: result

    def _interrupt(self) -> None:
        """Cancels it and waits for its end, so that nothing is half done behind; errands are not run any more."""
        try:
            self._loop.call_soon_threadsafe(self._cancel)
            while self._todo.get(timeout=INTERRUPT_SECONDS) is not None:
                pass
        except (RuntimeError, queue.Empty):  # the loop was closed meanwhile, or it takes too long
            return

    def _cancel(self) -> None:
        if self._task is None:  # it was interrupted before it was submitted
            self._todo.put(None)
        else:
            self._task.cancel()


def _outcome_of(work: Callable[[], T]) -> Callable[[], T]:
    """What a function did, to be told on another thread. An interruption is not caught: it ends the call."""
    try:
        result = work()
    except Exception as failure:
        return partial(_raise, failure)
    return lambda: result


def _raise(failure: Exception) -> NoReturn:
    raise failure


def _settle(done: asyncio.Future[T], result: T) -> None:
    if not done.done():
        done.set_result(result)
