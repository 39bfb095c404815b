"""`stemmadb console` as a process, on a terminal or at the end of a pipe, and a space that it looks at."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

from command_line import MODULE, Ran
from served import Process
from stemmadb.client import Space, connect
from stemmadb.client.keys.ring import KeyRing
from terminals import Terminal, opened

T = TypeVar("T")


class Stand(NamedTuple):
    """A server's address, the user's config directory, and the space that is looked at."""

    url: str
    config: Path
    did: str

    def words(self, *more: str) -> tuple[str, ...]:
        """The command line of a console there."""
        usual = ("--url", self.url, "--config", str(self.config))
        space = () if "--space" in more else ("--space", "todo")
        return (*MODULE, "console", *usual, *space, *more)

    def environment(self, **more: str) -> dict[str, str]:
        """Ours, without what is the business of whoever runs the tests; the terminal is not asked for the cursor."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("STEMMA", "COLUMNS"))}
        return ours | {"PROMPT_TOOLKIT_NO_CPR": "1", "TZ": "UTC", "STEMMADB_HOME": str(self.config)} | more

    def piped(self, lines: str, *more: str, **environment: str) -> Ran:
        """All lines at once; what came out."""
        done = subprocess.run(  # noqa: S603
            self.words(*more),
            input=lines.encode(),
            capture_output=True,
            timeout=60,
            check=False,
            env=self.environment(**environment),
        )
        assert b"Traceback" not in done.stderr, done.stderr.decode()
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    @contextmanager
    def terminal(self, *more: str, columns: int = 80, **environment: str) -> Iterator[Terminal]:
        """A person sits there; the prompt has come."""
        given = self.environment(**environment)
        with opened(*self.words(*more), columns=columns, environment=given) as terminal:
            yield terminal
            assert "Traceback" not in terminal.screen

    def work(self, work: Callable[[Space], Awaitable[T]]) -> T:
        """Does something in the space, as its owner."""

        async def run() -> T:
            async with connect(self.url, config=self.config) as db:
                return await work(await db.space("todo"))

        return asyncio.run(run())

    def identity(self, name: str) -> str:
        """Another identity of the user; its DID."""
        return KeyRing(self.config).identity(name).did


@contextmanager
def frozen(server: Process) -> Iterator[None]:
    """While the block runs, the server is there and does nothing."""
    running = server._process
    assert running is not None
    running.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        running.send_signal(signal.SIGCONT)


def stand(url: str, config: Path) -> Stand:
    """A space with a story, made by the default identity."""

    async def make() -> str:
        async with connect(url, config=config) as db:
            space = await db.space("todo")
            await _tell(space)
            return space.did

    return Stand(url, config, asyncio.run(make()))


async def _tell(space: Space) -> None:
    """Versions 2 to 8: an item, a branch that conflicts, and one that was deleted."""
    await _set(space, "first item", {"title": "write the spec", "done": False})
    await _set(space, "finished", {"title": "write the spec", "done": True})
    draft = await space.branch("draft", create=True)
    await _set(draft, "reworded", {"title": "write the manual", "done": True})
    await _set(space, "shortened", {"title": "spec", "done": True})
    await space.branch("gone", create=True)
    await space.delete_branch("gone")


async def _set(space: Space, note: str, value: dict[str, object]) -> None:
    async with space.transaction(note=note) as tx:
        tx.set("urn:todo:1", value)
    await tx.confirmed()
