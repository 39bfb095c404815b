"""How a large plan behaves: `python examples/memory/scale_tasks.py --tasks 5000`.

Makes a plan of that many tasks on a server of its own. Then 8 agents, each with a connection of its own, add a
dependency at the same moment, while another changes the status of 20 tasks a second. All 8 must succeed within a
second. Then it syncs a working copy of the plan with one changed task.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path

from stemmadb.client import Space, connect
from stemmadb.memory.interfaces.files.sync import sync
from stemmadb.memory.interfaces.files.working_copy import WorkingCopy
from stemmadb.memory.operations.plan_links import change_task
from stemmadb.memory.operations.plan_store import PlanStore
from stemmadb.memory.rules.ids import namespace_hash
from stemmadb.memory.rules.tasks import ids
from stemmadb.memory.rules.tasks.decide import FileChange
from stemmadb.memory.rules.tasks.paths import PlanFile

NAMESPACE = "custom:scale"
ADDERS = 8
STATUS_CHANGES_PER_SECOND = 20


def plan_of(size: int) -> list[str]:
    """Epics of ten features, features of ten tasks."""
    found: list[str] = []
    for epic in range(1, size):
        found.append(f"{epic}")
        for feature in range(1, 11):
            found.append(f"{epic}.{feature}")
            found.extend(f"{epic}.{feature}.{task}" for task in range(1, 11))
        if len(found) >= size:
            break
    return found[:size]


@contextlib.asynccontextmanager
async def server(work: Path) -> AsyncIterator[str]:
    command = [sys.executable, "-m", "stemmadb.client.cli", "serve", "--data", str(work / "data"), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # noqa: S603
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := re.search(r"ws://[\d.:]+", line):
                yield found[0]
                break
    finally:
        process.terminate()
        process.wait()


async def timed_adder(space: Space, task: str, dependency: str) -> float:
    began = time.perf_counter()
    await change_task(space, namespace_hash(NAMESPACE), task, {"dependencies": [dependency]})
    return time.perf_counter() - began


async def change_statuses(space: Space, leaves: list[str], count: list[int]) -> None:
    while True:
        id_ = leaves[count[0] % len(leaves)]
        await change_task(space, namespace_hash(NAMESPACE), id_, {"status": ("in-progress", "done")[count[0] % 2]})
        count[0] += 1
        await asyncio.sleep(1 / STATUS_CHANGES_PER_SECOND)


async def measure(size: int, work: Path) -> bool:
    os.environ["STEMMADB_HOME"] = str(work / "keys")
    async with server(work) as url, contextlib.AsyncExitStack() as stack:
        spaces = [await (await stack.enter_async_context(connect(url))).space("memory") for _ in range(ADDERS + 1)]
        store = PlanStore(spaces[0], NAMESPACE, now=lambda: time.time_ns() // 1_000_000)
        tasks = plan_of(size)
        records = [{"id": id_, "type": ids.type_of(id_), "status": "pending"} for id_ in tasks]
        began = time.perf_counter()
        made, _ = await store.apply([FileChange(PlanFile("task", one["id"]), None, one) for one in records])
        print(f"{len(made.writes)} tasks written in {time.perf_counter() - began:.1f} s")
        leaves = [id_ for id_ in tasks if ids.type_of(id_) == "task"]
        are_quick = await measure_adders(spaces, leaves)
        await measure_sync(store, work, size)
    return are_quick


async def measure_adders(spaces: list[Space], leaves: list[str]) -> bool:
    count = [0]
    writer = asyncio.create_task(change_statuses(spaces[-1], leaves[len(leaves) // 2 :], count))
    await asyncio.sleep(0.5)
    pairs = [(leaves[2 * at], leaves[2 * at + 1]) for at in range(ADDERS)]
    adders = [timed_adder(space, *pair) for space, pair in zip(spaces, pairs, strict=False)]
    seconds = await asyncio.gather(*adders, return_exceptions=True)
    writer.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await writer
    good = [one for one in seconds if isinstance(one, float) and one < 1]
    print(f"{len(good)} of {ADDERS} agents added a dependency within 1 s beside {count[0]} status changes")
    print("seconds:", ", ".join(f"{one:.3f}" if isinstance(one, float) else repr(one) for one in seconds))
    return len(good) == ADDERS


async def measure_sync(store: PlanStore, work: Path, size: int) -> None:
    copy = WorkingCopy(work / "project")
    copy.make()
    began = time.perf_counter()
    await sync(copy, store)
    print(f"a fresh working copy of {size} tasks took {time.perf_counter() - began:.1f} s")
    file, seconds = copy.root / "tasks/1.json", []
    for turn in range(7):
        file.write_text(json.dumps(json.loads(file.read_text()) | {"title": f"turn {turn}"}))
        began = time.perf_counter()
        await sync(copy, store)
        seconds.append(time.perf_counter() - began)
    print(f"sync with one changed task: p50 {statistics.median(seconds) * 1_000:.0f} ms of {len(seconds)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=5_000)
    size = parser.parse_args().tasks
    with tempfile.TemporaryDirectory() as work:
        return 0 if asyncio.run(measure(size, Path(work))) else 1


if __name__ == "__main__":
    sys.exit(main())
