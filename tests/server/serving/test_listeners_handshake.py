"""Who is let in by a listener: good and bad handshakes, origins, bounds of connections, and plain HTTP."""

from __future__ import annotations

import logging

import pytest
from websockets.asyncio.client import connect

from listening import (
    BINARY,
    KEY,
    LISTENERS,
    PATH,
    TEXT,
    Make,
    frame,
    listening,
    request,
    turns,
)
from space import SPACE
from stemmadb.protocol.wire.version import JSON, MSGPACK
from stemmadb.server.serving.listeners.http import HEAD_BYTES_MAX

pytestmark = pytest.mark.parametrize("make", LISTENERS)


@pytest.mark.rule("WIRE-1")
@pytest.mark.parametrize(("subprotocol", "message"), [(MSGPACK, b"\x80"), (JSON, '{"a":"\u00e9"}')])
async def test_a_client_of_either_subprotocol_gets_its_space(
    make: Make, subprotocol: str, message: bytes | str
) -> None:
    async with listening(make) as it:
        address = f"ws://127.0.0.1:{it.listener.port}{PATH}"
        async with connect(address, subprotocols=[subprotocol]) as client:  # type: ignore[list-item]
            handler = await it.handlers.next()
            assert (handler.arrival.space, handler.arrival.address) == (SPACE, "127.0.0.1")
            assert handler.arrival.subprotocol == client.subprotocol == subprotocol
            handler.socket.send(message)
            assert await client.recv() == message
            await client.send(message)
            assert await handler.message() == message
            assert client.protocol.extensions == []
        await handler.gone()


@pytest.mark.rule("WIRE-1")
async def test_of_both_subprotocols_the_first_is_taken(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.raw()
        peer.write(request(Sec_WebSocket_Protocol=f"{JSON},{MSGPACK}"))
        status, headers = await peer.head()
        assert (status, headers["sec-websocket-protocol"]) == (101, MSGPACK)
        assert headers["sec-websocket-accept"] == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        assert "sec-websocket-extensions" not in headers


@pytest.mark.rule("WIRE-1")
async def test_colons_of_a_did_may_be_escaped_and_headers_are_read_as_browsers_write_them(make: Make) -> None:
    async with listening(make) as it:
        await it.peer(path=PATH.replace(":", "%3A"), Connection="keep-alive, Upgrade", Upgrade="WebSocket")
        assert (await it.handlers.next()).arrival.space == SPACE


@pytest.mark.parametrize(
    ("sent", "status", "says"),
    [
        (request("/v1/elsewhere"), 404, "/v1/spaces/<did>"),
        (request("/v1/spaces/did:web:example.org"), 400, "did:key"),
        (request("/v1/spaces/"), 400, "did:key"),
        (request(Sec_WebSocket_Protocol=None), 400, MSGPACK),
        (request(Sec_WebSocket_Protocol="chat, stemma.v0.json"), 400, JSON),
        (request(Connection="close"), 426, "Upgrade"),
        (request(Sec_WebSocket_Version="8"), 426, "13"),
        (request(Sec_WebSocket_Version=None), 426, "13"),
        (request(Sec_WebSocket_Key=None), 400, "Sec-WebSocket-Key"),
        (request(Sec_WebSocket_Key="c2hvcnQ="), 400, "Sec-WebSocket-Key"),
        (request(Sec_WebSocket_Key=KEY + "\r\nSec-WebSocket-Key: " + KEY), 400, "Sec-WebSocket-Key"),
        (request(Sec_WebSocket_Key="!" * 24), 400, "Sec-WebSocket-Key"),
        (request(version="HTTP/1.0"), 400, "HTTP/1.1"),
        (request(method="HEAD"), 400, "GET"),
        (request(Upgrade="h2c"), 426, "WebSocket"),
        (request(method="POST"), 405, "GET"),
        (request(Content_Length="5"), 400, "body"),
        (request(Transfer_Encoding="chunked"), 400, "body"),
        (request(version="HTTP/2"), 400, "first line"),
        (request("no-slash"), 400, "first line"),
        (b"\r\n\r\n", 400, "first line"),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400, "first line"),
        (b"GET / HTTP/1.1\r\nX: \xff\r\n\r\n", 400, "ASCII"),
        (b"GET / HTTP/1.1\r\nX: \x00\r\n\r\n", 400, "control"),
        (b"GET / HTTP/1.1\r\nX : y\r\n\r\n", 400, "Name: value"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", 400, "Name: value"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 101 + b"\r\n", 431, "headers"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES_MAX, 431, "limited"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES_MAX + b"\r\n\r\n", 431, "limited"),
    ],
)
async def test_a_bad_handshake_gets_one_clear_sentence(make: Make, sent: bytes, status: int, says: str) -> None:
    async with listening(make) as it:
        answered, text = await it.ask(sent)
        assert answered == status
        assert says in text
        assert text.count("\n") == 1
        assert (it.handlers.welcomed, it.listener.refused, it.listener.connections) == (0, 1, 0)


async def test_a_head_may_come_in_pieces_and_be_as_long_as_the_bound(make: Make) -> None:
    async with listening(make) as it:
        for cut in (-1, -2, -3, -4, 10):
            peer = await it.raw()
            peer.write(request()[:cut])
            await turns()
            peer.write(request()[cut:])
            assert (await peer.head())[0] == 101
        await it.peer(X_Padding="y" * (HEAD_BYTES_MAX - len(request(X_Padding=""))))


async def test_a_refusal_reaches_a_peer_that_is_still_sending(make: Make) -> None:
    async with listening(make) as it:
        status, _ = await it.ask(b"GET / HTTP/1.1\r\nX: " + bytes(8 << 20))
        assert status == 431


async def test_what_comes_with_the_handshake_is_received_after_the_welcome(make: Make) -> None:
    async with listening(make) as it:
        it.handlers.on_welcome = lambda socket: socket.send("hello")
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        peer = await it.raw()
        peer.write(request() + frame(BINARY, b"early") + frame(TEXT, b"torn")[:3])
        assert (await peer.head())[0] == 101
        assert await peer.frame() == (TEXT, b"hello")
        assert await peer.frame() == (BINARY, b"early")


@pytest.mark.parametrize(
    ("allowed", "origin", "status"),
    [
        ((), None, 101),
        ((), "https://app.example", 403),
        (("https://app.example",), "https://app.example", 101),
        (("https://App.example/",), "https://app.example", 101),
        (("https://app.example",), "https://app.example.evil", 403),
        (("https://app.example",), "http://app.example", 403),
        (("https://app.example",), "null", 403),
        (("https://app.example",), "", 403),
        (("https://app.example",), "https://app.example\r\nOrigin: https://evil.example", 403),
        (("*",), "https://anything.example", 101),
    ],
)
async def test_a_browser_connects_only_from_a_listed_origin(
    make: Make, allowed: tuple[str, ...], origin: str | None, status: int
) -> None:
    async with listening(make, origins=allowed) as it:
        peer = await it.raw()
        peer.write(request(Origin=origin))
        assert (await peer.head())[0] == status
        assert it.handlers.welcomed == (status == 101)
        if status == 403:
            assert b"allowed origins" in await peer.ended()


async def test_plain_requests_are_answered_on_the_same_port(make: Make) -> None:
    async with listening(make) as it:
        assert await it.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n") == (200, "alive\n")
        assert await it.ask(b"GET /healthz?verbose HTTP/1.0\r\n\r\n") == (200, "alive\n")
        assert await it.ask(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n") == (503, "not yet\n")
        assert it.listener.refused == 0
        assert (await it.ask(b"GET /elsewhere HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 404
        assert (await it.ask(f"GET {PATH} HTTP/1.1\r\nHost: x\r\n\r\n".encode()))[0] == 426
        peer = await it.raw()
        peer.write(b"HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        status, headers = await peer.head()
        assert (status, headers["content-length"], await peer.ended()) == (200, "6", b"")
        assert it.listener.refused == 2


async def test_a_plain_request_that_fails_is_logged_and_answered(
    make: Make, caplog: pytest.LogCaptureFixture
) -> None:
    async with listening(make) as it:
        with caplog.at_level(logging.ERROR):
            status, text = await it.ask(b"GET /fails HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (status, "Traceback" in text, "on purpose" in text) == (500, False, False)
        assert "on purpose" in caplog.text
        caplog.clear()


async def test_when_all_places_are_taken_one_more_gets_503_and_probes_go_on(make: Make) -> None:
    async with listening(make, connections_max=2) as it:
        first = await it.peer()
        await it.peer()
        assert (await it.ask(request()))[0] == 503
        assert (await it.ask(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"))[0] == 200
        assert (it.listener.connections, it.listener.refused) == (2, 1)
        await first.leave()
        await (await it.handlers.next()).gone()
        await it.peer()
        assert it.listener.connections == 2


async def test_connections_that_never_become_websockets_are_bounded_too(make: Make) -> None:
    async with listening(make, connections_max=1, spare_max=2) as it:
        await it.peer()
        idle = [await it.raw() for _ in range(2)]
        turned_away = await it.raw()
        assert await turned_away.ended() == b""
        assert it.listener.refused == 1
        idle[0].write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await idle[0].answer())[0] == 200


async def test_one_address_gets_so_many_connections_and_no_more(make: Make) -> None:
    async with listening(make, connections_per_address_max=2) as it:
        first = await it.peer()
        await it.raw()
        status, text = await (await it.raw()).answer()
        assert (status, "address" in text) == (429, True)
        await first.leave()
        await (await it.handlers.next()).gone()
        await it.peer()


async def test_connections_that_left_do_not_count_for_their_address(make: Make) -> None:
    async with listening(make, connections_per_address_max=1) as it:
        for _ in range(3):
            peer = await it.raw()
            peer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            assert (await peer.answer())[0] == 200
            await peer.leave()
            await turns()


async def test_a_handshake_that_takes_too_long_is_cut(make: Make) -> None:
    async with listening(make, handshake_timeout_ms=500) as it:
        silent, slow = await it.raw(), await it.raw()
        slow.write(request()[:-2])
        assert await silent.ended() == b""
        assert await slow.ended() == b""
        quick = await it.peer()
        quick.write(frame(BINARY, b"still here"))
        assert await (await it.handlers.next()).message() == b"still here"


async def test_a_stopped_listener_takes_nobody_and_keeps_those_it_has(make: Make) -> None:
    async with listening(make, handshake_timeout_ms=60_000) as it:
        peer, waiting = await it.peer(), await it.raw()
        handler = await it.handlers.next()
        await it.listener.stop()
        await it.listener.stop()
        assert await waiting.ended() == b""
        with pytest.raises(ConnectionError):
            await it.raw()
        peer.write(frame(BINARY, b"still here"))
        assert await handler.message() == b"still here"
        handler.socket.close(1001)
        assert await peer.close_code() == 1001
