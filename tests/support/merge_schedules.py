"""Random histories with merges, criss-cross included, written to a real space and to the merge oracle alike."""

from __future__ import annotations

import random
from typing import Any, get_args

from asking import asked, tip_of
from engines import Engine
from merge_oracle import GONE, LEAVES, Doc, Oracle, Tag, doc_of
from space import SPACE, delete_, patch_, set_
from stemmadb.protocol.errors import Compacted, Erased, MergeConflict
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Strategy
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.server.engine.plan.compaction import compact
from stemmadb.server.engine.plan.erasure import erase
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.engine.plan.merge import MergeWanted, PlannedMerge, merge

IDS = ["urn:p", "urn:q", "urn:r"]
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
STEPS = 40
CHAIN = 20
"""Patches in a row that make a checkpoint due."""


class Schedule:
    """One random history, written to a space and to the oracle alike."""

    def __init__(self, seed: int, it: Engine) -> None:
        self.random = random.Random(seed)
        self.it = it
        self.oracle = Oracle()
        self.oracle.commit("main", 1, {})  # the access list
        self.writable = ["main"]
        self.deleted: dict[str, int] = {}
        self.known = KnownMerges()
        self.merges = 0

    async def run(self) -> None:
        for _ in range(STEPS):
            kind = self.random.choices(["write", "merge", "fork", "delete"], [12, 6, 2, 0.3])[0]
            await getattr(self, kind)()
        await self.compare()

    @property
    def version(self) -> int:
        return int(self.it.space.version)

    async def write(self) -> None:
        await self.write_to(self.random.choice(self.writable), self.random.choice(IDS))

    async def write_to(self, name: str, id_: str) -> None:
        doc = self.oracle.at(name, self.version).state.get(id_, Doc())
        choice, version = self.random.random(), self.version + 1
        if doc.leaves is None or choice < 0.1:
            values = self.document()
            await self.it.must(set_(id_, doc_of(values, 0).value(), blind=True), branch=name)
            self.oracle.commit(name, version, {id_: doc_of(values, version)})
        elif choice < 0.2:
            await self.it.must(delete_(id_, blind=True), branch=name)
            self.oracle.commit(name, version, {id_: Doc(None, version)})
        else:
            await self.patch(name, id_, doc.leaves, version)

    async def patch(self, name: str, id_: str, leaves: dict[str, Tag], version: int) -> None:
        path = self.random.choice(["/a", "/b", "/n", "/n", "/n", "/l", "/o/x", "/o/y"])
        old = leaves[path]
        operation: dict[str, Value] = {"op": "add", "path": path, "value": self.leaf(path)}
        new = Tag(operation["value"], version, version)
        if old.value is not GONE and path == "/n" and self.random.random() < 0.9:
            by = self.random.choice([-1, 1, 1, 2])
            operation = {"op": "increment", "path": path, "by": by}
            new = Tag(old.value + by, version, old.assigned, *old.base, old.counted | {(version, by)})
        elif old.value is not GONE and path == "/l" and self.random.random() < 0.6:
            operation = {"op": "increment", "path": "/l/0", "by": 1}
            new = Tag([old.value[0] + 1], version, version, counted=old.counted | {(version, 0)})
        elif old.value is not GONE and self.random.random() < 0.2:
            operation, new = {"op": "remove", "path": path}, Tag(GONE, version, version)
        await self.it.must(patch_(id_, operation, blind=True), branch=name)
        self.oracle.commit(name, version, {id_: Doc(leaves | {path: new})})

    async def fork(self) -> None:
        if len(self.writable) < 5:
            name = f"b{len(self.oracle.forks)}"
            parent = self.random.choice(self.sources(""))
            at = self.random.randint(max(self.oldest(parent), self.version - 6), self.version)
            await self.it.structure(BranchCreate(name=BranchName(name), parent=BranchName(parent), fork=Version(at)))
            self.oracle.forks[name] = (parent, at)
            self.writable.append(name)

    async def delete(self) -> None:
        name = self.random.choice(self.writable)
        if name != "main":
            await self.it.structure(BranchDelete(name=BranchName(name)))
            self.writable.remove(name)
            self.deleted[name] = self.version

    async def merge(self) -> None:
        """A dry run, the merge, and the same merge again; a resolution for some of the conflicts."""
        target = self.random.choice(self.writable)
        source = self.random.choice(self.sources(target) or [target])
        if source == target:
            return
        before = self.version
        at = max(self.oldest(source), before - self.random.choice([0, 0, 0, 3]))
        strategy = self.random.choice(["lww", "lww", "fields", "fields", *STRATEGIES])
        resolutions = await self.resolutions(source, target, at)
        try:
            predicted = await self.ask(source, target, at, strategy, resolutions, dry_run=True)
        except MergeConflict:
            assert strategy == "fail"
            return
        made = await self.ask(source, target, at, strategy, resolutions)
        assert (made.writes, made.conflicts) == (predicted.writes, predicted.conflicts)
        expected = self.oracle.merge(self.oracle.at(source, at), target, before + 1, strategy, resolutions)
        told = {(str(conflict.id), conflict.path, str(conflict.winner)) for conflict in made.conflicts}
        assert self.compared(told) == self.compared(expected)
        await self.before_again(at)
        again = await self.ask(source, target, at, strategy, {})
        assert (again.version, again.writes, again.conflicts) == (None, (), ())

    async def before_again(self, at: int) -> None:
        """Between a merge of a source at a version and the same merge again."""

    def compared(self, conflicts: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
        """Those that the oracle tells too."""
        return conflicts

    def compared_ids(self) -> list[str]:
        """The entities whose values the oracle has."""
        return IDS

    def sources(self, target: str) -> list[str]:
        """The branches that can be merged into the target."""
        return [name for name in ("main", *self.oracle.forks) if name != target]

    def oldest(self, name: str) -> int:  # noqa: ARG002  # a history that is compacted has its own answer
        """The oldest version of a branch that can be read."""
        return 0

    async def ask(
        self, source: str, target: str, at: int, strategy: Strategy, resolutions: dict[str, Any], **how: bool
    ) -> PlannedMerge:
        self.merges += 1
        wanted = MergeWanted(
            source=BranchName(source),
            target=BranchName(target),
            source_version=Version(at),
            strategy=strategy,
            resolutions={EntityId(id_): plain(values) for id_, values in resolutions.items()},
        )
        # Read anew now and then: what was read before and what is read now must come to the same.
        known = self.known if self.random.random() < 0.8 else None
        return await merge(self.it.space, asked(f"m{self.merges}"), wanted, known=known, **how)

    async def resolutions(self, source: str, target: str, at: int) -> dict[str, Any]:
        contested = {item.id for item in (await self.ask(source, target, at, "lww", {}, dry_run=True)).conflicts}
        chosen = [id_ for id_ in sorted(contested) if self.random.random() < 0.1]
        return {id_: self.document() if self.random.random() < 0.7 else None for id_ in chosen}

    def document(self) -> dict[str, Any]:
        optional = [path for path in LEAVES if not path.endswith("k") and self.random.random() < 0.8]
        return {path: self.leaf(path) for path in ["/k", "/o/k", *optional]}

    def leaf(self, path: str) -> Any:
        if path.endswith("k"):
            return 0
        if path == "/l":
            return [self.random.randint(0, 2)]
        return self.random.randint(0, 2) if path == "/n" else self.random.choice("xyz")

    async def compare(self) -> None:
        for name in self.sources(""):
            state = self.oracle.at(name, self.version).state
            for id_ in self.compared_ids():
                expected = state.get(id_, Doc()).value()
                assert await self.it.value(id_, name) == (None if expected is Missing.ABSENT else expected)
        history = await self.it.space.read(lambda reader: list(reader.history()))
        assert len(list(chain.verify(SPACE, history))) == (await tip_of(self.it.space)).version


class CompactedSchedule(Schedule):
    """The same histories, compacted at random places; the oracle knows nothing of it."""

    floor = 1
    compactions = 0
    erasures = 0

    async def run(self) -> None:
        for _ in range(60):
            kinds = ["write", "merge", "fork", "delete", "compact", "write_much"]
            kind = self.random.choices(kinds, [12, 6, 2, 0.5, 1.5, 0.3])[0]
            await getattr(self, kind)()
        await self.compare()

    async def write_much(self) -> None:
        """So many patches of one entity that the next compaction writes a checkpoint."""
        name, id_ = self.random.choice(self.writable), IDS[-1]
        for _ in range(CHAIN):
            leaves = self.oracle.at(name, self.version).state.get(id_, Doc()).leaves
            if leaves is None:
                await self.write_to(name, id_)
            else:
                await self.patch(name, id_, leaves, self.version + 1)

    async def compact(self) -> None:
        versions = [self.version, self.version, self.random.randint(self.floor, self.version)]
        await self.compact_to(self.random.choice(versions))

    async def before_again(self, at: int) -> None:
        if self.random.random() < 0.1:
            await self.compact_to(at)

    async def compact_to(self, floor: int) -> None:
        self.compactions += 1
        self.floor = floor
        await compact(self.it.space, asked(f"c{self.compactions}"), Version(self.floor), now=TimeMs(0))

    def oldest(self, name: str) -> int:  # noqa: ARG002
        return self.floor

    def sources(self, target: str) -> list[str]:
        """A branch that was deleted below the floor is not kept."""
        return [name for name in super().sources(target) if self.deleted.get(name, self.floor) >= self.floor]


class ErasedSchedule(CompactedSchedule):
    """The same histories with erasures too. The oracle knows nothing of them either.

    An entity of which something was erased is left out of the comparison from then on: origins that lost their bodies
    decide otherwise. It is written and merged on, and a merge that it stops is resolved, or left out on both sides.
    """

    refused = 0

    def __init__(self, seed: int, it: Engine) -> None:
        super().__init__(seed, it)
        self.written: dict[str, list[int]] = {id_: [] for id_ in IDS}
        self.tainted: set[str] = set()

    async def run(self) -> None:
        for _ in range(60):
            kinds = ["write", "merge", "fork", "delete", "compact", "write_much", "erase"]
            kind = self.random.choices(kinds, [12, 6, 2, 0.5, 1, 0.3, 1.5])[0]
            await getattr(self, kind)()
        await self.compare()

    async def write(self) -> None:
        name, id_ = self.random.choice(self.writable), self.random.choice(IDS)
        version = self.version + 1
        if id_ not in self.tainted:
            await self.write_to(name, id_)
        elif await self.it.value(id_, name) is not None and self.random.random() < 0.7:
            await self.it.must(self.random.choice([delete_(id_, blind=True), self.edit(id_)]), branch=name)
        else:
            await self.it.must(set_(id_, doc_of(self.document(), 0).value(), blind=True), branch=name)
        if id_ in self.tainted:
            self.oracle.commit(name, version, {})
        self.written[id_].append(version)

    def edit(self, id_: str) -> Any:
        return patch_(id_, {"op": "add", "path": "/a", "value": self.leaf("/a")}, blind=True)

    async def erase(self) -> None:
        """Of one entity, or of a second: the third is always compared."""
        id_ = self.random.choice(IDS[:2])
        if not self.written[id_]:
            return
        self.erasures += 1
        picked = self.random.sample(self.written[id_], min(len(self.written[id_]), self.random.choice([1, 1, 3])))
        versions = [Version(at) for at in picked]
        done = await erase(self.it.space, asked(f"e{self.erasures}"), {EntityId(id_): versions}, {})
        self.tainted.add(id_)
        record = await self.it.space.read(lambda reader: reader.commits([done.version])[done.version])
        for name in dict.fromkeys(record.fact_branches):
            self.oracle.commit(name, int(done.version), {})

    async def merge(self) -> None:
        try:
            await super().merge()
        except (Erased, Compacted):
            if not self.tainted:
                raise
            self.refused += 1

    def compared(self, conflicts: set[tuple[str, str, str]]) -> set[tuple[str, str, str]]:
        return {one for one in conflicts if one[0] not in self.tainted}

    def compared_ids(self) -> list[str]:
        return [id_ for id_ in IDS if id_ not in self.tainted]


def plain(values: dict[str, Any] | None) -> Content:
    return Missing.ABSENT if values is None else doc_of(values, 0).value()
