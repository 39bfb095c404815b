"""The index on a real server against an oracle: the server's own past, all texts looked at, nothing cleverer."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from memory_worlds import PLUGIN, bytes_under, fact, memory_world
from stemmadb.client import Space
from stemmadb.memory.operations import searching
from stemmadb.memory.operations.forgetting import make_namespace
from stemmadb.memory.operations.moments import PastMoment
from stemmadb.memory.operations.searching import SearchQuery
from stemmadb.memory.process.opened_memory import OpenedMemory
from stemmadb.memory.rules import ids, records
from stemmadb.memory.rules.ids import MemoryId
from stemmadb.memory.rules.instants import Millis
from stemmadb.protocol.errors import StemmaError

NS = "org:a"
WORDS = ("zebra", "lion", "tiger", "walrus", "ibex")
ENTITIES = [
    ids.memory_entity(ids.namespace_hash(NS), MemoryId(f"00000000-0000-4000-8000-{number:012d}"))
    for number in range(6)
]


class RandomHistory:
    """Commits, patches, deletions, reverts, erasures and merges into main, from a seed."""

    def __init__(self, space: Space, seed: int) -> None:
        self.space = space
        self.random = random.Random(seed)
        self.versions: list[int] = []

    async def step(self) -> None:
        act = self.random.choice(
            (self.write, self.write, self.patch, self.delete, self.revert, self.erase, self.merge)
        )
        try:
            await act()
        except StemmaError:  # nothing to patch, to revert or to merge
            return

    def text(self) -> str:
        return " ".join(self.random.choices(WORDS, k=self.random.randint(1, 3)))

    async def write(self, space: Space | None = None) -> None:
        async with (space or self.space).transaction() as tx:
            for entity in self.random.sample(ENTITIES, 2):
                tx.set(entity, records.stored(fact(NS, self.text())))
        self.versions.append(await tx.confirmed())

    async def patch(self) -> None:
        async with self.space.transaction() as tx:
            tx.patch(self.random.choice(ENTITIES), [{"op": "replace", "path": "/text", "value": self.text()}])
        self.versions.append(await tx.confirmed())

    async def delete(self) -> None:
        async with self.space.transaction() as tx:
            tx.delete(self.random.choice(ENTITIES))
        self.versions.append(await tx.confirmed())

    async def revert(self) -> None:
        await self.space.revert(self.random.choice(self.versions or [1]))

    async def erase(self) -> None:
        entity = self.random.choice(ENTITIES)
        at = [entry.version async for entry in self.space.log(branch=None, prefix=entity)]
        await self.space.erase(entity, self.random.sample(at, min(2, len(at))))

    async def merge(self) -> None:
        draft = await self.space.branch(f"draft-{self.random.randrange(10**9)}", create=True)
        await self.write(draft)
        await draft.merge_into("main", strategy=self.random.choice(("lww", "fields")))


async def expected(space: Space, version: int, word: str | None) -> set[str]:
    values: dict[str, Any] = await space.at(version=version).list("urn:memory:*")
    return {entity for entity, value in values.items() if word is None or word in value["text"].split()}


async def answered(opened: OpenedMemory, version: int, word: str | None) -> set[str]:
    moment = PastMoment(version, Millis(0))
    query = SearchQuery([NS], text=word, limit=100, at=moment)
    answer = await searching.search(opened.memory, PLUGIN, query)
    assert answer.version == version
    return {ids.memory_entity(ids.namespace_hash(NS), one.id) for one in answer.found}


@pytest.mark.rule("MEM-5", "MEM-6")
@pytest.mark.parametrize("seed", range(6))
async def test_search_at_any_version_finds_what_a_scan_of_the_past_finds(tmp_path: Path, seed: int) -> None:
    async with memory_world(tmp_path / "data") as opened:
        memory = opened.memory
        await make_namespace(memory, PLUGIN, NS, kind="org")
        first, history = memory.index.head, RandomHistory(memory.space, seed)
        for _ in range(25):
            await history.step()
        for turn in ("followed", "built again"):
            head = await memory.space.at().settled()
            for version in {first, head, *history.random.sample(range(first, head + 1), 8)}:
                for word in (None, history.random.choice(WORDS)):
                    wanted = await expected(memory.space, version, word)
                    assert await answered(opened, version, word) == wanted, (turn, version, word)
            await memory.index.rebuild()


@pytest.mark.rule("MEM-8")
async def test_an_erased_text_that_a_patch_carried_on_leaves_the_index_too(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with memory_world(data) as opened:
        memory, entity = opened.memory, ENTITIES[0]
        await make_namespace(memory, PLUGIN, NS, kind="org")
        async with memory.space.transaction() as tx:
            tx.set(entity, records.stored(fact(NS, "the word is ZEBRA-4711")))
        version = await tx.confirmed()
        async with memory.space.transaction() as tx:
            tx.patch(entity, [{"op": "add", "path": "/pin", "value": True}])
        await tx.confirmed()
        await memory.index.reach(tx.version)
        assert b"ZEBRA-4711" in bytes_under(data / "index")
        done = await memory.space.erase(entity, [version])
        await memory.index.reach(done.version)
        await memory.index.scrub()
        assert b"ZEBRA-4711" not in bytes_under(data / "index")
