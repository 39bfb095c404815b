"""`stemmadb console` from its first line to its last."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from stemmadb.client import Space, connect
from stemmadb.client.cli.connecting import Target, identity_of, now, open_space, viewer
from stemmadb.client.cli.shell import Shell
from stemmadb.client.cli.wording import clean
from stemmadb.client.console.asking import Asking, Pipe, Terminal, stop_keys
from stemmadb.client.console.browsing import note_line
from stemmadb.client.console.session import ConsoleSession, interrupting
from stemmadb.client.console.state import State
from stemmadb.client.keys.places import config_directory
from stemmadb.protocol.model.ids import Did

WELCOME: Final = "'help' lists the commands, Tab completes, Ctrl-D ends."


async def run(
    shell: Shell, target: Target, *, may_write: bool, journal: Path | None, at: str | None
) -> dict[str, object]:
    """Opens the space, and answers lines until they end."""
    identity = identity_of(target)
    async with connect(target.url, identity=identity, config=target.config, journal=journal) as db:
        space = await open_space(db, target)
        state = _state(space, target, identity.did, may_write=may_write)
        if at is not None:
            state = await state.at(at)
        session = await _answer_all(state, shell, target)
    return _summary(session, shell)


def _state(space: Space, target: Target, me: Did, *, may_write: bool) -> State:
    assert target.space is not None, "it was opened"
    return State(
        space=space,
        name=target.space,
        me=me,
        url=target.url,
        viewer=viewer(target),
        now=now,
        may_write=may_write,
    )


async def _answer_all(state: State, shell: Shell, target: Target) -> ConsoleSession:
    is_seen = sys.stdin.isatty() and sys.stdout.isatty() and not shell.is_json
    session = ConsoleSession(state, shell, stopping=stop_keys if is_seen else None)
    if not is_seen:
        await _converse(session, Pipe())
        return session
    shell.show(note_line(_welcome(state)))
    config = target.config or config_directory()
    with interrupting(_do_nothing):  # between the prompt and a line it would otherwise end the console
        await _converse(session, Terminal(lambda: session.state, session.remembered, config=config))
    return session


async def _converse(session: ConsoleSession, asking: Asking) -> None:
    while (line := await asking.next()) is not None:
        if not await session.line(line):
            return


def _do_nothing() -> None:
    """What Ctrl-C does where nothing goes on."""


def _welcome(state: State) -> str:
    writing = "It writes." if state.may_write else "It only reads; --write lets it write."
    return f"{clean(state.name)} at {clean(state.url)}. {writing} {WELCOME}"


def _summary(session: ConsoleSession, shell: Shell) -> dict[str, object]:
    """A person has seen every error; a script learns of the first by the exit code."""
    told: dict[str, object] = {"lines": session.count, "failed": session.failed}
    error = session.first_error
    if error is None or session.is_interactive:
        return told
    shell.ended(error)
    return told | {"error": {"code": error.code, "message": error.message}}
