"""What does not fit is never shown: the entity is unknown, asked for once, and right again (SYNC-4)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec
import pytest

from session_worlds import Stage, WrapDial, staged, until
from stemmadb.client.reading.fetch import IDLE_PAGES_MAX
from stemmadb.protocol.errors import Malformed, StemmaError
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, EntityId
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.channel import Channel, Dial
from stemmadb.protocol.wire.codec.msgpack_codec import Data

Message: TypeAlias = dict[str, Any]


class Tampering:
    """A channel that changes what comes from the server, and notes what is asked."""

    def __init__(self, channel: Channel, change: Callable[[Message], None], sent: list[Message]) -> None:
        self.subprotocol = channel.subprotocol
        self._channel = channel
        self._change = change
        self._sent = sent

    async def receive(self) -> Data:
        data = await self._channel.receive()
        assert isinstance(data, bytes)
        message = msgspec.msgpack.decode(data)
        self._change(message)
        return msgspec.msgpack.encode(message)

    def send_at_once(self, _data: Data) -> bool:
        return False

    async def send(self, data: Data) -> None:
        assert isinstance(data, bytes)
        message = msgspec.msgpack.decode(data)
        self._sent.append(dict(message))
        if message.get("after") == MADE_UP:
            del message["after"]
        await self._channel.send(msgspec.msgpack.encode(message))

    async def close(self) -> None:
        await self._channel.close()


def tampering(change: Callable[[Message], None], sent: list[Message]) -> WrapDial:
    def wrap(dial: Dial) -> Dial:
        async def tampered(space: Did) -> Channel:
            return Tampering(await dial(space), change, sent)

        return tampered

    return wrap


MADE_UP = "a cursor"
"""Of a server whose pages never end; the real one is asked for the first page again."""


class Fault:
    """Does its damage to the next frame that has facts, once it is armed."""

    def __init__(self, damage: Callable[[Message], None]) -> None:
        self.is_armed = False
        self.count = 0
        self._damage = damage

    def __call__(self, message: Message) -> None:
        if self.is_armed and message["type"] == "sync" and message.get("commits"):
            self.is_armed = False
            self.count += 1
            self._damage(message)


def wrong_parent(message: Message) -> None:
    message["commits"][0]["facts"][0]["parent"] = bytes(32)


def lost_fact(message: Message) -> None:
    del message["commits"]


def patch_that_does_not_apply(message: Message) -> None:
    message["commits"][0]["facts"][0]["body"] = encode([{"op": "remove", "path": "/nothing"}])


def queries(sent: list[Message]) -> list[Message]:
    return [one for one in sent if one["type"] == "query"]


@pytest.mark.rule("SYNC-4")
@pytest.mark.parametrize("damage", [wrong_parent, patch_that_does_not_apply])
def test_a_fact_that_does_not_fit_makes_the_entity_unknown_and_it_is_asked_for_once(
    damage: Callable[[Message], None],
) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        fault, sent = Fault(damage), list[Message]()
        app, bob = await stage.app(wrap=tampering(fault, sent)), await stage.app("bob")
        await (await bob.set("urn:a", {"n": 0})).confirmed()
        await (await bob.set("urn:b", {"n": 0})).confirmed()
        seen: list[Any] = []
        async with app.space.watch("urn:*") as watch:
            seen.append((await watch.next()).entered)
            sent.clear()
            fault.is_armed = True
            await (await bob.increment("urn:a")).confirmed()
            seen.append((await watch.next()).updated)
            await (await bob.increment("urn:a")).confirmed()
            seen.append((await watch.next()).updated)
            assert await app.space.get("urn:a") == {"n": 2}
        assert fault.count == 1
        assert seen == [
            {"urn:a": {"n": 0}, "urn:b": {"n": 0}},
            {"urn:a": {"n": 1}},
            {"urn:a": {"n": 2}},
        ]
        assert len(queries(sent)) == 1
        assert app.line.dials == 1

    scenario()


@pytest.mark.rule("SYNC-4")
@staged
async def test_a_gap_is_found_at_the_next_fact_and_nothing_wrong_is_shown(stage: Stage) -> None:
    fault, sent = Fault(lost_fact), list[Message]()
    app, bob = await stage.app(wrap=tampering(fault, sent)), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0, "lost": False})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        fault.is_armed = True
        async with bob.space.transaction() as tx:
            tx.patch("urn:a", [{"op": "replace", "path": "/lost", "value": True}])
        await tx.confirmed()
        await until(lambda: fault.count)
        await (await bob.increment("urn:a")).confirmed()
        assert (await watch.next()).updated == {"urn:a": {"n": 1, "lost": True}}


@pytest.mark.rule("SYNC-4", "NURSERY-1")
@staged
async def test_pending_work_on_an_unknown_entity_is_shown_again_once_it_is_known(stage: Stage) -> None:
    fault, sent = Fault(wrong_parent), list[Message]()
    app, bob = await stage.app(wrap=tampering(fault, sent)), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0, "m": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        fault.is_armed = True
        theirs = await bob.increment("urn:a")
        async with app.space.transaction() as tx:
            tx.increment("urn:a", "/m")
        await theirs.confirmed()
        await tx.confirmed()
        seen: Any = {}
        while seen != {"n": 1, "m": 1}:
            seen = (await watch.next()).updated[EntityId("urn:a")]
            assert seen in ({"n": 0, "m": 1}, {"n": 1, "m": 0}, {"n": 1, "m": 1})
    assert stage.value("urn:a") == {"n": 1, "m": 1}


@pytest.mark.rule("SYNC-1", "WIRE-4")
@staged
async def test_a_frame_that_does_not_continue_the_stream_ends_the_connection_and_the_next_resumes(
    stage: Stage,
) -> None:
    def skip(message: Message) -> None:
        message["from"] += 1
        message["to"] += 1

    fault, sent = Fault(skip), list[Message]()
    app, bob = await stage.app(wrap=tampering(fault, sent)), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        fault.is_armed = True
        await (await bob.increment("urn:a")).confirmed()
        assert (await watch.next()).updated == {"urn:a": {"n": 1}}
    assert app.line.dials == 2


@pytest.mark.rule("WIRE-4")
@staged
async def test_a_server_that_talks_nonsense_is_left_and_pending_work_is_kept(stage: Stage) -> None:
    is_mad = False

    def nonsense(message: Message) -> None:
        if is_mad and message["type"] == "sync":
            message["verdicts"] = "nonsense"

    app = await stage.app(wrap=tampering(nonsense, []))
    is_mad = True
    tx = await app.set("urn:a", 1, blind=True)
    await asyncio.sleep(60)
    assert tx.status == "pending"
    assert app.line.dials < 40
    is_mad = False
    await tx.confirmed()
    assert len(stage.commits_of("alice")) == 1


@pytest.mark.rule("QUERY-6")
@staged
async def test_pages_that_never_end_are_refused(stage: Stage) -> None:
    is_mad, asked = False, list[Message]()

    def endless(message: Message) -> None:
        if is_mad and message["type"] == "ok" and "version" in message["result"]:
            message["result"]["next"] = MADE_UP

    app = await stage.app(wrap=tampering(endless, asked))
    await (await app.set("urn:a", 1, blind=True)).confirmed()
    is_mad = True
    with pytest.raises(Malformed):
        await asyncio.wait_for(app.space.get("urn:a"), 600)
    with pytest.raises(Malformed):
        await asyncio.wait_for(app.space.list("urn:*"), 600)
    assert len(queries(asked)) <= 2 * (IDLE_PAGES_MAX + 2)


@pytest.mark.rule("QUERY-6")
@staged
async def test_entities_that_were_not_asked_for_are_refused(stage: Stage) -> None:
    def other(message: Message) -> None:
        if message["type"] == "ok":
            for one in message["result"].get("entities", ()):
                one["id"] = "urn:other"

    app = await stage.app(wrap=tampering(other, []))
    await (await app.set("urn:a", 1, blind=True)).confirmed()
    with pytest.raises(Malformed):
        await app.space.get("urn:a")


@pytest.mark.rule("MODEL-3", "WIRE-4")
@staged
async def test_a_value_beyond_the_announced_bound_is_refused(stage: Stage) -> None:
    is_mad = True

    def large(message: Message) -> None:
        if is_mad:
            items = message["result"].get("entities", ()) if message["type"] == "ok" else message.get("entered", ())
            for one in items:
                one["body"] = encode("x" * (DEFAULTS.value_bytes_max + 1))

    app = await stage.app(wrap=tampering(large, []))
    await (await app.set("urn:a", 1, blind=True)).confirmed()
    dials = app.line.dials
    with pytest.raises(StemmaError):
        await app.space.get("urn:a")
    async with app.space.watch("urn:*") as watch:
        await asyncio.sleep(5)
        assert app.line.dials > dials, "the connection was left"
        is_mad = False
        assert (await watch.next()).entered == {"urn:a": 1}
