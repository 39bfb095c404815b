"""Writes, merges and compactions of one entity, one after the other, told in short words."""

from __future__ import annotations

from typing import Any

from asking import asked
from engines import Engine
from space import delete_, patch_, set_
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Strategy
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.server.engine.plan.compaction import compact
from stemmadb.server.engine.plan.erasure import erase
from stemmadb.server.engine.plan.merge import MergeWanted, PlannedMerge, merge
from stemmadb.server.engine.plan.undo import RevertWanted, revert

E = "urn:e"


class Story:
    """Writes, merges and compactions of one entity, one after the other."""

    def __init__(self, it: Engine) -> None:
        self.it = it
        self.operations = 0

    def asked(self) -> str:
        self.operations += 1
        return f"o{self.operations}"

    async def create(self, name: str, parent: str = "main") -> None:
        fork = Version(self.it.space.version)
        await self.it.structure(BranchCreate(name=BranchName(name), parent=BranchName(parent), fork=fork))

    async def set(self, branch: str, n: float) -> Version:
        return await self.it.must(set_(E, {"n": n, "t": "a", "o": {"m": 2}}, blind=True), branch=branch)

    async def put(self, branch: str, path: str, value: Any) -> Version:
        return await self.it.must(patch_(E, {"op": "add", "path": path, "value": value}, blind=True), branch=branch)

    async def increment(self, branch: str, path: str, by: float) -> Version:
        return await self.it.must(patch_(E, {"op": "increment", "path": path, "by": by}, blind=True), branch=branch)

    async def delete(self, branch: str) -> Version:
        return await self.it.must(delete_(E, blind=True), branch=branch)

    async def delete_branch(self, name: str) -> None:
        await self.it.structure(BranchDelete(name=BranchName(name)))

    async def revert(self, branch: str, version: Version) -> None:
        wanted = RevertWanted(branch=BranchName(branch), versions=(version,))
        await revert(self.it.space, asked(self.asked()), wanted)

    async def erase(self, version: Version) -> None:
        await erase(self.it.space, asked(self.asked()), {EntityId(E): [version]}, {})

    async def merge(self, source: str, target: str, strategy: Strategy) -> PlannedMerge:
        wanted = MergeWanted(source=BranchName(source), target=BranchName(target), strategy=strategy)
        return await merge(self.it.space, asked(self.asked()), wanted)

    async def compact(self) -> None:
        head = Version(self.it.space.version)
        await compact(self.it.space, asked(self.asked()), head, now=TimeMs(0))


def told(report: PlannedMerge) -> object:
    return [(item.id, item.path, item.winner) for item in report.conflicts], [write.id for write in report.writes]
