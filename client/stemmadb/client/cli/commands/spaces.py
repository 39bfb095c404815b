"""`stemmadb space`: the spaces that are known here by name, and new ones."""

from __future__ import annotations

import click

from stemmadb.client.cli.commands.tokens import did_of
from stemmadb.client.cli.commands.words import ListingGroup
from stemmadb.client.cli.connection import Target, database, finished, server_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.shapes import Column, TextTable
from stemmadb.client.keys.names import Names


@click.group(cls=ListingGroup)
def space() -> None:
    """List the spaces you know by name, and create new ones. Without a command it lists them.

    Example: stemmadb space create todo
    """


@space.command("list")
@server_options
@click.pass_obj
def list_spaces(shell: CliContext, target: Target) -> dict[str, object]:
    """List the names that mean a space of this server.

    Example: stemmadb space list
    """
    known = sorted(Names(target.config).all(target.url).items())
    if known:
        shell.show(TextTable((Column("NAME"), Column("DID")), [(clean(name), did) for name, did in known]))
    else:
        shell.warn(f"No space of {target.url} has a name here. Make one with 'stemmadb space create NAME'.")
    return {"url": target.url, "spaces": [{"name": name, "space": did} for name, did in known]}


@space.command("did")
@click.argument("name")
@server_options
@click.pass_obj
def show_did(shell: CliContext, target: Target, name: str) -> dict[str, object]:
    """Print the DID of a space that you know by name: it stands in addresses of HTTP.

    Example: stemmadb space did todo
    """
    did = did_of(target, name)
    shell.say(did)
    return {"name": name, "space": did}


@space.command("create")
@click.argument("name")
@server_options
@click.pass_obj
def create_space(shell: CliContext, target: Target, name: str) -> dict[str, object]:
    """Create a space that you own, and call it NAME. If you have one of this name, it is shown.

    Example: stemmadb space create todo
    """
    is_new = Names(target.config).find(target.url, name) is None

    async def work() -> str:
        async with database(target) as db:
            return (await db.space(name)).did

    did = finished(work, writes=True)
    shell.say(did)
    return {"url": target.url, "name": name, "space": did, "created": is_new}
