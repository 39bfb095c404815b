"""Listeners under pressure: peers that do not read, that are not read, and that flood."""

from __future__ import annotations

import asyncio

import pytest

from listening import BINARY, LISTENERS, PING, PONG, Make, RawPeer, RecordingHandler, frame, listening, patiently
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.server.service.base.transport import DRAIN_BYTES

pytestmark = pytest.mark.parametrize("make", LISTENERS)
CHUNK = bytes(32 * 1024)


def fill(handler: RecordingHandler) -> int:
    """Sends until more waits than a drained connection may have; how many messages that took."""
    sent = 0
    while handler.socket.unsent <= 4 * DRAIN_BYTES:
        handler.socket.send(CHUNK)
        sent += 1
    return sent


async def take(peer: RawPeer, count: int) -> None:
    for _ in range(count):
        assert await peer.frame() == (BINARY, CHUNK)


async def test_unsent_grows_while_the_peer_does_not_read_and_drained_comes_once_when_it_does(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer(receive_bytes=4096)
        handler = await it.handlers.next()
        for _ in range(3):
            sent = fill(handler)
            assert handler.calls == []
            seen: list[int] = []
            it.handlers.on_drained = lambda handler, seen=seen: seen.append(handler.socket.unsent)  # type: ignore[misc]
            await take(peer, sent)
            await patiently(handler.was_drained.wait())
            assert handler.calls == ["drained"]
            assert all(unsent <= DRAIN_BYTES for unsent in seen)
            handler.calls.clear()
            handler.was_drained.clear()


@pytest.mark.rule("SYNC-6")
async def test_what_a_socket_lends_is_good_until_its_peer_does_not_read_and_again_once_it_does(make: Make) -> None:
    """Framed once, by one socket, and written by another."""
    async with listening(make) as it:
        one, other = await it.peer(), await it.peer(receive_bytes=4096)
        first, slow = await it.handlers.next(), await it.handlers.next()
        framed = first.socket.framed(CHUNK)
        for _ in range(2):
            ended: list[int] = []
            write, write_first = slow.socket.raw_writer(lambda: ended.append(1)), first.socket.raw_writer(never)  # noqa: B023
            assert write is not None
            assert write_first is not None
            sent = 0
            while not ended:
                write(framed)
                sent += 1
                assert slow.socket.unsent < 10 * DRAIN_BYTES, "it says when it is too much"
            assert slow.socket.unsent > DRAIN_BYTES
            assert slow.socket.raw_writer(never) is None
            write_first(framed)
            first.socket.release_raw_writer()
            await take(one, 1)
            await take(other, sent)
            await patiently(slow.was_drained.wait())
            slow.was_drained.clear()
            assert ended == [1]


def never() -> None:
    pytest.fail("this loan was not to end")


async def test_a_loan_ends_when_the_connection_closes_unless_it_was_given_back(make: Make) -> None:
    async with listening(make) as it:
        await it.peer()
        await it.peer()
        first, second = await it.handlers.next(), await it.handlers.next()
        ended: list[int] = []
        assert first.socket.raw_writer(lambda: ended.append(1)) is not None
        assert second.socket.raw_writer(never) is not None
        second.socket.release_raw_writer()
        for handler in (first, second):
            handler.socket.close(1000)
            assert handler.socket.raw_writer(never) is None
        assert ended == [1]


async def test_a_peer_that_reads_is_never_called_drained(make: Make) -> None:
    async with listening(make) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        peer = await it.peer()
        for _ in range(20):
            peer.write(frame(BINARY, bytes(1000)))
            await peer.frame()
        handler = await it.handlers.next()
        assert handler.calls == ["received"] * 20
        assert handler.socket.unsent == 0


async def test_who_sees_too_much_unsent_while_receiving_is_told_when_it_has_drained(make: Make) -> None:
    """Also if what was sent was only held back until the end of the turn."""
    above = asyncio.Event()

    def send_until_above(handler: RecordingHandler, _data: Data) -> None:
        for _ in range(10_000):
            handler.socket.send(bytes(1000))
            if handler.socket.unsent > DRAIN_BYTES:
                above.set()
                return

    async with listening(make) as it:
        it.handlers.on_received = send_until_above
        peer = await it.peer(receive_bytes=4096)
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"go"))
        await patiently(above.wait())
        while not handler.was_drained.is_set():
            assert await peer.frame() == (BINARY, bytes(1000))
        assert handler.calls == ["received", "drained"]


async def test_a_paused_connection_reads_nothing_and_the_peer_has_to_wait(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        it.handlers.on_received = lambda handler, _: handler.socket.pause()
        peer.writer.transport.set_write_buffer_limits(high=0)
        peer.write(frame(BINARY, b"one"))
        assert await handler.message() == b"one"
        flood = frame(BINARY, CHUNK) * 1024
        peer.write(flood)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await peer.writer.drain()
        assert handler.calls == ["received"]
        it.handlers.on_received = lambda _handler, _data: None
        handler.socket.resume()
        await patiently(peer.writer.drain())
        for _ in range(1024):
            assert await handler.message() == CHUNK


async def test_what_was_read_before_the_pause_still_arrives(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        it.handlers.on_received = lambda handler, _: handler.socket.pause()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"one") + frame(BINARY, b"two"))
        assert [await handler.message(), await handler.message()] == [b"one", b"two"]
        handler.socket.resume()
        handler.socket.resume()
        peer.write(frame(BINARY, b"three"))
        assert await handler.message() == b"three"


async def test_a_flood_of_pings_without_reading_takes_no_memory(make: Make) -> None:
    async with listening(make, small_frames_per_second=1_000_000) as it:
        peer = await it.peer(receive_bytes=4096)
        handler = await it.handlers.next()
        flood = frame(PING, b"x" * 125) * 1000
        for _ in range(100):
            peer.write(flood)
            await patiently(peer.writer.drain())
        peer.write(frame(BINARY, b"end"))
        assert await handler.message() == b"end"
        assert handler.socket.unsent < 10 * DRAIN_BYTES
        assert await peer.frame() == (PONG, b"x" * 125)


async def test_one_slow_reader_does_not_hold_up_others(make: Make) -> None:
    async with listening(make) as it:
        await it.peer(receive_bytes=4096)
        slow = await it.handlers.next()
        slow.socket.send(bytes(64 << 20))
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        quick = await it.peer()
        for number in range(100):
            quick.write(frame(BINARY, str(number).encode()))
            assert await quick.frame() == (BINARY, str(number).encode())


async def test_a_large_message_does_not_disturb_what_follows_it(make: Make) -> None:
    """A listener may change its buffers after a large message, also in the middle of others."""
    async with listening(make) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        large = bytes(range(256)) * 16_384
        after = frame(BINARY, b"after")
        for cut in (0, 1, 5, len(after)):
            peer.write(frame(BINARY, large) + after[:cut])
            assert await handler.message() == large
            peer.write(after[cut:] + frame(BINARY, b"then"))
            assert [await handler.message(), await handler.message()] == [b"after", b"then"]
            handler.socket.send(b"answer")
            assert await peer.frame() == (BINARY, b"answer")
        assert isinstance(handler.socket, asyncio.BufferedProtocol)
        assert memoryview(handler.socket.get_buffer(-1)).nbytes <= 128 * 1024, (
            "the memory of a large message is given back"
        )
