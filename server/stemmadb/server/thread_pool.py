"""A minimal thread pool for blocking work of an event loop: no concurrent.futures.Future per job.

`ThreadPoolExecutor` makes a future with a lock of its own for each piece of work and chains it to one of the loop:
for a read or an append that takes a tenth of a millisecond that is a good part of it (docs/decisions/0010).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import Any, Final, NamedTuple, TypeVar

T = TypeVar("T")

GIVE_WAY_SECONDS: Final = 0.001


class _Job(NamedTuple):
    """A piece of work, and the future on its loop that waits for it."""

    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[Any]
    begun: threading.Lock
    """Held until a thread begins with it."""


class Threads:
    """A bounded number of threads, each started when it is first needed; what is beyond them waits its turn."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._busy = 0
        """Jobs that were submitted and have not ended on the loop."""
        self._last: threading.Lock | None = None
        """Of the job that was given last, held until it has begun."""
        self._is_closed = False

    def run(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Work that was begun is done, also if its caller gives up waiting; what still waits its turn is not."""
        if self._is_closed:
            raise RuntimeError("the threads are stopped")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if self._busy >= len(self._threads) < self._count:
            self._start()
        self._busy += 1
        begun = self._last = threading.Lock()
        begun.acquire()
        self._jobs.put(_Job(work, loop, future, begun))
        return future

    def give_way(self) -> None:
        """Keeps the caller until a thread has begun with what was given last, or is late.

        A thread that was woken has to wait for the interpreter as long as a busy loop keeps it; once it has begun it
        goes on to where it waits for the disk, or works without the interpreter. Where all threads are at work
        nothing is waited for.
        """
        if self._busy > self._count:
            return
        if self._last is not None and self._last.acquire(timeout=GIVE_WAY_SECONDS):
            self._last.release()

    def _start(self) -> None:
        """A process that ends without `close` does not wait for it: what it cuts short is what a crash would."""
        thread = threading.Thread(target=self._serve, name=f"{self._name}_{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # the system has no more; those that there are do the work
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _serve(self) -> None:
        """In a thread: one job after the other."""
        while (job := self._jobs.get()) is not None:
            job.begun.release()
            result, error = None, None
            try:
                if not job.future.cancelled():
                    result = job.work()
            except BaseException as raised:  # the waiting caller raises it
                error = raised
            with suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                job.loop.call_soon_threadsafe(self._complete, job.future, result, error)
            del job, result, error  # nothing is kept alive until the next one comes

    def _complete(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        """On the loop."""
        self._busy -= 1
        if future.cancelled():
            return
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def close(self) -> None:
        """Waits for the work under way and for what waits its turn."""
        self._is_closed = True
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()
