"""Completion of commands, options, ids, branches and moments. The server answers quickly, or is not waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final, NamedTuple

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from stemmadb.client.console import words
from stemmadb.client.console.catalogue import ALIASES, COMMANDS
from stemmadb.client.console.replies import ConsoleCommand, Takes
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.console.words import Word
from stemmadb.client.console.writes import STRATEGIES
from stemmadb.protocol.errors import Malformed, StemmaError

ANSWER_SECONDS: Final = 1.0
"""How long the server may take; then there is nothing to choose from."""
COMMITS_LOOKED_AT: Final = 200
"""How many of the newest commits under a prefix are searched for ids."""
IDS_REMEMBERED: Final = 2_000
SHOWN_MAX: Final = 100


class CompletionContext(NamedTuple):
    """The word that is being written, what it can be, and which command it belongs to."""

    begin: str
    takes: Takes | None
    options: tuple[str, ...] = ()


class SeenIds:
    """The ids that the console has shown, the latest last."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def add(self, ids: Iterable[str]) -> None:
        for id_ in ids:
            self._ids.pop(id_, None)
            self._ids[id_] = None
        for id_ in list(self._ids)[:-IDS_REMEMBERED]:
            del self._ids[id_]

    def under(self, prefix: str) -> list[str]:
        return [id_ for id_ in self._ids if id_.startswith(prefix)]


def wanted(line: str, *, may_write: bool) -> CompletionContext:
    """What the last word of an unfinished line can be. Pure."""
    try:
        written = words.split(line)
    except Malformed:
        return CompletionContext("", None)  # inside quotes or JSON nothing is completed
    begin = "" if not written or line[-1:].isspace() else written.pop().raw
    if not written:
        return CompletionContext(begin, "command")
    command = COMMANDS.get(ALIASES.get(written[0].text, written[0].text))
    if command is None or (command.writes and not may_write):
        return CompletionContext(begin, None)
    return _of_command(command, written[1:], begin)


def _of_command(command: ConsoleCommand, written: list[Word], begin: str) -> CompletionContext:
    if begin.startswith("--"):
        given = {word.text for word in written}
        options = (f"--{name}" for name in command.options)
        return CompletionContext(begin, None, tuple(option for option in options if option not in given))
    last = written[-1] if written else None
    if last is not None and last.is_option and command.options.get(last.text.removeprefix("--")) is not None:
        return CompletionContext(begin, command.options[last.text.removeprefix("--")])
    plain = _plain(command, written)
    return CompletionContext(begin, command.takes[plain] if plain < len(command.takes) else None)


def _plain(command: ConsoleCommand, written: list[Word]) -> int:
    """How many words are neither options nor what an option was given."""
    count, is_taken = 0, False
    for word in written:
        if is_taken:
            is_taken = False
        elif word.is_option:
            is_taken = command.options.get(word.text.removeprefix("--")) is not None
        else:
            count += 1
    return count


class Choices:
    """What there is to choose from, asked of the server where it must be."""

    def __init__(self, state: Callable[[], ConsoleState], remembered: SeenIds) -> None:
        self._state = state
        self._remembered = remembered

    async def of(self, want: CompletionContext) -> list[str]:
        """In order, at most `SHOWN_MAX`; those that begin with what is written."""
        found = list(want.options)
        finds: dict[Takes, Callable[[str], Awaitable[list[str]]]] = {
            "id": self._ids,
            "prefix": self._ids,
            "branch": self._branches,
            "moment": self._moments,
        }
        if want.takes in finds:
            found = await self._asked(finds[want.takes], want.begin)
        elif want.takes is not None:
            found = self._known(want.takes)
        return sorted({one for one in found if one.startswith(want.begin)})[:SHOWN_MAX]

    def _known(self, takes: Takes) -> list[str]:
        state = self._state()
        if takes == "command":
            return [name for name, command in COMMANDS.items() if state.may_write or not command.writes]
        if takes == "strategy":
            return list(STRATEGIES)
        return list(state.viewer.names.values()) if takes == "author" else []

    async def _asked(self, find: Callable[[str], Awaitable[list[str]]], begin: str) -> list[str]:
        """Nobody waits for a list, and this is not the time to tell what is wrong."""
        with suppress(StemmaError, TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                return await find(begin)
        return self._remembered.under(begin)

    async def _ids(self, begin: str) -> list[str]:
        """What was written last under this prefix, so that not all that is there is read; and what was shown."""
        state = self._state()
        log = state.space.log(version=state.version, prefix=begin, with_facts=True)
        entries = await log.all(limit=COMMITS_LOOKED_AT)
        self._remembered.add(change.id for entry in reversed(entries) for change in entry.changes)
        return self._remembered.under(begin)

    async def _branches(self, begin: str) -> list[str]:  # noqa: ARG002
        return [branch.name for branch in await self._state().space.branches(deleted=True)]

    async def _moments(self, begin: str) -> list[str]:
        tags = [f"tag:{tag.name}" for tag in await self._state().space.tags.list()]
        return ["head", *tags, *await self._branches(begin)]


class ConsoleCompleter(Completer):
    """The same for the prompt."""

    def __init__(self, state: Callable[[], ConsoleState], remembered: SeenIds) -> None:
        self._state = state
        self._choices = Choices(state, remembered)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:  # noqa: ARG002
        """Never used: what the server knows takes a while."""
        return ()

    async def get_completions_async(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002
    ) -> AsyncGenerator[Completion, None]:
        want = wanted(document.text_before_cursor, may_write=self._state().may_write)
        for choice in await self._choices.of(want):
            yield Completion(choice, start_position=-len(want.begin))
