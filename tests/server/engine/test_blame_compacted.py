"""Blame after compactions: the commit that wrote a leaf, or `compacted`; never another one (HISTORY-1)."""

from __future__ import annotations

import msgspec
import pytest

from asking import asked
from engines import engine
from merge_oracle import Doc
from merge_schedules import IDS, CompactedSchedule
from space import patch_, set_
from stemmadb.protocol.model.history import blame as model
from stemmadb.protocol.model.history.origins import WrittenLeaves
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, TimeMs, Version
from stemmadb.server.engine.base.moments import ReadMoment
from stemmadb.server.engine.plan.compaction import compact
from stemmadb.server.engine.read import blame
from stemmadb.server.engine.read.entities import resolve_moment
from stemmadb.server.storage.port import LogReader

X = EntityId("urn:x")


class BlamedSchedule(CompactedSchedule):
    """Keeps the bodies that compactions take, so that it can blame as if there had been none."""

    equal = 0
    compacted = 0

    async def compact(self) -> None:
        await self.it.space.read(self.remember)
        await super().compact()
        await self.it.space.read(self.check)

    async def run(self) -> None:
        self.bodies: dict[tuple[Version, int], bytes | None] = {}
        await super().run()
        await self.it.space.read(self.remember)
        await self.it.space.read(self.check)

    async def write(self) -> None:
        """Now and then so many patches of one entity that a compaction writes a checkpoint for them."""
        await super().write()
        if self.random.random() < 0.2:
            name, id_ = self.random.choice(self.writable), self.random.choice(IDS)
            for _ in range(18):
                leaves = self.oracle.at(name, self.version).state.get(id_, Doc()).leaves
                if leaves is not None:
                    await self.patch(name, id_, leaves, self.version + 1)

    def remember(self, reader: LogReader) -> None:
        for id_ in IDS:
            for fact in reader.facts_of(EntityId(id_)):
                self.bodies.setdefault((fact.version, fact.index), fact.body)

    def check(self, reader: LogReader) -> None:
        for name in self.writable:
            for id_ in IDS:
                self.check_entity(reader, EntityId(id_), ReadMoment(BranchName(name)))

    def check_entity(self, reader: LogReader, id_: EntityId, moment: ReadMoment) -> None:
        facts = reader.facts_of(id_, resolve_moment(reader, moment).spans)
        if not facts:
            return
        commits = reader.commits({fact.version for fact in facts})
        whole = [WrittenLeaves(self.restored(fact), commits[fact.version].details) for fact in facts]
        expected = model.blame(whole)
        lines = blame.page(reader, id_, moment).lines
        assert [line.path for line in lines] == list(expected)
        for line in lines:
            if line.created_by is None:
                self.compacted += 1
            else:
                self.equal += 1
                assert line.created_by.version == expected[line.path]

    def restored(self, fact: Fact) -> Fact:
        return msgspec.structs.replace(fact, body=self.bodies.get((fact.version, fact.index), fact.body))


@pytest.mark.rule("HISTORY-1", "COMPACT-1")
async def test_a_compaction_makes_blame_name_nobody_else() -> None:
    equal = compacted = 0
    for seed in range(45):
        async with engine() as it:
            schedule = BlamedSchedule(seed, it)
            await schedule.run()
            equal += schedule.equal
            compacted += schedule.compacted
    assert equal > 1_000
    assert compacted > 50


@pytest.mark.rule("HISTORY-1")
async def test_a_leaf_whose_writer_was_compacted_is_not_blamed_on_the_last_author() -> None:
    async with engine() as it:
        await it.must(set_(X, {"title": "a", "n": 0}, blind=True))
        for _ in range(40):
            await it.must(patch_(X, {"op": "increment", "path": "/n", "by": 1}, blind=True))
        for number in range(2):
            head = Version(it.space.version)
            await compact(it.space, asked(f"c{number}"), head, now=TimeMs(0))
        after = await it.must(patch_(X, {"op": "increment", "path": "/n", "by": 1}, blind=True))
        page = await it.space.read(lambda reader: blame.page(reader, X, ReadMoment(MAIN)))
        found = {line.path: line.created_by and line.created_by.version for line in page.lines}
        assert found == {"/title": None, "/n": after}
