"""`stemmadb console` from its first line to its last."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from stemmadb.client import Space, connect
from stemmadb.client.cli.connection import Target, identity_of, now, open_space, say_notice, viewer
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.escapes import clean
from stemmadb.client.console.prompt import PipePrompt, Prompt, TerminalPrompt, stop_keys
from stemmadb.client.console.reads import note_line
from stemmadb.client.console.session import ConsoleSession, interrupting
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.keys.places import config_directory
from stemmadb.protocol.model.values.ids import Did

WELCOME: Final = "'help' lists the commands, Tab completes, Ctrl-D ends."


async def run(
    shell: CliContext, target: Target, *, may_write: bool, journal: Path | None, at: str | None
) -> dict[str, object]:
    """Opens the space, and answers lines until they end."""
    identity = identity_of(target)
    async with connect(target.url, identity=identity, config=target.config, journal=journal, notice=say_notice) as db:
        space = await open_space(db, target)
        state = _state(space, target, identity.did, may_write=may_write)
        if at is not None:
            state = await state.at(at)
        session = await _answer_all(state, shell, target)
    return _summary(session, shell)


def _state(space: Space, target: Target, me: Did, *, may_write: bool) -> ConsoleState:
    assert target.space is not None, "it was opened"
    return ConsoleState(
        space=space,
        name=target.space,
        me=me,
        url=target.url,
        viewer=viewer(target),
        now=now,
        may_write=may_write,
    )


async def _answer_all(state: ConsoleState, shell: CliContext, target: Target) -> ConsoleSession:
    is_seen = sys.stdin.isatty() and sys.stdout.isatty() and not shell.is_json
    session = ConsoleSession(state, shell, stopping=stop_keys if is_seen else None)
    if not is_seen:
        await _converse(session, PipePrompt())
        return session
    shell.show(note_line(_welcome(state)))
    config = target.config or config_directory()
    with interrupting(_do_nothing):  # between the prompt and a line it would otherwise end the console
        await _converse(session, TerminalPrompt(lambda: session.state, session.remembered, config=config))
    return session


async def _converse(session: ConsoleSession, asking: Prompt) -> None:
    while (line := await asking.next()) is not None:
        if not await session.line(line):
            return


def _do_nothing() -> None:
    """What Ctrl-C does where nothing goes on."""


def _welcome(state: ConsoleState) -> str:
    writing = "It writes." if state.may_write else "It only reads; --write lets it write."
    return f"{clean(state.name)} at {clean(state.url)}. {writing} {WELCOME}"


def _summary(session: ConsoleSession, shell: CliContext) -> dict[str, object]:
    """A person has seen every error; a script learns of the first by the exit code."""
    answer: dict[str, object] = {"lines": session.count, "failed": session.failed}
    error = session.first_error
    if error is None or session.is_interactive:
        return answer
    shell.ended(error)
    return answer | {"error": {"code": error.code, "message": error.message}}
