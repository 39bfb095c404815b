"""Passes a client's connection on to the worker that serves its space.

A plain connection moves: its socket is sent over the owner's Unix socket, and nothing of it stays here. A TLS
connection that has begun cannot move: its bytes are decrypted here and relayed.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Mapping, Sequence

from stemmadb.server.serving.listeners.relay import begin_relay
from stemmadb.server.serving.ownership.port import LeavingConnection, OwnerUnreachable, RelayedEnd, ServedBy
from stemmadb.server.serving.workers import opening
from stemmadb.server.serving.workers.opening import Opening


class WorkerPassing:
    """Implements `PassingOn`. An address is the path of a worker's Unix socket."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def passed_by(self, headers: Mapping[str, Sequence[str]]) -> str | None:  # noqa: ARG002
        """Workers pass connections on over their own sockets, never over the port."""
        return None

    async def pass_on(self, leaving: LeavingConnection, owner: ServedBy) -> RelayedEnd | None:
        is_plain = leaving.transport.get_extra_info("ssl_object") is None
        descriptor = _duplicate(leaving.transport) if is_plain else None
        try:
            sock = await opening.connect(owner.address)
        except OSError as error:
            raise OwnerUnreachable(owner.address) from error
        else:
            if descriptor is None:
                return await self._relay(leaving, sock)
            await self._send(leaving, sock, descriptor)
            return None
        finally:
            if descriptor is not None:
                os.close(descriptor)

    async def _send(self, leaving: LeavingConnection, sock: socket.socket, descriptor: int) -> None:
        data = self._opening("socket", leaving)
        try:
            with sock:
                sent = socket.send_fds(sock, [data], [descriptor])
                await asyncio.get_running_loop().sock_sendall(sock, memoryview(data)[sent:])
        except OSError as error:
            raise OwnerUnreachable("it ended meanwhile") from error

    async def _relay(self, leaving: LeavingConnection, sock: socket.socket) -> RelayedEnd:
        loop = asyncio.get_running_loop()
        try:
            return await begin_relay(
                leaving,
                lambda factory: loop.create_unix_connection(factory, sock=sock),
                opening=self._opening("relay", leaving),
            )
        except BaseException:
            sock.close()
            raise

    def _opening(self, kind: opening.Kind, leaving: LeavingConnection) -> bytes:
        passed = Opening(kind=kind, address=leaving.address, data=leaving.head + leaving.rest)
        return opening.encode(self._secret, passed)


def _duplicate(transport: asyncio.Transport) -> int:
    """A descriptor of our own: the client may leave at any moment, and the number of its socket be used again."""
    try:
        return os.dup(transport.get_extra_info("socket").fileno())
    except OSError as error:
        raise OwnerUnreachable("the client has left") from error
