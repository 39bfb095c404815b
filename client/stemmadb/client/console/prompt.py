"""Where lines come from: a person at a terminal, or a pipe."""

from __future__ import annotations

import asyncio
import io
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

from prompt_toolkit import PromptSession
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.input import Input, create_input
from prompt_toolkit.keys import Keys
from prompt_toolkit.output import ColorDepth

from stemmadb.client.cli.context import has_colours
from stemmadb.client.console import words
from stemmadb.client.console.completer import ConsoleCompleter, SeenIds
from stemmadb.client.console.history_file import SavedHistory
from stemmadb.client.console.lexer import STYLE, ConsoleLexer
from stemmadb.client.console.state import WRITES, ConsoleState

STOP_KEYS: Final = frozenset({"q", "Q", Keys.ControlC, Keys.ControlD})
CONTINUES: Final = "..."
READ_BYTES: Final = 64 * 1024
LINES_AHEAD: Final = 100
"""How many lines of a pipe are read before the first of them is done."""


class Prompt(Protocol):
    """Gives the next line, None at the end."""

    async def next(self) -> str | None: ...


class TerminalPrompt:
    """A prompt with completion, history and colours. Ctrl-C begins the line anew, Ctrl-D is the end."""

    def __init__(self, state: Callable[[], ConsoleState], remembered: SeenIds, *, config: Path) -> None:
        self._state = state
        self._prompt: PromptSession[str] = PromptSession(
            history=SavedHistory(config),
            completer=ConsoleCompleter(state, remembered),
            complete_while_typing=False,
            lexer=ConsoleLexer(),
            style=STYLE,
            color_depth=None if has_colours(sys.stdout) else ColorDepth.DEPTH_1_BIT,
            multiline=Condition(self._is_open),
            prompt_continuation=lambda _width, _line, _wraps: continuation(self._prompt.default_buffer.text),
        )

    async def next(self) -> str | None:
        while True:
            try:
                return await self._prompt.prompt_async(prompt_pieces(self._state()), handle_sigint=False)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None

    def _is_open(self) -> bool:
        """Whether a bracket or a quote waits for the next line."""
        return not words.is_finished(self._prompt.default_buffer.text)


def continuation(text: str) -> str:
    """Before the next line of what is not finished: what it waits for."""
    waits = words.waits_for(text)
    return f"{CONTINUES} {waits} to end, Ctrl-C to start over: " if waits else f"{CONTINUES} "


def prompt_pieces(state: ConsoleState) -> StyleAndTextTuples:
    """The prompt in colours: the past looks different from the head, and a console that writes says so."""
    name, _, place = state.prompt.removesuffix("> ").rpartition(" ")
    style = "class:place" if state.version is None else "class:past"
    writes: StyleAndTextTuples = [("class:writes", WRITES)] if name.endswith(WRITES) else []
    return [("class:space", name.removesuffix(WRITES)), *writes, ("", " "), (style, place), ("", "> ")]


@contextmanager
def stop_keys(stop: Callable[[], object], *, given: Input | None = None) -> Iterator[None]:
    """While the block runs, `q` and Ctrl-C call this; nothing that is typed is shown."""
    keys = given or create_input()

    def pressed() -> None:
        if any(press.key in STOP_KEYS for press in keys.read_keys()):
            stop()

    with keys.raw_mode(), keys.attach(pressed):
        yield


class PipePrompt:
    """Standard input that is no terminal. A line that ends inside of JSON goes on in the next.

    It is read on a thread that nobody waits for, so that Ctrl-C ends the console at once.
    """

    def __init__(self) -> None:
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._room = threading.Semaphore(LINES_AHEAD)
        self._is_over = False
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._run, args=(_reading(),), daemon=True).start()

    async def next(self) -> str | None:
        text = await self._one()
        while text is not None and not words.is_finished(text):
            more = await self._one()
            if more is None:
                break
            text = f"{text}\n{more}"
        return text

    async def _one(self) -> str | None:
        if self._is_over:
            return None
        line = await self._lines.get()
        self._room.release()
        self._is_over = line is None
        return None if line is None else line.decode("utf-8", "replace").rstrip("\r")

    def _run(self, read: Callable[[], bytes]) -> None:
        left = b""
        with suppress(RuntimeError):  # the console has ended
            while chunk := read():
                *whole, left = (left + chunk).split(b"\n")
                for line in whole:
                    self._put(line)
            if left:
                self._put(left)
            self._put(None)

    def _put(self, line: bytes | None) -> None:
        self._room.acquire()
        self._loop.call_soon_threadsafe(self._lines.put_nowait, line)


def _reading() -> Callable[[], bytes]:
    """Without a buffer of Python's, which would be held by the thread when the process ends."""
    try:
        descriptor = sys.stdin.fileno()
    except (io.UnsupportedOperation, AttributeError):
        return lambda: sys.stdin.buffer.read(READ_BYTES)
    return lambda: os.read(descriptor, READ_BYTES)
