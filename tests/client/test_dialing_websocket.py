"""A channel over a WebSocket: whole messages in order, one kind of end, and nothing left behind."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from listening import BINARY, CLOSE, CONT, LISTENERS, TEXT, Make, certificate, frame, listening, patiently, turns
from misbehaving import Manner, RawConnection, misbehaving
from served import config_of, served
from space import SPACE
from stemmadb.client.dialing.websocket import WRITE_BYTES_MAX, WebSocketDial
from stemmadb.client.keys.identity import Identity
from stemmadb.protocol.errors import GoingAway
from stemmadb.protocol.wire.channel import Channel, ChannelClosed, Dial
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.session import Hello
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import JSON, MSGPACK, Subprotocol, space_path

SOON = 15.0
"""Far more than our own bounds and less than those of the library (20 s) or the system."""


@pytest.fixture(autouse=True)
async def _nothing_is_left_behind() -> AsyncIterator[None]:
    yield
    gc.collect()  # a socket that was forgotten warns, and a warning is an error
    assert asyncio.all_tasks() == {asyncio.current_task()}


@asynccontextmanager
async def channel_to(
    manner: Manner, *, subprotocol: Subprotocol = MSGPACK, bytes_max: int = 1_000_000
) -> AsyncIterator[Channel]:
    """A channel to a server that takes WebSockets and then has these manners."""

    async def welcome(connection: RawConnection) -> None:
        await connection.upgrade()
        await manner(connection)

    async with misbehaving(welcome) as port:
        dial: Dial = WebSocketDial(f"ws://127.0.0.1:{port}", subprotocol=subprotocol, message_bytes_max=bytes_max)
        channel = await patiently(dial(SPACE))
        async with asyncio.timeout(SOON):
            yield channel
            await channel.close()


def said(opcode: int, payload: bytes = b"", *, fin: bool = True) -> bytes:
    """A frame of a server."""
    return frame(opcode, payload, fin=fin, mask=False)


def closing(code: int, reason: str = "") -> bytes:
    return said(CLOSE, struct.pack("!H", code) + reason.encode())


# ---------------------------------------------------------------- with a real server


@pytest.mark.rule("WIRE-1", "WIRE-2")
@pytest.mark.parametrize("subprotocol", [MSGPACK, JSON])
async def test_a_session_is_opened_on_a_real_server_and_told_when_it_stops(
    tmp_path: Path, subprotocol: Subprotocol
) -> None:
    key = Identity.from_seed(bytes(32))
    wire = ClientConnection(subprotocol=subprotocol, space=key.did)
    async with served(config_of(tmp_path / "data", make_spaces="anyone")) as address:
        channel = await WebSocketDial(address, subprotocol=subprotocol)(key.did)
        assert channel.subprotocol == subprotocol
        (hello,) = wire.receive(await patiently(channel.receive()))
        assert isinstance(hello, Hello)
        await channel.send(wire.open(principal=key.did, session=bytes(16), sign=key.sign))
        (first,) = wire.receive(await patiently(channel.receive()))
        assert isinstance(first, Sync)
    (goodbye,) = wire.receive(await patiently(channel.receive()))
    assert isinstance(goodbye, Closed)
    assert isinstance(goodbye.error, GoingAway)
    with pytest.raises(ChannelClosed) as over:
        await patiently(channel.receive())
    assert over.value.code == 1001
    await channel.close()


@pytest.mark.parametrize("make", LISTENERS)
async def test_messages_of_all_sizes_go_both_ways_on_each_listener(make: Make) -> None:
    async with listening(make, message_bytes_max=4_000_000) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        channel = await patiently(WebSocketDial(f"ws://127.0.0.1:{it.listener.port}")(SPACE))
        for size in (0, 1, 125, 126, 65_535, 65_536, 3_000_000):
            await channel.send(bytes(size))
            assert await patiently(channel.receive()) == bytes(size)
        await channel.close()
        handler = await it.handlers.next()
        assert handler.arrival.space == SPACE
        assert handler.arrival.subprotocol == MSGPACK
        await handler.gone()


@pytest.mark.parametrize("make", LISTENERS)
async def test_a_channel_over_tls_is_the_same_and_closes_as_fast(make: Make, tmp_path: Path) -> None:
    server, client = certificate(tmp_path)
    async with listening(make, ssl=server) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        channel = await patiently(WebSocketDial(f"wss://localhost:{it.listener.port}", ssl=client)(SPACE))
        await channel.send(bytes(300_000))
        assert await patiently(channel.receive()) == bytes(300_000)
        async with asyncio.timeout(SOON):
            await channel.close()
        await (await it.handlers.next()).gone()


async def test_the_systems_certificates_are_trusted_without_being_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, _ = certificate(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    async with listening(LISTENERS[0], ssl=server) as it:
        channel = await patiently(WebSocketDial(f"wss://127.0.0.1:{it.listener.port}")(SPACE))
        await channel.close()


# ---------------------------------------------------------------- what is asked for


@pytest.mark.rule("WIRE-1")
async def test_the_request_names_the_space_and_one_subprotocol_and_no_extension() -> None:
    connections: list[RawConnection] = []

    async def note(connection: RawConnection) -> None:
        connections.append(connection)
        await connection.until_gone()

    async with channel_to(note, subprotocol=JSON):
        pass
    assert connections[0].line == f"GET {space_path(SPACE)} HTTP/1.1"
    assert connections[0].head["sec-websocket-protocol"] == JSON
    assert connections[0].head["user-agent"] == "stemmadb"
    assert "sec-websocket-extensions" not in connections[0].head


# ---------------------------------------------------------------- receiving


async def test_a_message_in_fragments_comes_whole() -> None:
    async def speak(connection: RawConnection) -> None:
        connection.writer.write(said(BINARY, b"on", fin=False) + said(CONT, b"e, t", fin=False) + said(CONT, b"wo"))
        await connection.until_gone()

    async with channel_to(speak) as channel:
        assert await channel.receive() == b"one, two"


async def test_what_came_before_the_close_is_received_first() -> None:
    async def speak(connection: RawConnection) -> None:
        connection.writer.write(
            b"".join(said(BINARY, b"%d" % number) for number in range(100)) + closing(4001, "taken over")
        )
        await connection.until_gone()

    async with channel_to(speak) as channel:
        assert [await channel.receive() for _ in range(100)] == [b"%d" % number for number in range(100)]
        for _ in range(2):
            with pytest.raises(ChannelClosed, match="closed \\(4001\\) taken over") as over:
                await channel.receive()
            assert over.value.code == 4001


async def test_a_peer_that_closes_and_does_not_hang_up_is_not_waited_for() -> None:
    async def close_and_stay(connection: RawConnection) -> None:
        connection.writer.write(closing(1013))
        await connection.stay()

    async with channel_to(close_and_stay) as channel:
        with pytest.raises(ChannelClosed) as over:
            await channel.receive()
        assert over.value.code == 1013


@pytest.mark.parametrize("how", ["hang up", "reset", "half close"])
async def test_an_end_without_a_word_is_1006(how: str) -> None:
    async def end(connection: RawConnection) -> None:
        if how == "reset":
            no_time = struct.pack("ii", 1, 0)
            connection.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_time)
        elif how == "half close":
            connection.writer.write_eof()
            await connection.until_gone()

    async with channel_to(end) as channel:
        with pytest.raises(ChannelClosed) as over:
            await channel.receive()
        assert over.value.code == 1006


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (said(TEXT, b"\xff"), "invalid"),
        (said(BINARY, bytes(1_001)), "1000"),
        (said(3, b"?"), "opcode"),
        (said(CONT, b"?"), "continuation"),
    ],
)
async def test_a_peer_that_breaks_the_rules_and_stays_ends_the_channel(bad: bytes, reason: str) -> None:
    async def speak(connection: RawConnection) -> None:
        connection.writer.write(bad)
        await connection.stay()

    async with channel_to(speak, bytes_max=1_000) as channel:
        with pytest.raises(ChannelClosed, match=reason) as over:
            await channel.receive()
        assert over.value.code == 1006


async def test_json_messages_may_be_six_times_as_large() -> None:
    async def speak(connection: RawConnection) -> None:
        connection.writer.write(said(TEXT, b"x" * 6_000) + said(TEXT, b"x" * 6_001))
        await connection.until_gone()

    async with channel_to(speak, subprotocol=JSON, bytes_max=1_000) as channel:
        assert await channel.receive() == "x" * 6_000
        with pytest.raises(ChannelClosed):
            await channel.receive()


async def test_receiving_can_be_cancelled_and_loses_nothing() -> None:
    more = asyncio.Event()

    async def speak(connection: RawConnection) -> None:
        connection.writer.write(said(BINARY, b"be", fin=False))
        await more.wait()
        connection.writer.write(said(CONT, b"gin"))
        await connection.until_gone()

    async with channel_to(speak) as channel:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(channel.receive(), 0.02)
        more.set()
        assert await channel.receive() == b"begin"


async def test_a_client_that_does_not_receive_holds_up_its_server_and_not_its_memory() -> None:
    written = 0

    async def pour(connection: RawConnection) -> None:
        nonlocal written
        connection.writer.transport.set_write_buffer_limits(0)
        while written < 80:
            connection.writer.write(said(BINARY, bytes(500_000)))
            await connection.writer.drain()
            written += 1
        await connection.until_gone()

    async with channel_to(pour) as channel:
        before = -1
        while written != before:  # until the server stands still
            before = written
            await asyncio.sleep(0.05)
        assert written < 40
        for _ in range(80):
            await channel.receive()


# ---------------------------------------------------------------- sending


async def test_sending_waits_while_the_peer_does_not_read() -> None:
    reads = asyncio.Event()

    async def read_late(connection: RawConnection) -> None:
        await reads.wait()
        await connection.until_gone()

    async with channel_to(read_late) as channel:
        sending = asyncio.create_task(_pour(channel, 100))
        done, _ = await asyncio.wait({sending}, timeout=0.1)
        assert not done
        reads.set()
        await sending


async def test_what_waits_to_be_sent_ends_with_the_channel() -> None:
    async with channel_to(RawConnection.stay) as channel:
        sending = asyncio.create_task(_pour(channel, 100))
        await asyncio.wait({sending}, timeout=0.1)
        await channel.close()
        with pytest.raises(ChannelClosed):
            await sending


async def test_a_message_that_did_not_leave_is_not_reported_as_sent() -> None:
    async with channel_to(RawConnection.stay) as channel:
        sending = asyncio.create_task(channel.send(bytes(100 * WRITE_BYTES_MAX)))
        await asyncio.wait({sending}, timeout=0.1)
        await channel.close()
        with pytest.raises(ChannelClosed):
            await sending


async def test_a_peer_that_neither_speaks_nor_reads_any_more_is_not_waited_for() -> None:
    leave = asyncio.Event()

    async def half_close(connection: RawConnection) -> None:
        await leave.wait()
        connection.writer.write_eof()
        await connection.stay()

    async with channel_to(half_close) as channel:
        sending = asyncio.create_task(_pour(channel, 100))
        await asyncio.wait({sending}, timeout=0.1)
        leave.set()
        with pytest.raises(ChannelClosed):
            await channel.receive()
        with pytest.raises(ChannelClosed):
            await sending


async def test_what_is_sent_at_once_keeps_its_place_and_is_not_taken_while_others_wait() -> None:
    may_read, numbers = asyncio.Event(), list[int]()

    async def read(connection: RawConnection) -> None:
        await may_read.wait()
        while True:
            numbers.append(await _number_of_message(connection.reader))

    async with channel_to(read) as channel:
        count = 0
        while count < 500 and channel.send_at_once(struct.pack("!I", count).ljust(WRITE_BYTES_MAX)):
            count += 1
        assert count < 500, "a peer that does not read is not written to for ever"
        waiting = asyncio.create_task(channel.send(struct.pack("!I", count)))
        may_read.set()
        await waiting
        assert channel.send_at_once(struct.pack("!I", count + 1))
        while len(numbers) < count + 2:
            await asyncio.sleep(0.01)
        assert numbers == list(range(count + 2))
        await channel.close()
        assert not channel.send_at_once(b"?")


async def _number_of_message(reader: asyncio.StreamReader) -> int:
    """The first four bytes of a message of the client, which is masked."""
    size = (await reader.readexactly(2))[1] & 0x7F
    if size > 125:
        size = int.from_bytes(await reader.readexactly(2 if size == 126 else 8), "big")
    mask, payload = await reader.readexactly(4), await reader.readexactly(size)
    return int.from_bytes(bytes(one ^ other for one, other in zip(payload, mask, strict=False)), "big")


async def _pour(channel: Channel, count: int) -> None:
    for _ in range(count):
        await channel.send(bytes(WRITE_BYTES_MAX))


async def test_nothing_is_sent_after_the_end() -> None:
    async def close(connection: RawConnection) -> None:
        connection.writer.write(closing(1001))
        await connection.until_gone()

    async with channel_to(close) as channel:
        with pytest.raises(ChannelClosed):
            await channel.receive()
        with pytest.raises(ChannelClosed) as over:
            await channel.send(b"?")
        assert over.value.code == 1001


# ---------------------------------------------------------------- closing


@pytest.mark.parametrize("is_full", [False, True])
async def test_closing_waits_for_nobody_and_works_twice(is_full: bool) -> None:
    async with channel_to(RawConnection.stay) as channel:
        if is_full:
            sending = asyncio.create_task(_pour(channel, 100))
            await asyncio.wait({sending}, timeout=0.1)
        receiving = asyncio.create_task(channel.receive())
        await asyncio.sleep(0)
        await asyncio.wait_for(channel.close(), 1.0)
        await asyncio.wait_for(channel.close(), 1.0)
        with pytest.raises(ChannelClosed) as over:
            await receiving
        assert over.value.code == 1006
        with pytest.raises(ChannelClosed):
            await channel.send(b"?")
        if is_full:
            with pytest.raises(ChannelClosed):
                await sending


async def test_what_was_sent_before_closing_arrives_and_then_the_close() -> None:
    heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def hear(connection: RawConnection) -> None:
        heard.set_result(await connection.reader.read())

    async with channel_to(hear) as channel:
        await channel.send(bytes(100_000))
        await channel.close()
        bytes_heard = await heard
    message, close = 4 + 10 + 100_000, 4 + 2 + 2
    assert len(bytes_heard) == message + close
    assert bytes_heard[message] == 0x80 | CLOSE


async def test_closing_that_is_cancelled_cuts_the_connection() -> None:
    async with channel_to(RawConnection.stay) as channel:
        sending = asyncio.create_task(_pour(channel, 100))
        await asyncio.wait({sending}, timeout=0.1)
        closing_it = asyncio.create_task(channel.close())
        await asyncio.sleep(0)
        closing_it.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing_it
        await turns()
        assert isinstance(sending.exception(), ChannelClosed)


async def test_a_tls_peer_that_does_not_answer_is_cut(tmp_path: Path) -> None:
    server, client = certificate(tmp_path)

    async def welcome(connection: RawConnection) -> None:
        await connection.upgrade()
        connection.writer.transport.pause_reading()  # type: ignore[attr-defined]
        await connection.stay()

    async with misbehaving(welcome, context=server) as port:
        channel = await patiently(WebSocketDial(f"wss://127.0.0.1:{port}", ssl=client)(SPACE))
        await asyncio.wait_for(channel.close(), 1.0)
