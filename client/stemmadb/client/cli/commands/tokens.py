"""`stemmadb token`: access tokens for HTTP, made by an identity for itself, and taken back (TOKEN-1, TOKEN-4)."""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from typing import Any, Literal

import click

from stemmadb.client import Space
from stemmadb.client.cli.connection import Target, finished, identity_of, run, space_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.durations import duration_option
from stemmadb.client.dialing.websocket import WebSocketDial
from stemmadb.client.keys.names import Names
from stemmadb.client.reading.entries import Receipt
from stemmadb.protocol import identity as identities
from stemmadb.protocol.errors import Unauthenticated, UnknownSpace
from stemmadb.protocol.model.access import access_token
from stemmadb.protocol.model.access.access_token import AccessToken
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values.ids import RANDOM_ID_BYTES, Did, TimeMs
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.session import Hello
from stemmadb.protocol.wire.version import MSGPACK

TokenRole = Literal["read", "write", "own"]


@click.group(invoke_without_command=True)
@click.option("--role", type=click.Choice(["read", "write", "own"]), default="read", show_default=True, help="Role.")
@duration_option("--for", "how_long", default="1h", help="How long it lives, such as 15m or 8h; at most 24h.")
@click.option("--prefix", "prefixes", multiple=True, metavar="PREFIX", help="Only ids that begin so, as urn:todo:")
@click.option("--server", "is_server", is_flag=True, help="A token for the list of your spaces, and for no space.")
@space_options
@click.pass_context
def token(
    ctx: click.Context, target: Target, role: TokenRole, how_long: int, prefixes: tuple[str, ...], is_server: bool
) -> dict[str, object] | None:
    """Make an access token for HTTP, and take one back. Whoever has it may do what it says until it expires.

    The token goes to standard output, and what it can do to standard error.

    Example: stemmadb token --space todo --role read --for 1h
    """
    if ctx.invoked_subcommand is not None:
        return None
    shell: CliContext = ctx.obj
    space = None if is_server else _space(target)
    bare = tuple(one.removesuffix(EVERY) for one in prefixes) or ("",)
    me = identity_of(target)
    now = int(time.time() * 1_000)
    said = AccessToken(
        server=finished(lambda: _server(target, space or me.did)),
        space=space,
        principal=me.did,
        role=role,
        prefixes=bare,
        not_before=TimeMs(now),
        expires=TimeMs(now + how_long),
        nonce=os.urandom(RANDOM_ID_BYTES),
    )
    try:
        text = access_token.write_text(access_token.issue(said, me.sign))
    except Unauthenticated as wrong:
        raise click.UsageError(f"The token cannot be made: {wrong.facts['why']}.") from None
    until = datetime.fromtimestamp(said.expires / 1_000, UTC).isoformat(timespec="seconds")
    ids = "every id" if bare == ("",) else ", ".join(f"{one}{EVERY}" for one in bare)
    what = "list your spaces" if space is None else f"{role} {ids} of {space}"
    shell.warn(f"May {what}, as {me.did}, until {until}.")
    shell.say(text)
    return {"token": text, "space": space, "role": role, "prefixes": list(bare), "expires": said.expires}


@token.command("revoke")
@click.argument("text", metavar="TOKEN")
@space_options
@click.pass_obj
def revoke_token(shell: CliContext, target: Target, text: str) -> dict[str, object]:
    """Take back a token, before it expires. Needs the role own.

    Example: stemmadb token revoke stk1.kscz... --space todo
    """
    return revoke(shell, target, text)


def revoke(shell: CliContext, target: Target, text: str) -> dict[str, object]:
    """Takes back an access token or a delegation."""

    async def work(space: Space) -> Receipt:
        return await space.revoke(text)

    done = run(target, work, writes=True)
    shell.say(f"revoked at version {done.version}")
    return {"version": done.version}


def _space(target: Target) -> Did:
    """The DID of a space; nothing is asked of the server."""
    if target.space is None:
        raise click.UsageError("Name the space with --space, or make a server token with --server.")
    return did_of(target, target.space)


def did_of(target: Target, name: str) -> Did:
    """The DID that a name means for this server."""
    if name.startswith(identities.PREFIX):
        identities.public_key(name)
        return Did(name)
    known: Any = Names(target.config).find(target.url, name)
    if known is None:
        raise UnknownSpace(f"There is no space {name!r} at {target.url} that you know. See 'stemmadb space list'.")
    return Did(known)


async def _server(target: Target, space: Did) -> Did:
    """The server's own DID, which it says first on every connection."""
    channel = await WebSocketDial(target.url)(space)
    try:
        connection = ClientConnection(subprotocol=MSGPACK, space=space)
        (hello,) = connection.receive(await channel.receive())
        assert isinstance(hello, Hello), "a server says hello first"
        return hello.server
    finally:
        await channel.close()
