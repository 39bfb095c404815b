"""Pairing takes one request, from the page that it opened, and nothing else (CONSOLE-2)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from console_pages import sealed
from stemmadb.client.console.pairing import (
    BODY_BYTES_MAX,
    CODE_BYTES,
    Pairing,
    PairingRefused,
    new_code,
    read_head,
)
from stemmadb.client.console.pairing_port import PairingPort
from stemmadb.client.keys.identity import Identity
from stemmadb.protocol.model.values.ids import Did
from wire_peers import key_of

ORIGIN = "http://127.0.0.1:8420"
CODE = new_code(b"c" * CODE_BYTES)
PAGE = Identity(key_of(b"p" * 32))
PATIENCE = 20.0


def said(**changed: Any) -> bytes:
    return json.dumps({"did": PAGE.did, "code": CODE, "signature": sealed(PAGE, CODE)} | changed).encode()


def request(port: int, body: bytes, method: str = "POST", path: str = "/pair", **headers: str | None) -> bytes:
    given: dict[str, str | None] = {
        "Host": f"127.0.0.1:{port}",
        "Origin": ORIGIN,
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
    }
    given |= {name.replace("_", "-"): value for name, value in headers.items()}
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value is not None)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Waiting:
    """A command that waits, and what it has granted."""

    def __init__(self) -> None:
        self.granted: list[Did] = []
        self.port = PairingPort(ORIGIN, CODE, self._grant)

    async def _grant(self, did: Did) -> dict[str, Any]:
        self.granted.append(did)
        return {"delegation": "text"}

    async def open(self) -> None:
        self.at = (await self.port.open()).port
        self.outcome = asyncio.ensure_future(self.port.paired(PATIENCE))

    async def send(self, data: bytes) -> tuple[int, dict[str, str], bytes]:
        """One answer to these bytes; status 0 if the connection was ended."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.at)
        try:
            writer.write(data)
            return await answer_of(reader)
        finally:
            writer.close()


async def refused(waiting: Waiting) -> None:
    """The command has ended by what was sent, and not because nobody came."""
    with pytest.raises(PairingRefused) as ended:
        await waiting.outcome
    assert "Nobody clicked" not in str(ended.value)


async def answer_of(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    try:
        async with asyncio.timeout(PATIENCE):
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:-2])}
            return int(head[0].split(" ")[1]), headers, await reader.readexactly(int(headers["content-length"]))
    except (asyncio.IncompleteReadError, ConnectionError):
        return 0, {}, b""


@pytest.fixture
async def waiting() -> AsyncIterator[Waiting]:
    made = Waiting()
    await made.open()
    yield made
    await made.port.close()
    await asyncio.gather(made.outcome, return_exceptions=True)


@pytest.mark.rule("CONSOLE-2")
async def test_the_page_that_was_opened_is_let_in(waiting: Waiting) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", waiting.at)
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "content-type"}
    writer.write(request(waiting.at, b"", "OPTIONS", **asked))
    status, headers, _ = await answer_of(reader)
    assert (status, headers["access-control-allow-origin"]) == (204, ORIGIN)
    assert "access-control-allow-credentials" not in headers
    writer.write(request(waiting.at, said()))
    status, headers, body = await answer_of(reader)
    assert (status, json.loads(body)) == (200, {"delegation": "text"})
    assert headers["access-control-allow-origin"] == ORIGIN
    assert await waiting.outcome == {"delegation": "text"}
    assert waiting.granted == [PAGE.did]
    writer.close()


@pytest.mark.rule("CONSOLE-2")
async def test_a_code_works_once_and_then_nobody_listens(waiting: Waiting) -> None:
    assert (await waiting.send(request(waiting.at, said())))[0] == 200
    await waiting.outcome
    with pytest.raises(ConnectionError):
        await waiting.send(request(waiting.at, said()))
    assert waiting.granted == [PAGE.did]


OTHER = Identity(key_of(b"o" * 32))
BAD: dict[str, tuple[bytes, dict[str, Any], int]] = {
    "a wrong code": (said(code=new_code(b"d" * CODE_BYTES)), {}, 403),
    "no code": (said(code=""), {}, 403),
    "a part of the code": (said(code=CODE[:-1]), {}, 403),
    "a signature of another": (said(signature=sealed(OTHER, CODE)), {}, 403),
    "a signature of another code": (said(signature=sealed(PAGE, "x")), {}, 403),
    "a signature that is none": (said(signature="not base64!"), {}, 400),
    "a short signature": (said(signature="AAAA"), {}, 403),
    "an identity that is none": (said(did="did:key:zzz"), {}, 400),
    "one field more": (said(role="own"), {}, 400),
    "a field that is no text": (said(did=7), {}, 400),
    "letters beyond ASCII": (said(code="ä"), {}, 400),
    "no object": (b"[]", {}, 400),
    "no JSON": (b"{", {}, 400),
    "deep JSON": (b"[" * 4_000, {}, 400),
    "another origin": (said(), {"Origin": "http://evil.example"}, 403),
    "another port of the same host": (said(), {"Origin": "http://127.0.0.1:8421"}, 403),
    "another scheme": (said(), {"Origin": "https://127.0.0.1:8420"}, 403),
    "the origin null": (said(), {"Origin": "null"}, 403),
    "no origin": (said(), {"Origin": None}, 403),
    "another host name": (said(), {"Host": "evil.example"}, 421),
    "a host name that means the same": (said(), {"Host": "localhost:{port}"}, 421),
    "a host without its port": (said(), {"Host": "127.0.0.1"}, 421),
    "a form": (said(), {"Content_Type": "text/plain"}, 415),
    "another path": (said(), {"path": "/"}, 404),
    "another method": (b"", {"method": "GET"}, 404),
    "no length": (said(), {"Content_Length": None}, 411),
    "a length that is none": (said(), {"Content_Length": "1e3"}, 411),
    "a chunked body": (said(), {"Transfer_Encoding": "chunked"}, 411),
    "far too much": (b"", {"Content_Length": str(BODY_BYTES_MAX + 1)}, 413),
    "a large head": (said(), {"X_Large": "x" * 20_000}, 431),
}


@pytest.mark.rule("CONSOLE-2")
@pytest.mark.parametrize("name", BAD)
async def test_one_request_ends_it_whatever_it_holds(waiting: Waiting, name: str) -> None:
    body, how, expected = BAD[name]
    how = {key: value.replace("{port}", str(waiting.at)) if value else value for key, value in how.items()}
    status, headers, answer = await waiting.send(request(waiting.at, body, **how))
    assert status == expected
    assert "Run stemmadb console --web again." in json.loads(answer)["message"]
    assert headers["access-control-allow-origin"] == ORIGIN, "the answer is for no other page"
    await refused(waiting)
    assert waiting.granted == []


@pytest.mark.rule("CONSOLE-2")
async def test_what_is_no_request_ends_it_too(waiting: Waiting) -> None:
    assert (await waiting.send(b"\x16\x03\x01 hello\r\n\r\n"))[0] == 400
    await refused(waiting)


@pytest.mark.rule("CONSOLE-2")
async def test_a_connection_that_sends_nothing_is_no_request(waiting: Waiting) -> None:
    _, idle = await asyncio.open_connection("127.0.0.1", waiting.at)
    _, gone = await asyncio.open_connection("127.0.0.1", waiting.at)
    gone.close()
    assert not waiting.port.has_come.is_set()
    assert (await waiting.send(request(waiting.at, said())))[0] == 200
    assert await waiting.outcome == {"delegation": "text"}
    idle.close()


@pytest.mark.rule("CONSOLE-2")
async def test_preflights_do_not_go_on_for_ever(waiting: Waiting) -> None:
    for _ in range(3):
        assert (await waiting.send(request(waiting.at, b"", "OPTIONS")))[0] == 204
    assert (await waiting.send(request(waiting.at, b"", "OPTIONS")))[0] == 404
    await refused(waiting)


@pytest.mark.rule("CONSOLE-2")
async def test_a_preflight_of_another_page_ends_it(waiting: Waiting) -> None:
    status, headers, _ = await waiting.send(request(waiting.at, b"", "OPTIONS", Origin="https://evil.example"))
    assert (status, headers["access-control-allow-origin"]) == (403, ORIGIN)
    await refused(waiting)


@pytest.mark.rule("CONSOLE-2")
async def test_whoever_comes_too_late_finds_nobody() -> None:
    waiting = Waiting()
    await waiting.open()
    await waiting.port.close()
    late = Waiting()
    at = (await late.port.open()).port
    with pytest.raises(PairingRefused, match="Nobody clicked"):
        await late.port.paired(0)
    with pytest.raises(ConnectionError):
        await asyncio.open_connection("127.0.0.1", at)
    await asyncio.gather(waiting.outcome, return_exceptions=True)


@pytest.mark.rule("CONSOLE-2")
async def test_what_the_grant_fails_with_is_told_in_the_terminal() -> None:
    async def fails(_: Did) -> dict[str, Any]:
        raise LookupError("no such right")

    port = PairingPort(ORIGIN, CODE, fails)
    waiting = Waiting()
    waiting.port, waiting.at = port, (await port.open()).port
    outcome = asyncio.ensure_future(port.paired(PATIENCE))
    assert (await waiting.send(request(waiting.at, said())))[0] == 500
    with pytest.raises(LookupError):
        await outcome


def test_the_page_gets_all_behind_the_sign_that_no_server_sees() -> None:
    page = Pairing(ORIGIN, 4711, CODE).page("write", "my space?#ü")
    assert page == f"{ORIGIN}/console/pair#4711.{CODE}.write.my%20space%3F%23%C3%BC"
    assert len(CODE) == 22
    with pytest.raises(PairingRefused):
        read_head(b"GET / HTTP/2\r\n\r\n")
