"""`stemmadb keys`: the identities of the user, and the spaces it knows by name."""

from __future__ import annotations

from typing import Final

import click

from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.escapes import clean
from stemmadb.client.keys.identity import Identity
from stemmadb.client.keys.key_files import KEY_BYTES_MAX, from_pem, to_pem
from stemmadb.client.keys.names import Names
from stemmadb.client.keys.ring import DEFAULT, KeyRing
from stemmadb.protocol.errors import NotFound

WARNING: Final = "Whoever has this secret is {name}, for ever. Print it?"

json_option = click.option(
    "--json", is_flag=True, expose_value=False, help="Print one JSON object as the last line, for programs."
)


@click.group(invoke_without_command=True)
@click.pass_context
def keys(ctx: click.Context) -> dict[str, object] | None:
    """List, make, export and import your identities. They are files that only you can read.

    They are kept in the directory that STEMMADB_HOME names, else in your config directory.

    Example: stemmadb keys show
    """
    return ctx.invoke(list_) if ctx.invoked_subcommand is None else None


@keys.command("list")
@json_option
@click.pass_obj
def list_(shell: CliContext) -> dict[str, object]:
    """List your identities.

    Example: stemmadb keys list
    """
    ring = KeyRing()
    found = ring.identities()
    for name, did in found.items():
        shell.say(f"{name}  {did}")
    if not found:
        shell.say(f"There are no identities in {ring.directory}. Make one with 'stemmadb keys show'.")
    listed = [{"name": name, "did": did} for name, did in found.items()]
    return {"directory": str(ring.directory), "identities": listed}


@keys.command()
@click.argument("name", default=DEFAULT)
@json_option
@click.pass_obj
def show(shell: CliContext, name: str) -> dict[str, object]:
    """Show the DID of an identity: give it to others, so that they can let you in.

    Without NAME it is the default one, which is made if there is none.

    Example: stemmadb keys show
    """
    ring = KeyRing()
    identity = ring.identity() if name == DEFAULT else _found(ring, name)
    shell.say(identity.did)
    return _answer(name, identity)


@keys.command()
@click.argument("name")
@json_option
@click.pass_obj
def new(shell: CliContext, name: str) -> dict[str, object]:
    """Make a new identity.

    Example: stemmadb keys new robot
    """
    identity = KeyRing().make(name)
    shell.say(identity.did)
    return _answer(name, identity)


@keys.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
@click.pass_obj
def export(shell: CliContext, name: str, yes: bool) -> dict[str, object]:
    """Print the secret of an identity, in PEM.

    Example: stemmadb keys export robot --yes > robot.key
    """
    identity = _found(KeyRing(), name)
    if not yes:
        _confirm(shell, name)
    secret = to_pem(identity).decode()
    shell.say_lines(secret.rstrip())
    return _answer(name, identity) | {"secret": secret}


@keys.command("import")
@click.argument("name")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, allow_dash=True), default="-")
@json_option
@click.pass_obj
def import_(shell: CliContext, name: str, file: str) -> dict[str, object]:
    """Keep an identity that was exported elsewhere, under a name. Without FILE it is read from standard input.

    Example: stemmadb keys import robot robot.key
    """
    with click.open_file(file, "rb") as stream:
        given = from_pem(stream.read(KEY_BYTES_MAX), source="standard input" if file == "-" else file)
    identity = KeyRing().import_seed(name, given.seed())
    shell.say(identity.did)
    return _answer(name, identity)


@keys.command()
@json_option
@click.pass_obj
def spaces(shell: CliContext) -> dict[str, object]:
    """List the names of spaces on all servers, the ways to each, and whether the key of the space is here.

    Example: stemmadb keys spaces
    """
    held = KeyRing().spaces()
    known = Names().spaces()
    named = [
        {
            "name": one.name,
            "space": one.space,
            "server": one.server,
            "addresses": list(one.addresses),
            "key": one.space in held,
        }
        for one in known
    ]
    for one in known:
        ways = ", ".join(one.addresses) or "no address"
        key = "  (key)" if one.space in held else ""
        shell.say(f"{ways}  {one.name}  {one.space}{key}")
    unnamed = sorted(set(held) - {one.space for one in known})
    for space in unnamed:
        shell.say(f"(without a name)  {space}  (key)")
    if not named and not unnamed:
        shell.say("There are no spaces yet. A program that opens one by name makes it.")
    return {"spaces": named, "unnamed": unnamed}


def _found(ring: KeyRing, name: str) -> Identity:
    identity = ring.find(name)
    if identity is None:
        hint = f"List them with 'stemmadb keys list', or make it with 'stemmadb keys new {name}'"
        raise NotFound(f"There is no identity {name!r}. {hint}.", name=name)
    return identity


def _confirm(shell: CliContext, name: str) -> None:
    """A program cannot be asked, so that it has to say so by itself."""
    if shell.is_json:
        raise click.UsageError("This prints a secret: confirm with --yes.")
    if not click.confirm(clean(WARNING.format(name=name)), err=True):
        raise click.Abort("The secret was not printed.")


def _answer(name: str, identity: Identity) -> dict[str, object]:
    return {"name": name, "did": identity.did}
