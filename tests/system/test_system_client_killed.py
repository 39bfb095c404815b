"""Kill -9 of a real app with its journal on disk, of a real server, and of both: every kept write is there once."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import pytest_asyncio

from client_processes import AppProcess, until
from client_proxy import Proxy
from client_stage import Site, Stage, opened, staged

pytestmark = pytest.mark.asyncio(loop_scope="module")
CYCLES = 6


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with opened(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stage(site: Site, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(site, tmp_path) as made:
        yield made


async def until_written(stage: Stage, count: int) -> None:
    """So many marks are durable on the server."""
    async with stage.space.watch("urn:mark:*") as changes:
        seen = 0
        async for change in changes:
            seen += len(change.entered)
            if seen >= count:
                return


async def goes_on(stage: Stage, line: Proxy, *, pending: int) -> None:
    """The next life of the app has what is undecided before it has a server, and decides it once it has one."""
    line.is_down = True
    async with stage.app(url=line.url) as app:
        opened = await app.says("open")
        assert (opened["connection"], len(opened["pending"])) == ("offline", pending)
        line.is_down = False
        assert await app.settled() == []
        await app.close()


@pytest.mark.rule("NURSERY-5", "NURSERY-7", "RESUME-2")
async def test_an_app_killed_before_its_kept_writes_were_sent_sends_them_in_its_next_life(stage: Stage) -> None:
    async with Proxy(stage.server.address) as line:
        async with stage.app(url=line.url) as app:
            await app.says("open")
            line.up.hold()
            app.tell("write", 5)
            await app.says("kept", count=5)
            await app.kill()
        assert await stage.written() == {}
        line.cut()
        line.up.release()
        await goes_on(stage, line, pending=5)
    assert (await stage.check()).keys() == stage.heard.confirmed.keys() == stage.heard.kept


@pytest.mark.rule("NURSERY-5", "NURSERY-7")
async def test_a_write_that_was_called_kept_survives_a_kill_in_the_same_moment(stage: Stage) -> None:
    async with Proxy(stage.server.address) as line:
        for _ in range(3):
            async with stage.app(url=line.url) as app:
                await app.says("open")
                line.up.hold()
                app.tell("die")
                await app.died()
            line.cut()
            line.up.release()
    async with stage.app() as app:
        await app.settled()
        await app.close()
    assert (await stage.check()).keys() == stage.heard.kept == {"1-1", "2-1", "3-1"}


@pytest.mark.rule("NURSERY-5", "COMMIT-5", "RESUME-2")
async def test_an_app_killed_between_the_sync_of_the_server_and_its_answer_is_told_afterwards(stage: Stage) -> None:
    async with Proxy(stage.server.address) as line:
        async with stage.app(url=line.url) as app:
            await app.says("open")
            line.down.hold()
            app.tell("write", 3)
            await until_written(stage, 3)
            await app.kill()
        before = await stage.written()
        line.cut()
        line.down.release()
        await goes_on(stage, line, pending=3)
    assert await stage.check() == before == stage.heard.confirmed


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "RESUME-3")
@pytest.mark.parametrize("is_app_killed", [False, True], ids=["server", "both"])
async def test_a_server_killed_between_sync_and_answer_gives_the_same_verdict_afterwards(
    stage: Stage, is_app_killed: bool
) -> None:
    async with Proxy(stage.server.address) as line, AsyncExitStack() as apps:
        app = await apps.enter_async_context(stage.app(url=line.url))
        await app.says("open")
        line.down.hold()
        app.tell("write", 3)
        await until_written(stage, 3)
        before = await stage.written()
        await stage.server.kill()
        if is_app_killed:
            await app.kill()
        line.cut()
        line.down.release()
        assert stage.heard.confirmed == {}
        if is_app_killed:
            app = await apps.enter_async_context(stage.app(url=line.url))
            assert (await app.says("open"))["connection"] == "offline"
        await stage.server.start()
        await app.settled()
        await app.close()
    assert await stage.check() == before == stage.heard.confirmed


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "NURSERY-5", "RESUME-2", "RESUME-3")
async def test_every_kept_write_is_there_once_whoever_is_killed_and_whenever(stage: Stage) -> None:
    chance = random.Random(8)
    async with AsyncExitStack() as apps:
        app = await begun(stage, apps)
        for cycle in range(CYCLES):
            victims = (("app",), ("server",), ("app", "server"))[cycle % 3]
            wanted = len(stage.heard.confirmed) + chance.randint(1, 60)
            await until(lambda wanted=wanted: len(stage.heard.confirmed) >= wanted)  # type: ignore[misc]
            if "server" in victims:
                await stage.server.kill()
            if "app" in victims:
                await app.kill()
            if "server" in victims:
                await stage.server.start()
            if "app" in victims:
                app = await begun(stage, apps)
        assert await app.settled() == []
        await app.close()
    assert not stage.heard.refused
    written = await stage.check()
    assert len(written) >= CYCLES
    assert written.keys() >= stage.heard.kept


async def begun(stage: Stage, apps: AsyncExitStack) -> AppProcess:
    """A life of the app that writes on and on."""
    app = await apps.enter_async_context(stage.app())
    await app.says("open")
    app.tell("pour")
    return app
