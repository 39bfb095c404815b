"""The database for apps that block: the same as `stemmadb.client`, on a thread of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TypedDict, Unpack

from stemmadb.client import database
from stemmadb.client.database import MakeJournal, SpaceKeys, SpaceNames
from stemmadb.client.keys.identity import Identity
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.sync.callbacks import CallbackThread
from stemmadb.client.sync.portal import Portal
from stemmadb.client.sync.space import Space
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.protocol.wire.channel import Dial


class Options(TypedDict, total=False):
    """The same as those of `stemmadb.client.connect`."""

    journal: str | os.PathLike[str] | MakeJournal | None
    cache: bool
    identity: Identity | str | os.PathLike[str] | None
    config: str | os.PathLike[str] | None
    delegations: Iterable[str | bytes]
    settings: ClientSettings
    dial: Dial | None
    names: SpaceNames | None
    keys: SpaceKeys | None
    random: Callable[[int], bytes]
    now: Callable[[], TimeMs]
    notice: Callable[[str], None]


def connect(url: str = "ws://127.0.0.1:8420", **options: Unpack[Options]) -> Database:
    """A client of the server at `url`. Nothing is connected before a space is opened.

        with connect("ws://127.0.0.1:8420", journal="~/.my-app") as db:
            space = db.space("todo")

    In a notebook, where a block ends with its cell, write `db = connect()` and later `db.close()`. The options are
    those of `stemmadb.client.connect`.
    """
    return Database(database.connect(url, **options))


class Database:
    """A server, as one identity sees it. Made by `connect`; any thread may use it."""

    def __init__(self, db: database.Database) -> None:
        self._db = db
        self._portal = Portal()
        self._callbacks = CallbackThread()
        self.url = db.url
        self.identity = db.identity

    def space(self, name: str) -> Space:
        """The space of this local name, made on first use; or the one with this did:key.

        Without a server this works for a space whose journal is here; else it raises `Unreachable`.
        """
        return Space(self._portal.call(self._db.space, name), self._portal, self._callbacks)

    def server(self) -> Did:
        """The DID of the server at this address, which is asked for it; `Unreachable` if nobody answers."""
        return self._portal.call(self._db.server)

    def close(self, *, wait_seconds: float | None = None) -> None:
        """Waits for undecided commits, at most `wait_seconds`, and lets everything go. Safe to call twice.

        `Unconfirmed` if some are undecided and no journal keeps them.
        """
        if self._portal.is_closed:
            return
        try:
            self._portal.call(self._db.close, wait_seconds=wait_seconds)
        finally:
            self._end()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._portal.is_closed:
            return
        try:
            self._portal.call(self._db.__aexit__, kind, error, traceback)
        finally:
            self._end()

    def _end(self) -> None:
        """Callbacks that were told of something are called first: they may still ask how things stand."""
        self._callbacks.close()
        self._portal.close()

    def __repr__(self) -> str:
        return repr(self._db)
