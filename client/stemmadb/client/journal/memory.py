"""Journals without a disk: one that keeps nothing, and one that outlives the restarts of a simulated app."""

from __future__ import annotations

from collections import deque

from stemmadb.client.journal.contents import JournalContents
from stemmadb.client.journal.port import Done, JournalState, JournalStep


class MemoryJournal:
    """For a client without a path: every step is done at once, and nothing survives."""

    keeps = False
    is_cache_full = False

    def load(self) -> JournalState:
        return JournalState()

    def write(self, step: JournalStep, done: Done) -> None:  # noqa: ARG002
        done(None)

    async def close(self) -> None:
        """There is nothing to wait for."""


class SimulatedJournal:
    """A disk for tests: what was written is still there for the next one who loads it.

    Steps are durable at once, unless `hold` makes the disk slow or `fail` breaks it.

    Example::

        journal = SimulatedJournal()
        journal.hold()
        journal.write(step, done.append)   # not called yet
        journal.crash()                    # the app dies: the step was never durable
        assert not journal.load().pending
    """

    keeps = True
    is_cache_full = False

    def __init__(self) -> None:
        self._contents = JournalContents()
        self._waiting: deque[tuple[JournalStep, Done]] = deque()
        self._is_held = False
        self._error: Exception | None = None

    def load(self) -> JournalState:
        return self.state()

    def state(self) -> JournalState:
        """What is durable."""
        return self._contents.state()

    @property
    def waiting(self) -> int:
        """How many steps were written and are neither durable nor failed."""
        return len(self._waiting)

    def write(self, step: JournalStep, done: Done) -> None:
        self._waiting.append((step, done))
        if not self._is_held:
            self._settle(1)

    def hold(self) -> None:
        """From now on steps wait for `release`."""
        self._is_held = True

    def release(self, count: int | None = None) -> None:
        """Makes the steps that wait durable, in order: all of them, and later ones at once, or only so many."""
        if count is None:
            self._is_held = False
        self._settle(len(self._waiting) if count is None else count)

    def fail(self, error: Exception) -> None:
        """The disk breaks: steps that wait and all later ones fail with this, until the app starts again."""
        self._error = error
        self._settle(len(self._waiting))

    def crash(self) -> None:
        """The app dies: steps that wait are gone and nobody is told. The next one finds a disk that works."""
        self._waiting.clear()
        self._is_held = False
        self._error = None

    def copy(self) -> SimulatedJournal:
        """Another journal with what is durable in this one, as if its files had been copied."""
        other = SimulatedJournal()
        other._contents = JournalContents(self.state())
        return other

    async def close(self) -> None:
        """What waits becomes durable first."""
        self.release()

    def _settle(self, count: int) -> None:
        """One by one: a callback may write the next step or crash at once."""
        while count > 0 and self._waiting:
            step, done = self._waiting.popleft()
            count -= 1
            if self._error is None:
                self._contents.take(step)
            done(self._error)
