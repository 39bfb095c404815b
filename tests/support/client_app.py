"""A small app in a process of its own: it does what it reads, line by line, and says what happens, line by line.

Each of its writes has a name of its own, the mark: it is the note of the commit, the commit makes the entity of the
mark and counts one. So whoever looks at the log can tell what was written how often.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec

from stemmadb.client import ClientSettings, Space, connect
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.model.values.json_values import Value

COUNT: Final = "urn:count"
MARKS: Final = "urn:mark:"
AHEAD: Final = 16
"""How many undecided writes an app that pours has."""


class Given(msgspec.Struct):
    """What an app is started with."""

    url: str
    space: str
    config: str
    journal: str
    life: str
    """The prefix of its marks."""
    settings: dict[str, float]


class Decided(Protocol):
    """An own commit whose verdict can be awaited."""

    async def confirmed(self) -> Version: ...


class App:
    """One life of the app."""

    def __init__(self, space: Space, life: str) -> None:
        self._space = space
        self._life = life
        self._made = 0
        self._following: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AHEAD)
        self._pouring: asyncio.Task[None] | None = None
        self._watch = space.watch("urn:*")
        self._dies = False

    def begin(self) -> None:
        """Takes up what an earlier life left undecided, and says where it stands."""
        left = [(mark_of(pending.note), pending) for pending in self._space.pending()]
        for mark, pending in left:
            self._follow(mark, pending)
        status = self._space.status()
        say("open", connection=status.connection, pending=[mark for mark, _ in left], rejected=status.rejected)

    async def do(self, word: str, *more: int) -> None:
        doing: Callable[..., Awaitable[None]] = getattr(self, f"do_{word}")
        await doing(*more)

    # ------------------------------------------------------------ the words

    async def do_write(self, count: int) -> None:
        """Writes without looking at what is there, so also when there is no server."""
        for _ in range(count):
            await self._write(blind=True)

    async def do_pour(self) -> None:
        """Writes on and on, on what it holds, a few ahead of the verdicts."""
        await self._watch.next()
        self._pouring = asyncio.create_task(self._pour())

    async def do_die(self) -> None:
        """Writes, and is killed in the very moment in which that is kept."""
        self._dies = True
        await self._write(blind=True)

    async def do_settle(self) -> None:
        """Stops pouring, and says so once everything is decided and told."""
        if self._pouring is not None:
            self._pouring.cancel()
            await asyncio.gather(self._pouring, return_exceptions=True)
        await self._space.settled()
        await asyncio.gather(*self._following)
        say("settled", rejected=[mark_of(one.note) for one in self._space.rejected()])

    async def do_retry(self) -> None:
        """Every rejected commit once more, the oldest first."""
        for refused in self._space.rejected():
            self._follow(mark_of(refused.note), await refused.retry())

    # ------------------------------------------------------------ writing

    async def _pour(self) -> None:
        while True:
            await self._room.acquire()
            following = await self._write(blind=False)
            following.add_done_callback(lambda _: self._room.release())

    async def _write(self, *, blind: bool) -> asyncio.Task[None]:
        self._made += 1
        mark = f"{self._life}-{self._made}"
        async with self._space.transaction(note=mark) as tx:
            tx.increment(COUNT, "/n", blind=blind)
            tx.set(f"{MARKS}{mark}", {"by": self._life}, blind=blind)
        return self._follow(mark, tx, tx.journaled)

    def _follow(
        self, mark: str, one: Decided, journaled: Callable[[], Awaitable[None]] | None = None
    ) -> asyncio.Task[None]:
        task = asyncio.create_task(self._tell(mark, one, journaled))
        self._following.add(task)
        task.add_done_callback(self._following.discard)
        return task

    async def _tell(self, mark: str, one: Decided, journaled: Callable[[], Awaitable[None]] | None) -> None:
        try:
            if journaled is not None:
                await journaled()
                say("kept", mark=mark)
                if self._dies:
                    os.kill(os.getpid(), signal.SIGKILL)
            say("confirmed", mark=mark, version=await one.confirmed())
        except StemmaError as error:
            say("refused", mark=mark, code=error.code)


def mark_of(note: Value) -> str:
    """The mark of a commit, from its note."""
    assert isinstance(note, dict)
    return str(note["message"])


def say(event: str, **facts: Any) -> None:
    """One line, at once: what was said is known, also if the next moment kills us."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


async def _lines() -> asyncio.StreamReader:
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    return reader


async def main() -> None:
    """Until its standard input ends; the first line says what it is started with."""
    lines = await _lines()
    if first := await lines.readline():
        await _live(msgspec.json.decode(first, type=Given), lines)


async def _live(given: Given, lines: asyncio.StreamReader) -> None:
    settings = ClientSettings()._replace(**given.settings)  # type: ignore[arg-type]  # the numbers of settings
    try:
        async with connect(given.url, journal=given.journal, config=given.config, settings=settings) as db:
            app = App(await db.space(given.space), given.life)
            app.begin()
            async for line in lines:
                await app.do(*json.loads(line))
    except StemmaError as error:
        say("failed", code=error.code, message=error.message)


if __name__ == "__main__":
    asyncio.run(main())
