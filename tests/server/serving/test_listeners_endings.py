"""How connections of a listener end: close handshakes, resets, failing handlers, dead peers; one `lost`, always."""

from __future__ import annotations

import asyncio
import struct

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed

from listening import BINARY, CLOSE, LISTENERS, PATH, PING, PONG, TEXT, Make, RecordingHandler, frame, listening
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.version import MSGPACK
from stemmadb.server.service.base.transport import Socket

pytestmark = pytest.mark.parametrize("make", LISTENERS)


def close(code: int) -> bytes:
    return frame(CLOSE, struct.pack("!H", code))


async def test_what_was_sent_goes_before_the_close_frame_and_nothing_after_it(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        for text in ("one", "two"):
            handler.socket.send(text)
        handler.socket.close(4001)
        handler.socket.close(4002)
        handler.socket.send("three")
        handler.socket.pause()
        handler.socket.resume()
        assert [await peer.frame(), await peer.frame()] == [(TEXT, b"one"), (TEXT, b"two")]
        assert await peer.frame() == (CLOSE, struct.pack("!H", 4001))
        peer.write(frame(BINARY, b"not heard any more") + close(4001))
        assert await peer.ended() == b""
        await peer.leave()
        await handler.gone()
        assert handler.calls == ["lost"]


async def test_a_paused_connection_that_closes_hears_the_answer(make: Make) -> None:
    async with listening(make, close_timeout_ms=60_000) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        handler.socket.pause()
        handler.socket.close(1000)
        assert await peer.close_code() == 1000
        peer.write(close(1000))
        assert await peer.ended() == b""


async def test_closing_while_messages_are_received_sends_what_was_given_first(make: Make) -> None:
    def answer_and_close(handler: RecordingHandler, data: Data) -> None:
        handler.socket.send(data)
        handler.socket.close(1000)

    async with listening(make) as it:
        it.handlers.on_received = answer_and_close
        peer = await it.peer()
        peer.write(frame(BINARY, b"last") + frame(BINARY, b"ignored"))
        assert await peer.frame() == (BINARY, b"last")
        assert await peer.frame() == (CLOSE, struct.pack("!H", 1000))
        assert (await it.handlers.next()).calls == ["received"]


async def test_a_close_of_the_peer_is_answered_after_what_came_before_it(make: Make) -> None:
    async with listening(make) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"last") + close(1001) + frame(BINARY, b"not allowed") + frame(3, b"nonsense"))
        assert await peer.frame() == (BINARY, b"last")
        assert await peer.frame() == (CLOSE, struct.pack("!H", 1001))
        assert await peer.ended() == b""
        await peer.leave()
        await handler.gone()
        assert handler.calls == ["received", "lost"]


async def test_a_close_without_a_code_is_answered_too(make: Make) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        peer.write(frame(CLOSE))
        opcode, payload = await peer.frame()
        assert opcode == CLOSE
        assert payload in (b"", struct.pack("!H", 1000))
        assert await peer.ended() == b""


@pytest.mark.parametrize("how", ["abort", "eof", "torn"])
async def test_a_peer_that_goes_without_a_word_is_lost(make: Make, how: str) -> None:
    async with listening(make) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        peer.write(frame(BINARY, b"last") + (frame(BINARY, b"torn")[:4] if how == "torn" else b""))
        assert await handler.message() == b"last"
        if how == "abort":
            await peer.leave()
        else:
            peer.writer.write_eof()
            assert await peer.ended() == b""
        await handler.gone()
        assert it.listener.connections == 0
        handler.socket.send(b"to nobody")
        handler.socket.close(1000)
        assert handler.socket.unsent == 0


async def test_a_peer_that_does_not_answer_a_close_is_cut_in_time(make: Make) -> None:
    async with listening(make, close_timeout_ms=60) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        handler.socket.pause()
        handler.socket.close(1000)
        assert await peer.close_code() == 1000
        await handler.gone()
        assert await peer.ended() == b""


async def test_a_peer_that_does_not_take_what_was_sent_is_cut_in_time(make: Make) -> None:
    async with listening(make, close_timeout_ms=60) as it:
        await it.peer(receive_bytes=4096)
        handler = await it.handlers.next()
        handler.socket.send(bytes(32 << 20))
        handler.socket.close(1000)
        await handler.gone()
        assert handler.calls == ["lost"]


async def test_a_peer_that_ends_its_direction_and_does_not_read_is_cut_in_time(make: Make) -> None:
    async with listening(make, close_timeout_ms=60) as it:
        peer = await it.peer(receive_bytes=4096)
        handler = await it.handlers.next()
        handler.socket.send(bytes(32 << 20))
        peer.writer.write_eof()
        await handler.gone()


@pytest.mark.parametrize("when", ["received", "drained", "lost", "welcome"])
async def test_a_visitor_that_raises_loses_its_connection_and_no_other(
    make: Make, when: str, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("on purpose")

    async with listening(make) as it:
        other = await it.peer()
        unharmed = await it.handlers.next()
        if when == "welcome":
            it.handlers.on_welcome = fail
        peer = await it.peer(receive_bytes=4096)
        setattr(it.handlers, f"on_{when}", fail)
        if when != "welcome":
            handler = await it.handlers.next()
        if when == "drained":
            handler.socket.send(bytes(32 << 20))
        if when == "lost":
            peer.write(close(1011))
        peer.write(frame(BINARY, b"one") + frame(BINARY, b"two"))
        assert await peer.close_code() == 1011
        await peer.leave()
        if when != "welcome":
            await handler.gone()
            calls = {
                "received": ["received", "lost"],
                "drained": [*["received"] * 2, "drained", "lost"],
                "lost": ["lost"],
            }
            assert handler.calls == calls[when]
        setattr(it.handlers, f"on_{when}", lambda *_: None)
        other.write(frame(BINARY, b"fine"))
        assert await unharmed.message() == b"fine"
    assert caplog.text.count("RuntimeError: on purpose") == 1
    caplog.clear()


async def test_a_silent_peer_is_pinged_and_cut_if_it_stays_silent(make: Make) -> None:
    async with listening(make, heartbeat_ms=80) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        assert await peer.frame() == (PING, b"")
        assert await peer.ended() == b""
        await handler.gone()
        assert handler.calls == ["lost"]


async def test_any_word_of_the_peer_keeps_the_connection(make: Make) -> None:
    async with listening(make, heartbeat_ms=80) as it:
        peer = await it.peer()
        handler = await it.handlers.next()
        started = asyncio.get_running_loop().time()
        for answer in (frame(PONG), frame(BINARY, b"x"), frame(PING), frame(BINARY, b"torn")[:5]):
            while (await peer.frame())[0] != PING:
                pass
            peer.write(answer)
        assert asyncio.get_running_loop().time() - started >= 4 * 0.08
        peer.write(frame(BINARY, b"torn")[5:])
        assert await handler.message() == b"x"
        await handler.message()


async def test_a_busy_peer_is_not_pinged(make: Make) -> None:
    async with listening(make, heartbeat_ms=200) as it:
        it.handlers.on_received = lambda handler, data: handler.socket.send(data)
        peer = await it.peer()
        clock = asyncio.get_running_loop().time
        started = last = clock()
        pinged = longest = 0.0
        while last - started < 0.6:
            peer.write(frame(BINARY, b"x"))
            while (await peer.frame())[0] == PING:
                pinged += 1
            longest = max(longest, clock() - last)
            last = clock()
        assert not pinged or longest > 0.1, "pinged without a pause"


async def test_a_peer_that_is_not_read_is_not_taken_for_dead(make: Make) -> None:
    async with listening(make, heartbeat_ms=40) as it:
        paused, watched = await it.peer(), await it.peer()
        handler, other = await it.handlers.next(), await it.handlers.next()
        handler.socket.pause()
        paused.write(frame(BINARY, b"waiting"))
        await other.gone()
        assert await paused.frame() == (PING, b"")
        await watched.leave()
        peer = await it.peer()
        await (await it.handlers.next()).gone()
        await peer.leave()
        assert handler.calls == []
        handler.socket.resume()
        assert await handler.message() == b"waiting"


async def test_closing_in_the_welcome_is_a_close_like_any_other(make: Make) -> None:
    def turn_away(socket: Socket) -> None:
        socket.send("goodbye")
        socket.close(1013)

    async with listening(make) as it:
        it.handlers.on_welcome = turn_away
        async with connect(f"ws://127.0.0.1:{it.listener.port}{PATH}", subprotocols=[MSGPACK]) as client:  # type: ignore[list-item]
            assert await client.recv() == "goodbye"
            with pytest.raises(ConnectionClosed):
                await client.recv()
            assert client.close_code == 1013
        await (await it.handlers.next()).gone()
