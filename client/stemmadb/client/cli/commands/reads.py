"""`stemmadb get`, `list` and `query`: what is there, now or then."""

from __future__ import annotations

import sys
from typing import Unpack

import click
from msgspec import to_builtins

from stemmadb.client import Space
from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands.windows import window_options
from stemmadb.client.cli.commands.words import read_json_option
from stemmadb.client.cli.completer import complete_ids
from stemmadb.client.cli.connection import Target, at, at_option, branch_options, run
from stemmadb.client.cli.context import QUICK_SECONDS, CliContext, has_colours
from stemmadb.client.cli.moments import AtHead, When
from stemmadb.client.cli.safe_text import pretty
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.overviews import EntityCount
from stemmadb.client.reading.queries import QueryResult, Schema
from stemmadb.client.reading.windows import WindowOptions
from stemmadb.protocol.errors import NotFound
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.query.traversal import MISSING, resolve
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.json_values import Value

path_option = click.option(
    "--path", default=pointer.ROOT, metavar="POINTER", help="A part of the value, such as /title."
)
path_argument = click.argument("part", metavar="[PATH]", default=pointer.ROOT)


def path_of(part: str, path: str) -> str:
    """The path as an argument, as in the console, or as an option."""
    if part and path and part != path:
        raise click.UsageError("Name the path once, as PATH or with --path.")
    return part or path


@click.command()
@click.argument("id_", metavar="ID", shell_complete=complete_ids)
@path_argument
@path_option
@at_option
@branch_options
@click.pass_obj
def get(shell: CliContext, target: Target, id_: str, part: str, path: str, when: When) -> dict[str, object]:
    """Print the value of the entity ID, or its part at PATH, now or at any moment. Exits with 1 if there is none.

    Example: stemmadb get urn:todo:1 /title --space todo --at '10 minutes ago'
    """
    path = path_of(part, path)
    pointer.parse(path)

    async def work(space: Space) -> tuple[Value, int, str, bool]:
        then = at(space, when)
        value = await then.get(id_, path)
        version = await then.settled()
        return value, version, then.branch, value is not None or await _is_there(then, id_, path)

    value, version, branch, is_there = run(target, work)
    answer: dict[str, object] = {"id": id_, "path": path, "branch": branch, "version": version}
    if not is_there:
        what = f"{id_!r} is not there" if not path else f"{id_!r} has nothing at {path!r}"
        return shell.no(NotFound(f"{what}, on branch {branch!r} at version {version}.", id=id_), **answer)
    show_value(shell, value)
    return answer | {"value": value}


@click.command("list")
@click.argument("prefix", default="", shell_complete=complete_ids)
@click.option("--count", "is_count", is_flag=True, help="Print only how many there are; no value is fetched.")
@at_option
@branch_options
@click.pass_obj
def list_(shell: CliContext, target: Target, prefix: str, is_count: bool, when: When) -> dict[str, object]:
    """List the entities whose id begins with PREFIX, or all of them.

    Example: stemmadb list urn:todo: --space todo
    """
    every = f"{prefix.removesuffix(EVERY)}{EVERY}"
    if is_count:
        return _counted(shell, target, every, when)
    found = _found(shell, target, every, when, schema=None, path=pointer.ROOT)
    if found:
        shell.show(layouts.listing(found.entities))
    else:
        shell.warn("Nothing is there.")
    return {"version": found.version, "branch": target.branch, "entities": found.entities}


def _counted(shell: CliContext, target: Target, every: str, when: When) -> dict[str, object]:
    async def work(space: Space) -> tuple[EntityCount, str]:
        then = at(space, when)
        version = await then.settled()
        on = space if then.branch == space.branch_name else await space.branch(then.branch)
        return await on.count(every, version=version), then.branch

    found, branch = run(target, work)
    shell.say(f"{found.entities}" if found.exact else f"at least {found.entities}")
    return {"version": found.version, "branch": branch, "count": found.entities, "exact": found.exact}


@click.command()
@click.argument("selector", shell_complete=complete_ids)
@window_options
@click.option(
    "--schema",
    callback=read_json_option,
    metavar="JSON|@FILE",
    help="A JSON Schema that entities must match; links it names are followed.",
)
@path_option
@click.option(
    "--nested", is_flag=True, help="Print each root as one value, with its links replaced by their targets."
)
@at_option
@branch_options
@click.pass_obj
def query(
    shell: CliContext,
    target: Target,
    selector: str,
    schema: Schema | None,
    path: str,
    nested: bool,
    when: When,
    window: WindowOptions,
) -> dict[str, object]:
    """Show what matches, and what its links lead to. SELECTOR is an id, or a prefix that ends with '*'.

    With --order and --limit only the first ones are shown; --json says in 'after' where the next ones begin.

    Example: stemmadb query 'urn:todo:*' --schema '{"properties": {"done": {"const": false}}}' --space todo
    """
    found = _found(shell, target, selector, when, schema=schema, path=path, **window)
    answer: dict[str, object] = {
        "version": found.version,
        "branch": target.branch,
        "entities": found.entities,
        "roots": [one._asdict() for one in found.roots],
        "unresolved": [one._asdict() for one in found.unresolved],
    }
    if found.after is not None:
        answer["after"] = to_builtins(found.after)
    if nested:
        answer["nested"] = found.nested()
        show_value(shell, found.nested())
    elif found:
        shell.show(layouts.listing(found.entities))
    else:
        shell.warn("Nothing matches.")
    if found.unresolved:
        links = shell.counted(len(found.unresolved), "link")
        shell.warn(f"{links} could not be resolved; --json lists them.")
    return answer


def show_value(shell: CliContext, value: Value) -> None:
    """A value as JSON; in colours for a person."""
    if has_colours(sys.stdout):
        shell.show(layouts.value_lines(value))
    else:
        shell.say_lines(pretty(value))


def _found(
    shell: CliContext,
    target: Target,
    selector: str,
    when: When,
    *,
    schema: Schema | None,
    path: str,
    **window: Unpack[WindowOptions],
) -> QueryResult:
    async def work(space: Space) -> QueryResult:
        where = space if isinstance(when, AtHead) else at(space, when)
        with shell.progress(after_seconds=QUICK_SECONDS) as show:
            show("reading", 0, None)
            return await where.query(selector, schema=schema, path=path, **window)

    return run(target, work)


async def _is_there(then: Moment, id_: str, path: str) -> bool:
    """A null is a value like any other."""
    found = await then.query(id_)
    return id_ in found and resolve(found[id_], path) is not MISSING
