"""Where a request ends: heads and bodies that two parsers could read differently, and slow clients (HTTP-1)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from http_worlds import PATIENCE, HttpWorld, http_world

GOOD = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /v1/x HTTP/1.1\r\nHost: a\r\n"
SMUGGLED = {
    "length and transfer encoding": (POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400),
    "two equal lengths": (POST + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400),
    "a list of lengths": (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\nhello", 400),
    "a signed length": (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\nhello", 400),
    "a hexadecimal length": (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\nhello", 400),
    "a very long length": (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: " + b"1" * 5_000 + b"\r\n\r\n", 400),
    "chunked": (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 411),
    "bare line feeds": (b"GET /v1/me HTTP/1.1\nHost: a\n\n", 400),
    "a bare line feed in a head": (b"GET /v1/me HTTP/1.1\r\nHost: a\nX: y\r\n\r\n", 400),
    "a bare line feed in the target": (b"GET /v1/\nme HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a folded line": (b"GET /v1/me HTTP/1.1\r\nHost: a\r\n b\r\n\r\n", 400),
    "an empty line first": (b"\r\nGET /v1/me HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "two hosts": (b"GET /v1/me HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
    "no host": (b"GET /v1/me HTTP/1.1\r\nAccept: */*\r\n\r\n", 400),
    "a space before the colon": (b"GET /v1/me HTTP/1.1\r\nHost : a\r\n\r\n", 400),
    "not ASCII": (b"GET /v1/me HTTP/1.1\r\nHost: \xff\r\n\r\n", 400),
    "a control character": (b"GET /v1/me HTTP/1.1\r\nHost: a\x00b\r\n\r\n", 400),
    "a method in lower case": (b"get /v1/me HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    "a method that nobody knows": (b"FETCH /v1/me HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    "a long method": (b"A" * 300 + b" /v1/me HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    "a tunnel": (b"CONNECT /v1/me HTTP/1.1\r\nHost: a\r\n\r\n", 405),
    "a tunnel to a host": (b"CONNECT a:443 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "a whole address": (b"GET http://a/v1/me HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    "another version": (b"GET /v1/me HTTP/2.0\r\nHost: a\r\n\r\n", 400),
    "a tab before chunked": (b"POST /v1/x HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\tchunked\r\n\r\n0\r\n\r\n", 411),
    "identity and a length": (POST + b"Transfer-Encoding: identity\r\nContent-Length: 5\r\n\r\nhello", 400),
    "a large head": (b"GET /v1/me HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 17_000 + b"\r\n\r\n", 431),
    "101 headers": (b"GET /v1/me HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
    "a body that is too large": (b"PUT /v1/x HTTP/1.1\r\nHost: a\r\nContent-Length: 16777217\r\n\r\n", 413),
    "a blob that is too large": (b"PUT /blobs/b3:y HTTP/1.1\r\nHost: a\r\nContent-Length: 1073741825\r\n\r\n", 413),
}  # fmt: skip


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[HttpWorld]:
    settings = {"handshake_timeout_ms": 800, "http_body_timeout_ms": 800, "http_idle_timeout_ms": 1_000}
    async with http_world(tmp_path, **settings) as it:
        yield it


@pytest.mark.rule("HTTP-1")
@pytest.mark.parametrize("is_second", [False, True])
async def test_what_two_parsers_could_read_differently_ends_the_connection(world: HttpWorld, is_second: bool) -> None:
    for name, (sent, status) in SMUGGLED.items():
        peer = await world.peer()
        if is_second:
            peer.write(GOOD)
            assert (await peer.answer()).status == 200
        peer.write(sent + GOOD)
        answer = await peer.answer()
        assert (answer.status, answer.code) == (status, "malformed"), name
        assert answer.headers["connection"] == "close"
        assert await peer.reader.read() == b"", f"{name}: nothing after the refusal is answered"


@pytest.mark.rule("HTTP-1")
async def test_a_hundred_requests_at_once_are_answered_one_after_the_other(world: HttpWorld) -> None:
    peer = await world.peer()
    peer.write(b"".join(world.request("PUT", f"/entity?id=urn:p:{n}&blind=true", n) for n in range(50)))
    peer.write(b"".join(world.request("GET", f"/entity?id=urn:p:{n}") for n in range(50)))
    written = [(await peer.answer()).json()["version"] for _ in range(50)]
    assert written == sorted(written)
    assert [(await peer.answer()).json() for _ in range(50)] == list(range(50))


@pytest.mark.rule("HTTP-1")
async def test_a_body_may_come_byte_by_byte_and_the_next_request_with_its_end(world: HttpWorld) -> None:
    peer = await world.peer()
    first = world.request("PUT", "/entity?id=urn:a:1&blind=true", {"a": [1, 2, 3]})
    for byte in first[:-1]:
        peer.write(bytes([byte]))
        await asyncio.sleep(0)
    peer.write(first[-1:] + world.request("GET", "/entity?id=urn:a:1"))
    assert (await peer.answer()).status == 200
    assert (await peer.answer()).json() == {"a": [1, 2, 3]}


@pytest.mark.rule("HTTP-1")
async def test_a_large_body_of_the_very_first_request_is_taken(world: HttpWorld) -> None:
    """It comes while the HTTP library is being loaded, and the server reads on once it is."""
    peer = await world.peer()
    peer.write(world.request("POST", "/blobs", bytes(8_000_000)) + world.request("GET", "/log"))
    assert (await peer.answer()).status == 201
    assert (await peer.answer()).status == 200


@pytest.mark.rule("HTTP-2")
async def test_an_upgrade_as_the_second_request_is_426(world: HttpWorld) -> None:
    peer = await world.peer()
    upgrade = f"GET {world.path} HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n".encode()
    peer.write(GOOD + upgrade)
    assert (await peer.answer()).status == 200
    answer = await peer.answer()
    assert (answer.status, answer.headers["connection"]) == (426, "close")
    assert await peer.is_closed()


@pytest.mark.rule("HTTP-2")
@pytest.mark.parametrize("is_second", [False, True])
async def test_a_slow_head_is_closed(world: HttpWorld, is_second: bool) -> None:
    peer = await world.peer()
    if is_second:
        peer.write(GOOD)
        assert (await peer.answer()).status == 200
    peer.write(b"GET /v1/me HTTP/1.1\r\nHost:")
    began = asyncio.get_running_loop().time()
    assert (await peer.answer()).status == 0
    assert asyncio.get_running_loop().time() - began < 5


@pytest.mark.rule("HTTP-2")
@pytest.mark.parametrize("is_second", [False, True])
async def test_a_body_that_stops_is_408_and_one_that_goes_on_slowly_is_taken(
    world: HttpWorld, is_second: bool
) -> None:
    peer = await world.peer()
    if is_second:
        peer.write(GOOD)
        assert (await peer.answer()).status == 200
    request = world.request("PUT", "/entity?id=urn:a:1&blind=true", {"a": 1})
    peer.write(request[:-4])
    answer = await peer.answer()
    assert (answer.status, answer.headers["connection"]) == (408, "close")
    assert await peer.is_closed()
    assert (await world.get("/entity?id=urn:a:1")).status == 404
    slow = await world.peer()
    slow.write(request[:-12])
    for byte in request[-12:]:
        await asyncio.sleep(0.1)  # in all longer than the deadline, each byte within it
        slow.write(bytes([byte]))
    assert (await slow.answer()).status == 200


@pytest.mark.rule("HTTP-2")
async def test_silence_between_requests_ends_the_connection_and_the_count_goes_down(world: HttpWorld) -> None:
    peers = []
    for _ in range(20):
        peer = await world.peer()
        peers.append(peer)
        peer.write(GOOD)
        assert (await peer.answer()).status == 200
    for peer in peers:
        assert await peer.is_closed()


@pytest.mark.rule("HTTP-2")
async def test_connections_and_streams_are_counted_until_they_are_gone(tmp_path: Path) -> None:
    async with http_world(tmp_path) as it:
        peers = [await it.peer() for _ in range(20)]
        for peer in peers:
            peer.write(GOOD)
            assert (await peer.answer()).status == 200
        peers.append(await it.peer())
        peers[-1].write(it.request("GET", "/watch?select=urn:a:*"))
        assert (await peers[-1].answer()).status == 200
        await _until_counted(it, 22)
        for peer in peers:
            peer.leave()
        await _until_counted(it, 1)


async def _until_counted(world: HttpWorld, count: int) -> None:
    """A scrape counts its own connection; one right after another gets the same answer."""
    async with asyncio.timeout(PATIENCE):
        while f"stemmadb_http_connections {count}.0" not in (await world.get("//metrics", token="")).body.decode():
            await asyncio.sleep(0.05)


@pytest.mark.rule("HTTP-2")
async def test_one_connection_too_many_gets_503(tmp_path: Path) -> None:
    async with http_world(tmp_path, http_connections_max=2) as it:
        peers = [await it.peer() for _ in range(3)]
        for peer in peers[:2]:
            peer.write(GOOD)
            assert (await peer.answer()).status == 200
        peers[2].write(GOOD)
        answer = await peers[2].answer()
        assert (answer.status, "retry-after" in answer.headers) == (503, True)
        peers[0].leave()
        await asyncio.sleep(0.05)
        assert (await it.get("//v1/openapi.json")).status == 200


@pytest.mark.rule("HTTP-2")
@pytest.mark.parametrize("is_second", [False, True])
async def test_a_client_that_never_reads_an_answer_is_ended(world: HttpWorld, is_second: bool) -> None:
    await world.put("urn:big:1", "x" * 6_000_000)
    peer = await world.peer()
    if is_second:
        peer.write(GOOD)
        assert (await peer.answer()).status == 200
    peer.writer.transport.pause_reading()  # type: ignore[attr-defined]  # a plain transport can
    peer.write(world.request("GET", "/entity?id=urn:big:1"))
    await asyncio.sleep(2.0)
    peer.writer.transport.resume_reading()  # type: ignore[attr-defined]
    got = 0
    try:
        while data := await peer.reader.read(1 << 16):
            got += len(data)
    except ConnectionError:
        pass
    assert got < 6_000_000
