"""`stemmadb space`: the spaces that are known here by name, and new ones."""

from __future__ import annotations

from typing import Final

import click

from stemmadb.client.cli.commands.tokens import did_of
from stemmadb.client.cli.commands.words import ListingGroup
from stemmadb.client.cli.completer import complete_spaces
from stemmadb.client.cli.connection import Target, database, finished, open_space, server_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.escapes import clean
from stemmadb.client.cli.shapes import Column, TextTable
from stemmadb.client.keys.name_notices import known_elsewhere
from stemmadb.client.keys.names import Names, space_name
from stemmadb.protocol.model.values.ids import Did

NEW: Final = "This would make a new, empty one at {url}."


@click.group(cls=ListingGroup)
def space() -> None:
    """List the spaces you know by name, create new ones, and print their DIDs. Without a command it lists them.

    Example: stemmadb space create todo
    """


@space.command("list")
@server_options
@click.pass_obj
def list_spaces(shell: CliContext, target: Target) -> dict[str, object]:
    """List the names that mean a space of this server.

    Names belong to the server, by its DID: every address that leads to it shows the same ones.

    Example: stemmadb space list
    """
    names = Names(target.config)
    server = names.server(target.url) or _server(target)
    known = sorted(names.all(target.url).items())
    if known:
        shell.show(TextTable((Column("NAME"), Column("DID")), [(clean(name), did) for name, did in known]))
    else:
        shell.warn(f"No space of {target.url} has a name here. Make one with 'stemmadb space create NAME'.")
    spaces = [{"name": name, "space": did} for name, did in known]
    return {"url": target.url, "server": server, "spaces": spaces}


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
@click.option("--new", is_flag=True, help="Do not ask, even if you have a space of this name on another server.")
@server_options
@click.pass_obj
def create_space(shell: CliContext, target: Target, name: str, new: bool) -> dict[str, object]:
    """Create a space that you own, and call it NAME. If there is one of this name, the command says so and shows it.

    Asks before it makes a space whose name you use on another server; in a script say --new.

    Example: stemmadb space create todo
    """
    server = _server(target)
    is_new = Names(target.config).on(server, space_name(name)) is None
    if is_new and not new:
        _confirm_new(shell, target, server, name)

    async def work() -> str:
        async with database(target) as db:
            return (await db.space(name)).did

    did = finished(work, writes=True)
    shell.say(did)
    if not is_new:
        shell.warn(f"There is a space {name!r} at {target.url} already; nothing was made.")
    return {"url": target.url, "server": server, "name": name, "space": did, "created": is_new}


@space.command("did")
@click.argument("name", shell_complete=complete_spaces)
@server_options
@click.pass_obj
def did_of_space(shell: CliContext, target: Target, name: str) -> dict[str, object]:
    """Print the DID of the space NAME, for programs that do not know the name. Exits with 1 if there is none.

    Example: stemmadb verify --data ./data --space $(stemmadb space did todo)
    """
    did = Names(target.config).find(target.url, name)
    if did is None:
        did = finished(lambda: _asked(target._replace(space=name)))
    shell.say(did)
    return {"url": target.url, "name": name, "space": did}


def _server(target: Target) -> Did:
    async def work() -> Did:
        async with database(target) as db:
            return await db.server()

    return finished(work)


async def _asked(target: Target) -> Did:
    async with database(target) as db:
        return (await open_space(db, target)).did


def _confirm_new(shell: CliContext, target: Target, server: Did, name: str) -> None:
    """A name that is known elsewhere is more often a mistyped address than a second space."""
    other = Names(target.config).elsewhere(server, name)
    if other is None:
        return
    says = f"{known_elsewhere(name, other)} {NEW.format(url=target.url)}"
    if not shell.can_ask:
        raise click.UsageError(f"{says} Say --new if you want that.")
    if not click.confirm(clean(f"{says} Make it?"), err=True):
        raise click.Abort("Nothing was made.")
