"""A space on a real server process, apps that write there, a look from outside, and what must hold in the end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, NamedTuple

from client_app import COUNT, MARKS, Given, mark_of
from client_processes import PATIENCE_SECONDS, AppProcess, Heard, Server, Spares, running
from command_line import here
from stemmadb.client import Change, ClientSettings, Space, Watch, connect
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.json_values import Value

QUICK: Final = {"first_pause_seconds": 0.02, "most_pause_seconds": 0.2}
"""Settings of clients whose server comes back soon."""
WATCHFUL: Final = {**QUICK, "heartbeat_seconds": 0.3, "dead_seconds": 0.5, "open_seconds": 3.0}
"""Settings of clients that find a dead connection soon."""


class Site(NamedTuple):
    """What the tests of a module share."""

    server: Server
    spares: Spares


class Stage:
    """A space that counts on a server process, and a client that looks at both from outside."""

    def __init__(self, directory: Path, site: Site, space: Space) -> None:
        self._directory = directory
        self._spares = site.spares
        self.server = site.server
        self.space = space
        self.heard = Heard()
        self._lives = 0

    @property
    def config(self) -> Path:
        return self._directory / "config"

    def journal(self, name: str = "journal") -> Path:
        return self._directory / name

    def app(self, *, url: str | None = None, journal: str = "journal", **settings: float) -> AppProcess:
        """Another life of the app, on a journal."""
        self._lives += 1
        given = Given(
            url=url or self.server.url,
            space=self.space.did,
            config=str(self.config),
            journal=str(self.journal(journal)),
            life=f"{self._lives}",
            settings={**QUICK, **settings},
        )
        return AppProcess(given, self.heard, self._spares)

    async def written(self) -> dict[str, int]:
        """The version of every mark in the log, each of which is there once."""
        entries = await self.space.log(prefix=MARKS).all()
        marks = {mark_of(entry.note): int(entry.version) for entry in entries}
        assert len(marks) == len(entries), "a commit was written twice"
        return marks

    async def sessions(self) -> dict[str, bytes | None]:
        """The session in which each mark was written."""
        return {mark_of(entry.note): entry.session async for entry in self.space.log(prefix=MARKS)}

    async def check(self) -> dict[str, int]:
        """What was kept is written, once, where it was said to be; each counted once; the server's files verify."""
        written = await self.written()
        assert self.heard.kept <= written.keys()
        assert {mark: written.get(mark) for mark in self.heard.confirmed} == self.heard.confirmed
        assert await self.space.get(COUNT) == {"n": len(written)}
        assert (await self.space.list(f"{MARKS}*")).keys() == {f"{MARKS}{mark}" for mark in written}
        verified = here("verify", "--data", self.server.data, "--json")
        assert verified.code == 0, verified.err
        return written


class Seen:
    """What a watch has shown so far."""

    def __init__(self, watch: Watch) -> None:
        self._watch = watch
        self.shown: dict[str, Value] | None = None
        self.version: Version | None = None

    def take(self, change: Change) -> None:
        """Goes on to what it shows now."""
        left = {id_: value for id_, value in (self.shown or {}).items() if id_ not in change.left}
        self.shown = left | change.entered | change.updated
        self.version = change.version

    async def until(self, expected: Mapping[str, Value]) -> None:
        """Follows the watch until this is what it shows."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.shown != expected:
                self.take(await self._watch.next())


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[Site]:
    """A server process on a fresh directory, and apps that are ready, until the block ends."""
    async with Spares() as spares, running(directory) as server:
        yield Site(server, spares)


@asynccontextmanager
async def staged(site: Site, directory: Path) -> AsyncIterator[Stage]:
    """A fresh space of a fresh user, whose files are in `directory`."""
    async with connect(site.server.url, config=directory / "config", settings=settings_of(QUICK)) as db:
        space = await db.space("counted")
        async with space.transaction() as tx:
            tx.set(COUNT, {"n": 0})
        await tx.confirmed()
        yield Stage(directory, site, space)


def settings_of(given: Mapping[str, float]) -> ClientSettings:
    """The defaults, but for these."""
    return ClientSettings()._replace(**given)  # type: ignore[arg-type]  # whole numbers where they must be
