"""All commands by name, `help`, and carrying out a line."""

from __future__ import annotations

from typing import Final

from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.group import nearest
from stemmadb.client.cli.shapes import Column, TextCell, TextLines, TextTable, line
from stemmadb.client.console import places, reads, status, watch, words, writes
from stemmadb.client.console.replies import Arguments, ConsoleCommand, ConsoleReply
from stemmadb.client.console.state import READ_ONLY, ConsoleState
from stemmadb.protocol.errors import Forbidden, Malformed


async def help_(state: ConsoleState, given: Arguments) -> ConsoleReply:
    if given.words:
        return _described(_found(given.text(0)))
    shown = [command for command in COMMANDS.values() if state.may_write or not command.writes]
    rows = [(TextCell(command.name, "bold"), command.says) for command in shown]
    more = line(TextCell("'help COMMAND' shows how one is used. Tab completes commands, ids and branches.", "dim"))
    data = {"commands": [command.name for command in shown]}
    table = TextTable((Column("COMMAND", whole=True), Column("WHAT IT DOES")), rows)
    return ConsoleReply(shapes=(table, TextLines((more,))), data=data)


def _described(command: ConsoleCommand) -> ConsoleReply:
    pieces = [("usage", command.usage), ("example", command.example)]
    lines = [line(command.says), *(line(TextCell(f"{name:<9}", "bold"), text) for name, text in pieces)]
    needs = [line(TextCell("Only in a console that was started with --write.", "dim"))] if command.writes else []
    return ConsoleReply(shapes=(TextLines([*lines, *needs]),), data={"command": command.name, "usage": command.usage})


async def exit_(state: ConsoleState, given: Arguments) -> ConsoleReply:  # noqa: ARG001
    return ConsoleReply(is_over=True)


HELP: Final = ConsoleCommand(
    name="help",
    usage="help [COMMAND]",
    says="Lists the commands, or shows how one is used.",
    example="help diff",
    run=help_,
    takes=("command",),
    most=1,
)
EXIT: Final = ConsoleCommand(
    name="exit", usage="exit", says="Ends the console; so does Ctrl-D.", example="exit", run=exit_
)
ALIASES: Final = {"quit": "exit", "list": "ls", "?": "help"}
COMMANDS: Final[dict[str, ConsoleCommand]] = {
    command.name: command
    for command in (
        *places.COMMANDS,
        *reads.COMMANDS,
        *watch.COMMANDS,
        *writes.COMMANDS,
        *status.COMMANDS,
        HELP,
        EXIT,
    )
}


async def carry_out(state: ConsoleState, text: str) -> ConsoleReply:
    """The reply to a line; nothing for an empty one or for a comment. Raises `StemmaError`."""
    if not text.strip() or text.lstrip().startswith("#"):
        return ConsoleReply()
    name, *rest = words.split(text)
    command = _found(name.text)
    if command.writes and not state.may_write:
        raise Forbidden(READ_ONLY, action="write", needs="write")
    return await command.run(state, command.arguments(rest))


def _found(name: str) -> ConsoleCommand:
    command = COMMANDS.get(ALIASES.get(name, name))
    if command is not None:
        return command
    near = nearest(name, COMMANDS)
    hint = "Type 'help' for a list." if near is None else f"Did you mean '{near}'?"
    raise Malformed(f"There is no command {clean(name[:80])!r}. {hint}", path="line", why="unknown command")
