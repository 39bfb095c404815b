"""Found by the mutation run: what could be broken without any test noticing, each with the test that it lacked."""

from __future__ import annotations

import asyncio
import io
import os
from pathlib import Path

import pytest

from engines import Held
from kept_spaces import fill
from nursery_hands import adding, hand
from service_peers import ALICE, BOB, CAROL, House, Peer, house, put
from session_worlds import Stage, staged
from space import SPACE, set_
from stemmadb.protocol.model.ids import MAIN, EntityId, Version
from stemmadb.protocol.model.limits import DEFAULTS
from stemmadb.protocol.wire.messages.commit import Accepted
from stemmadb.protocol.wire.messages.structure import CompactRequest
from stemmadb.server.engine.blob_files import sync_directory
from stemmadb.server.engine.intake import Intake, Ticket
from stemmadb.server.engine.lanes import Inline, Lanes
from stemmadb.server.engine.space import Space
from stemmadb.server.keeping import incoming
from stemmadb.server.keeping.bringing_in import import_spaces
from stemmadb.server.keeping.exporting import export
from stemmadb.server.service.settings import ServiceSettings
from stemmadb.server.storage.memory import MemoryStorage

LITTLE = 1_000
"""Bytes that may wait for a client here before it counts as slow."""


async def _slow_watcher(home: House) -> Peer:
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
    async with house(settings=settings) as home:
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
    async with house(settings=ServiceSettings(unsent_bytes_max=LITTLE)) as home:
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
    room = {"is_left": False}
    put_in = Intake.put

    def put_without_room(intake: Intake, ticket: Ticket) -> bool:
        put_in(intake, ticket)
        return room["is_left"]

    monkeypatch.setattr(Intake, "put", put_without_room)
    monkeypatch.setattr(Space, "has_room", property(lambda _: room["is_left"]))
    async with house() as home:
        bob = await home.peer(BOB).open()
        locals_ = [bob.send(put("urn:x", number)) for number in range(3)]
        assert not _is_read_from(bob)
        await home.settle()
        assert home.service.rooms[home.space].space.version == 2, "one was taken, the others wait at the socket"
        room["is_left"] = True
        await (await home.peer(ALICE).open()).commit(put("urn:y", 1))
        await home.settle()
        assert _is_read_from(bob)
        assert all(isinstance(bob.verdict(local), Accepted) for local in locals_)


@pytest.mark.rule("KEEP-3")
def test_a_space_that_is_brought_in_is_durable_before_it_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    rename = os.rename

    def synced(directory: Path) -> None:
        done.append(("sync", directory.name))
        sync_directory(directory)

    def renamed(source: Path, target: Path) -> None:
        done.append(("rename", target.name))
        rename(source, target)

    log = MemoryStorage().open(SPACE, create=True)
    fill(log)
    stream = io.BytesIO()
    export(log, stream.write)
    stream.seek(0)
    monkeypatch.setattr(incoming, "sync_directory", synced)
    monkeypatch.setattr("os.rename", renamed)
    import_spaces(stream, tmp_path)
    seen = done.index(("rename", SPACE))
    assert {name for what, name in done[:seen] if what == "sync"} >= {SPACE, "blobs"}
    assert [one for one in done[seen + 1 :] if one[0] == "sync"] == [("sync", "spaces"), ("sync", tmp_path.name)]


@pytest.mark.rule("RESUME-2", "COMMIT-10")
async def test_a_server_that_stops_first_tells_the_verdict_of_what_it_took() -> None:
    writing = Held()
    async with house(workers=Lanes(writing, Inline())) as home:
        bob = await home.peer(BOB).open()
        writing.is_held = True
        local = bob.send(put("urn:x", 1))
        await home.settle()
        stopping = asyncio.get_running_loop().create_task(home.service.stop())
        await home.settle()
        was_closed = bob.wire.closed is not None
        writing.release()  # before anything can fail: nobody could leave the house otherwise
        await stopping
        assert not was_closed
        bob.take()
        assert isinstance(bob.verdict(local), Accepted)
        assert bob.wire.closed == 1001


@pytest.mark.rule("RESUME-1", "RESUME-3")
@staged
async def test_a_client_comes_back_with_the_lowest_of_its_undecided_commits(stage: Stage) -> None:
    app = await stage.app()
    await (await app.set("urn:a", 1)).confirmed()
    app.line.offline()
    for value in (2, 3):
        await app.set("urn:a", value)
    session = app.core.session
    undecided = tuple(one.name.local for one in session.nursery.pending())
    standing = session.standing(DEFAULTS)
    assert len(undecided) == 2
    assert (standing.lowest, standing.held) == (undecided[0], undecided)
    app.line.online()
    await app.space.settled()
    assert session.standing(DEFAULTS).lowest == undecided[-1] + 1


@pytest.mark.rule("NURSERY-1", "SYNC-4")
def test_an_answer_that_misses_an_own_accepted_commit_settles_nothing() -> None:
    id_ = "urn:a"
    one = hand("", set_(id_, {"n": 1}))
    old, at = one.held(id_, as_of=1), one.space.version
    first = one.write(adding(id_, 10), bases=[(id_, old)])
    one.write(adding(id_, 100))
    one.tell(first)
    key = (MAIN, EntityId(id_))
    assert not one.nursery.answered(key, old, at), "it is asked for again"
    assert one.nursery.answered(key, one.held(id_), one.space.version)
