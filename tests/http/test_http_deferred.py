"""A disk that takes no more for a while: a commit without a key is deferred, and holds nobody up (HTTP-9)."""

from __future__ import annotations

import asyncio
import resource
from pathlib import Path

import pytest

from http_worlds import PATIENCE, HttpWorld
from served import Process
from stemmadb.client import connect


def may_write(process: Process, bytes_max: int) -> None:
    """How large the files of a running process may grow; a write beyond that fails as on a full disk."""
    hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)[1]
    resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (bytes_max, hard))


@pytest.mark.rule("HTTP-9", "HTTP-12", "COMMIT-10")
async def test_a_deferred_commit_does_not_hold_up_the_callers_next_one(tmp_path: Path) -> None:
    process = Process(tmp_path / "data")
    await asyncio.to_thread(process.start)
    try:
        async with connect(process.address, config=tmp_path / "config") as db:
            world = HttpWorld(process.address, tmp_path / "data", tmp_path / "config", db, await db.space("todo"))
            first = await world.put("urn:a:1", 1)
            assert first.status == 200
            may_write(process, 1)
            deferred = await world.put("urn:a:1", 2)
            assert (deferred.status, deferred.code) in ((503, "unavailable"), (507, "storage_full")), deferred
            assert deferred.json()["retriable"]
            may_write(process, resource.RLIM_INFINITY)
            async with asyncio.timeout(PATIENCE):
                while (next_ := await world.put("urn:a:2", 3)).status != 200:
                    assert next_.status in (503, 507), next_
            sessions = [one.headers["stemma-identity"].split(".") for one in (first, next_)]
            assert sessions[0][0] != sessions[1][0], "it does not come after the deferred one"
            assert sessions[1][1] == "1"
            assert (await world.get("/entity?id=urn:a:1")).json() == 1
            log = (await world.get("/log?with_ids=true")).json()["entries"]
            assert [one["version"] for one in log] == [3, 2, 1], "the deferred one is not in the log"
            world.end()
    finally:
        await asyncio.to_thread(process.stop)
