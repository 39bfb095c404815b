"""Measures agent memory at a size: search, a small namespace, the past, forgetting, and the index built again.

    python examples/memory/scale.py --memories 100000
    python examples/memory/scale.py --tasks 5000

It makes a data directory of its own, runs the memory server in this process, and prints p50 and p99 of each.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from stemmadb.client import Identity
from stemmadb.memory.operations import forgetting, memories, searching
from stemmadb.memory.operations.forgetting import make_namespace
from stemmadb.memory.operations.moments import PastMoment
from stemmadb.memory.operations.searching import SearchQuery
from stemmadb.memory.process.opened_memory import OpenedMemory, opened_memory
from stemmadb.memory.rules import ids, records
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.records import Memory
from stemmadb.memory.rules.roles import MemoryCaller
from stemmadb.server.open_store import now, open_store
from stemmadb.server.service.service import Service
from stemmadb.server.serving.local_dial import URL, local_dial

CALLER = MemoryCaller(role="agent", name="plugin", via="http")
LARGE, SMALL = "org:large", "org:small"
AT_ONCE = 400


class Words:
    """Texts of 25 words; a few words are everywhere and most are rare, as in a language."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311
        self._words = [f"word{number}" for number in range(20_000)]
        self._weights = [1 / (number + 10) for number in range(20_000)]

    def text(self, count: int = 25) -> str:
        return " ".join(self._random.choices(self._words, self._weights, k=count))

    def rare(self, count: int) -> str:
        return " ".join(self._random.choices(self._words[200:], k=count))


def memory_of(words: Words, ns: str, opened: OpenedMemory) -> Memory:
    return Memory(ns=ns, kind="fact", text=words.text(), via="http", created_at=opened.memory.clock.now())


async def fill(opened: OpenedMemory, words: Words, count: int) -> None:
    """In large commits: writing one by one is measured elsewhere."""
    for name in (LARGE, SMALL):
        await make_namespace(opened.memory, CALLER, name, kind="org")
    for start in range(0, count, AT_ONCE):
        ns, nsh = LARGE, ids.namespace_hash(LARGE)
        async with opened.memory.space.transaction() as tx:
            for _ in range(min(AT_ONCE, count - start)):
                entity = ids.memory_entity(nsh, opened.memory.new_id())
                tx.set(entity, records.stored(memory_of(words, ns, opened)), blind=True)
        await tx.confirmed()
    for _ in range(20):
        await memories.write_memory(opened.memory, CALLER, memory_of(words, SMALL, opened))


async def timed(work: Callable[[], Awaitable[object]], times: int) -> list[float]:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        await work()
        spent.append((time.perf_counter() - began) * 1_000)
    return sorted(spent)


def show(what: str, spent: Sequence[float]) -> None:
    p50, p99 = spent[len(spent) // 2], spent[min(len(spent) - 1, len(spent) * 99 // 100)]
    print(f"{what:<44} p50 {p50:8.1f} ms   p99 {p99:8.1f} ms   n {len(spent)}", flush=True)


async def search(opened: OpenedMemory, text: str, ns: str = LARGE, version: int | None = None) -> list[MemoryId]:
    at = None if version is None else PastMoment(version, opened.memory.clock.now())
    answer = await searching.search(opened.memory, CALLER, SearchQuery([ns], text=text, at=at))
    return [one.id for one in answer.found]


async def measure(opened: OpenedMemory, words: Words, middle: int) -> None:
    memory = opened.memory
    show("search, 2 words", await timed(lambda: search(opened, words.rare(2)), 200))
    show("search, 5 words", await timed(lambda: search(opened, words.rare(5)), 200))
    show("search as of the middle, 2 words", await timed(lambda: search(opened, words.rare(2), version=middle), 200))
    show("search in a namespace of 20", await timed(lambda: search(opened, words.rare(2), SMALL), 200))
    show("search, a word that is everywhere", await timed(lambda: search(opened, "word0"), 20))

    async def write() -> None:
        await memories.write_memory(memory, CALLER, memory_of(words, LARGE, opened))

    show("write, one writer", await timed(write, 200))
    for writers in (1, 16):
        began = time.perf_counter()
        await asyncio.gather(*(timed(write, 320 // writers) for _ in range(writers)))
        print(
            f"{f'writes with {writers} at once':<44} {320 / (time.perf_counter() - began):12.0f} writes/s", flush=True
        )
    await forget(opened, words)


async def forget(opened: OpenedMemory, words: Words) -> None:
    """Another writer goes on meanwhile; the longest of its writes is what forgetting costs others."""
    memory, others, is_over = opened.memory, [0.0], False

    async def other_writer() -> None:
        while not is_over:
            (spent,) = await timed(lambda: memories.write_memory(memory, CALLER, memory_of(words, SMALL, opened)), 1)
            others.append(spent)

    made = [await memories.write_memory(memory, CALLER, memory_of(words, LARGE, opened)) for _ in range(5)]
    writer = asyncio.create_task(other_writer())
    hidden, gone = [], []
    for uuid in made:
        began = time.perf_counter()
        queued = await forgetting.forget_memory(memory, CALLER, uuid)
        hidden.append((time.perf_counter() - began) * 1_000)
        await opened.job.erased(queued)
        gone.append((time.perf_counter() - began) * 1_000)
    is_over = True
    await writer
    show("forget: hidden", sorted(hidden))
    show("forget: bytes gone", sorted(gone))
    show("another write meanwhile", sorted(others))
    print(f"{'the longest other write':<44} {max(others):12.1f} ms")


async def compare_rebuilt(opened: OpenedMemory, words: Words, middle: int) -> None:
    """The same answers to 200 queries after the index was dropped, at the head and as of the middle."""
    queries = [words.rare(2) for _ in range(200)]
    before = [await search(opened, query, version=at) for query in queries for at in (None, middle)]
    began = time.perf_counter()
    await opened.memory.index.rebuild()
    spent = time.perf_counter() - began
    rows = await opened.memory.index.ask(lambda one: one.execute("SELECT count(*) FROM doc").fetchall()[0][0])
    assert isinstance(rows, int), "a count"
    print(f"{'rebuild of the index':<44} {rows / spent:12.0f} rows/s")
    after = [await search(opened, query, version=at) for query in queries for at in (None, middle)]
    same = sum(set(one) == set(other) for one, other in zip(before, after, strict=True))
    print(f"{'the same answers after the rebuild':<44} {same} of {len(before)}")


async def main(count: int, data: Path) -> None:
    words = Words(seed=7)
    os.environ["STEMMADB_HOME"] = str(data.parent / "home")
    async with open_store(data) as store:
        service = Service(store, server=Identity.make().did, now=now, random=os.urandom)
        try:
            async with opened_memory(local_dial(service), url=URL, data=data) as opened:
                await fill(opened, words, count)
                await opened.memory.index.reach()
                head = opened.memory.index.position
                print(f"{count} memories, version {head}", flush=True)
                await measure(opened, words, head // 2)
                await compare_rebuilt(opened, words, head // 2)
                peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                print(f"{'memory of this process, at most':<44} {peak / 1_024:12.0f} MiB")
        finally:
            await service.stop()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--tasks", type=int, help="measure a plan of so many tasks instead (scale_tasks.py)")
    tasks = parser.parse_args().tasks
    if tasks is not None:
        script = str(Path(__file__).with_name("scale_tasks.py"))
        os.execv(sys.executable, [sys.executable, script, "--tasks", str(tasks)])  # noqa: S606  # our own script
    with tempfile.TemporaryDirectory() as directory:
        asyncio.run(main(parser.parse_args().memories, Path(directory) / "data"))
