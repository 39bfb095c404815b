"""A connection that arrives at the wrong process goes on at the owner of its space, as if it had arrived there."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Collection, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from listening import BINARY, LISTENERS, PATH, Listening, Make, certificate, frame, listening, patiently, request
from space import SPACE
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.listeners.relay import RELAY_BYTES_MAX
from stemmadb.server.serving.nodes.passing import HEADER, NodePassing
from stemmadb.server.serving.ownership.port import SERVED_HERE, Owner, ServedBy
from stemmadb.server.serving.ownership.routing import Routing
from stemmadb.server.serving.workers import opening
from stemmadb.server.serving.workers.mailbox import OPENING_SECONDS, Mailbox
from stemmadb.server.serving.workers.opening import LENGTH, SECRET_BYTES, Opening
from stemmadb.server.serving.workers.passing import WorkerPassing

pytestmark = pytest.mark.parametrize("make", LISTENERS)
SECRET = b"s" * SECRET_BYTES


class Elsewhere:
    """An ownership with one answer."""

    is_single = False

    def __init__(self, owner: Owner) -> None:
        self.owner = owner

    def known(self, space: Did) -> Owner | None:  # noqa: ARG002
        return self.owner

    async def claim(self, spaces: Collection[Did]) -> Mapping[Did, Owner]:
        return dict.fromkeys(spaces, self.owner)

    def is_alive(self) -> bool:
        return True


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path leaves room: that of a Unix socket is short."""
    with tempfile.TemporaryDirectory(prefix="st") as directory:
        yield Path(directory)


async def echo(question: bytes) -> bytes:
    return question[::-1]


class Pair:
    """A listener where clients arrive, and the one that owns every space."""

    def __init__(self, arrive: Listening, owner: Listening, mailbox: Mailbox, path: Path) -> None:
        self.arrive = arrive
        self.owner = owner
        self.mailbox = mailbox
        self.path = path


@asynccontextmanager
async def pair(
    make: Make, short: Path, contexts: tuple[ssl.SSLContext, ssl.SSLContext] | None = None, **settings: Any
) -> AsyncIterator[Pair]:
    path = short / "1"
    server, client = contexts or (None, None)
    away = Routing(Elsewhere(ServedBy(str(path))), WorkerPassing(SECRET))
    here = Routing(Elsewhere(SERVED_HERE), WorkerPassing(SECRET))
    async with (
        listening(make, routing=here, **settings) as owner,
        listening(make, ssl=server, client_context=client, routing=away, **settings) as arrive,
    ):
        mailbox = Mailbox(path, SECRET, adopt=owner.listener.adopt, answer=echo)
        mailbox.open()
        try:
            yield Pair(arrive, owner, mailbox, path)
        finally:
            mailbox.close()


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return certificate(tmp_path_factory.mktemp("certificate"))


async def exchanged(it: Pair) -> None:
    """A whole conversation of a peer that arrives at the wrong process."""
    it.owner.handlers.on_received = lambda handler, data: handler.socket.send(data)
    peer = await it.arrive.peer()
    handler = await it.owner.handlers.next()
    for size in (3, 300, 300_000):
        peer.write(frame(BINARY, b"x" * size))
        assert await peer.frame() == (BINARY, b"x" * size)
    assert handler.arrival.space == SPACE
    assert handler.arrival.address == "127.0.0.1"
    assert not it.arrive.handlers.everybody
    handler.socket.close(1001)
    assert await peer.close_code() == 1001
    await peer.leave()
    await handler.gone()


async def test_a_plain_connection_moves_to_the_owner(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        await exchanged(it)
        assert it.arrive.listener.relays == 0


async def test_a_tls_connection_is_relayed_to_the_owner(
    make: Make, short: Path, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    async with pair(make, short, contexts) as it:
        peer = await it.arrive.peer()
        await it.owner.handlers.next()
        assert it.arrive.listener.relays == 1
        await peer.leave()
        await exchanged(it)
        async with asyncio.timeout(20):
            while it.arrive.listener.relays:
                await asyncio.sleep(0.001)


async def test_a_head_that_comes_byte_by_byte_is_passed_on_whole(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        peer = await it.arrive.raw()
        for byte in request():
            peer.write(bytes([byte]))
            await asyncio.sleep(0)
        assert (await peer.head())[0] == 101
        assert (await it.owner.handlers.next()).arrival.space == SPACE


async def test_a_head_that_never_ends_is_cut_off_where_it_arrived(make: Make, short: Path) -> None:
    async with pair(make, short, handshake_timeout_ms=50) as it:
        peer = await it.arrive.raw()
        peer.write(request()[:-2])
        assert await peer.ended() == b""
        assert it.owner.handlers.welcomed == 0


async def test_frames_behind_the_head_are_passed_on_with_it(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        peer = await it.arrive.raw()
        peer.write(request() + frame(BINARY, b"first") + frame(BINARY, b"second"))
        handler = await it.owner.handlers.next()
        assert [await handler.message(), await handler.message()] == [b"first", b"second"]


async def test_a_client_that_leaves_meanwhile_leaves_nothing_behind(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
        for _ in range(20):
            peer = await it.arrive.raw()
            peer.write(request())
            await peer.leave()
        async with asyncio.timeout(20):
            while any(not one.was_lost.is_set() for one in it.owner.handlers.everybody):
                await asyncio.sleep(0.01)
            while before and len(os.listdir("/proc/self/fd")) > before:
                await asyncio.sleep(0.01)
        assert it.owner.listener.connections == 0


async def test_an_owner_that_is_not_there_is_503_with_a_time_to_try_again(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        it.mailbox.close()
        peer = await it.arrive.raw()
        peer.write(request())
        status, headers = await peer.head()
        assert (status, headers["retry-after"]) == (503, "1")
        assert it.arrive.listener.refused == 1


async def test_what_was_passed_on_is_not_passed_on_again(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        it.owner.listener.routing.ownership.owner = ServedBy(str(it.path))  # type: ignore[attr-defined]
        peer = await it.arrive.raw()
        peer.write(request())
        status, headers = await peer.head()
        assert (status, headers["retry-after"]) == (503, "1")
        assert it.owner.listener.refused == 1


async def test_paths_without_a_space_are_answered_where_they_arrive(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        it.mailbox.close()
        assert await it.arrive.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == (200, "alive\n")
        status, _ = await it.arrive.ask(request("/v1/spaces/did:key:nothing"))
        assert status == 400


async def test_a_plain_request_for_a_space_is_answered_by_its_owner(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        status, text = await it.arrive.ask(f"GET {PATH}/entity HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        assert (status, text) == (404, "There is nothing here.\n")
        assert (it.arrive.listener.refused, it.owner.listener.refused) == (0, 1)


async def test_a_relay_with_a_slow_reader_keeps_a_bounded_number_of_bytes(
    make: Make, short: Path, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    async with pair(make, short, contexts) as it:
        peer = await it.arrive.peer(receive_bytes=4096)
        handler = await it.owner.handlers.next()
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        chunk, sent = bytes(64 * 1024), 0
        while handler.socket.unsent < 2 * len(chunk) and sent < 1_000:
            handler.socket.send(chunk)
            sent += 1
            await asyncio.sleep(0.001)
        assert sent < 1_000
        relay = next(iter(it.arrive.listener._fronts))  # type: ignore[attr-defined]
        assert relay._transport.get_write_buffer_size() <= 8 * RELAY_BYTES_MAX
        peer.reader._transport.resume_reading()  # type: ignore[attr-defined]
        for _ in range(sent):
            assert await peer.frame() == (BINARY, chunk)
        await patiently(handler.was_drained.wait())


async def test_a_relayed_client_ends_with_its_owner(
    make: Make, short: Path, contexts: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    async with pair(make, short, contexts) as it:
        peer = await it.arrive.peer()
        handler = await it.owner.handlers.next()
        handler.socket.abort()  # type: ignore[attr-defined]
        await peer.ended()
        await handler.gone()


async def test_an_address_over_its_limit_is_refused_by_the_owner(make: Make, short: Path) -> None:
    async with pair(make, short, connections_per_address_max=1) as it:
        await it.arrive.peer()
        await it.owner.handlers.next()
        second = await it.arrive.raw()
        second.write(request())
        assert (await second.head())[0] == 429


async def test_an_address_over_its_limit_is_refused_when_another_node_passes_it_on(make: Make) -> None:
    passing = NodePassing(SECRET)

    def passed(address: str) -> bytes:
        return request(**{HEADER: f"{passing._proof(address)} {address}"})

    routing = Routing(Elsewhere(SERVED_HERE), passing)
    async with listening(make, routing=routing, connections_per_address_max=1) as it:
        first = await it.raw()
        first.write(passed("10.0.0.1"))
        assert (await first.head())[0] == 101
        for address, status in (("10.0.0.1", 429), ("10.0.0.2", 101), ("10.0.0.1", 429)):
            peer = await it.raw()
            peer.write(passed(address))
            assert (await peer.head())[0] == status
        await first.leave()
        for handler in it.handlers.everybody[:1]:
            await handler.gone()
        again = await it.raw()
        again.write(passed("10.0.0.1"))
        assert (await again.head())[0] == 101


@pytest.mark.parametrize(
    "sent",
    [
        b"GET / HTTP/1.1\r\n\r\n" + bytes(40),
        bytes(SECRET_BYTES) + LENGTH.pack(0),
        opening.encode(bytes(SECRET_BYTES), Opening("relay", "10.0.0.1", request())),
        SECRET + LENGTH.pack(2**31),
        SECRET + LENGTH.pack(3) + b"\xff\xff\xff",
        opening.encode(SECRET, Opening("socket", "", b"without a socket")),
        b"",
    ],
    ids=["http", "secret", "opening with another secret", "length", "opening", "descriptor", "silence"],
)
async def test_a_foreign_connection_is_closed_and_logged(
    make: Make, short: Path, sent: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with pair(make, short) as it:
        reader, writer = await asyncio.open_unix_connection(it.path)
        writer.write(sent)
        with suppress(ConnectionError):  # it was closed with bytes that nobody read
            assert await asyncio.wait_for(reader.read(), 10 * OPENING_SECONDS) == b""
        writer.transport.abort()
        assert "foreign_connection" in caplog.text
        assert not it.owner.handlers.everybody
        await exchanged(it)


async def test_workers_answer_questions(make: Make, short: Path) -> None:
    async with pair(make, short) as it:
        sock = await opening.connect(str(it.path))
        with sock:
            loop = asyncio.get_running_loop()
            await loop.sock_sendall(sock, opening.encode(SECRET, Opening("question", "", b"abc")))
            data = b""
            while more := await loop.sock_recv(sock, 100):
                data += more
        assert data == LENGTH.pack(3) + b"cba"


async def test_ipv6_moves_too(make: Make, short: Path) -> None:
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    async with pair(make, short) as it:
        loop = asyncio.get_running_loop()
        listening_socket = socket.create_server(("::1", 0), family=socket.AF_INET6)
        server = await loop.create_server(it.arrive.listener._make_front, sock=listening_socket)  # type: ignore[attr-defined]
        reader, writer = await asyncio.open_connection("::1", listening_socket.getsockname()[1])
        writer.write(request())
        assert (await patiently(reader.readuntil(b"\r\n\r\n"))).startswith(b"HTTP/1.1 101")
        assert (await it.owner.handlers.next()).arrival.address == "::1"
        writer.transport.abort()
        server.close()
