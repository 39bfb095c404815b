"""Asks a server who it is: its `hello` is the first message of every connection (WIRE-2)."""

from __future__ import annotations

import asyncio
from typing import Final

from stemmadb.protocol import identity
from stemmadb.protocol.errors import Unreachable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import ChannelClosed, Dial
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.session import Hello

SILENT: Final = "it did not say hello"


async def greet(dial: Dial, space: Did, *, url: str, timeout: float) -> Did:
    """The DID of the server; `Unreachable` if it does not answer. No session is opened, so `space` need not exist."""
    try:
        async with asyncio.timeout(timeout):
            return await _greeted(dial, space, url)
    except TimeoutError:
        raise Unreachable(url=url, why="no answer") from None
    except ChannelClosed as closed:
        raise Unreachable(url=url, why=f"the connection was lost ({closed})") from None


async def _greeted(dial: Dial, space: Did, url: str) -> Did:
    channel = await dial(space)
    try:
        connection = ClientConnection(subprotocol=channel.subprotocol, space=space)
        for event in connection.receive(await channel.receive()):
            if isinstance(event, Closed):
                raise event.error
            if isinstance(event, Hello):
                identity.public_key(event.server)
                return event.server
    finally:
        await channel.close()
    raise Unreachable(url=url, why=SILENT)
