"""Bad input over real sockets: random bytes, spoilt messages, torn frames. Typed errors or a closed connection."""

from __future__ import annotations

import asyncio
import json
import random
import secrets
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

from plain_bytes import pack
from plain_client import Gone, PlainClient
from plain_content import query_of, set_
from plain_holding import Fields
from plain_text import from_text, to_text
from plain_world import ServedSpace

pytestmark = pytest.mark.asyncio(loop_scope="module")
VECTORS = Path(__file__).parents[1] / "vectors"
MESSAGES = 400
CODES = {
    line.split("`")[1]
    for line in (VECTORS.parents[1] / "docs/spec/04-protocol.md").read_text().split("## Error codes")[1].splitlines()
    if line.startswith("| `")
}
JUNK: list[Any] = [
    None,
    -1,
    0,
    2**63,
    2**64 - 1,
    1.5,
    float("nan"),
    "",
    "x" * 3_000,
    "\0",
    b"",
    bytes(16),
    [],
    {},
    [[]] * 50,
]


def samples() -> list[Fields]:
    """Every message of a client that the vectors have, but the opening."""
    cases = json.loads((VECTORS / "messages.json").read_text())["cases"]
    read = [from_text(json.dumps(case["json"])) for case in cases if case["direction"] == "client to server"]
    return [message for message in read if message["type"] != "session.open"]


def spoilt(message: Fields, chance: random.Random) -> bytes:
    """The bytes of a message with something wrong in it."""
    kind = chance.random()
    if kind < 0.5:
        message = dict(message)
        name = chance.choice([*message, "more"])
        message[name] = chance.choice(JUNK)
        if chance.random() < 0.3:
            message.pop(chance.choice(list(message)))
        return pack(message)
    data = bytearray(pack(message))
    if kind < 0.8:
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        return bytes(data)
    return bytes(data[: chance.randrange(len(data))])


async def check_alive(client: PlainClient) -> None:
    """The session still answers; everything said meanwhile was a typed error, an answer, or a frame."""
    number = 2**50 + secrets.randbelow(2**40)
    await client.send({"type": "ping", "id": number})
    while True:
        message = await client.receive()
        if message["type"] == "ok" and message["id"] == number:
            return
        assert message["type"] in ("ok", "error", "sync", "deferred", "goodbye"), message
        if message["type"] in ("error", "goodbye"):
            assert message["code"] in CODES, message
            assert message["code"] != "internal", message


async def pelt(served_space: ServedSpace, chance: random.Random, made: list[bytes | str], text: bool) -> int:
    """Sends all of it, with a new connection whenever one was closed; how many connections that took."""
    client, connections = await served_space.enter(text=text), 1
    for number, data in enumerate(made):
        try:
            await client.send_raw(data)
            if number % 10 == 9:
                await check_alive(client)
        except Gone as gone:
            assert gone.farewell.get("code", "out_of_order") in CODES - {"internal"}  # noqa: PT017
            client, connections = await served_space.enter(text=text), connections + 1
    return connections


async def check_server(served_space: ServedSpace) -> None:
    """Afterwards the server works as before."""
    client = await served_space.enter()
    await client.watch_filled(1, query_of("urn:after:*"))
    await client.write_now(set_("urn:after:1", 1))
    assert client.holding.value("urn:after:1") == 1
    assert await client.verified() == client.holding.hash


@pytest.mark.rule("WIRE-4")
@pytest.mark.parametrize("seed", range(2))
async def test_spoilt_messages_get_typed_errors(served_space: ServedSpace, seed: int) -> None:
    chance, known = random.Random(seed), samples()
    made: list[bytes | str] = [spoilt(chance.choice(known), chance) for _ in range(MESSAGES)]
    await pelt(served_space, chance, made, text=False)
    await check_server(served_space)


@pytest.mark.rule("WIRE-4")
async def test_spoilt_text_gets_typed_errors(served_space: ServedSpace) -> None:
    chance, known = random.Random(3), samples()
    made: list[bytes | str] = []
    for _ in range(MESSAGES):
        text = to_text(chance.choice(known))
        where = chance.randrange(len(text))
        made.append(
            text[:where] + chance.choice(['"', "}", "[", "1e999", "\\ud800", "\0", "ü", ""]) + text[where + 1 :]
        )
    await pelt(served_space, chance, made, text=True)
    await check_server(served_space)


@pytest.mark.rule("WIRE-4")
async def test_random_bytes_get_typed_errors(served_space: ServedSpace) -> None:
    chance = random.Random(4)
    made: list[bytes | str] = [chance.randbytes(chance.choice([1, 5, 40, 2_000])) for _ in range(MESSAGES)]
    await pelt(served_space, chance, made, text=False)
    await check_server(served_space)


@pytest.mark.rule("WIRE-2", "WIRE-4")
async def test_spoilt_openings_open_nothing(served_space: ServedSpace) -> None:
    chance = random.Random(5)
    for _ in range(60):
        client = served_space.client()
        await client.greet()
        whole = client.opening()
        data = spoilt(whole, chance)
        if data != pack(whole):
            await client.send_raw(data)
            try:
                while (await client.pump())["type"] != "sync":
                    pass
            except Gone as gone:
                assert gone.farewell.get("code", "unauthenticated") in CODES - {"internal"}  # noqa: PT017
        await client.close()
    await check_server(served_space)


@pytest.mark.rule("WIRE-4")
async def test_connections_torn_anywhere_leave_the_server_well(served_space: ServedSpace) -> None:
    chance = random.Random(6)
    where = urlsplit(served_space.address)
    request = (
        f"GET /v1/spaces/{served_space.space} HTTP/1.1\r\nHost: {where.netloc}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Protocol: stemma.v1.msgpack\r\n\r\n"
    ).encode()
    for number in range(60):
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        if number % 3 == 0:
            writer.write(request[: chance.randrange(len(request))])
        elif number % 3 == 1:
            writer.write(chance.randbytes(300))
        else:
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
            writer.write(
                bytes([chance.randrange(256), chance.randrange(256)]) + chance.randbytes(chance.randrange(200))
            )
        await writer.drain()
        writer.transport.abort()
    await check_server(served_space)


@pytest.mark.rule("WIRE-4")
async def test_pieces_and_pings_of_the_websocket_are_taken_as_they_may_come(served_space: ServedSpace) -> None:
    client = await served_space.enter()
    message = pack({"type": "ping", "id": 5})
    client._waiting.add(5)
    socket = client._socket
    assert socket is not None
    await socket.send([message[:3], message[3:9], message[9:]])
    await (await socket.ping())
    assert await client.answer(5) == {"version": 1}


@pytest.mark.rule("WIRE-4")
async def test_a_flood_of_bad_connections_does_not_stop_the_others(served_space: ServedSpace) -> None:
    client = await served_space.enter()

    async def bad() -> None:
        for _ in range(20):
            try:
                async with connect(f"{served_space.address}/v1/spaces/junk", proxy=None):
                    pass
            except (InvalidHandshake, ConnectionClosed, OSError):
                pass

    flood = asyncio.gather(*[bad() for _ in range(5)])
    for number in range(20):
        await client.write_now(set_("urn:a:1", number))
    await flood
    await check_server(served_space)
