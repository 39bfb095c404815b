"""When the server stops reading from a session: slow clients, and a full queue."""

from __future__ import annotations

import pytest

from service_peers import ALICE, BOB, CAROL, Peer, ServiceHarness, put, service_harness
from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.structure import CompactRequest
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.engine.write.queue import QueueEntry, WriteQueue
from stemmadb.server.service.base.settings import ServiceSettings

LITTLE = 1_000
"""Bytes that may wait for a client here before it counts as slow."""


async def _slow_watcher(home: ServiceHarness) -> Peer:
    """Watches everything, and then reads nothing any more while more waits for it than may."""
    carol = await home.peer(CAROL).open()
    await carol.watch(1, "urn:*")
    carol.stop_reading()
    carol.wire.unsent = LITTLE + 1
    return carol


def _is_read_from(peer: Peer) -> bool:
    return not peer.wire.is_paused


@pytest.mark.rule("SYNC-6", "RESUME-1", "COMPACT-1")
async def test_a_client_that_was_so_slow_that_its_state_is_compacted_away_starts_over() -> None:
    settings = ServiceSettings(unsent_bytes_max=LITTLE, feed_batches_max=1)
    async with service_harness(settings=settings) as home:
        alice = await home.peer(ALICE).open()
        await alice.commit(put("urn:gone", 1))
        carol = await _slow_watcher(home)
        for number in range(6):
            await alice.commit(put("urn:x", number))
        await alice.ask(CompactRequest, operation=b"o" * 16, nonce=bytes(16), floor=Version(7))
        before = len(carol.frames)
        carol.wire.unsent = 2**20  # past what counts as drained
        carol.read_on()
        await home.settle(3)
        told = carol.frames[before:]
        assert "floor" in [frame.reset for frame in told]
        assert not [one for frame in told for one in frame.ended]
        assert {one.id for frame in told for one in frame.entered} == {"urn:gone", "urn:x"}


@pytest.mark.rule("SYNC-6")
async def test_a_client_that_does_not_read_is_not_read_from_until_it_does() -> None:
    async with service_harness(settings=ServiceSettings(unsent_bytes_max=LITTLE)) as home:
        alice = await home.peer(ALICE).open()
        carol = await _slow_watcher(home)
        await alice.commit(put("urn:x", 1))
        assert not _is_read_from(carol)
        carol.wire.unsent = 2**20
        carol.read_on()
        await home.settle()
        assert _is_read_from(carol)


@pytest.mark.rule("COMMIT-5")
async def test_a_session_is_not_read_from_while_the_queue_of_its_space_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    hub = {"is_left": False}
    put_in = WriteQueue.put

    def put_without_room(queue: WriteQueue, entry: QueueEntry) -> bool:
        put_in(queue, entry)
        return hub["is_left"]

    monkeypatch.setattr(WriteQueue, "put", put_without_room)
    monkeypatch.setattr(OpenSpace, "has_room", property(lambda _: hub["is_left"]))
    async with service_harness() as home:
        bob = await home.peer(BOB).open()
        locals_ = [bob.send(put("urn:x", number)) for number in range(3)]
        assert not _is_read_from(bob)
        await home.settle()
        assert home.service.hubs[home.space].space.version == 2, "one was taken, the others wait at the socket"
        hub["is_left"] = True
        await (await home.peer(ALICE).open()).commit(put("urn:y", 1))
        await home.settle()
        assert _is_read_from(bob)
        assert all(isinstance(bob.verdict(local), AcceptedVerdict) for local in locals_)
