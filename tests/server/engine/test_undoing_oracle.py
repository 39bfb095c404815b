"""Undo on a real space against undo by definition, on random histories with branches and merges (COMMIT-9)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from asking import asked
from engines import Engine, engine
from merge_builders import increment, replace
from space import ALICE, BOB, SPACE, delete_, patch_, set_
from stemmadb.protocol.errors import Conflict
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log import branch_spans as branches
from stemmadb.protocol.model.log.commit_record import BranchCreate, Strategy
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.plan.merge import MergeWanted, merge
from stemmadb.server.engine.plan.undo import RevertWanted, revert
from stemmadb.server.storage.port import LogReader
from undo_oracle import is_refused, replayed_without

IDS = [EntityId(f"urn:{name}") for name in "pq"]
ABSENT = Missing.ABSENT
STEPS = 40
Facts = dict[EntityId, list[Fact]]


class Schedule:
    def __init__(self, seed: int, it: Engine) -> None:
        self.random = random.Random(seed)
        self.it = it
        self.names = ["main"]
        self.operations = 0
        self.undone = self.refused = 0

    async def run(self) -> None:
        for _ in range(STEPS):
            kind = self.random.choices(["write", "fork", "merge", "undo"], [8, 1, 2, 6])[0]
            await getattr(self, kind)()

    def name(self) -> str:
        self.operations += 1
        return f"op {self.operations}"

    async def write(self) -> None:
        name = self.random.choice(self.names)
        operations: list[Operation] = []
        for id_ in self.random.sample(IDS, self.random.randint(1, 2)):
            value = await self.it.value(id_, name)
            operations.append(self.operation(id_, value))
        await self.it.must(*operations, branch=name, author=self.random.choice([ALICE, BOB]))

    def operation(self, id_: str, value: Any) -> Operation:
        number = self.random.randint(2, 99)
        if value is None or self.random.random() < 0.05:
            return set_(id_, {"a": number, "b": 0, "n": 0, "o": {"x": 0, "y": 0}}, blind=True)
        if self.random.random() < 0.08:
            return delete_(id_, blind=True)
        paths = ["/a", "/b", "/o/x", "/o/y"]
        steps = [
            replace(self.random.choice(paths), number),
            increment("/n", number),
            replace("/o", {"x": 1, "y": number}),
        ]
        return patch_(id_, *self.random.sample(steps, self.random.choice([1, 1, 2])), blind=True)

    async def fork(self) -> None:
        if len(self.names) < 4:
            name, parent = f"b{len(self.names)}", BranchName(self.random.choice(self.names))
            at = Version(self.random.randint(1, self.it.space.version))
            await self.it.structure(BranchCreate(name=BranchName(name), parent=parent, fork=at))
            self.names.append(name)

    async def merge(self) -> None:
        if len(self.names) > 1:
            source, target = map(BranchName, self.random.sample(self.names, 2))
            strategy: Strategy = self.random.choice(["lww", "fields"])
            wanted = MergeWanted(source=source, target=target, strategy=strategy)
            await merge(self.it.space, asked(self.name()), wanted)

    async def undo(self) -> None:
        """Some of what a branch sees; refused or not, it is what the definition says."""
        name = BranchName(self.random.choice(self.names))
        facts = await self.it.space.read(lambda reader: seen(reader, name))
        versions = sorted({fact.version for of_one in facts.values() for fact in of_one})
        if not versions:
            return
        last = versions[-self.random.randint(1, 6) :]
        chosen = tuple(self.random.sample(last, self.random.randint(1, len(last))))
        wanted = RevertWanted(branch=name, versions=chosen)
        if any(is_refused(of_one, chosen) for of_one in facts.values()):
            self.refused += 1
            with pytest.raises(Conflict):
                await revert(self.it.space, asked(self.name()), wanted)
            return
        self.undone += 1
        before = [await self.it.value(id_, name) for id_ in IDS]
        report = await revert(self.it.space, asked(self.name()), wanted)
        expected = [plain(replayed_without(ABSENT, facts.get(id_, []), chosen)) for id_ in IDS]
        assert [await self.it.value(id_, name) for id_ in IDS] == expected
        if report.version is None:
            assert expected == before
        elif self.random.random() < 0.5:
            await revert(self.it.space, asked(self.name()), RevertWanted(branch=name, versions=(report.version,)))
            assert [await self.it.value(id_, name) for id_ in IDS] == before


def seen(reader: LogReader, name: BranchName) -> Facts:
    """The facts of each entity that the branch sees."""
    spans = branches.lineage(BranchLookup(reader), name, reader.tip().version)
    found: Facts = {}
    for _, facts in reader.history():
        for fact in facts:
            if fact.id != EntityId(SPACE) and branches.visible(spans, fact.branch, fact.version):
                found.setdefault(fact.id, []).append(fact)
    return found


def plain(content: Content) -> Any:
    return None if isinstance(content, Missing) else content


@pytest.mark.rule("COMMIT-9")
@pytest.mark.parametrize("seed", range(40))
async def test_undo_on_the_store_is_undo_by_definition(seed: int) -> None:
    async with engine() as it:
        schedule = Schedule(seed, it)
        await schedule.run()
        assert schedule.undone + schedule.refused > 0
