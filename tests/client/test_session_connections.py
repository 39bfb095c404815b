"""What a server changes between two connections, and what a connection brings twice."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from nursery_hands import adding, hand
from session_worlds import Stage, staged, until
from space import set_
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.protocol.errors import JournalFailed, LimitExceeded, StemmaError
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import Channel, Dial
from stemmadb.protocol.wire.codec.msgpack_codec import Data

A = "urn:a"


@pytest.mark.rule("RESUME-4")
@staged
async def test_after_a_restore_the_head_of_the_server_is_that_of_the_new_history(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", 1)).confirmed()
    backup = stage.world.backup()
    for number in range(5):
        await (await app.set("urn:a", number)).confirmed()
    await stage.world.restore(backup)
    await until(lambda: app.space.status().local_head == 2)
    assert app.space.status().server_head == 2


@pytest.mark.rule("RESUME-1")
@staged
async def test_a_server_that_comes_back_with_fewer_watches_ends_those_beyond_and_goes_on(stage: Stage) -> None:
    app = await stage.app()
    watches = [app.space.watch(f"urn:{number}:*") for number in range(5)]
    for watch in watches:
        await watch.next()
    await stage.world.stop()
    stage.world.limits = msgspec.structs.replace(stage.world.limits, watches_max=3)
    await stage.world.start()
    await app.space.connected(timeout=120)
    await (await app.set("urn:0:a", 1)).confirmed()
    assert (await watches[0].next()).entered == {"urn:0:a": 1}
    for watch in watches[3:]:
        with pytest.raises(LimitExceeded):
            await watch.next()


@pytest.mark.rule("RESUME-5")
@staged
async def test_a_dial_that_fails_in_an_unknown_way_is_tried_again(stage: Stage) -> None:
    failing = False
    reported: list[dict[str, Any]] = []

    def wrap(dial: Dial) -> Dial:
        async def dialled(space: Did) -> Channel:
            if failing:
                raise ValueError("the library has a mistake")
            return await dial(space)

        return dialled

    app = await stage.app(wrap=wrap)
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _loop, context: reported.append(context))
    failing = True
    app.line.cut()
    await asyncio.sleep(5)
    failing = False
    await app.space.connected(timeout=60)
    loop.set_exception_handler(before)
    assert reported
    await (await app.set("urn:a", 1)).confirmed()


@staged
async def test_an_error_that_is_told_again_and_again_does_not_grow(stage: Stage) -> None:
    carol = await stage.app("carol")
    alice = await stage.app()
    await alice.space.acl.remove(stage.world.identity("carol").did)
    carol.line.cut()
    await until(lambda: carol.space.status().connection == "refused")
    depths = []
    for _ in range(20):
        with pytest.raises(StemmaError) as caught:
            await carol.space.get("urn:a")
        depths.append(_depth(caught.value))
    assert max(depths) == depths[0]


@staged
async def test_the_error_of_a_journal_that_failed_does_not_grow(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    app.disk.fail(OSError("the disk is gone"))
    await app.set("urn:a", 1)
    depths = []
    for _ in range(20):
        with pytest.raises(JournalFailed) as caught:
            await app.set("urn:a", 1)
        depths.append(_depth(caught.value))
    assert max(depths) == depths[0]


@pytest.mark.rule("SYNC-2")
def test_a_verdict_that_comes_twice_in_a_frame_confirms_once() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    name = one.write(adding(A, 10))
    one.decide(name)
    frame = one.frame()
    twice = msgspec.structs.replace(frame, verdicts=frame.verdicts * 2)
    assert [each.pending.name for each in one.integrate(twice).confirmed] == [name]
    assert one.value(A) == {"n": 11}


def _depth(error: BaseException) -> int:
    trace, depth = error.__traceback__, 0
    while trace is not None:
        trace, depth = trace.tb_next, depth + 1
    return depth


class FailsOnce:
    """A channel whose next message up is met by a mistake."""

    def __init__(self, channel: Channel, faults: list[Exception]) -> None:
        self.subprotocol = channel.subprotocol
        self._channel = channel
        self._faults = faults
        self.receive, self.close = channel.receive, channel.close

    def send_at_once(self, _data: Data) -> bool:
        return False

    async def send(self, data: Data) -> None:
        if self._faults:
            raise self._faults.pop()
        await self._channel.send(data)


@pytest.mark.rule("RESUME-5")
@staged
async def test_an_internal_error_while_sending_is_reported_and_ends_the_connection_at_once(stage: Stage) -> None:
    faults: list[Exception] = []
    reported: list[dict[str, Any]] = []

    def wrap(dial: Dial) -> Dial:
        async def dialled(space: Did) -> Channel:
            return FailsOnce(await dial(space), faults)

        return dialled

    app = await stage.app(wrap=wrap)
    loop = asyncio.get_running_loop()
    before = loop.get_exception_handler()
    loop.set_exception_handler(lambda _loop, context: reported.append(context))
    faults.append(ValueError("a mistake"))
    tx = await app.set("urn:a", 1)
    async with asyncio.timeout(5):
        await tx.confirmed()
    loop.set_exception_handler(before)
    assert [str(one["exception"]) for one in reported] == ["a mistake"]


class Stuck:
    """A channel on which messages wait to leave until `may_leave`; then it takes them at once again."""

    def __init__(self, channel: Channel, may_leave: asyncio.Event) -> None:
        self.subprotocol = channel.subprotocol
        self._channel = channel
        self._may_leave = may_leave
        self.waiting = 0
        self.receive, self.close = channel.receive, channel.close

    def send_at_once(self, data: Data) -> bool:
        is_free = self._may_leave.is_set() or self.waiting > 0
        return is_free and self._channel.send_at_once(data)

    async def send(self, data: Data) -> None:
        self.waiting += 1
        await self._may_leave.wait()
        self.waiting -= 1
        await self._channel.send(data)


@pytest.mark.rule("COMMIT-5")
@staged
async def test_a_commit_does_not_overtake_one_that_waits_to_leave(stage: Stage) -> None:
    """The channel takes the second at once while the first is stuck: a server would refuse the first as overtaken."""
    may_leave, channels = asyncio.Event(), list[Stuck]()
    may_leave.set()

    def wrap(dial: Dial) -> Dial:
        async def dialled(space: Did) -> Channel:
            channels.append(Stuck(await dial(space), may_leave))
            return channels[-1]

        return dialled

    app = await stage.app(wrap=wrap)
    may_leave.clear()
    first = await app.set("urn:a", 1)
    await until(lambda: channels[-1].waiting == 1)
    second = await app.set("urn:b", 2)
    await asyncio.sleep(1)
    may_leave.set()
    assert await first.confirmed() + 1 == await second.confirmed()
