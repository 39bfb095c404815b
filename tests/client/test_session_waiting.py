"""What waits for an answer goes on although the answer is that it cannot be given."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest

from session_worlds import Stage, WrapDial, staged, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import Channel, Dial
from stemmadb.protocol.wire.codec.msgpack_codec import Data

Message: TypeAlias = dict[str, Any]
Answer: TypeAlias = Callable[[Message], Message | None]


class Proxy:
    """A channel in which some messages are changed on their way down, and some are answered on their way up."""

    def __init__(self, channel: Channel, down: Callable[[Message], None], up: Answer) -> None:
        self.subprotocol = channel.subprotocol
        self._channel, self._down, self._up = channel, down, up
        self._inbox: asyncio.Queue[Data | BaseException] = asyncio.Queue()
        self._pump = asyncio.get_running_loop().create_task(self._carry())

    async def _carry(self) -> None:
        try:
            while True:
                data = await self._channel.receive()
                message = msgspec.msgpack.decode(data)  # type: ignore[arg-type]  # msgpack is spoken
                self._down(message)
                self._inbox.put_nowait(msgspec.msgpack.encode(message))
        except Exception as over:
            self._inbox.put_nowait(over)

    async def receive(self) -> Data:
        got = await self._inbox.get()
        if isinstance(got, BaseException):
            raise got
        return got

    def send_at_once(self, _data: Data) -> bool:
        return False

    async def send(self, data: Data) -> None:
        answer = self._up(msgspec.msgpack.decode(data))  # type: ignore[arg-type]  # msgpack is spoken
        if answer is None:
            await self._channel.send(data)
        else:
            self._inbox.put_nowait(msgspec.msgpack.encode(answer))

    async def close(self) -> None:
        self._pump.cancel()
        await asyncio.gather(self._pump, return_exceptions=True)
        await self._channel.close()


def proxied(*, down: Callable[[Message], None] = lambda _: None, up: Answer = lambda _: None) -> WrapDial:
    def wrap(dial: Dial) -> Dial:
        async def through(space: Did) -> Channel:
            return Proxy(await dial(space), down, up)

        return through

    return wrap


@pytest.mark.rule("SYNC-4")
@staged
async def test_a_watched_entity_is_asked_for_until_the_server_can_answer(stage: Stage) -> None:
    state = {"armed": False, "refusals": 2}

    def damage(message: Message) -> None:
        if state["armed"] and message["type"] == "sync" and message.get("commits"):
            state["armed"] = False
            message["commits"][0]["facts"][0]["parent"] = bytes(32)

    def refuse(message: Message) -> Message | None:
        if message["type"] != "query" or state["armed"] or not state["refusals"]:
            return None
        state["refusals"] -= 1
        return {"type": "error", "id": message["id"], "code": "unavailable", "message": "later", "retriable": True}

    app, bob = await stage.app(wrap=proxied(down=damage, up=refuse)), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        state["armed"] = True
        await (await bob.increment("urn:a")).confirmed()
        async with asyncio.timeout(60):
            assert (await watch.next()).updated == {"urn:a": {"n": 1}}
    assert state == {"armed": False, "refusals": 0}


@pytest.mark.rule("WIRE-4", "NURSERY-7")
@staged
async def test_what_waits_behind_a_commit_that_the_server_cannot_read_is_sent(stage: Stage) -> None:
    unread: set[bytes] = set()

    def cannot_read(message: Message) -> Message | None:
        if message["type"] != "commit" or message.get("session") not in unread:
            return None
        named = {"local": message["local"], "session": message["session"]}
        return {"type": "error", "code": "malformed", "message": "It cannot be read.", **named}

    app = await stage.app(disk=SimulatedJournal(), wrap=proxied(up=cannot_read))
    await (await app.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        old = app.core.session.id
        unread.add(old)
        app.line.offline()
        first = await app.bump("urn:a")
        app.core.session._take_new_session()  # as after a verdict for a commit that was never made here
        second = await app.bump("urn:a")
        third = await app.set("urn:else", 1, blind=True)
        app.line.online()
        async with asyncio.timeout(5):  # and not only when a sign of life is asked for
            await third.confirmed()
            with pytest.raises(Malformed):
                await first.confirmed()
    assert second.status == "rejected"


@pytest.mark.rule("SYNC-4")
@staged
async def test_what_nobody_watches_any_more_is_not_asked_for_again_and_again(stage: Stage) -> None:
    asked: list[Message] = []
    state = {"armed": False}

    def damage(message: Message) -> None:
        if state["armed"] and message["type"] == "sync" and message.get("commits"):
            message["commits"][0]["facts"][0]["parent"] = bytes(32)

    def refuse(message: Message) -> Message | None:
        if message["type"] != "query" or not state["armed"]:
            return None
        asked.append(message)
        return {"type": "error", "id": message["id"], "code": "unavailable", "message": "later", "retriable": True}

    app, bob = await stage.app(wrap=proxied(down=damage, up=refuse)), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        state["armed"] = True
        await (await bob.increment("urn:a")).confirmed()
        await until(lambda: len(asked) > 2)
    await asyncio.sleep(5)
    count = len(asked)
    await asyncio.sleep(30)
    assert len(asked) == count
