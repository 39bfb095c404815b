"""Floods of tiny frames: each peer gets its share of a turn of the event loop, and past a bound it is sent away."""

from __future__ import annotations

import asyncio
import struct

import pytest

from listening import BINARY, CLOSE, CONT, LISTENERS, PING, PONG, TEXT, Make, frame, listening, patiently, request
from stemmadb.protocol.errors import LimitExceeded, RateLimited
from stemmadb.server.serving.listeners.frame_bounds import FrameBounds
from stemmadb.server.serving.listeners.listener import ListenerSettings
from stemmadb.server.serving.listeners.read_share import (
    BYTES_MAX,
    FRAMES_MAX,
    READ_BYTES_MAX,
    READ_BYTES_MIN,
    ReadShare,
)

pytestmark = pytest.mark.rule("WIRE-7")
FAR = 1_000_000_000
listeners = pytest.mark.parametrize("make", LISTENERS)


@listeners
async def test_a_flood_is_handled_in_many_turns_of_the_loop(make: Make) -> None:
    """In one turn at most a read beyond the share: the frames of a read as small as it can be."""
    async with listening(make, small_frames_per_second=FAR) as it:
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


@listeners
async def test_what_came_with_the_handshake_is_shared_too(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.raw()
        peer.write(request() + frame(BINARY, b"") * 2_000 + frame(BINARY, b"end"))
        handler = await it.handlers.next()
        for _ in range(2_000):
            assert await handler.message() == b""
        assert await handler.message() == b"end"
        peer.write(frame(BINARY, b"more"))
        assert await handler.message() == b"more"


@listeners
@pytest.mark.parametrize(
    ("sent", "bound"),
    [
        (frame(BINARY, b"x", fin=False) + frame(CONT, b"x", fin=False) * 100, "fragments_max"),
        (frame(BINARY, b"x", fin=False) + frame(CONT, b"x", fin=False) * 49 + frame(CONT, b"x"), "fragments_max"),
        (frame(TEXT, b"x", fin=False) + frame(CONT, b"x" * 2_000, fin=False) * 100, "fragments_max"),
    ],
)
async def test_a_message_of_too_many_fragments_ends_the_connection(make: Make, sent: bytes, bound: str) -> None:
    async with listening(make, fragments_max=50, small_frames_per_second=FAR) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write((frame(BINARY, b"x", fin=False) + frame(CONT, b"x", fin=False) * 48 + frame(CONT, b"x")) * 3)
        for _ in range(3):
            assert await handler.message() == b"x" * 50
        peer.write(sent)
        assert await peer.frame() == (BINARY, b"goodbye")
        assert await peer.close_code() == 1009
        assert isinstance(handler.errors[0], LimitExceeded)
        assert handler.errors[0].facts["bound"] == bound
        await peer.leave()
        await handler.gone()


@listeners
@pytest.mark.parametrize("opcode", [PING, PONG, CONT])
async def test_more_small_frames_than_the_rate_allows_end_the_connection(make: Make, opcode: int) -> None:
    async with listening(make, small_frames_per_second=100) as it:
        peer, other = await it.peer(), await it.peer()
        handler, unharmed = await it.handlers.next(), await it.handlers.next()
        first = frame(BINARY, b"x", fin=False) if opcode == CONT else b""
        peer.write(first + frame(opcode, b"x", fin=opcode != CONT) * 100_000)
        assert await peer.close_code() == 1013
        assert isinstance(handler.errors[0], RateLimited)
        await peer.leave()
        await handler.gone()
        other.write(frame(BINARY, b"fine"))
        assert await unharmed.message() == b"fine"


@listeners
async def test_a_stranger_may_send_few_frames(make: Make) -> None:
    async with listening(make, opening_frames_max=5) as it:
        it.handlers.trusts = False
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"x") * 5)
        for _ in range(5):
            assert await handler.message() == b"x"
        peer.write(frame(PING))
        assert await peer.close_code() == 1009
        assert handler.errors[0].facts["bound"] == "opening_frames_max"
        await peer.leave()
        await handler.gone()


@listeners
async def test_a_peer_that_goes_on_after_it_was_sent_away_is_aborted(make: Make) -> None:
    async with listening(make, fragments_max=1, close_timeout_ms=FAR, handshake_timeout_ms=FAR) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"x", fin=False) * 1 + frame(CONT, b"x", fin=False))
        assert await peer.close_code() == 1009
        try:
            while not handler.was_lost.is_set():
                peer.write(frame(PING, b"x" * 100) * 1_000)
                await patiently(peer.writer.drain())
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        await handler.gone()


@listeners
async def test_a_peer_that_insists_on_compression_is_closed(make: Make) -> None:
    """The answer to the handshake accepts no extension, so a compressed frame breaks the protocol."""
    async with listening(make) as it:
        peer, other = await it.peer(sec_websocket_extensions="permessage-deflate"), await it.peer()
        await it.handlers.next()
        unharmed = await it.handlers.next()
        peer.write(frame(BINARY, b"\x4b\x04\x00", reserved=4) * 1_000)
        assert await peer.close_code() == 1002
        other.write(frame(BINARY, b"fine"))
        assert await unharmed.message() == b"fine"
        await peer.leave()


@listeners
async def test_when_all_places_are_taken_those_inside_go_on_and_a_place_that_is_left_is_free(make: Make) -> None:
    async with listening(make, connections_max=20) as it:
        peers = [await it.peer() for _ in range(20)]
        handlers = [await it.handlers.next() for _ in range(20)]
        assert {(await it.ask(request()))[0] for _ in range(40)} == {503}
        peers[3].write(frame(BINARY, b"fine"))
        assert await handlers[3].message() == b"fine"
        peers[0].write(frame(CLOSE, struct.pack("!H", 1000)))
        await peers[0].ended()
        await peers[0].leave()
        await handlers[0].gone()
        late = await it.peer()
        late.write(frame(BINARY, b"in"))
        assert await (await it.handlers.next()).message() == b"in"


def test_reads_grow_with_large_frames_and_shrink_with_tiny_ones() -> None:
    share = ReadShare()
    assert share.size == READ_BYTES_MIN
    for _ in range(20):
        share.frames = 1
        share.end_read(share.size)
    assert share.size == READ_BYTES_MAX
    share.frames = 16
    share.end_read(400)
    assert share.size == READ_BYTES_MAX, "a few small messages are no flood"
    share.frames = 1_000
    share.end_read(7_000)
    assert share.size == READ_BYTES_MIN


def test_a_share_is_used_up_by_frames_and_by_bytes() -> None:
    share = ReadShare()
    for _ in range(FRAMES_MAX - 1):
        share.frames = 1
        assert not share.end_read(300)
    share.frames = 1
    assert share.end_read(300)
    assert not share.end_read(BYTES_MAX - 1)
    assert share.end_read(1)


def test_the_rate_of_small_frames_fills_with_time() -> None:
    bounds = FrameBounds(ListenerSettings(host="localhost", port=0, small_frames_per_second=10), 0)
    assert [bounds.control_frame(0) for _ in range(10)] == [None] * 10
    assert isinstance(bounds.control_frame(0), RateLimited)
    assert bounds.control_frame(100) is None
    assert bounds.fragment(1_024, 100, is_last=True) is None, "a large fragment is not counted"
    assert isinstance(bounds.fragment(1_023, 100, is_last=True), RateLimited)
