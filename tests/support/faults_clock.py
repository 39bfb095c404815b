"""A server whose clock jumps while clients write over real sockets: its times never go back (COMMIT-7)."""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
import uvloop

from check_log import Acknowledged, Entry, doubled, gone_back, lost
from client_stage import QUICK, settings_of
from faults_report import Report
from served import config_of, served
from stemmadb.client import Identity, Space, connect
from stemmadb.protocol.model.values.ids import TimeMs
from stemmadb.server import open_store as opening
from stemmadb.server.open_store import now
from violations import expect_none

JUMPS: Final = 20
JUMP_MS: Final = 24 * 3_600 * 1_000
COMMITS: Final = 10
"""Commits between two jumps."""


class JumpingClock:
    """The machine's clock, and how far it has been set ahead or back."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def __call__(self) -> TimeMs:
        return TimeMs(now() + self.ahead_ms)


@contextmanager
def jumping() -> Iterator[JumpingClock]:
    """Servers that are made meanwhile have this clock."""
    clock = JumpingClock()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(opening, "now", clock)
        yield clock


def clock_jumps(seed: int, jumps: int = JUMPS) -> Report:
    """By up to a day, back and ahead; sessions stay, times of commits never fall, and each has its state."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(_cycle(seed, jumps))


async def _cycle(seed: int, jumps: int) -> Report:
    chance, report = random.Random(seed), Report()
    identity = Identity.from_seed(chance.randbytes(32))
    acknowledged: list[Acknowledged] = []
    with tempfile.TemporaryDirectory() as directory, jumping() as clock:
        async with served(config_of(Path(directory) / "data")) as url:
            config, settings = Path(directory) / "config", settings_of(QUICK)
            async with connect(url, identity=identity, config=config, settings=settings) as db:
                space = await db.space("jumps")
                for number in range(jumps):
                    acknowledged += [await _write(space, number * COMMITS + count) for count in range(COMMITS)]
                    clock.ahead_ms += chance.randint(-JUMP_MS, JUMP_MS)
                    report.kinds["jump"] += 1
                await _check(space, acknowledged)
    report.operations = len(acknowledged)
    return report


async def _write(space: Space, number: int) -> Acknowledged:
    async with space.transaction() as tx:
        tx.set("urn:clock", number, blind=True)
    version = await tx.confirmed()
    return Acknowledged(int(version), int(version))


async def _check(space: Space, acknowledged: list[Acknowledged]) -> None:
    """Each moment of the log is the state of the newest commit of that time."""
    entries = await space.log(order="oldest").all()
    log = [Entry(int(one.version), int(one.version), int(one.time_ms)) for one in entries]
    expect_none(lost(acknowledged, log), doubled(log), gone_back(log))
    newest = {entry.time: entry.version for entry in log}
    for time, version in sorted(newest.items())[-5:]:
        assert await space.at(time=time).get("urn:clock") == await space.at(version=version).get("urn:clock")
