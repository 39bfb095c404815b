"""Verdicts are in the frame that reaches their commit, and those that wait keep no bodies in memory (SYNC-2)."""

from __future__ import annotations

import pytest

from service_peers import ALICE, BOB, put, remove, service_harness
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EntityId, Local
from stemmadb.protocol.wire.messages.structure import EraseRequest
from stemmadb.server.service.base.settings import ServiceSettings

OLD, NEW = b"1" * 16, b"2" * 16


@pytest.mark.rule("SYNC-2")
async def test_the_frame_that_reaches_a_commit_of_an_older_session_has_its_verdict() -> None:
    async with service_harness() as home:
        first = await home.peer(BOB, session=OLD).open()
        await first.commit(put("urn:x", 0))
        first.lose()
        new = await home.peer(BOB, session=NEW).open()
        await new.watch(1, "urn:*")
        new.frames.clear()
        new.send(put("urn:x", 1), session=OLD, local=Local(2))
        await home.settle()
        (frame,) = new.frames
        assert [(one.session, one.local) for one in frame.verdicts] == [(OLD, 2)]
        assert frame.commits == (), "the client has the bytes"


@pytest.mark.rule("SYNC-2")
async def test_an_own_commit_is_not_confirmed_before_the_older_one_beneath_it() -> None:
    async with service_harness() as home:
        writer = await home.peer(ALICE, session=NEW).open()
        await writer.commit(put("urn:z", 0))
        writer.frames.clear()
        writer.send(put("urn:z", 1), session=OLD, local=Local(1))
        writer.send(put("urn:z", 2), local=Local(2))
        await home.settle()
        (frame,) = writer.frames
        assert {(one.session, one.local) for one in frame.verdicts} == {(OLD, 1), (None, 2)}


@pytest.mark.rule("SYNC-6")
async def test_verdicts_that_wait_for_one_who_does_not_read_keep_no_bodies() -> None:
    async with service_harness(settings=ServiceSettings(unsent_bytes_max=1_000)) as home:
        bob = await home.peer(BOB).open()
        await bob.commit(put("urn:x", 0))
        bob.stop_reading()
        bob.wire.unsent = 2_000
        for number in range(5):
            bob.send(
                put("urn:x", f"{number}" + "y" * 1_000), note=encode({"message": "n" * 1_000}) if number else None
            )
        await home.settle()
        waiting = [verdict for _, verdict in bob.handler.outbox._verdicts.decided]
        assert len(waiting) == 5
        assert len(repr(waiting)) < 5 * 1_000, "hashes and salts, and nothing of what was written"


@pytest.mark.rule("SYNC-2", "ERASE-1")
@pytest.mark.parametrize("is_away", [False, True])
async def test_a_verdict_that_is_repeated_has_no_salt_of_what_was_erased_since(is_away: bool) -> None:
    """Whether the client sends its commit again or asks for its verdicts as it opens the session."""
    async with service_harness() as home:
        alice = await home.peer(ALICE, session=OLD).open()
        await alice.commit(put("urn:z", 0))
        before = {"to": alice.connection.to, "hash": alice.connection.hash}
        operations = (put("urn:x", 1), put("urn:y", 2), remove("urn:z"))
        first = await alice.commit(*operations)
        erase = {"entity": EntityId("urn:x"), "versions": (first.version,)}
        await alice.ask(EraseRequest, operation=bytes(16), nonce=bytes(16), **erase)
        now = {"to": alice.connection.to, "hash": alice.connection.hash}
        alice.lose()
        alice = await home.peer(ALICE, session=OLD).open(**before if is_away else now, lowest=Local(1))
        if not is_away:
            alice.send(*operations, local=first.local)
            await home.settle()
        again = alice.verdict(first.local)
        assert [salt is None for salt in first.salts] == [False, False, True]
        assert again.salts == (None, first.salts[1], None)
        assert (again.version, again.hashes) == (first.version, first.hashes)
