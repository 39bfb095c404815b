"""A small client on a channel of the test kit: it opens a session, commits, and remembers all it was told."""

from __future__ import annotations

import asyncio
from typing import Any

from stemmadb.client.testing import World
from stemmadb.protocol.model.commit.request import Content, Operation
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, EntityId, Local
from stemmadb.protocol.wire.channel import Channel, ChannelClosed
from stemmadb.protocol.wire.codec.msgpack_codec import encode_content
from stemmadb.protocol.wire.connection.base import Closed, ConnectionState
from stemmadb.protocol.wire.connection.client_side import Answered, ClientConnection, ClientEvent, SessionPosition
from stemmadb.protocol.wire.messages.base import Request
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, CommitMessage, Deferred, RejectedVerdict
from stemmadb.protocol.wire.messages.reading import WatchRequest
from stemmadb.protocol.wire.messages.session import Hello
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol


class RawClient:
    """One connection; a task receives until it ends. `again` connects once more, with the same session."""

    def __init__(self, world: World, name: str, space: Did, *, session: bytes | None = None) -> None:
        self.world, self.name, self.space = world, name, space
        self.session = session or world.random(name)(16)
        self.events: list[ClientEvent] = []
        self.closed: int | None = None
        """The close code, once it is over."""
        self.last_local = 0
        self._news = asyncio.Event()

    async def open(self, subprotocol: Subprotocol = MSGPACK, **standing: Any) -> RawClient:
        self.channel: Channel = await self.world.dial(self.name, subprotocol)(self.space)
        self.connection = ClientConnection(subprotocol=subprotocol, space=self.space, limits=self.world.limits)
        self._reading = asyncio.create_task(self._read())
        await self.until(lambda: self.told(Hello))
        self._check(ConnectionState.GREETED)
        identity = self.world.identity(self.name)
        opening = self.connection.open(
            principal=identity.did, session=self.session, sign=identity.sign, standing=SessionPosition(**standing)
        )
        await self.channel.send(opening)
        await self.until(lambda: self.told(Sync))
        return self

    def _check(self, state: ConnectionState) -> None:
        if self.connection.state is not state:
            raise ChannelClosed(self.closed or 1006, "said goodbye")

    async def again(self) -> RawClient:
        """A new connection of the same session, which stands where it began."""
        other = RawClient(self.world, self.name, self.space, session=self.session)
        other.last_local = self.last_local
        return await other.open()

    async def _read(self) -> None:
        try:
            while True:
                self.events += self.connection.receive(await self.channel.receive())
                self._news.set()
        except ChannelClosed as closed:
            self.closed = closed.code
            self._news.set()

    async def until(self, wanted: Any) -> None:
        """Until it holds, or the connection is over."""
        while not wanted() and self.closed is None:
            self._news.clear()
            await self._news.wait()

    async def over(self) -> int:
        """Waits for the end; the close code."""
        await self.until(lambda: False)
        assert self.closed is not None
        return self.closed

    async def send(self, *operations: Operation, local: int | None = None) -> Local:
        """A commit, without waiting for its verdict; the same local has the same nonce."""
        self.last_local = local or self.last_local + 1
        content = encode_content(Content(operations=operations))
        nonce = self.last_local.to_bytes(16, "big")
        self._check(ConnectionState.OPEN)
        message = CommitMessage(local=Local(self.last_local), nonce=nonce, content=content)
        await self.channel.send(self.connection.commit(message))
        return Local(self.last_local)

    async def commit(
        self, *operations: Operation, local: int | None = None
    ) -> AcceptedVerdict | RejectedVerdict | None:
        """Its verdict; None if the connection ended before."""
        sent = await self.send(*operations, local=local)
        await self.until(lambda: self.verdict(sent))
        return self.verdict(sent)

    def verdict(self, local: int) -> AcceptedVerdict | RejectedVerdict | None:
        verdicts = [one for frame in self.told(Sync) for one in frame.verdicts if one.local == local]
        assert len(verdicts) <= 1, f"commit {local} has {len(verdicts)} verdicts"
        return verdicts[0] if verdicts else None

    async def watch(self, prefix: str) -> None:
        request = WatchRequest(id=self.connection.next_id(), watch=1, query=Query(roots=(Root(prefix),)))
        await self.ask(request)

    async def ask(self, request: Request) -> Any:
        await self.channel.send(self.connection.request(request))
        await self.until(lambda: [one for one in self.told(Answered) if one.request is request])
        return next((one.result for one in self.told(Answered) if one.request is request), None)

    def told(self, kind: type[Any]) -> list[Any]:
        return [one for one in self.events if isinstance(one, kind)]

    @property
    def goodbye(self) -> Closed | None:
        found = self.told(Closed)
        return found[0] if found else None

    @property
    def deferred(self) -> list[Deferred]:
        return self.told(Deferred)

    async def leave(self) -> None:
        await self.channel.close()
        await self._reading


def put(id_: str, value: Any) -> Operation:
    return Operation(op="set", id=EntityId(id_), body=encode(value), blind=True)
