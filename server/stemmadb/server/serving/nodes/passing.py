"""Passes a client's connection on to the node that owns its space: a TCP connection, and the bytes both ways.

The head of the request gets one more header, with the client's address and a proof that a node of ours wrote it. It
proves nothing about the network between the nodes: use a private one, or TLS.
"""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Mapping, Sequence
from typing import Final

from blake3 import blake3

from stemmadb.server.serving.listeners.relay import begin_relay
from stemmadb.server.serving.ownership.port import LeavingConnection, OwnerUnreachable, RelayedEnd, ServedBy

HEADER: Final = "stemmadb-passed"
CONNECT_SECONDS: Final = 1.0
_LINE_END: Final = b"\r\n"


class NodePassing:
    """Implements `PassingOn`. An address is `host:port`."""

    def __init__(self, secret: bytes, context: ssl.SSLContext | None = None) -> None:
        """`secret` is the same on all nodes; with a context connections to other nodes use TLS."""
        self._key = blake3(secret).digest()
        self._context = context
        self.passed = 0
        """Connections that were passed on."""
        self._relayed: dict[str, list[asyncio.Transport]] = {}
        """Clients' transports by the address of the node they are relayed to."""

    def passed_by(self, headers: Mapping[str, Sequence[str]]) -> str | None:
        for value in headers.get(HEADER, ()):
            proof, _, address = value.partition(" ")
            if hmac.compare_digest(proof, self._proof(address)):
                return address
        return None

    def addresses(self) -> list[str]:
        """Of the nodes that connections are relayed to now."""
        for address, transports in list(self._relayed.items()):
            self._relayed[address] = [one for one in transports if not one.is_closing()]
            if not self._relayed[address]:
                del self._relayed[address]
        return list(self._relayed)

    def end_relays(self, address: str) -> None:
        """That node is gone. One that is paused still takes connections, and would never answer."""
        for transport in self._relayed.pop(address, ()):
            transport.abort()

    def _proof(self, address: str) -> str:
        return blake3(address.encode(), key=self._key).hexdigest()

    async def pass_on(self, leaving: LeavingConnection, owner: ServedBy) -> RelayedEnd | None:
        host, _, port = owner.address.rpartition(":")
        loop = asyncio.get_running_loop()
        added = f"{HEADER}: {self._proof(leaving.address)} {leaving.address}".encode()
        head = leaving.head.removesuffix(_LINE_END) + added + 2 * _LINE_END

        async def connect(factory: type[asyncio.Protocol]) -> None:
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.create_connection(factory, host.strip("[]"), int(port), ssl=self._context)

        try:
            end = await begin_relay(leaving, connect, opening=head + leaving.rest)  # type: ignore[arg-type]
            self.passed += 1
            self._relayed.setdefault(owner.address, []).append(leaving.transport)
            return end
        except (OSError, TimeoutError, ValueError) as error:
            raise OwnerUnreachable(owner.address) from error
