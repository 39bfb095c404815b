"""Listeners over TLS, with a certificate made for the test."""

from __future__ import annotations

import asyncio
from pathlib import Path
from ssl import SSLContext

import pytest
from websockets.asyncio.client import connect

from listening import BINARY, LISTENERS, PATH, PING, PONG, Make, certificate, frame, listening, patiently
from stemmadb.protocol.wire.version import JSON
from stemmadb.server.service.base.transport import DRAIN_BYTES
from stemmadb.server.serving.listeners.read_share import FRAMES_MAX, READ_BYTES_MIN

pytestmark = pytest.mark.parametrize("make", LISTENERS)


@pytest.fixture(scope="module")
def contexts(tmp_path_factory: pytest.TempPathFactory) -> tuple[SSLContext, SSLContext]:
    folder: Path = tmp_path_factory.mktemp("certificate")
    return certificate(folder)


async def test_a_client_connects_by_wss(make: Make, contexts: tuple[SSLContext, SSLContext]) -> None:
    server, client = contexts
    async with listening(make, ssl=server) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        address = f"wss://localhost:{it.listener.port}{PATH}"
        async with connect(address, host="127.0.0.1", ssl=client, subprotocols=[JSON]) as peer:  # type: ignore[list-item]
            for size in (3, 300, 300_000):
                await peer.send("x" * size)
                assert await peer.recv() == "x" * size
        await (await it.handlers.next()).gone()


async def test_plain_requests_and_refusals_are_answered_over_tls(
    make: Make, contexts: tuple[SSLContext, SSLContext]
) -> None:
    server, client = contexts
    async with listening(make, ssl=server, client_context=client) as it:
        assert await it.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == (200, "alive\n")
        assert (await it.ask(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 404


async def test_drained_and_close_work_over_tls(make: Make, contexts: tuple[SSLContext, SSLContext]) -> None:
    server, client = contexts
    async with listening(make, ssl=server, client_context=client) as it:
        peer = await it.peer(receive_bytes=4096)
        handler = await it.handlers.next()
        chunk, sent = bytes(32 * 1024), 0
        while handler.socket.unsent <= 2 * DRAIN_BYTES:
            handler.socket.send(chunk)
            sent += 1
        for _ in range(sent):
            assert await peer.frame() == (BINARY, chunk)
        await patiently(handler.was_drained.wait())
        assert handler.calls == ["drained"]
        peer.write(frame(PING, b"?"))
        assert await peer.frame() == (PONG, b"?")
        handler.socket.close(1001)
        assert await peer.close_code() == 1001
        await peer.leave()
        await handler.gone()


async def test_a_broken_frame_over_tls_is_closed_with_its_code(
    make: Make, contexts: tuple[SSLContext, SSLContext]
) -> None:
    server, client = contexts
    async with listening(make, ssl=server, client_context=client, message_bytes_max=1000) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, bytes(2001)))
        assert await peer.close_code() == 1009
        await handler.gone()


@pytest.mark.rule("WIRE-7")
async def test_a_flood_over_tls_is_handled_in_many_turns_of_the_loop(
    make: Make, contexts: tuple[SSLContext, SSLContext]
) -> None:
    """A record of TLS may bring thousands of frames at once."""
    server, client = contexts
    async with listening(make, ssl=server, client_context=client, small_frames_per_second=1_000_000_000) as it:
        loop, turn = asyncio.get_running_loop(), 0
        seen: dict[int, int] = {}

        def count() -> None:
            nonlocal turn
            turn += 1
            loop.call_soon(count)

        it.handlers.on_received = lambda _handler, _data: seen.update({turn: seen.get(turn, 0) + 1})
        peer = await it.peer()
        handler = await it.handlers.next()
        count()
        peer.write(frame(BINARY, b"") * 5_000 + frame(BINARY, b"end"))
        while await handler.message() != b"end":
            pass
        assert sum(seen.values()) == 5_001
        assert max(seen.values()) <= FRAMES_MAX + READ_BYTES_MIN // 6 + 1
