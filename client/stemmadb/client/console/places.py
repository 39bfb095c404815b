"""Commands that move from place to place: at, branch, branches, tags."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.safe_text import counted, note_text
from stemmadb.client.console import graph
from stemmadb.client.console.graph import Here
from stemmadb.client.console.picture import picture
from stemmadb.client.console.reads import note_line
from stemmadb.client.console.replies import Arguments, ConsoleCommand, ConsoleReply, said
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.reading.branches import Branch
from stemmadb.protocol.model.values.ids import MAIN

COMMITS_DRAWN: Final = 1_000
"""How many of the newest commits the picture of branches looks at."""
BRANCHES_DRAWN: Final = 12
"""How many branches it draws: main, the current one, and the last that were written."""


async def at(state: ConsoleState, given: Arguments) -> ConsoleReply:
    if not given.words:
        return said(f"You are at {state.place}.", branch=state.branch, version=state.version)
    moved = await state.at(given.rest())
    text = f"You are at {moved.place}{await _when(moved)}."
    return ConsoleReply(
        shapes=(note_line(text),), state=moved, data={"branch": moved.branch, "version": moved.version}
    )


async def _when(state: ConsoleState) -> str:
    """The last commit up to a version."""
    if state.version is None:
        return ""
    entry = await state.space.log(version=state.version).first()
    if entry is None:
        return ", before the first commit"
    note = note_text(entry.note)
    who, when = state.viewer.person(entry.author).text, state.viewer.time(entry.time).text
    return f", last written {when} by {who}" + (f": {note}" if note else "")


async def branch(state: ConsoleState, given: Arguments) -> ConsoleReply:
    match [word.text for word in given.words]:
        case []:
            return said(f"You are at {state.place}.", branch=state.branch, version=state.version)
        case [name]:
            known = await state.space.branches(deleted=True)
            is_name = name != "list" or any(one.name == name for one in known)
            return await _go(state, name) if is_name else _listed(known)
        case ["create", name]:
            return await _create(state, name, given)
        case ["delete", name]:
            state.check_writing()
            done = await state.space.delete_branch(name)
            return said(f"Deleted branch {clean(name)} with version {done.version}.", version=done.version)
        case _:
            raise BRANCH.misused("takes a name, or 'create' or 'delete' and a name")


async def _create(state: ConsoleState, name: str, given: Arguments) -> ConsoleReply:
    """The new branch begins where one stands, or at another version."""
    state.check_writing()
    fork = None if not given.has("fork") else given.number("fork", 0)
    made = await state.space.branch(name, create=True, fork=fork)
    moved = replace(state, space=made)
    text = f"You are at {moved.place}, which begins as {clean(state.branch)}@{'head' if fork is None else fork}."
    return ConsoleReply(shapes=(note_line(text),), state=moved, data={"branch": moved.branch, "version": None})


async def _go(state: ConsoleState, name: str) -> ConsoleReply:
    """To another branch, at the same moment."""
    moved = await state.on(name)
    known = {branch.name: branch for branch in await state.space.branches(deleted=True)}
    ended = known[moved.branch].deleted if moved.branch in known else None
    gone = "" if ended is None else f" It was deleted at version {ended}: it can be read, not written."
    return ConsoleReply(
        shapes=(note_line(f"You are at {moved.place}.{gone}"),),
        state=moved,
        data={"branch": moved.branch, "version": moved.version, "deleted": ended},
    )


async def branches(state: ConsoleState, given: Arguments) -> ConsoleReply:
    found = await state.space.branches(deleted=True)
    if given.has("list"):
        return _listed(found)
    log = await state.space.log(branch=None).all(limit=COMMITS_DRAWN + 1)
    drawn = _drawn(found, state)
    here = None if state.version is None else Here(state.branch, state.version)
    rows = graph.draw(drawn, log[:COMMITS_DRAWN], here=here)
    rest = [note_line(text) for text in _left_out(len(found) - len(drawn), is_cut=len(log) > COMMITS_DRAWN)]
    data = {"branches": list(map(answers.of_branch, found))}
    return ConsoleReply(shapes=(picture(rows, drawn, state.viewer), *rest), data=data)


def _listed(found: Sequence[Branch]) -> ConsoleReply:
    """As `stemmadb branch list` shows them."""
    return ConsoleReply(shapes=(layouts.branches(found),), data={"branches": list(map(answers.of_branch, found))})


def _drawn(found: Sequence[Branch], state: ConsoleState) -> list[Branch]:
    newest = sorted(found, key=lambda one: (one.name not in (MAIN, state.branch), -max(one.version, one.fork)))
    return newest[:BRANCHES_DRAWN]


def _left_out(branches_: int, *, is_cut: bool) -> list[str]:
    several = [f"... and {counted(branches_, 'other branch', 'other branches')}; see 'branches --list'"]
    return [*(several if branches_ else []), *(["... older commits are not drawn"] if is_cut else [])]


async def tags(state: ConsoleState, given: Arguments) -> ConsoleReply:  # noqa: ARG001
    found = await state.space.tags.list()
    shapes = (layouts.tags(found),) if found else (note_line("There are no tags."),)
    return ConsoleReply(shapes=shapes, data={"tags": list(map(answers.of_tag, found))})


AT: Final = ConsoleCommand(
    name="at",
    usage="at [MOMENT]",
    says="Goes to a version, a tag, a time or the head; later commands show that moment.",
    example='at "10 minutes ago"',
    run=at,
    takes=("moment",),
)
BRANCH: Final = ConsoleCommand(
    name="branch",
    usage="branch [NAME] | branch create NAME [--fork VERSION] | branch delete NAME",
    says="Goes to a branch; with --write also creates or deletes one.",
    example="branch draft",
    run=branch,
    takes=("branch", "branch"),
    most=2,
    options={"fork": "other"},
)
BRANCHES: Final = ConsoleCommand(
    name="branches",
    usage="branches [--list]",
    says="Draws the branches with their forks and merges, newest on top.",
    example="branches",
    run=branches,
    most=0,
    options={"list": None},
)
TAGS: Final = ConsoleCommand(name="tags", usage="tags", says="Lists the tags.", example="tags", run=tags, most=0)
COMMANDS: Final = (AT, BRANCH, BRANCHES, TAGS)
