"""`stemmadb branch` and `stemmadb tag`: made, listed, ended."""

from __future__ import annotations

from collections.abc import Sequence

import click

from stemmadb.client import Space
from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands import answers
from stemmadb.client.cli.commands.words import ListingGroup, note_option
from stemmadb.client.cli.completer import complete_branches, complete_tags
from stemmadb.client.cli.connection import Target, at, branch_options, read_moment, run, space_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.moments import When
from stemmadb.client.reading.branches import Branch, Tag
from stemmadb.client.reading.entries import Receipt
from stemmadb.protocol.errors import BranchExists
from stemmadb.protocol.model.values.ids import Version

fork_option = click.option(
    "--fork", callback=read_moment, metavar="MOMENT", help="Branch off at this moment instead of the head."
)


@click.group(cls=ListingGroup)
def branch() -> None:
    """List, create and delete branches. Without a command it lists them.

    Example: stemmadb branch create draft --space todo
    """


@branch.command("list")
@click.option("--deleted", is_flag=True, help="Include deleted branches.")
@space_options
@click.pass_obj
def list_branches(shell: CliContext, target: Target, deleted: bool) -> dict[str, object]:
    """List the branches.

    Example: stemmadb branch list --space todo
    """

    async def work(space: Space) -> Sequence[Branch]:
        return await space.branches(deleted=deleted)

    found = run(target, work)
    shell.show(layouts.branches(found))
    return {"branches": [answers.of_branch(one) for one in found]}


@branch.command("create")
@click.argument("name")
@fork_option
@note_option
@branch_options
@click.pass_obj
def create_branch(
    shell: CliContext, target: Target, name: str, fork: When | None, note: str | None
) -> dict[str, object]:
    """Create the branch NAME from the one that --branch names.

    Example: stemmadb branch create draft --space todo --fork 'yesterday 14:00'
    """

    async def work(space: Space) -> Version | None:
        if any(one.name == name for one in await space.branches(deleted=True)):
            raise BranchExists(branch=name)
        begins = None if fork is None else await at(space, fork).settled()
        await space.branch(name, create=True, fork=begins, note=note)
        return begins

    begins = run(target, work, writes=True)
    shell.say(f"{name} created from {target.branch}{'' if begins is None else f' at version {begins}'}")
    return {"name": name, "parent": target.branch, "fork": begins}


@branch.command("delete")
@click.argument("name", shell_complete=complete_branches)
@note_option
@space_options
@click.pass_obj
def delete_branch(shell: CliContext, target: Target, name: str, note: str | None) -> dict[str, object]:
    """Delete the branch NAME. It can still be read and merged from; its name is not used again.

    Example: stemmadb branch delete draft --space todo
    """

    async def work(space: Space) -> Receipt:
        return await space.delete_branch(name, note=note)

    done = run(target, work, writes=True)
    shell.say(f"{name} deleted: version {done.version}")
    return {"name": name, "version": done.version}


@click.group(cls=ListingGroup)
def tag() -> None:
    """List, create and delete tags, which are names for versions. Without a command it lists them.

    Example: stemmadb tag create v1 --space todo
    """


@tag.command("list")
@space_options
@click.pass_obj
def list_tags(shell: CliContext, target: Target) -> dict[str, object]:
    """List the tags.

    Example: stemmadb tag list --space todo
    """

    async def work(space: Space) -> list[Tag]:
        return await space.tags.list()

    found = run(target, work)
    if found:
        shell.show(layouts.tags(found))
    else:
        shell.warn("There are no tags.")
    return {"tags": [answers.of_tag(one) for one in found]}


@tag.command("create")
@click.argument("name")
@click.option(
    "--at",
    "when",
    callback=read_moment,
    default="head",
    metavar="MOMENT",
    help="The version or time to tag; the head by default.",
)
@note_option
@branch_options
@click.pass_obj
def create_tag(shell: CliContext, target: Target, name: str, when: When, note: str | None) -> dict[str, object]:
    """Give the state of a branch the name NAME. What it names is kept when old versions are compacted away.

    Example: stemmadb tag create v1 --space todo --at 42
    """

    async def work(space: Space) -> tuple[str, Version]:
        then = at(space, when)
        version = await then.settled()
        await space.tags.create(name, branch=then.branch, version=version, note=note)
        return then.branch, version

    of, version = run(target, work, writes=True)
    shell.say(f"{name} is version {version} of {of}")
    return {"name": name, "branch": of, "version": version}


@tag.command("delete")
@click.argument("name", shell_complete=complete_tags)
@note_option
@space_options
@click.pass_obj
def delete_tag(shell: CliContext, target: Target, name: str, note: str | None) -> dict[str, object]:
    """Delete the tag NAME. The version that it named stays.

    Example: stemmadb tag delete v1 --space todo
    """

    async def work(space: Space) -> Receipt:
        return await space.tags.delete(name, note=note)

    done = run(target, work, writes=True)
    shell.say(f"{name} deleted: version {done.version}")
    return {"name": name, "version": done.version}
