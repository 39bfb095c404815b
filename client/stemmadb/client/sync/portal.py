"""The way into an event loop of its own: blocking code calls, a thread that nobody sees does the work."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

from stemmadb.client.sync.calls import Call, Errands

STOP_SECONDS: Final = 10.0
"""How long the thread may take to end what still runs when a portal is closed."""

P = ParamSpec("P")
T = TypeVar("T")


class Portal:
    """A thread with an event loop. Any thread may call in, also one whose own event loop runs, as in a notebook.

    A call waits for its answer and raises what the coroutine raised. Ctrl-C while it waits cancels the coroutine,
    lets it end, and goes on as usual. A portal that is forgotten is closed, at the latest when Python ends.

    >>> portal = Portal()
    >>> portal.call(asyncio.sleep, 0, "awake")
    'awake'
    >>> portal.close()
    """

    def __init__(self) -> None:
        started: Future[_Running] = Future()
        self._thread = threading.Thread(target=_serve, args=(started,), name="stemmadb", daemon=True)
        self._thread.start()
        self._running = started.result()
        self._lock = threading.RLock()  # a signal handler of the app may call in, in the middle of anything
        self._is_closed = False
        self._end = weakref.finalize(self, _end, self._running, self._thread)

    @property
    def is_closed(self) -> bool:
        """Whether calls are refused."""
        return self._is_closed

    def call(self, work: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What the coroutine returns."""
        return self.converse(lambda _: work(*args, **kwargs))

    def touch(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """What a plain function returns that has to run where the event loop runs."""

        async def touched() -> T:
            return work(*args, **kwargs)

        return self.call(touched)

    def converse(self, work: Callable[[Errands], Coroutine[Any, Any, T]], /) -> T:
        """What the coroutine returns; meanwhile it may have functions run here, on the calling thread."""
        assert threading.current_thread() is not self._thread, "a call from inside would wait for itself"
        call: Call[T] = Call(self._running.loop)
        return call.answer(partial(self._submit, partial(call.begin, work)))

    def close(self) -> None:
        """Cancels what still runs and ends the thread. Safe to call twice."""
        with self._lock:
            self._is_closed = True
        self._end()

    def _submit(self, begin: Callable[[], None]) -> bool:
        """Whether it will begin. What does is cancelled at the end at the latest, so nobody waits for ever."""
        with self._lock:
            if not self._is_closed:
                self._running.loop.call_soon_threadsafe(begin)
            return not self._is_closed


class _Running:
    """The loop of a portal, and what ends it."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.stop = asyncio.Event()


def _serve(started: Future[_Running]) -> None:
    """The thread: runs the loop until it is told to stop, then cancels what is left."""

    async def until_stopped() -> None:
        running = _Running()
        started.set_result(running)
        await running.stop.wait()

    with asyncio.Runner() as runner:
        runner.run(until_stopped())


def _end(running: _Running, thread: threading.Thread) -> None:
    running.loop.call_soon_threadsafe(running.stop.set)
    if threading.current_thread() is not thread:  # a forgotten portal may be collected there
        thread.join(STOP_SECONDS)
