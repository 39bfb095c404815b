"""Several nodes on one log: each decides again on what the others wrote first (COMMIT-1, COMMIT-5)."""

from __future__ import annotations

import asyncio
import random

import pytest

from engines import Engine, Wandering, engine
from space import SPACE, patch_, prefix_, read_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import Accepted, Repeated
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import BranchCreate
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, Version
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.memory import MemoryLog, MemoryStorage
from stemmadb.server.storage.port import LogMoved, Worker
from verdicts import X, Y, code, replace


@pytest.mark.rule("COMMIT-2")
async def test_a_node_refuses_what_another_node_made_stale() -> None:
    storage = MemoryStorage()
    async with engine(storage) as one, engine(storage) as other:
        await one.must(set_(X, {"a": 1}, blind=True))
        await other.must(patch_(X, replace("/a", 2), blind=True), session="o")
        stale = await one.commit(patch_(X, replace("/a", 3)), reads=[read_(X, 2, "/a")])
        assert code(stale) == "conflict"
        assert code(await one.commit(set_("urn:x:1", 1), reads=[prefix_("urn:x", 2)])) == "conflict"
        assert await one.value(X) == {"a": 2}


@pytest.mark.rule("COMMIT-10")
async def test_a_node_that_is_behind_rejects_nothing_on_what_it_remembers() -> None:
    storage = MemoryStorage()
    async with engine(storage) as one, engine(storage) as other:
        await one.must(set_(X, 1, blind=True))
        await other.must(set_(Y, 1, blind=True), session="o")
        # The one node is at 2, where a read at 3 would lie in the future and a branch made at 4 be unknown.
        assert code(await one.commit(set_(X, 2), reads=[read_(X, 3)])) == "accepted"
        made = BranchCreate(name=BranchName("draft"), parent=MAIN, fork=Version(4))
        assert code(await other.structure(made)) == "accepted"
        assert code(await one.commit(set_(X, 3, blind=True), branch="draft")) == "accepted"


@pytest.mark.rule("COMMIT-5")
async def test_a_commit_sent_to_two_nodes_is_accepted_once() -> None:
    storage = MemoryStorage()
    async with engine(storage) as one, engine(storage) as other:
        for local in range(1, 20):
            proposal = one.propose(set_(X, local, blind=True), session="t", local=local)
            told = await asyncio.gather(one.space.decide(proposal), other.space.decide(proposal))
            assert sorted(code(outcome) for outcome in told) == ["accepted", "repeated"]
        assert one.space.version == other.space.version == 20


async def test_subscribers_learn_that_another_node_went_on() -> None:
    storage = MemoryStorage()
    async with engine(storage) as one, engine(storage) as other:
        told: list[tuple[int, list[int]]] = []
        one.space.subscribe(lambda batch: told.append((one.space.version, [item.commit.version for item in batch])))
        await one.must(set_(X, 1, blind=True))
        await other.must(set_(X, 2, blind=True), session="o")
        await one.must(set_(X, 3, blind=True))
        assert told == [(2, [2]), (3, []), (4, [4])]


async def test_a_node_that_is_never_first_gives_up_and_works_again_later() -> None:
    storage = MemoryStorage()
    moves = 0

    def moved(operation: str) -> None:
        nonlocal moves
        if operation == "append" and moves > 0:
            moves -= 1
            raise LogMoved

    async with engine(storage, sizes=Settings(ahead_min=1, moves_max=3)) as it:
        storage.fail = moved
        for _ in range(3):
            moves = 3  # as often as it may, and each time anew
            together = [it.commit(set_(X, number, blind=True)) for number in range(3)]
            assert [code(one) for one in await asyncio.gather(*together)] == ["accepted"] * 3
        moves = 4
        queued = [asyncio.ensure_future(it.commit(set_(X, number, blind=True))) for number in range(3)]
        for one in queued:
            with pytest.raises(errors.Unavailable):
                await one
        again = [it.commit(set_(X, number, blind=True), local=number + 10) for number in range(3)]
        assert [code(one) for one in await asyncio.gather(*again)] == ["accepted"] * 3


async def commits(it: Engine, name: str, count: int, chance: random.Random) -> list[Version]:
    versions = []
    for local in range(1, count + 1):
        proposal = it.propose(
            patch_(X, {"op": "increment", "path": "/n", "by": 1}),
            set_(f"urn:{name}:{local}", local),
            reads=[read_(f"urn:{name}:{local}", it.space.version)],
            session=name,
            local=local,
        )
        while True:
            try:
                outcome = await it.space.decide(proposal)
                break
            except errors.Unavailable:
                await asyncio.sleep(0)
        assert isinstance(outcome, Accepted | Repeated), outcome
        versions.append(outcome.commit.version if isinstance(outcome, Accepted) else outcome.version)
        for _ in range(chance.randint(0, 3)):
            await asyncio.sleep(0)
    return versions


@pytest.mark.rule("COMMIT-1", "COMMIT-5", "COMMIT-8")
async def test_nodes_that_write_at_the_same_time_lose_nothing_and_double_nothing() -> None:
    for seed in range(12):
        chance = random.Random(seed)
        storage = MemoryStorage()
        sizes = Settings(
            ahead_min=1, cache_bytes_max=chance.choice([0, 100_000]), moves_max=chance.choice([0, 2, 50])
        )
        one_executor, other_executor = Wandering(seed), Wandering(-seed - 1)
        async with (
            engine(storage, workers=Executors(one_executor, one_executor), sizes=sizes) as one,
            engine(storage, workers=Executors(other_executor, other_executor), sizes=sizes) as other,
        ):
            await one.must(set_(X, {"n": 0}, blind=True), session="first")
            jobs = [commits(it, f"{node}{n}", 8, chance) for node, it in enumerate((one, other)) for n in range(3)]
            versions = [version for done in await asyncio.gather(*jobs) for version in done]
            assert sorted(versions) == list(range(3, 51))
            assert await one.value(X) == await other.value(X) == {"n": 48}
            *_, last = await one.space.read(lambda reader: list(chain.verify(SPACE, reader.history())))
            assert last.version == 50


class Replaced(MemoryStorage):
    """Logs are opened on another storage, as after the promotion of a standby that was behind."""

    def __init__(self, storage: MemoryStorage) -> None:
        super().__init__()
        self.storage = storage

    def open(self, space: Did, *, create: bool = False, workers: Worker | None = None) -> MemoryLog:
        return self.storage.open(space, create=create, workers=workers)


async def test_a_log_that_lost_its_end_is_taken_as_it_is_now() -> None:
    promoted = MemoryStorage()
    async with engine(promoted) as it:
        await it.must(set_(X, "kept", blind=True))

    storage = Replaced(MemoryStorage())
    async with engine(storage) as it:
        await it.must(set_(X, "kept", blind=True))
        for number in range(5):
            await it.must(set_(Y, number, blind=True))
        seen: list[int] = []
        it.space.subscribe(lambda _: seen.append(it.space.version))
        storage.storage = promoted
        it.space.lose()
        assert code(await it.commit(set_(Y, "again", blind=True), session="o")) == "accepted"
        assert it.space.version == 3
        assert seen[-1] == 3
        assert await it.value(Y) == "again"
