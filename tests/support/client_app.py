"""A small app in a process of its own: it does what it reads, line by line, and says what happens, line by line.

Each of its writes has a name of its own, the mark: it is the note of the commit, the commit makes the entity of the mark
and counts one. So whoever looks at the log can tell what was written how often.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol

import msgspec

from stemmadb.client import ClientSettings, Refused, Space, connect
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.ids import Version

COUNT: Final = "urn:count"
MARKS: Final = "urn:mark:"
AHEAD: Final = 16
"""How many writes an app that pours has undecided."""


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
    async def confirmed(self) -> Version: ...


def say(event: str, **facts: Any) -> None:
    """One line, at once: what was said is known, also if the next moment kills us."""
    sys.stdout.write(json.dumps({"event": event, **facts}) + "\n")
    sys.stdout.flush()


class App:
    """One life of the app."""

    def __init__(self, space: Space, life: str) -> None:
        self._space = space
        self._life = life
        self._made = 0
        self._followed: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(AHEAD)
        self._pouring: asyncio.Task[None] | None = None
        self._watch = space.watch(f"{MARKS[:4]}*")

    def begin(self) -> None:
        """Takes up what an earlier life left undecided, and says where it stands."""
        marks = []
        for pending in self._space.pending():
            mark = _mark(pending.note)
            marks.append(mark)
            self._follow(mark, pending)
        say("open", connection=self._space.status().connection, pending=marks, tray=len(self._space.rejected()))

    async def do(self, word: str, *more: Any) -> None:
        doing: Callable[..., Awaitable[None]] = getattr(self, f"do_{word}")
        await doing(*more)

    # ------------------------------------------------------------ the words

    async def do_write(self, count: int) -> None:
        """Writes without looking at what is there, so also when there is no server."""
        for _ in range(count):
            await self._write(blind=True)

    async def do_pour(self) -> None:
        """Writes on and on, on what it holds, a few ahead of the verdicts."""
        await self._filled()
        self._pouring = asyncio.create_task(self._pour())

    async def do_stop(self) -> None:
        if self._pouring is not None:
            self._pouring.cancel()
            await asyncio.gather(self._pouring, return_exceptions=True)

    async def do_settle(self) -> None:
        await self.do_stop()
        await self._space.settled()
        await asyncio.gather(*self._followed)
        say("settled", count=await self._space.get(COUNT, "/n"), tray=[_seen(one) for one in self._space.rejected()])

    async def do_retry(self) -> None:
        """Everything in the tray once more, the oldest first."""
        for refused in self._space.rejected():
            self._follow(_mark(refused.note), await refused.retry())
        say("retried")

    async def do_connected(self) -> None:
        await self._space.connected()
        say("connected")

    # ------------------------------------------------------------ writing

    async def _filled(self) -> None:
        if not self._watch.is_filled:
            await self._watch.next()

    async def _pour(self) -> None:
        while True:
            await self._room.acquire()
            self._follow_tx(await self._write(blind=False))

    async def _write(self, *, blind: bool) -> str:
        self._made += 1
        mark = f"{self._life}-{self._made}"
        async with self._space.transaction(note=mark) as tx:
            tx.increment(COUNT, "/n", blind=blind)
            tx.set(f"{MARKS}{mark}", {"by": self._life}, blind=blind)
        self._follow(mark, tx, tx.kept)
        return mark

    def _follow_tx(self, _mark: str) -> None:
        newest = max(self._followed, key=lambda task: int(task.get_name()))
        newest.add_done_callback(lambda _: self._room.release())

    def _follow(self, mark: str, one: Decided, kept: Callable[[], Awaitable[None]] | None = None) -> None:
        task = asyncio.create_task(_told(mark, one, kept), name=str(self._made))
        self._followed.add(task)
        task.add_done_callback(self._followed.discard)


async def _told(mark: str, one: Decided, kept: Callable[[], Awaitable[None]] | None) -> None:
    try:
        if kept is not None:
            await kept()
            say("kept", mark=mark)
        say("confirmed", mark=mark, version=await one.confirmed())
    except StemmaError as error:
        say("refused", mark=mark, code=error.code)
