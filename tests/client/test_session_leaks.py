"""Nothing is remembered of what is over, and nothing is held that nobody uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from session_worlds import Stage, staged, until
from stemmadb.client import Database, connect
from stemmadb.client.journal.disk import journal_file
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.testing.line import URL
from stemmadb.protocol.errors import Conflict, JournalFailed

MARK = "a mark that is found again"


@pytest.mark.rule("NURSERY-3", "NURSERY-5")
@staged
async def test_a_commit_rejected_before_it_was_journaled_is_not_remembered_as_journaled(stage: Stage) -> None:
    app, bob = await stage.app(disk=SimulatedJournal()), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    async with app.space.watch("urn:*") as watch:
        await watch.next()
        app.line.offline()
        first = await app.bump("urn:a")
        await (await bob.set("urn:a", {"n": 5})).confirmed()
        app.disk.hold()
        second = await app.bump("urn:a")
        app.line.online()
        while len(app.core.session.nursery):
            await watch.next()
        app.disk.release()
        with pytest.raises(Conflict):
            await first.confirmed()
    assert second.status == "rejected"
    assert not app.core.session._journaled
    assert not app.disk.state().pending


def test_a_callback_can_be_taken_back_twice() -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app = await stage.app()
        for register in (app.space.on_rejected, app.space.on_lost):
            stop = register(print)
            again = register(print)
            stop()
            stop()
            again()

    scenario()


def test_a_journal_that_cannot_be_read_is_let_go(tmp_path: Path) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        world = stage.world
        identity = world.identity("alice")

        def client() -> Database:
            return connect(
                URL, dial=world.dial("alice"), identity=identity, names=world.names, keys=world.keys,
                journal=tmp_path, random=world.random("alice"), now=world.clock,
            )  # fmt: skip

        db = client()
        space = await db.space(stage.did)
        async with space.transaction() as tx:
            tx.set("urn:a", MARK)
        await tx.confirmed()
        await db.close()
        damage(journal_file(tmp_path, space=stage.did, principal=identity.did))
        for _ in range(2):
            with pytest.raises(JournalFailed):
                await client().space(stage.did)

    scenario()


def damage(file: Path) -> None:
    """One byte of a record is another."""
    data = bytearray(file.read_bytes())
    place = data.rindex(MARK.encode())
    data[place] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.rule("NURSERY-5")
@staged
async def test_sessions_that_are_over_are_not_remembered(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    for number in range(4):
        before = app.core.session.id
        other = await stage.app(disk=app.disk.copy(), line=f"copy-{number}")
        await until(lambda before=before: app.core.session.id != before)  # type: ignore[misc]
        await app.space.connected()
        await other.close()
    assert len(app.core.session._issued) <= 2
    await (await app.set("urn:a", 1)).confirmed()
