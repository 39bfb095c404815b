"""Executors: where blocking work runs, behind a port, so that a simulation can run it all on one thread."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

from stemmadb.server.thread_pool import Threads

T = TypeVar("T")


class Workers(Protocol):
    """Runs blocking work somewhere and gives its result, or its exception, back on the event loop."""

    def run(self, work: Callable[[], T]) -> Awaitable[T]: ...

    def give_way(self) -> None:
        """Lets what was given last begin before the caller goes on with work of its own."""
        ...

    def close(self) -> None: ...


class Inline:
    """Runs work at once on the thread of the loop: for simulations, where the order of everything is an input."""

    async def run(self, work: Callable[[], T]) -> T:
        return work()

    def give_way(self) -> None:
        """It was done at once."""

    def close(self) -> None:
        """There is nothing to stop."""


class Executors(NamedTuple):
    """Writers and readers apart, so that a long read never keeps a commit waiting for a thread."""

    writing: Workers
    reading: Workers

    def close(self) -> None:
        self.writing.close()
        self.reading.close()


def threads(*, writers: int, readers: int) -> Executors:
    return Executors(Threads(writers, "stemmadb-writer"), Threads(readers, "stemmadb-reader"))
