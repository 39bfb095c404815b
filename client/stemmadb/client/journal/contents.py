"""What a journal comes to: the fold of its steps in memory, and what is worth keeping."""

from __future__ import annotations

from typing import Final

import msgspec

from stemmadb.client.cache.contents import CacheContents
from stemmadb.client.journal.port import (
    CommitBase,
    ConfirmedCommit,
    JournaledCommit,
    JournalState,
    JournalStep,
)

BASE_BYTES_MAX: Final = 256 * 1024
"""A larger base is not kept: after a restart it is read from the server."""

EMPTY: Final = JournalState()


def is_worth_keeping(base: CommitBase) -> bool:
    """Whether a base is small enough to be kept with the commit that was built on it."""
    return base.body is None or len(base.body) <= BASE_BYTES_MAX


def slim(commit: JournaledCommit) -> JournaledCommit:
    """The commit without the bases that are too large."""
    return msgspec.structs.replace(commit, bases=tuple(filter(is_worth_keeping, commit.bases)))


class JournalContents:
    """Takes steps one by one. Each costs what it brings, however much is pending."""

    def __init__(self, state: JournalState = EMPTY) -> None:
        self._session = state.session
        self._last_local = state.last_local
        self._standing = state.standing
        self._pending = {commit.name: commit for commit in state.pending}
        self._confirmed = {commit.name: commit for commit in state.confirmed}
        self._rejected = {commit.name: commit for commit in state.rejected}
        self._cache = CacheContents(state.cache)

    def take(self, step: JournalStep) -> None:
        self._enter(step.session)
        for stored in step.add:
            self._keep(stored)
        for confirmed in step.confirm:
            self._confirm(confirmed)
        for rejected in step.reject:
            self._pending.pop(rejected.name, None)
            self._rejected.pop(rejected.name, None)
            self._rejected[rejected.name] = rejected
        for name in step.drop:
            self._rejected.pop(name, None)
        for name in step.forget:
            self._confirmed.pop(name, None)
        self._standing = step.standing or self._standing
        if step.cache is not None:
            self._cache.take(step.cache)

    def state(self) -> JournalState:
        """What a journal with these steps holds when it is opened."""
        return JournalState(
            session=self._session,
            last_local=self._last_local,
            standing=self._standing,
            pending=tuple(self._pending.values()),
            confirmed=tuple(self._confirmed.values()),
            rejected=tuple(self._rejected.values()),
            cache=self._cache.state(),
        )

    def _enter(self, session: bytes | None) -> None:
        if session is not None and session != self._session:
            self._session, self._last_local = session, 0

    def _keep(self, commit: JournaledCommit) -> None:
        assert commit.name not in self._pending, f"{commit.name} is kept already"
        self._pending[commit.name] = slim(commit)
        if commit.name.session == self._session:
            self._last_local = max(self._last_local, commit.name.local)

    def _confirm(self, commit: ConfirmedCommit) -> None:
        self._pending.pop(commit.name, None)
        self._confirmed.pop(commit.name, None)
        self._confirmed[commit.name] = commit
