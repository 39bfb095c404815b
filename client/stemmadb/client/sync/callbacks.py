"""Callbacks of blocking apps: called one after the other, on a thread that is neither the loop's nor the app's."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final, ParamSpec

_log: Final = logging.getLogger(__name__)
P = ParamSpec("P")


class CallbackThread:
    """Calls the app's callbacks in the order of what they tell of.

    A callback may block and may use the database: neither the connection nor the app's threads wait for it. What it
    raises is logged, since nobody is there to catch it.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(
            max_workers=1, thread_name_prefix="stemmadb-callbacks", initializer=self._note
        )
        self._own: threading.Thread | None = None

    def call(self, callback: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """From any thread; returns at once."""
        self._thread.submit(_call, lambda: callback(*args, **kwargs))

    def close(self) -> None:
        """Returns once all that was told has been called, unless a callback itself closes."""
        self._thread.shutdown(wait=threading.current_thread() is not self._own)

    def _note(self) -> None:
        self._own = threading.current_thread()


def _call(callback: Callable[[], object]) -> None:
    try:
        callback()
    except Exception:
        _log.exception("a callback failed")
