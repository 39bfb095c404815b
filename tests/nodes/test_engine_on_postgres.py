"""The engine on PostgreSQL: the verdicts of the oracle, and what the model holds, as on the other backends."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from engine_machine import PostgresMachine
from engine_scripts import Script, same, verify
from engines import engine
from space import SPACE, set_
from stemmadb.server.engine.base import executors
from stemmadb.server.engine.base.settings import Settings
from stemmadb.server.storage.port import LogReader
from stemmadb.server.storage.postgres import PostgresStorage
from stemmadb.server.storage.postgres.reader import PostgresReader
from verdicts import X, Y

RULES = ("COMMIT-1", "COMMIT-2", "COMMIT-5", "COMMIT-8", "SNAP-1", "ERASE-1", "COMPACT-1", "BRANCH-1", "BRANCH-2")


@pytest.mark.rule(*RULES)
def test_the_engine_on_postgres_holds_what_the_model_holds() -> None:
    run_state_machine_as_test(
        PostgresMachine,
        settings=settings(
            max_examples=12,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            phases=(Phase.explicit, Phase.generate),
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.mark.rule("COMMIT-1", "COMMIT-2", "COMMIT-4", "COMMIT-5", "COMMIT-8")
@pytest.mark.parametrize("cache", [0, 64 << 20], ids=["no cache", "cache"])
@pytest.mark.parametrize("seed", range(4))
async def test_schedules_on_postgres_give_the_verdicts_of_the_oracle(
    storage: PostgresStorage, cache: int, seed: int
) -> None:
    script = Script(seed)
    middle = len(script.lines) // 2
    for piece in (script.lines[:middle], script.lines[middle:]):
        workers = executors.threads(writers=2, readers=2)
        async with engine(
            storage, access=None, workers=workers, sizes=Settings(ahead_min=1, cache_bytes_max=cache)
        ) as it:
            outcomes = await asyncio.gather(*[it.space.decide(proposal) for proposal, _ in piece])
            for (_, expected), actual in zip(piece, outcomes, strict=True):
                assert same(actual, expected)
            assert await it.space.read(verify) == it.space.version


async def test_a_commit_that_memory_can_decide_costs_one_statement(storage: PostgresStorage) -> None:
    async with engine(storage) as it:
        await it.must(set_(X, 1, blind=True))
        before = storage.append_statements
        for number in range(10):
            await it.must(set_(X, number, blind=True), set_(f"urn:new:{number}", number, blind=True))
        assert storage.append_statements == before + 10


async def test_a_gathering_costs_six_statements_at_most(
    storage: PostgresStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the batch: eight sessions, as many entities, nothing in memory."""
    costs: list[int] = []
    ended = PostgresReader.accepted

    def counted(reader: PostgresReader, identities: object) -> object:
        found = ended(reader, identities)  # type: ignore[arg-type]
        costs.append(reader.statements)
        return found

    async with engine(storage) as it:
        for number in range(8):
            await it.must(set_(f"urn:x:{number}", 1, blind=True), session=f"s{number}")
        monkeypatch.setattr(PostgresReader, "accepted", counted)
    sizes = Settings(cache_bytes_max=0, sessions_max=1, names_max=1)
    async with engine(storage, access=None, sizes=sizes) as it:
        batch = [
            it.propose(set_(f"urn:x:{number}", 2, blind=True), session=f"s{number}", local=2) for number in range(8)
        ]
        await asyncio.gather(*map(it.space.decide, batch))
    assert costs
    assert max(costs) <= 6


async def test_a_read_at_a_version_costs_two_statements_and_one_for_each_further_branch(
    storage: PostgresStorage,
) -> None:
    async with engine(storage) as it:
        for id_ in (X, Y):
            await it.must(set_(id_, 1, blind=True))

        def cost(reader: LogReader) -> int:
            from stemmadb.protocol.model.values.ids import EntityId, Version
            from stemmadb.server.engine.base import moments, states
            from stemmadb.server.engine.base.moments import ReadMoment

            assert isinstance(reader, PostgresReader)
            before = reader.statements
            spans = moments.resolve(reader, ReadMoment(version=Version(2))).spans
            states.load(reader, spans, [EntityId(X), EntityId(Y)])
            return reader.statements - before

        assert await it.space.read(cost) == 2
        assert it.space.did == SPACE
