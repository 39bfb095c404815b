"""The thread that writes a journal: steps that arrive during one sync share the next."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Final, NamedTuple

from stemmadb.client.journal.database import JournalDatabase
from stemmadb.client.journal.port import Done, JournalStep
from stemmadb.client.journal.problems import refused
from stemmadb.protocol.errors import JournalFailed

STEPS_OF_A_SYNC_MAX: Final = 512
BYTES_OF_A_SYNC_MAX: Final = 8 * 1024 * 1024
"""One sync takes steps until they pass this; a step is never split."""


class QueuedStep(NamedTuple):
    """A step on its way, and whom to tell, on which loop."""

    step: JournalStep
    done: Done
    loop: asyncio.AbstractEventLoop


class JournalWriter:
    """Writes steps in order and tells in order. After a failure every later step fails (NURSERY-7)."""

    def __init__(self, database: JournalDatabase, ended: Callable[[], None]) -> None:
        self._database = database
        self._ended = ended
        self._queue: SimpleQueue[QueuedStep | None] = SimpleQueue()
        self._failed: str | None = None
        # A daemon: an app that ends without closing is not kept alive, and its files are safe as after a kill.
        self._thread = Thread(target=self._work, name=f"journal {database.file.name}", daemon=True)
        self._thread.start()

    def put(self, step: JournalStep, done: Done) -> None:
        self._queue.put(QueuedStep(step, done, asyncio.get_running_loop()))

    def end(self) -> None:
        """After the steps that were put, the file is let go and `ended` is called, by the thread."""
        self._queue.put(None)

    def _work(self) -> None:
        is_open = True
        while is_open:
            entries, is_open = self._next()
            if entries:
                self._write(entries)
        self._database.close()
        self._ended()

    def _next(self) -> tuple[list[QueuedStep], bool]:
        """Waits for a step and takes what has come with it; False once there will be no more."""
        entries: list[QueuedStep] = []
        weight = 0
        found = self._queue.get()
        while found is not None:
            entries.append(found)
            weight += _weight(found.step)
            if len(entries) == STEPS_OF_A_SYNC_MAX or weight > BYTES_OF_A_SYNC_MAX:
                return entries, True
            try:
                found = self._queue.get_nowait()
            except Empty:
                return entries, True
        return entries, False

    def _write(self, entries: list[QueuedStep]) -> None:
        if self._failed is None:
            self._try(lambda: self._database.append([entry.step for entry in entries]))
            _notify(entries, self._failure)
            self._try(self._database.tidy)
        else:
            _notify(entries, self._failure)

    def _try(self, work: Callable[[], None]) -> None:
        if self._failed is not None:
            return
        try:
            work()
        except JournalFailed as failed:
            self._failed = str(failed.facts["why"])

    def _failure(self) -> JournalFailed | None:
        """A new one each time: an exception that is raised in two places mixes up their traces."""
        return None if self._failed is None else refused(self._database.file, self._failed)


def _weight(step: JournalStep) -> int:
    bodies = sum(len(base.body or b"") for commit in step.add for base in commit.bases)
    contents = (commit.content for part in (step.add, step.confirm, step.reject) for commit in part)
    cached = 0 if step.cache is None else step.cache.weight()
    return bodies + cached + sum(map(len, contents))


def _notify(entries: list[QueuedStep], failure: Callable[[], JournalFailed | None]) -> None:
    """Wakes each loop once for all its callbacks; a closed loop is skipped."""
    loops = {entry.loop: [(one.done, failure()) for one in entries if one.loop is entry.loop] for entry in entries}
    for loop, calls in loops.items():
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(_call, loop, calls)


def _call(loop: asyncio.AbstractEventLoop, calls: list[tuple[Done, JournalFailed | None]]) -> None:
    """Each in a call of its own, so that one that raises does not keep the others from being told."""
    for done, error in calls:
        loop.call_soon(done, error)
