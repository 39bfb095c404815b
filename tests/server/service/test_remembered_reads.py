"""Reads of the past that memory answers: the same as before, without an executor call, and none that came to be
wrong.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from engines import LonelyStorage
from service_peers import ALICE, BOB, CAROL, Peer, ServiceHarness, patch, put, service_harness
from stemmadb.protocol.errors import Compacted, Forbidden, FutureVersion
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.wire.messages.reading import QueryAnswer, QueryRequest
from stemmadb.protocol.wire.messages.structure import CompactRequest, EraseRequest
from stemmadb.server.engine.space import OpenSpace

DOC = "urn:doc"


class Reads:
    """Counts the questions that were asked of the log."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        read = OpenSpace.read

        async def counted(space: OpenSpace, ask: object) -> object:
            self.count += 1
            return await read(space, ask)  # type: ignore[arg-type]

        monkeypatch.setattr(OpenSpace, "read", counted)


@pytest.fixture
async def home() -> AsyncIterator[ServiceHarness]:
    async with service_harness(storage=LonelyStorage()) as made:
        yield made


async def written(home: ServiceHarness, count: int = 6) -> Peer:
    """At versions 2, 3, 4 and so on."""
    writer = await home.peer(ALICE).open()
    await writer.commit(put(DOC, {"n": 0}))
    for number in range(1, count):
        await writer.commit(patch(DOC, {"op": "replace", "path": "/n", "value": number}))
    return writer


async def at(peer: Peer, version: int, id_: str = DOC, **more: object) -> QueryAnswer:
    answer = await peer.ask(QueryRequest, query=Query((Root(id_),), version=version), **more)
    assert isinstance(answer, QueryAnswer)
    return answer


@pytest.mark.rule("QUERY-1", "HISTORY-2")
async def test_a_past_state_that_was_read_is_answered_from_memory(
    home: ServiceHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = await written(home)
    await writer.commit(put("urn:other", 1))
    reads = Reads(monkeypatch)
    first = [await at(writer, version) for version in range(2, 9)]
    asked = reads.count
    assert asked >= 6
    reader = await home.peer(CAROL).open()
    before = reads.count
    again = [await at(reader, version) for version in range(2, 9)]
    assert again == first
    assert reads.count == before, "nothing was read again"


async def test_other_questions_are_asked_of_the_log(home: ServiceHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = await written(home)
    await at(writer, 3)
    reads = Reads(monkeypatch)
    for query in (
        Query((Root(DOC),)),
        Query((Root(DOC, path="/n"),), version=3),
        Query((Root(DOC, schema=True),), version=3),
        Query((Root("urn:*"),), version=3),
        Query((Root(DOC), Root("urn:other")), version=3),
        Query((Root("urn:nothing"),), version=3),
    ):
        count = reads.count
        await writer.ask(QueryRequest, query=query)
        assert reads.count == count + 1
    with pytest.raises(FutureVersion):
        await at(writer, 100)


async def test_where_others_write_too_the_log_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with service_harness() as home:
        writer = await written(home)
        await at(writer, 3)
        reads = Reads(monkeypatch)
        await at(writer, 3)
        assert reads.count == 1


@pytest.mark.rule("ERASE-1")
async def test_what_was_erased_is_not_told_from_memory(home: ServiceHarness) -> None:
    writer = await written(home)
    assert (await at(writer, 3)).entities
    await writer.ask(EraseRequest, operation=bytes(16), nonce=bytes(16), entity=DOC, versions=(2, 3))
    assert not (await at(writer, 3)).entities


@pytest.mark.rule("COMPACT-1")
async def test_what_was_compacted_is_not_told_from_memory(home: ServiceHarness) -> None:
    writer = await written(home)
    await at(writer, 7)
    await at(writer, 3)
    await writer.ask(CompactRequest, operation=bytes(16), nonce=bytes(16), floor=5)
    for _ in range(2):
        with pytest.raises(Compacted):
            await at(writer, 3)
        assert (await at(writer, 6)).entities
    with pytest.raises(Compacted):
        await at(writer, 4)


@pytest.mark.rule("ACL-2")
async def test_memory_tells_nobody_what_it_may_not_read(home: ServiceHarness) -> None:
    writer = await written(home)
    stranger, carol = home.peer(BOB), await home.peer(CAROL).open()
    await at(carol, 3)
    await writer.commit(put(home.space, {ALICE.did: "own", CAROL.did: "read"}))
    await stranger.open()
    assert stranger.closed is not None or not stranger.frames
    await writer.commit(put(home.space, {ALICE.did: "own"}))
    if carol.closed is None:
        with pytest.raises(Forbidden):
            await at(carol, 3)


@pytest.mark.rule("SYNC-7")
async def test_an_answer_from_memory_follows_the_frame_that_reaches_its_version(home: ServiceHarness) -> None:
    writer = await written(home)
    reader = await home.peer(CAROL).open()
    await writer.commit(put(DOC, {"n": "new"}))
    version = writer.frames[-1].to
    await at(writer, version)
    assert reader.frames[-1].to < version
    assert (await at(reader, version)).version == version == reader.frames[-1].to
