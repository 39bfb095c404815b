"""Notifies the app of verdicts the journal has: handles, rejected commits, callbacks (NURSERY-5, NURSERY-7)."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias, TypeVar

from stemmadb.client.journal.port import ConfirmedCommit
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.nursery.outcomes import Confirmation
from stemmadb.client.session.handle import Handle
from stemmadb.client.session.refused import Refused
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, BranchName, Version

_T = TypeVar("_T")
OnRejected: TypeAlias = Callable[[Refused], object]
OnLost: TypeAlias = Callable[[ConfirmedCommit], object]
OnHead: TypeAlias = Callable[[Version], object]

_log = logging.getLogger("stemmadb.client")
_running: set[asyncio.Future[object]] = set()
"""Callbacks of apps that are coroutines: a loop alone does not keep its tasks."""


class Notifier:
    """Holds the handles of undecided commits, the rejected commits, and the app's callbacks."""

    def __init__(self, rejected: Iterable[Refused], *, hurry: Callable[[], None]) -> None:
        self.rejected_commits: dict[CommitName, Refused] = {one.name: one for one in rejected}
        self.lost: list[ConfirmedCommit] = []
        """Commits that were confirmed and that a restored server no longer has (RESUME-4)."""
        self.on_confirmed: Callable[[BranchName, Version], object] = _ignore
        """Called for each own commit that is confirmed."""
        self.on_restored: Callable[[], object] = _nothing
        """Called when the server went back to another history (RESUME-4)."""
        self._hurry = hurry
        """Called when a caller begins to wait for a verdict."""
        self._handles: dict[CommitName, Handle] = {}
        self._on_rejected: dict[object, OnRejected] = {}
        self._on_lost: dict[object, OnLost] = {}
        self._on_head: dict[object, OnHead] = {}
        self._head = EMPTY_SPACE
        self._idle: asyncio.Event | None = None

    # ------------------------------------------------------------ handles

    def begin(self, name: CommitName) -> Handle:
        """The handle of a commit that is in the view now."""
        handle = self._handles[name] = Handle(name, since=asyncio.get_running_loop().time(), hurry=self._hurry)
        if self._idle is not None:
            self._idle.clear()
        return handle

    def handle(self, name: CommitName) -> Handle | None:
        return self._handles.get(name)

    def undecided(self) -> tuple[Handle, ...]:
        """Commits whose verdict was not reported yet, the oldest first."""
        return tuple(self._handles.values())

    async def idle(self) -> None:
        """Returns once every commit has been decided and its handle woken."""
        while self._handles:
            self._idle = self._idle or asyncio.Event()
            self._idle.clear()
            await self._idle.wait()

    # ------------------------------------------------------------ what became of them

    def journaled(self, name: CommitName) -> None:
        handle = self._handles.get(name)
        if handle is not None:
            handle.mark_journaled()

    def confirmed(self, one: Confirmation) -> None:
        self._pop(one.pending.name).confirm(one.version, one.time)
        self.on_confirmed(one.pending.branch, one.version)

    def refused(self, one: Refused) -> None:
        """Adds it to the rejected commits and wakes its handle; if nobody awaits that, calls the callbacks."""
        self.rejected_commits[one.name] = one
        handle = self._pop(one.name)
        handle.reject(one.error, one)
        if handle.is_awaited:
            return
        if not self._on_rejected:
            _log.warning("a commit was refused and nobody waits for it: %s (%s)", one.message, one)
        for callback in tuple(self._on_rejected.values()):
            call_back(callback, one)

    def losses(self, lost: Iterable[ConfirmedCommit]) -> None:
        for one in lost:
            self.lost.append(one)
            _log.warning("the server was restored and lost commit %s, confirmed at version %s", one.name, one.version)
            for callback in tuple(self._on_lost.values()):
                call_back(callback, one)

    def abandon(self, error: StemmaError) -> None:
        """The client ends: these handles will not learn the verdict."""
        for handle in tuple(self._handles.values()):
            self._pop(handle.name).abandon(error)

    def _pop(self, name: CommitName) -> Handle:
        handle = self._handles.pop(name)
        if not self._handles and self._idle is not None:
            self._idle.set()
        return handle

    # ------------------------------------------------------------ callbacks

    def on_rejected(self, callback: OnRejected) -> Callable[[], None]:
        """Calls it for each refused commit that nobody waits for; returns how to stop that."""
        return registered(self._on_rejected, callback)

    @property
    def follows_heads(self) -> bool:
        return bool(self._on_head)

    def on_head(self, callback: OnHead) -> Callable[[], None]:
        """Calls it with each newer version of the space; returns how to stop that."""
        return registered(self._on_head, callback)

    def reached(self, version: Version) -> None:
        """A frame led here. A restored server may be at an older version than before: that is a change too."""
        if version != self._head:
            self._head = version
            for callback in tuple(self._on_head.values()):
                call_back(callback, version)

    def on_lost(self, callback: OnLost) -> Callable[[], None]:
        """Calls it for each confirmed commit that a restored server lacks; returns how to stop that.

        Commits already known to be lost, found when the space was opened, are reported at once.
        """
        for one in self.lost:
            call_back(callback, one)
        return registered(self._on_lost, callback)


def registered(callbacks: dict[object, _T], callback: _T) -> Callable[[], None]:
    """Adds it, also if it is there already; returns how to take this one back, which may be done twice."""
    token = object()
    callbacks[token] = callback

    def stop() -> None:
        callbacks.pop(token, None)

    return stop


def _ignore(_branch: BranchName, _version: Version) -> None:
    """No callback is set."""


def _nothing() -> None:
    """No callback is set."""


def call_back(callback: Callable[[_T], object], one: _T) -> None:
    """What an app's callback raises is the app's: it stops nothing here."""
    try:
        result = callback(one)
    except Exception as error:
        _report(error)
        return
    if inspect.isawaitable(result):  # a coroutine that nobody awaits would not run
        task = asyncio.ensure_future(result)
        _running.add(task)
        task.add_done_callback(_ended)


def _ended(task: asyncio.Future[object]) -> None:
    _running.discard(task)
    error = None if task.cancelled() else task.exception()
    if error is not None:
        _report(error)


def _report(error: BaseException) -> None:
    context = {"message": "a callback failed", "exception": error}
    asyncio.get_running_loop().call_exception_handler(context)
