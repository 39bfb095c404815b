"""How much a gathering has in memory while it looks how far back the changes of an entity are wanted."""

from __future__ import annotations

from typing import Any

import pytest

from engines import LonelyStorage, engine
from space import set_
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Version
from stemmadb.server.engine.write.gather import PAGE_FACTS, ReadsNeeded, gather
from stemmadb.server.storage.memory.reader import MemoryReader
from verdicts import X


@pytest.mark.rule("COMMIT-2")
@pytest.mark.parametrize(
    ("scan", "seen_after"), [(PAGE_FACTS - 1, 46), (PAGE_FACTS, 45), (2 * PAGE_FACTS + 3, 26), (58, 3)]
)
async def test_the_facts_of_an_old_read_are_counted_a_few_at_a_time(
    monkeypatch: pytest.MonkeyPatch, scan: int, seen_after: int
) -> None:
    given: list[int] = []
    facts_of = MemoryReader.facts_of

    def counted(self: MemoryReader, *asked: Any, **how: Any) -> list[Fact]:
        facts = facts_of(self, *asked, **how)
        given.append(len(facts))
        return facts

    monkeypatch.setattr(MemoryReader, "facts_of", counted)
    async with engine(LonelyStorage()) as it:
        for number in range(60):
            await it.must(set_(X, number, blind=True))
        wanted = ReadsNeeded(heads={MAIN: {EntityId(X): Version(2)}})
        gathered = await it.space.in_turn(lambda log: gather(log, wanted, scan))
    state = gathered.heads[MAIN, EntityId(X)]
    assert state.seen_after == seen_after
    assert [change.version for change in state.changes or ()] == list(range(61, seen_after, -1))
    assert 0 < max(given) <= PAGE_FACTS
