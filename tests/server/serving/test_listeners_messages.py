"""What a listener makes of frames: whole messages, fragments, bounds of size, pings, and what breaks the protocol."""

from __future__ import annotations

import asyncio
import struct

import pytest

from listening import BINARY, CLOSE, CONT, LISTENERS, PING, PONG, TEXT, Make, frame, listening

pytestmark = pytest.mark.parametrize("make", LISTENERS)
SIZES = [0, 1, 125, 126, 127, 65_535, 65_536, 300_000]


async def test_messages_of_all_sizes_come_and_go_as_they_are(make: Make) -> None:
    async with listening(make) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        peer = await it.peer()
        handler = await it.handlers.next()
        for size in SIZES:
            text = ("\u00e9" * (size // 2) + "e" * (size % 2)).encode()
            peer.write(frame(BINARY, bytes(size)) + frame(TEXT, text))
            assert await peer.frame() == (BINARY, bytes(size))
            assert await peer.frame() == (TEXT, text)
            assert [type(await handler.message()) for _ in range(2)] == [bytes, str]
        listener = it.listener
        assert (listener.messages_in, listener.messages_out) == (16, 16)
        assert (listener.bytes_in, listener.bytes_out) == (2 * sum(SIZES), 2 * sum(SIZES))


async def test_torn_frames_are_put_together(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        for byte in frame(BINARY, b"x" * 200) + frame(PING, b"?") + frame(TEXT, b"whole"):
            peer.write(bytes((byte,)))
            await asyncio.sleep(0)
        assert [await handler.message(), await handler.message()] == [b"x" * 200, "whole"]
        assert await peer.frame() == (PONG, b"?")


async def test_many_messages_in_one_read_arrive_in_order_and_are_answered_in_order(make: Make) -> None:
    async with listening(make) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        peer = await it.peer()
        peer.write(b"".join(frame(BINARY, str(number).encode()) for number in range(500)))
        assert [int((await peer.frame())[1]) for _ in range(500)] == list(range(500))


async def test_fragments_are_joined_also_around_a_ping(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(TEXT, b"caf\xc3", fin=False) + frame(PING, b"now") + frame(CONT, b"\xa9!"))
        assert await handler.message() == "caf\u00e9!"
        assert await peer.frame() == (PONG, b"now")
        peer.write(frame(BINARY, b"a", fin=False) + frame(CONT, b"", fin=False) * 100 + frame(CONT, b"b"))
        assert await handler.message() == b"ab"
        peer.write(frame(BINARY, b"next"))
        assert await handler.message() == b"next"


async def test_a_message_of_exactly_the_bound_is_taken_whole_or_in_fragments(make: Make) -> None:
    async with listening(make, message_bytes_max=1000) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"x" * 1000))
        peer.write(frame(TEXT, b"x" * 600, fin=False) + frame(CONT, b"x" * 400))
        assert [len(await handler.message()), len(await handler.message())] == [1000, 1000]


async def test_a_message_up_to_twice_the_bound_reaches_the_session_which_refuses_it(make: Make) -> None:
    """So that the client hears which message is too large, and does not send it again for ever (WIRE-4)."""
    async with listening(make, message_bytes_max=1000) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"x" * 1001))
        peer.write(frame(TEXT, b"x" * 1600, fin=False) + frame(CONT, b"x" * 400))
        assert [len(await handler.message()), len(await handler.message())] == [1001, 2000]
        assert handler.errors == []


@pytest.mark.parametrize(
    "sent",
    [
        frame(BINARY, b"x" * 2001),
        struct.pack("!BBQ", 0x82, 0xFF, 1 << 40) + b"mask",
        struct.pack("!BBH", 0x81, 0xFE, 2001) + b"mask",
        frame(TEXT, b"x" * 1600, fin=False) + frame(CONT, b"x" * 401),
        frame(TEXT, b"x" * 1600, fin=False) + struct.pack("!BBH", 0x00, 0xFE, 401) + b"mask" + b"x" * 401,
        frame(BINARY, b"x" * 2001) + bytes(1 << 20),
    ],
)
async def test_a_message_beyond_the_bound_is_refused_by_its_header(make: Make, sent: bytes) -> None:
    async with listening(make, message_bytes_max=1000) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(sent)
        assert await peer.frame() == (BINARY, b"goodbye")
        assert await peer.close_code() == 1009
        peer.write(frame(CLOSE, struct.pack("!H", 1009)))
        assert await peer.ended() == b""
        await peer.leave()
        await handler.gone()
        assert handler.calls == ["overrun", "lost"]
        assert handler.errors[0].facts["bound"] == "message_bytes_max"


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (frame(BINARY, b"x", mask=False), 1002),
        (frame(3, b"x"), 1002),
        (frame(11), 1002),
        (frame(BINARY, b"x", reserved=4), 1002),
        (frame(BINARY, b"x", reserved=2), 1002),
        (frame(PING, b"x", reserved=1), 1002),
        (frame(CONT, b"x"), 1002),
        (frame(BINARY, b"x", fin=False) + frame(BINARY, b"y"), 1002),
        (frame(BINARY, b"x", fin=False) + frame(TEXT, b"y", fin=False), 1002),
        (frame(PING, b"x", fin=False), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(CLOSE, b"x"), 1002),
        (frame(CLOSE, b"\x00\x01"), 1002),
        (struct.pack("!BBQ", 0x82, 0xFF, 1 << 63), None),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"caf\xc3", fin=False) + frame(CONT, b"e"), 1007),
    ],
)
async def test_who_breaks_the_protocol_is_closed_with_the_code_that_says_so(
    make: Make, sent: bytes, code: int | None
) -> None:
    async with listening(make) as it:
        peer, other = await it.peer(), await it.peer()
        handler, unharmed = await it.handlers.next(), await it.handlers.next()
        peer.write(sent)
        assert await peer.close_code() in ((code,) if code is not None else (1002, 1009))
        peer.write(frame(BINARY, b"too late"))
        peer.write(frame(CLOSE, struct.pack("!H", 1000)))
        await peer.ended()
        await peer.leave()
        await handler.gone()
        assert "received" not in handler.calls
        other.write(frame(BINARY, b"fine"))
        assert await unharmed.message() == b"fine"


async def test_messages_before_a_broken_frame_are_received(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"one") + frame(BINARY, b"two"))
        peer.write(frame(BINARY, b"bad", mask=False))
        assert await peer.close_code() == 1002
        assert [await handler.message(), await handler.message()] == [b"one", b"two"]


async def test_nothing_follows_the_close_frame_after_a_broken_frame(make: Make) -> None:
    async with listening(make) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        peer = await it.peer()
        peer.write(frame(BINARY, b"good") + frame(BINARY, b"bad", mask=False))
        assert await peer.close_code() == 1002
        assert await peer.ended() == b""


async def test_pings_are_answered_with_their_own_bytes(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        peer.write(frame(PING) + frame(PONG, b"unasked") + frame(PING, b"x" * 125))
        assert await peer.frame() == (PONG, b"")
        assert await peer.frame() == (PONG, b"x" * 125)
