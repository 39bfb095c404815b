"""`stemmadb acl`: who may do what in a space."""

from __future__ import annotations

from typing import get_args

import click

from stemmadb.client import Space
from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands.words import ListingGroup
from stemmadb.client.cli.connection import Target, identity_of, person, run, space_options, viewer
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.own_access import confirm_giving_up, yes_option
from stemmadb.client.reading.access import AccessList, Grant


@click.group(cls=ListingGroup)
def acl() -> None:
    """List and change who may read, write and own a space. Without a command it lists them.

    Example: stemmadb acl set did:key:z6Mk... write --space todo
    """


@acl.command("list")
@space_options
@click.pass_obj
def list_roles(shell: CliContext, target: Target) -> dict[str, object]:
    """List who may do what, and what you may do.

    Example: stemmadb acl list --space todo
    """

    async def work(space: Space) -> AccessList:
        return await space.acl.get()

    found = run(target, work)
    shell.show(layouts.roles(found.roles, viewer(target)))
    shell.warn(f"Your role is {found.mine.role!r}.")
    roles = [{"did": did, "role": role} for did, role in sorted(found.roles.items())]
    return {"version": found.version, "roles": roles, "mine": found.mine.role}


@acl.command("set")
@click.argument("who", metavar="DID|NAME")
@click.argument("role", type=click.Choice(get_args(Grant)))
@space_options
@click.pass_obj
def set_role(shell: CliContext, target: Target, who: str, role: Grant) -> dict[str, object]:
    """Give an identity a role. Who owns may also write, who writes may also read.

    Example: stemmadb acl set did:key:z6Mk... write --space todo
    """
    did = person(target, who)

    async def work(space: Space) -> None:
        await space.acl.set(did, role)

    run(target, work, writes=True)
    shell.say(f"{shell.named(did)} may {role}")
    return {"did": did, "role": role}


@acl.command("remove")
@click.argument("who", metavar="DID|NAME")
@yes_option
@space_options
@click.pass_obj
def remove_role(shell: CliContext, target: Target, who: str, yes: bool) -> dict[str, object]:
    """Take all rights from an identity. The command asks first if that is you.

    Example: stemmadb acl remove did:key:z6Mk... --space todo
    """
    did = person(target, who)
    if did == identity_of(target).did:
        confirm_giving_up(shell, did, yes=yes)

    async def work(space: Space) -> None:
        await space.acl.remove(did)

    run(target, work, writes=True)
    shell.say(f"{shell.named(did)} may do nothing now")
    return {"did": did, "role": None}
