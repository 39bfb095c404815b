"""The `stemmadb` command with a service that only greets, so that the process can be tested by itself.

As a script it is that command in a process of its own; with `--stuck` as its first word the service never stops.
"""

from __future__ import annotations

import asyncio
import sys

from stemmadb.client.cli import main
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.identity import CHALLENGE_BYTES
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.connection.server_side import ServerConnection
from stemmadb.server.counters import Counts
from stemmadb.server.engine.store import Store
from stemmadb.server.service.base.transport import Arrival, Socket
from stemmadb.server.serving import build
from stemmadb.server.serving.server_identity import ServerIdentity
from stemmadb.server.serving.settings.config import Config

GOING_AWAY = 1001
STUCK = "--stuck"


class Greeted:
    """A handler that hears nothing."""

    def __init__(self, service: GreetingService, socket: Socket) -> None:
        self._service = service
        self.socket = socket

    def received(self, data: Data) -> None:
        """Nothing is answered."""

    def overrun(self, error: StemmaError) -> None:
        """The listener closes."""

    def drained(self) -> None:
        """Nothing waits."""

    def lost(self) -> None:
        self._service.handlers.discard(self)


class GreetingService:
    """Says hello to whoever comes, and goodbye when it stops."""

    def __init__(self, server: Did, counts: Counts, *, is_stuck: bool = False) -> None:
        self._server = server
        self._counts = counts
        self._is_stuck = is_stuck
        self.handlers: set[Greeted] = set()

    def welcome(self, socket: Socket, arrival: Arrival) -> Greeted:
        connection = ServerConnection(
            subprotocol=arrival.subprotocol,
            server=self._server,
            space=arrival.space,
            challenge=bytes(CHALLENGE_BYTES),
            now_ms=lambda: 0,
        )
        socket.send(connection.hello())
        self._counts.space(arrival.space).messages_out += 1
        handler = Greeted(self, socket)
        self.handlers.add(handler)
        return handler

    async def stop(self) -> None:
        for handler in list(self.handlers):
            handler.socket.close(GOING_AWAY)
        if self._is_stuck:
            await asyncio.Event().wait()


def greet(store: Store, identity: ServerIdentity, config: Config, counts: Counts) -> GreetingService:
    return GreetingService(identity.did, counts)


def get_stuck(store: Store, identity: ServerIdentity, config: Config, counts: Counts) -> GreetingService:
    return GreetingService(identity.did, counts, is_stuck=True)


def no_web(service: object, identity: ServerIdentity, config: Config, lists: object = None) -> None:
    """HTTP is served by the real service alone."""


if __name__ == "__main__":
    is_stuck = sys.argv[1:2] == [STUCK]
    build.make_service = get_stuck if is_stuck else greet
    build.make_web = no_web
    main(sys.argv[2:] if is_stuck else sys.argv[1:])
