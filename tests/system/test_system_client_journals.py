"""Journals of real apps: one process holds one at a time, and a copy of one costs nobody a write."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from client_processes import AppProcess, until
from client_proxy import Proxy
from client_stage import Site, Stage, opened, staged

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    async with opened(tmp_path_factory.mktemp("served")) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def stage(site: Site, tmp_path: Path) -> AsyncIterator[Stage]:
    async with staged(site, tmp_path) as made:
        yield made


@pytest.mark.rule("NURSERY-5")
async def test_a_journal_belongs_to_one_process_until_that_ends(stage: Stage) -> None:
    async with stage.app() as first:
        await first.says("open")
        async with stage.app() as second:
            failed = await second.says("failed")
            assert failed["code"] == "directory_held"
            assert f"process {first.pid}" in failed["message"]
            await second.close()
        first.tell("write", 1)
        await first.says("confirmed")
        await first.kill()
        async with stage.app() as third:
            await third.says("open")
            third.tell("write", 1)
            await third.settled()
            await third.close()
    assert (await stage.check()).keys() == {"1-1", "3-1"}


@pytest.mark.rule("NURSERY-5", "COMMIT-5", "WIRE-3")
async def test_a_copied_journal_costs_nobody_a_write(stage: Stage) -> None:
    async with Proxy(stage.server.address) as line, stage.app(url=line.url) as first:
        await first.says("open")
        first.tell("write", 3)
        await first.says("confirmed", count=3)
        line.up.hold()
        first.tell("write", 3)
        await first.says("kept", count=6)
        await first.kill()
        shutil.copytree(stage.journal(), stage.journal("copy"))
        line.is_down = True
        line.cut()
        line.up.release()
        async with stage.app(url=line.url) as mine, stage.app(url=line.url, journal="copy") as copy:
            for app in (mine, copy):
                assert len((await app.says("open"))["pending"]) == 3
            line.is_down = False
            for app in (mine, copy):
                app.tell("pour")
            await until(lambda: all(len(app.said) > 200 for app in (mine, copy)))
            await asyncio.gather(*(all_written(app) for app in (mine, copy)))
            for app in (mine, copy):
                assert len([one for one in app.said if one["event"] == "confirmed" and one["mark"][0] == "1"]) == 3
                await app.close()
    assert (await stage.check()).keys() == stage.heard.confirmed.keys()


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
async def test_two_commits_with_one_name_are_both_written_in_the_end(stage: Stage) -> None:
    async with stage.app() as app:
        await app.says("open")
        app.tell("write", 1)
        await app.settled()
        await app.close()
    shutil.copytree(stage.journal(), stage.journal("copy"))
    async with Proxy(stage.server.address) as line, stage.app(url=line.url) as mine:
        await mine.says("open")
        line.up.hold()
        line.down.hold()  # it does not learn that its session was taken over
        mine.tell("write", 4)
        await mine.says("kept", count=4)
        async with stage.app(journal="copy") as copy:
            await copy.says("open")
            copy.tell("write", 4)
            assert await copy.settled() == []
            await copy.close()
        line.cut()
        line.up.release()
        line.down.release()
        assert await mine.settled() == ["2-1", "2-2", "2-3", "2-4"]
        assert stage.heard.refused == {"identity_clash": 4}
        await all_written(mine)
        await mine.close()
    assert len(await stage.check()) == 9
    sessions = await stage.sessions()
    assert sessions["2-1"] != sessions["3-1"]


async def all_written(app: AppProcess) -> None:
    """Settles it, and submits what was refused again, until nothing is."""
    while await app.settled():
        app.tell("retry")
