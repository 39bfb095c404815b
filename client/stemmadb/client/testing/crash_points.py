"""Crash points: what happens around the next appends of the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from stemmadb.client.testing.storage import SyncFailed
from stemmadb.server.storage.port import StorageFailed

INJECTED: Final = "a fault that the test asked for"


class CrashPoints:
    """Counts appends. What is armed happens once, and then has to be armed again."""

    def __init__(self, crash: Callable[[], None]) -> None:
        self.callbacks: list[Callable[[], object]] = []
        """Called when an append is durable, before anything else happens."""
        self._crash = crash
        self._before = 0
        self._after = 0
        self._failures: list[tuple[type[StorageFailed], bool]] = []

    def crash_before(self, number: int) -> None:
        assert number > 0, "the next append is number 1"
        self._before = number

    def crash_after(self, number: int) -> None:
        assert number > 0, "the next append is number 1"
        self._after = number

    def fail(self, error: type[StorageFailed], times: int, *, written: bool) -> None:
        self._failures += [(error, written)] * times

    def clear(self) -> None:
        self._before = self._after = 0
        self._failures.clear()

    # ------------------------------------------------------------ what the storage asks

    def before_append(self) -> None:
        if self._failures and not self._failures[0][1]:
            raise self._failures.pop(0)[0](INJECTED)
        if self._before:
            self._before -= 1
            if not self._before:
                self._crash()

    def after_append(self) -> None:
        if self._failures and self._failures[0][0] is SyncFailed:
            raise self._failures.pop(0)[0](INJECTED)
        for callback in self.callbacks:
            callback()
        if self._after:
            self._after -= 1
            if not self._after:
                self._crash()
                return
        if self._failures:
            raise self._failures.pop(0)[0](INJECTED)
