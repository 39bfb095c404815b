"""A data directory with one large space, to look at it in the web console or to ask it over a socket.

`python -m benchmarks.ours.large_space DIRECTORY --entities 1000000 --commits 1000000 --branches 1000` writes through
the engine, a few minutes for the usual size. Its owner and author are SPACE_KEY and AUTHOR_KEY of ours/engine.py.

All entities are written first, 1,000 in a commit. Then each commit changes one entity: every tenth one of the hundred
`urn:todo:*`, the others one of `urn:item:*` far from the last. Branches begin evenly along the way, and each has
a few commits of its own; every tenth of them is merged, and there is a tag for every hundred thousand commits.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from benchmarks.ours import engine
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.server.engine.plan import branch_writes
from stemmadb.server.engine.plan.merge import MergeWanted, merge

TODOS, AT_ONCE, BATCH = 100, 1_000, 256
STRIDE = 7_919
"""Prime, so that commits one after the other are on entities far from each other."""
TAGS = 10


def _set(id_: str, **body: object) -> Operation:
    return Operation(op="set", id=EntityId(id_), body=encode(body), blind=True)


def _changed(id_: str, name: str, value: int) -> Operation:
    change = encode([{"op": "replace", "path": f"/{name}", "value": value}])
    return Operation(op="patch", id=EntityId(id_), body=change, blind=True)


def _values(entities: int) -> Iterator[Operation]:
    for number in range(TODOS):
        yield _set(f"urn:todo:{number}", title=f"task {number}", votes=0, done=False, by=f"urn:user:{number % 5}")
    for number in range(entities - TODOS):
        yield _set(_item(number), name=f"item {number}", count=0, done=number % 3 == 0, group=f"g{number % 7}")


def _item(number: int) -> str:
    return f"urn:item:{number:07}"


class LargeSpace:
    """Writes one, and says how far it is."""

    def __init__(self, load: engine.Load, entities: int, commits: int, branches: int) -> None:
        self.load, self.entities, self.commits, self.branches = load, entities, commits, branches
        self._began = time.perf_counter()

    async def write(self) -> None:
        values = _values(self.entities)
        while chunk := list(itertools.islice(values, AT_ONCE)):
            await self.load.commit(chunk)
        self._say(f"{self.entities:,} entities")
        parts = max(1, self.branches)
        for part in range(parts):
            await self._commits(self.commits * part // parts, self.commits * (part + 1) // parts)
            if part < self.branches:
                await self._branch(part)
            if part % max(1, parts // TAGS) == 0:
                await branch_writes.create_tag(self.load.space, self.load.asked(), name=f"v{part}")
            if part % max(1, parts // 10) == 0:
                self._say(f"{self.commits * (part + 1) // parts:,} commits, version {self.load.space.version:,}")
        self._say(f"{self.commits:,} commits, version {self.load.space.version:,}")

    async def _commits(self, first: int, end: int) -> None:
        """Two batches are under way at a time, so that one is decided while the other is written."""
        waiting: deque[asyncio.Task[None]] = deque()
        for start in range(first, end, BATCH):
            if len(waiting) == 2:
                await waiting.popleft()
            made = [self._change(number) for number in range(start, min(end, start + BATCH))]
            waiting.append(asyncio.create_task(self.load.all(made)))
            await asyncio.sleep(0)
        for task in waiting:
            await task

    def _change(self, number: int) -> Proposal:
        items = self.entities - TODOS
        if number % 10 == 0 or items < 1:
            return self.load.proposal([_changed(f"urn:todo:{number // 10 % TODOS}", "votes", number)])
        return self.load.proposal([_changed(_item(number * STRIDE % items), "count", number)])

    async def _branch(self, number: int) -> None:
        space, name = self.load.space, BranchName(f"draft-{number:04}")
        await branch_writes.create_branch(space, self.load.asked(), name=name)
        for change in range(3):
            operation = _changed(f"urn:todo:{(number + change) % TODOS}", "votes", -number)
            await self.load.commit([operation], branch=name)
        if number % 10 == 9:
            await merge(space, self.load.asked(), MergeWanted(source=name))

    def _say(self, what: str) -> None:
        print(f"{time.perf_counter() - self._began:6.0f} s  {what}", flush=True)


async def _run(given: argparse.Namespace) -> None:
    async with engine.opened(given.directory) as load:
        await LargeSpace(load, given.entities, given.commits, given.branches).write()


def main() -> None:
    parser = argparse.ArgumentParser(description="A data directory with one large space.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--entities", type=int, default=1_000_000)
    parser.add_argument("--commits", type=int, default=1_000_000)
    parser.add_argument("--branches", type=int, default=1_000)
    asyncio.run(_run(parser.parse_args()))


if __name__ == "__main__":
    main()
