"""Random work on a real space, with branches, merges and reverts, for tests of erasure and compaction.

Every value a client writes holds a mark that no other write holds, so that whatever the server copies can be found.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from asking import asked
from engines import Engine
from space import SPACE, delete_, patch_, set_
from stemmadb.protocol.errors import StemmaError, Unready
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.log import branch_spans, chain
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.server.engine.base import states
from stemmadb.server.engine.base.space_port import Asked
from stemmadb.server.engine.plan import branch_writes
from stemmadb.server.engine.plan import merge as merging
from stemmadb.server.engine.plan import undo as undoing
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.engine.plan.undo import RevertWanted
from stemmadb.server.storage.port import FactPosition, LogReader, Snapshot, SpaceLog

IDS = ("urn:a", "urn:b", "urn:c")
PATHS = ("/x", "/y", "/z")
States = dict[tuple[str, int, str], Any]


def mark(number: int) -> str:
    return f"mark-{number:06d}-"


class Work:
    """Makes up writes from a seed; those that cannot be made are left out."""

    def __init__(self, it: Engine, seed: int) -> None:
        self.it = it
        self.random = random.Random(seed)
        self.branches = ["main"]
        self.live = ["main"]
        self.marks: dict[tuple[str, int], set[str]] = {}
        """What clients wrote, by entity and version."""
        self._marks = 0
        self._operations = 0

    async def begin(self) -> None:
        """Something to patch, and a branch to merge."""
        for id_ in IDS:
            text = self._mark()
            version = await self.it.must(set_(id_, _value(text), blind=True))
            self.marks[id_, version] = {text}
        await self.fork()

    async def run(self, steps: int) -> None:
        kinds = [self.write] * 8 + [self.fork, self.merge, self.merge, self.undo, self.undo]
        for _ in range(steps):
            try:
                await self.random.choice(kinds)()
            except Unready:
                raise
            except StemmaError:
                continue

    async def write(self) -> None:
        operations, made = [], []
        for _ in range(self.random.choice([1, 1, 2])):
            id_ = self.random.choice(IDS)
            kind = self.random.choice(["set", "set", "patch", "patch", "patch", "delete"])
            if kind == "delete":
                operations.append(delete_(id_, blind=True))
            else:
                text = self._mark()
                made.append((id_, text))
                operations.append(set_(id_, _value(text), blind=True) if kind == "set" else self._patch(id_, text))
        note = self._mark()
        where = self.random.choice(self.live)
        outcome = await self.it.commit(*operations, branch=where, note=encode({"message": note}))
        if isinstance(outcome, Accepted):
            for operation in operations:
                self.marks.setdefault((operation.id, outcome.commit.version), set()).add(note)
            for id_, text in made:
                self.marks[id_, outcome.commit.version].add(text)

    def _patch(self, id_: str, text: str) -> Any:
        edit = {"op": "replace", "path": self.random.choice(PATHS), "value": text}
        return patch_(id_, edit, {"op": "increment", "path": "/n", "by": 1}, blind=True)

    def asked(self) -> Asked:
        self._operations += 1
        return asked(f"work{self._operations}")

    def _mark(self) -> str:
        self._marks += 1
        return mark(self._marks)

    async def fork(self) -> None:
        name = BranchName(f"b{len(self.branches)}")
        parent = BranchName(self.random.choice(self.branches))
        fork = Version(self.random.randint(max(0, self.it.space.version - 8), self.it.space.version))
        await branch_writes.create_branch(self.it.space, self.asked(), name=name, parent=parent, fork=fork)
        self.branches.append(name)
        self.live.append(name)

    async def end(self) -> None:
        name = self.random.choice(self.live)
        await branch_writes.delete_branch(self.it.space, self.asked(), name=BranchName(name))
        self.live.remove(name)

    async def tag(self) -> None:
        version = Version(self.random.randint(0, self.it.space.version))
        name = BranchName(self.random.choice(self.branches))
        await branch_writes.create_tag(self.it.space, self.asked(), name=f"t{version}", branch=name, version=version)

    async def merge(self) -> None:
        source, target = self.random.choice(self.branches), self.random.choice(self.live)
        strategies: list[Strategy] = ["lww", "source", "fields"]
        strategy = self.random.choice(strategies)
        wanted = MergeWanted(source=BranchName(source), target=BranchName(target), strategy=strategy)
        await merging.merge(self.it.space, self.asked(), wanted)

    async def undo(self) -> None:
        version = self.it.space.version - self.random.randint(0, 4)
        wanted = RevertWanted(branch=BranchName(self.random.choice(self.live)), versions=(Version(version),))
        await undoing.revert(self.it.space, self.asked(), wanted)


def _value(text: str) -> dict[str, Any]:
    return {path[1:]: text for path in PATHS} | {"n": 0}


async def all_states(it: Engine, since: int = 0) -> States:
    """Every entity at every version of every branch from a version on."""

    def ask(reader: LogReader) -> States:
        branches = {state.name: state for state in reader.branches()}
        found: States = {}
        for name in branches:
            for version in range(since, reader.tip().version + 1):
                spans = branch_spans.lineage(branches, name, Version(version))
                for id_, state in states.load(reader, spans, map(EntityId, IDS)).items():
                    found[name, version, id_] = state.value
        return found

    return await it.space.read(ask)


async def verified(it: Engine) -> int:
    """How many facts there are in a history that verifies."""

    def ask(reader: LogReader) -> int:
        return [progress.facts for progress in chain.verify(SPACE, reader.history())][-1]

    return await it.space.read(ask)


async def all_bytes(it: Engine) -> bytes:
    """Whatever the storage answers with: records, bodies, notes and snapshots."""

    def ask(reader: LogReader) -> bytes:
        parts: list[bytes] = [snapshot.body for snapshot in reader.snapshots()]
        for commit, facts in reader.history():
            parts += [commit.arguments, commit.note or b"", *(fact.body or b"" for fact in facts)]
        return b"\n".join(parts)

    return await it.space.read(ask)


def bytes_of_files(directory: Path) -> bytes:
    return b"\n".join(path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file())


async def snapshot_everything(it: Engine) -> int:
    """A snapshot after every fact that left a value; how many there are then."""

    def work(log: SpaceLog) -> int:
        with log.reader() as reader:
            kept = list(_snapshots(reader))
        log.store_snapshots(kept)
        return len(kept)

    return await it.space.in_turn(work)


def _snapshots(reader: LogReader) -> Iterator[Snapshot]:
    branches = {state.name: state for state in reader.branches()}
    for _, facts in reader.history():
        for fact in facts:
            spans = branch_spans.lineage(branches, fact.branch, fact.version)
            state = states.load(reader, spans, [fact.id])[fact.id]
            if state.place == FactPosition(fact.version, fact.index) and not isinstance(state.value, Missing):
                yield Snapshot(fact.branch, fact.id, state.place, encode(state.value))
