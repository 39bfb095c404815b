"""A console at work: carries out lines one after the other, shows the replies, and goes on after an error."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import AbstractContextManager, aclosing, contextmanager, nullcontext
from types import FrameType
from typing import Final, TypeAlias

from stemmadb.client.cli.context import CliContext
from stemmadb.client.console.catalogue import carry_out
from stemmadb.client.console.completer import SeenIds
from stemmadb.client.console.replies import ConsoleReply
from stemmadb.client.console.state import ConsoleState
from stemmadb.protocol.errors import StemmaError

STOPPED: Final = "Stopped."
LOST: Final = "The server cannot be reached now. It is tried again; Ctrl-C stops waiting."
CONNECTED: Final = "Connected again."
LOOK_SECONDS: Final = 0.5
"""How often it is looked whether the connection is there, while a line is carried out."""
Stopping: TypeAlias = Callable[[Callable[[], object]], AbstractContextManager[None]]
"""While its block runs, keys such as `q` call what it was given."""


class ConsoleSession:
    """The state and what was said so far. `stopping` listens to keys while something goes on."""

    def __init__(self, state: ConsoleState, shell: CliContext, *, stopping: Stopping | None = None) -> None:
        self.state = state
        self.remembered = SeenIds()
        self.count = 0
        self.failed = 0
        self.first_error: StemmaError | None = None
        self.is_interactive = stopping is not None
        """Whether a person is there, who sees and stops what goes on."""
        self._shell = shell
        self._stopping: Stopping = stopping or (lambda _stop: nullcontext())

    async def line(self, text: str) -> bool:
        """Carries out a line; False if the console ends. Ctrl-C ends what the line began, and nothing else."""
        self.count += bool(text.strip())
        task = asyncio.ensure_future(self._done(text))
        reporting = asyncio.ensure_future(self._report_connection())
        try:
            with interrupting(task.cancel):
                return await task
        except asyncio.CancelledError:
            if not task.cancelled() or _is_cancelled():
                raise
        finally:
            reporting.cancel()
        self._shell.warn(STOPPED)
        return True

    async def _report_connection(self) -> None:
        """A lost connection comes back by itself; whoever waits wants to know that nothing comes meanwhile."""
        was_open = True
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            is_open = self.state.space.status().connection == "open"
            if is_open != was_open:
                self._shell.warn(CONNECTED if is_open else LOST)
            was_open = is_open

    async def _done(self, text: str) -> bool:
        try:
            return await self._answered(await carry_out(self.state, text))
        except StemmaError as error:
            self._fail(error)
            return True

    async def _answered(self, reply: ConsoleReply) -> bool:
        self._show(reply)
        if reply.state is not None:
            self.state = reply.state
        if reply.stream is not None:
            await self._follow(reply.stream)
        if reply.error is not None:
            self._fail(reply.error)
        return not reply.is_over

    async def _follow(self, stream: AsyncGenerator[ConsoleReply, None]) -> None:
        """Shows what comes until it ends or is stopped by a key."""
        task = asyncio.current_task()
        assert task is not None, "it runs in the task of its line"
        with self._stopping(task.cancel):
            async with aclosing(stream) as parts:
                async for part in parts:
                    self._show(part)

    def _show(self, reply: ConsoleReply) -> None:
        self._shell.show(*reply.shapes)
        if reply.data:
            self._shell.answer(reply.data)
        self.remembered.add(reply.ids)

    def _fail(self, error: StemmaError) -> None:
        self.failed += 1
        self.first_error = self.first_error or error
        self._shell.fail(error.code, error.message)


def _is_cancelled() -> bool:
    """Whether it is the console itself that is to end, and not the line."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


@contextmanager
def interrupting(stop: Callable[[], object]) -> Iterator[None]:
    """While the block runs, Ctrl-C calls this, and nothing else happens."""
    loop = asyncio.get_running_loop()

    def interrupted(_number: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
