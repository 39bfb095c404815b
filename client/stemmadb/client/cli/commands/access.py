"""`stemmadb acl`: who may do what in a space."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import click

from stemmadb.client import Space
from stemmadb.client.cli import layouts
from stemmadb.client.cli.commands.tokens import revoke
from stemmadb.client.cli.commands.words import ListingGroup
from stemmadb.client.cli.connection import Target, identity_of, person, run, space_options, viewer
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.durations import duration_option
from stemmadb.client.cli.own_access import confirm_giving_up, yes_option
from stemmadb.client.reading.access import AccessList, Grant
from stemmadb.client.reading.delegation import DelegableRole
from stemmadb.protocol.model.query.query import EVERY


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
    """Give an identity a role. An owner may also write, and a writer may also read.

    Example: stemmadb acl set did:key:z6Mk... write --space todo
    """
    did = person(target, who)

    async def work(space: Space) -> None:
        await space.acl.set(did, role)

    run(target, work, writes=True)
    shell.say(f"{shell.named(did)} may {role}")
    return {"did": did, "role": role}


@acl.command("delegate")
@click.argument("who", metavar="DID|NAME")
@click.argument("role", type=click.Choice(get_args(DelegableRole)))
@duration_option("--for", "how_long", default="8h", help="How long it lives, such as 15m, 8h or 2d.")
@click.option("--prefix", "prefixes", multiple=True, metavar="PREFIX", help="Only ids that begin so, as urn:todo:")
@space_options
@click.pass_obj
def delegate(
    shell: CliContext, target: Target, who: str, role: DelegableRole, how_long: int, prefixes: tuple[str, ...]
) -> dict[str, object]:
    """Give an identity a role for a while, without writing it into the access list. Hand the printed text over.

    Example: stemmadb acl delegate did:key:z6Mk... read --for 8h --prefix urn:todo: --space todo
    """
    did = person(target, who)
    starred = [f"{one.removesuffix(EVERY)}{EVERY}" for one in prefixes] or [EVERY]

    async def work(space: Space) -> str:
        return await space.delegate(did, role, prefixes=starred, expires=timedelta(milliseconds=how_long))

    text = run(target, work)
    shell.warn(f"{did} may {role} {', '.join(starred)} with this, until it expires or is revoked.")
    shell.say(text)
    return {"did": did, "role": role, "prefixes": starred, "delegation": text}


@acl.command("revoke")
@click.argument("text", metavar="DELEGATION|NAME")
@space_options
@click.pass_obj
def revoke_delegation(shell: CliContext, target: Target, text: str) -> dict[str, object]:
    """Take back a delegation, and all that were made from it. It is given whole, or by its name b3:...

    Example: stemmadb acl revoke ksTaAR... --space todo
    """
    return revoke(shell, target, text)


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
