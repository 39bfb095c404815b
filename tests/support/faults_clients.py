"""Kill -9 of apps that keep a journal, at any moment of a write, on a line that has faults of its own."""

from __future__ import annotations

import asyncio
import random
import tempfile
from pathlib import Path
from typing import Final

import uvloop

from client_app import AHEAD
from client_processes import AppProcess, until
from client_proxy import Proxy
from client_stage import Stage, opened, staged
from faults_report import Report

KILLS: Final = 8
APPS: Final = 2


def client_kills(seed: int, kills: int = KILLS) -> Report:
    """Whatever an app called kept is there once, after all its lives (NURSERY-5, NURSERY-7)."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_cycle(seed, kills))


async def _cycle(seed: int, kills: int) -> Report:
    chance, report = random.Random(seed), Report()
    with tempfile.TemporaryDirectory() as served, tempfile.TemporaryDirectory() as apps:
        async with (
            opened(Path(served)) as site,
            staged(site, Path(apps)) as stage,
            Proxy(site.server.address) as line,
        ):
            for number in range(kills):
                await _life(stage, line, chance, report, journal=f"journal {number % APPS}")
            await _finish(stage)
            report.operations = len(await stage.check())
            assert not stage.heard.refused, stage.heard.refused
    return report


async def _life(stage: Stage, line: Proxy, chance: random.Random, report: Report, *, journal: str) -> None:
    """An app goes on with its journal, pours for a while, and is killed; what it waited for may never have come."""
    async with stage.app(url=line.url, journal=journal) as app:
        await app.says("open")
        app.tell("pour")
        await _until_kept(stage, chance.randint(1, 60))
        fault = chance.choice(("none", "unsent", "untold", "cut"))
        if fault in ("unsent", "untold"):
            (line.up if fault == "unsent" else line.down).hold()
            wanted = chance.randint(1, AHEAD // 2)
            await until(lambda: len(stage.heard.kept - stage.heard.confirmed.keys()) >= wanted)
        elif fault == "cut":
            line.cut()
        await _kill(app, chance)
        report.kinds.update(("kill",) if fault == "none" else ("kill", fault))
    line.cut()
    line.up.release()
    line.down.release()


async def _until_kept(stage: Stage, count: int) -> None:
    wanted = len(stage.heard.kept) + count
    await until(lambda: len(stage.heard.kept) >= wanted)


async def _kill(app: AppProcess, chance: random.Random) -> None:
    """From outside at any moment, or by itself in the very moment in which a write is kept."""
    if chance.random() < 0.3:
        app.tell("die")
        await app.died()
    else:
        await app.kill()


async def _finish(stage: Stage) -> None:
    """The last life of each app decides everything that is left."""
    for number in range(APPS):
        async with stage.app(journal=f"journal {number}") as app:
            assert await app.settled() == []
            await app.close()
