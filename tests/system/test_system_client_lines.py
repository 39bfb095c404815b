"""Bad lines and bad servers: cut, slow, torn and silent connections, a frozen server, one that is stopped."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from client_app import COUNT, MARKS
from client_processes import PATIENCE_SECONDS, until
from client_proxy import Proxy
from client_stage import WATCHFUL, Seen, Site, Stage, opened, settings_of, staged
from stemmadb.client import Space, Transaction, Watch, connect

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with opened(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stage(site: Site, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(site, tmp_path) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def line(site: Site) -> AsyncIterator[Proxy]:
    async with Proxy(site.server.address) as made:
        yield made


class Writer:
    """A client that writes marks over a line and follows each to its verdict."""

    def __init__(self, stage: Stage, space: Space, watch: Watch) -> None:
        self._stage = stage
        self.space = space
        self._seen = Seen(watch)
        self._following: list[asyncio.Task[None]] = []

    async def filled(self) -> None:
        """The watch shows what is there, so that writing needs no server."""
        await self._seen.until({COUNT: {"n": 0}})

    async def write(self) -> Transaction:
        mark = f"here-{len(self._following)}"
        async with self.space.transaction(note=mark) as tx:
            tx.increment(COUNT, "/n")
            tx.set(f"{MARKS}{mark}", {"by": "here"})
        self._following.append(asyncio.create_task(self._follow(mark, tx)))
        return tx

    async def _follow(self, mark: str, tx: Transaction) -> None:
        version = await tx.confirmed()
        self._stage.heard.take({"event": "confirmed", "mark": mark, "version": version})

    async def all_confirmed(self) -> None:
        """Everything is decided, and the watch goes on: it shows what the server has, also of others."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            await asyncio.gather(*self._following)
        async with self._stage.space.transaction() as tx:
            tx.set("urn:other", {"after": len(self._following)})
        await tx.confirmed()
        await self._seen.until(await self._stage.space.list("urn:*"))


@pytest_asyncio.fixture(loop_scope="module")
async def writer(stage: Stage, line: Proxy) -> AsyncIterator[Writer]:
    async with connect(line.url, config=stage.config, settings=settings_of(WATCHFUL)) as db:
        space = await db.space(stage.space.did)
        async with space.watch("urn:*") as changes:
            made = Writer(stage, space, changes)
            await made.filled()
            yield made
        line.cut()


@pytest.mark.rule("COMMIT-5", "RESUME-1", "RESUME-2", "SYNC-2")
async def test_a_line_that_is_cut_again_and_again_carries_every_commit_once(
    stage: Stage, line: Proxy, writer: Writer
) -> None:
    chance = random.Random(3)
    for _ in range(20):
        for _ in range(chance.randint(1, 10)):
            await writer.write()
            await asyncio.sleep(0)
        if chance.random() < 0.5:
            await until(lambda: writer.space.status().connection == "open")
        line.cut()
    await writer.all_confirmed()
    assert line.made > 5
    assert len(await stage.check()) == len(stage.heard.confirmed)


@pytest.mark.rule("COMMIT-5", "RESUME-1", "SYNC-1")
@pytest.mark.parametrize("towards", ["server", "client"])
async def test_a_frame_that_is_torn_anywhere_is_as_if_it_never_came(
    stage: Stage, line: Proxy, writer: Writer, towards: str
) -> None:
    way = line.up if towards == "server" else line.down
    for passed in (1, 2, 3, 7, 50, 130, 200, 333, 512, 900):
        await until(lambda: writer.space.status().connection == "open")
        way.cut_after = passed
        for _ in range(4):
            await writer.write()
        await until(lambda: way.cut_after is None)
    await writer.all_confirmed()
    assert len(await stage.check()) == 40


@pytest.mark.rule("SYNC-1")
async def test_a_slow_line_that_brings_a_few_bytes_at_a_time_brings_all_of_them(
    stage: Stage, line: Proxy, writer: Writer
) -> None:
    for way in (line.up, line.down):
        way.piece_bytes, way.delay_seconds = 61, 0.001
    made = line.made
    for _ in range(30):
        await writer.write()
    await writer.all_confirmed()
    assert line.made == made
    assert len(await stage.check()) == 30


@pytest.mark.rule("RESUME-5", "RESUME-2")
async def test_a_connection_that_went_silent_is_found_and_replaced(stage: Stage, line: Proxy, writer: Writer) -> None:
    for _ in range(2):
        made = line.made
        line.silence()
        tx = await writer.write()
        await until(lambda made=made: line.made > made)  # type: ignore[misc]
        await tx.confirmed()
    await writer.all_confirmed()
    assert len(await stage.check()) == 2


@pytest.mark.rule("RESUME-5")
async def test_a_line_on_which_nothing_answers_is_tried_until_something_does(
    stage: Stage, line: Proxy, writer: Writer
) -> None:
    line.down.hold()
    made = line.made
    tx = await writer.write()
    await until(lambda: line.made >= made + 1 and writer.space.status().connection == "offline")
    assert tx.status == "pending"
    line.down.release()
    line.cut()
    await writer.all_confirmed()
    assert len(await stage.check()) == 1


@pytest.mark.rule("RESUME-5", "COMMIT-5")
async def test_a_server_that_is_frozen_and_goes_on_has_every_commit_once(stage: Stage) -> None:
    async with connect(stage.server.url, config=stage.config, settings=settings_of(WATCHFUL)) as db:
        space = await db.space(stage.space.did)
        async with space.watch("urn:*") as changes:
            writer = Writer(stage, space, changes)
            await writer.filled()
            stage.server.freeze()
            try:
                for _ in range(5):
                    await writer.write()
                await until(lambda: space.status().connection == "offline")
                for _ in range(5):
                    await writer.write()
                assert space.status().pending == 10
            finally:
                stage.server.thaw()
            await writer.all_confirmed()
    assert len(await stage.check()) == 10


@pytest.mark.rule("RESUME-3", "RESUME-5")
async def test_an_app_goes_on_after_its_server_was_stopped_and_started(stage: Stage) -> None:
    async with stage.app() as app:
        await app.says("open")
        app.tell("pour")
        for _ in range(2):
            before = len(stage.heard.confirmed)
            await until(lambda before=before: len(stage.heard.confirmed) > before + 30)  # type: ignore[misc]
            assert await stage.server.stop() == 0
            await stage.server.start()
        assert await app.settled() == []
        await app.close()
    assert not stage.heard.refused
    assert (await stage.check()).keys() == stage.heard.kept
