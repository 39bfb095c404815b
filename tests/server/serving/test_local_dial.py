"""Clients in the server's own process: the same sessions, without a socket."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stemmadb.client import Identity, connect
from stemmadb.client.database import Database
from stemmadb.protocol.errors import StemmaError, Unreachable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import ChannelClosed, Dial
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.server.open_store import now, open_store
from stemmadb.server.service.base.transport import DRAIN_BYTES, Arrival, Socket
from stemmadb.server.service.service import Service
from stemmadb.server.serving.local_dial import QUEUED_MAX, URL, LocalSocket, local_dial

SPACE = Did("did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK")


@asynccontextmanager
async def serving(directory: Path) -> AsyncIterator[Service]:
    async with open_store(directory) as store:
        service = Service(store, server=Identity.make().did, now=now, random=os.urandom)
        try:
            yield service
        finally:
            await service.stop()


def client(tmp_path: Path, name: str, dial: Dial) -> Database:
    return connect(URL, dial=dial, config=tmp_path / name, identity=None)


async def test_two_clients_of_the_process_write_and_watch_without_a_socket(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as service:
        dial = local_dial(service)
        async with client(tmp_path, "ada", dial) as ada, client(tmp_path, "ada", dial) as again:
            space = await ada.space("notes")
            watch = (await again.space(space.did)).watch("urn:note:*")
            async with watch:
                changes = aiter(watch)
                async with space.transaction() as tx:
                    tx.set("urn:note:1", {"text": "x" * 300_000})
                await tx.confirmed()
                while "urn:note:1" not in (await anext(changes)).entered:
                    pass
            assert await space.get("urn:note:1", "/text") == "x" * 300_000


async def test_a_service_that_has_stopped_is_unreachable(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as service:
        dial = local_dial(service, is_open=lambda: False)
        with pytest.raises(Unreachable):
            await dial(SPACE)


class Recorder:
    """A service and its handler at once: keeps what it is told."""

    def __init__(self) -> None:
        self.socket: Socket | None = None
        self.events: list[object] = []

    def welcome(self, socket: Socket, arrival: Arrival) -> Recorder:  # noqa: ARG002
        assert isinstance(socket, LocalSocket)
        self.socket = socket
        return self

    def received(self, data: Data) -> None:
        self.events.append(data)
        if data == b"raise":
            raise ValueError(data)

    def overrun(self, error: StemmaError) -> None:
        self.events.append(error)

    def drained(self) -> None:
        self.events.append("drained")

    def lost(self) -> None:
        self.events.append("lost")


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_client_that_writes_to_a_paused_connection_waits() -> None:
    recorder = Recorder()
    channel = await local_dial(recorder)(SPACE)
    assert recorder.socket is not None
    recorder.socket.pause()
    for number in range(QUEUED_MAX):
        await channel.send(b"%d" % number)
    more = asyncio.ensure_future(channel.send(b"more"))
    await turns()
    assert not more.done()
    assert recorder.events == []
    recorder.socket.resume()
    await more
    await turns(2 * QUEUED_MAX)
    assert recorder.events == [*(b"%d" % number for number in range(QUEUED_MAX)), b"more"]


async def test_a_client_that_does_not_read_is_slow_until_it_has_drained() -> None:
    recorder, ended = Recorder(), []
    channel = await local_dial(recorder)(SPACE)
    socket = recorder.socket
    assert socket is not None
    write = socket.raw_writer(lambda: ended.append(True))
    assert write is not None
    write(socket.framed(b"x" * DRAIN_BYTES))
    assert not ended
    write(socket.framed(b"y"))
    assert ended == [True]
    assert socket.unsent == DRAIN_BYTES + 1
    assert socket.raw_writer(lambda: None) is None
    assert await channel.receive() == b"x" * DRAIN_BYTES
    await turns()
    assert recorder.events == ["drained"]
    assert socket.unsent == 1


async def test_either_end_closes_and_the_handler_learns_it_once_and_last() -> None:
    recorder = Recorder()
    channel = await local_dial(recorder)(SPACE)
    assert recorder.socket is not None
    recorder.socket.send(b"bye")
    recorder.socket.close(1001)
    recorder.socket.close(1001)
    assert await channel.receive() == b"bye"
    with pytest.raises(ChannelClosed, match="1001"):
        await channel.receive()
    with pytest.raises(ChannelClosed):
        await channel.send(b"late")
    await channel.close()
    await turns()
    assert recorder.events == ["lost"]


async def test_a_handler_that_raises_loses_its_connection_and_nothing_else() -> None:
    problems: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: problems.append(context["exception"]))
    recorder = Recorder()
    channel = await local_dial(recorder)(SPACE)
    await channel.send(b"raise")
    with pytest.raises(ChannelClosed, match="1011"):
        await channel.receive()
    await turns()
    assert recorder.events == [b"raise", "lost"]
    assert [type(problem) for problem in problems] == [ValueError]
