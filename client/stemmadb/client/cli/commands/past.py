"""`stemmadb log`, `history`, `diff` and `blame`: what happened, when, by whom and why."""

from __future__ import annotations

from typing import TypedDict, Unpack, get_args

import click

from stemmadb.client import Space
from stemmadb.client.cli import explanations, layouts, old_values
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.commands.reads import path_argument, path_of, path_option
from stemmadb.client.cli.commands.words import limit_option, since_option, until_option
from stemmadb.client.cli.completer import complete_branches, complete_ids
from stemmadb.client.cli.connection import (
    Target,
    at,
    at_option,
    at_place,
    branch_options,
    now,
    person,
    run,
    viewer,
)
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.moments import AtTime, When, parse_place
from stemmadb.client.cli.old_values import Places
from stemmadb.client.reading.differences import Difference
from stemmadb.client.reading.entries import BlameLine, HistoryEntry, LogEntry
from stemmadb.client.reading.past import LogFilters
from stemmadb.protocol.errors import NotFound
from stemmadb.protocol.model.log.commit_record import CommitKind
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value


class _Asked(TypedDict):
    """The options of a log."""

    author: str | None
    prefix: str | None
    since: When | None
    until: When | None
    limit: int
    kinds: tuple[CommitKind, ...]
    facts: bool
    everywhere: bool


@click.command()
@click.option("--author", metavar="DID|NAME", help="Only commits of this identity.")
@click.option("--prefix", metavar="PREFIX", help="Only commits that wrote ids with this prefix.")
@since_option
@until_option
@limit_option
@click.option(
    "--kind",
    "kinds",
    multiple=True,
    type=click.Choice(get_args(CommitKind)),
    help="Only commits of this kind; repeat it for several.",
)
@click.option("--facts", is_flag=True, help="Show what each commit wrote.")
@click.option("--all", "everywhere", is_flag=True, help="Include the commits of all branches.")
@branch_options
@click.pass_obj
def log(shell: CliContext, target: Target, **given: Unpack[_Asked]) -> dict[str, object]:
    """Show the commits of a branch, newest first: version, time, author and note.

    Example: stemmadb log --space todo --since yesterday --facts
    """
    limit, facts = given["limit"], given["facts"]

    async def work(space: Space) -> tuple[list[LogEntry], bool]:
        filters, oldest = await _filters(space, target, given)
        found: list[LogEntry] = []
        async for entry in space.log(**filters):
            if entry.version <= oldest:
                break
            if len(found) == limit:
                return found, True
            found.append(entry)
        return found, False

    entries, is_cut = run(target, work)
    looks = viewer(target)
    if facts:
        shell.show(layouts.log_with_facts(entries, looks))
    elif entries:
        shell.show(layouts.log(entries, looks, branches=given["everywhere"]))
    _say_rest(shell, bool(entries), is_cut, limit)
    is_filtered = given["everywhere"] or given["author"] is not None or given["prefix"] is not None
    if not is_filtered and (why := explanations.skipped(entries, target.branch)):
        shell.warn(why)
    return {"entries": [answers.of_log(one, facts=facts) for one in entries], "more": is_cut}


@click.command()
@click.argument("id_", metavar="ID", shell_complete=complete_ids)
@limit_option
@at_option
@branch_options
@click.pass_obj
def history(shell: CliContext, target: Target, id_: str, limit: int, when: When) -> dict[str, object]:
    """Show the changes of the entity ID, newest first. Exits with 1 if there are none.

    Example: stemmadb history urn:todo:1 --space todo
    """

    async def work(space: Space) -> tuple[list[HistoryEntry], dict[Version, Places]]:
        found = await at(space, when).history(id_).all(limit + 1)
        return found, await old_values.of_history(space, id_, found[:limit])

    found, places = run(target, work)
    entries, is_cut = found[:limit], len(found) > limit
    answer = {
        "id": id_,
        "entries": [answers.of_history(one, places.get(one.version)) for one in entries],
        "more": is_cut,
    }
    if not entries:
        return shell.no(
            NotFound(f"{id_!r} has no history on branch {target.branch!r}. Check its id.", id=id_), **answer
        )
    shell.show(layouts.history(entries, viewer(target), places))
    _say_rest(shell, True, is_cut, limit)
    return answer


@click.command()
@click.argument("left", metavar="A", shell_complete=complete_branches)
@click.argument("right", metavar="B", default="head", shell_complete=complete_branches)
@click.option("--prefix", default="", metavar="PREFIX", help="Only ids with this prefix.")
@branch_options
@click.pass_obj
def diff(shell: CliContext, target: Target, left: str, right: str, prefix: str) -> dict[str, object]:
    """Show what leads from A to B, or to now: moments or branches, as 40, yesterday, tag:v1, draft or draft@40.

    Example: stemmadb diff 40 42 --space todo
    """
    asked = now()
    sides = [parse_place(text, now=asked) for text in (left, right)]

    async def work(space: Space) -> tuple[Difference, dict[EntityId, Places]]:
        one, other = [await at_place(space, side) for side in sides]
        found = await space.diff(one, other, prefix=f"{prefix.removesuffix(EVERY)}{EVERY}")
        return found, await old_values.of_difference(one, other, found)

    found, places = run(target, work)
    shell.show(layouts.difference(found, places))
    changes = [answers.of_entity_change(one, places.get(one.id)) for one in found]
    return {"left": found.left, "right": found.right, "changes": changes}


@click.command()
@click.argument("id_", metavar="ID", shell_complete=complete_ids)
@path_argument
@path_option
@at_option
@branch_options
@click.pass_obj
def blame(shell: CliContext, target: Target, id_: str, part: str, path: str, when: When) -> dict[str, object]:
    """Show who wrote each part of the entity ID last, when and why. Exits with 1 if it is not there.

    Example: stemmadb blame urn:todo:1 /done --space todo
    """
    path = path_of(part, path)

    async def work(space: Space) -> tuple[tuple[BlameLine, ...], Value]:
        then = at(space, when)
        return await then.blame(id_, path), await then.get(id_)

    found, value = run(target, work)
    answer: dict[str, object] = {"id": id_, "lines": [answers.of_blame(one) for one in found]}
    if not found:
        where = f"{id_!r} is not there" if not path else f"{id_!r} has nothing at {path!r}"
        return shell.no(NotFound(f"{where}, on branch {target.branch!r}.", id=id_), **answer)
    shell.show(layouts.blame(found, value, viewer(target)))
    return answer


async def _filters(space: Space, target: Target, given: _Asked) -> tuple[LogFilters, Version]:
    """What the server is asked, and the version after which commits are wanted, 0 for all."""
    filters = LogFilters(branch=None if given["everywhere"] else target.branch, with_facts=given["facts"])
    since, until = given["since"], given["until"]
    if given["author"] is not None:
        filters["author"] = person(target, given["author"])
    if given["kinds"]:
        filters["kinds"] = given["kinds"]
    if given["prefix"] is not None:
        filters["prefix"] = given["prefix"].removesuffix(EVERY)
    if isinstance(until, AtTime):
        filters["until"] = until.time
    elif until is not None:
        filters["version"] = await at(space, until).settled()
    if isinstance(since, AtTime):
        filters["since"] = since.time
    elif since is not None:
        return filters, await at(space, since).settled()
    return filters, Version(0)


def _say_rest(shell: CliContext, is_any: bool, is_cut: bool, limit: int) -> None:
    if not is_any:
        shell.warn("There are none.")
    if is_cut:
        shell.warn(f"Only the newest {limit} are shown. Use --limit to see more.")
