"""The same random history on two spaces, of which one is compacted at random places (MERGE-3, COMPACT-1).

Nothing here knows the rules of a merge: the space that is never compacted says what is right. So these histories do
what the merge oracle has no words for: floats, arrays in arrays, moves, reverts, erasures, documents of any shape.

A compaction takes a version. The other space creates a branch then, so that all versions are equal on both.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable
from typing import Any, TypeVar, get_args

from asking import asked
from engines import Engine
from space import delete_, patch_, set_
from stemmadb.protocol.errors import Compacted, Erased, MergeConflict, StemmaError
from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Strategy
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, TimeMs, Version
from stemmadb.server.engine.plan.compaction import compact
from stemmadb.server.engine.plan.erasure import erase
from stemmadb.server.engine.plan.merge import MergeWanted, PlannedMerge, merge
from stemmadb.server.engine.plan.planned_write import Planned
from stemmadb.server.engine.plan.undo import PlannedRevert, RevertWanted, revert

T = TypeVar("T", bound=Planned)

IDS = ("urn:p", "urn:q")
ERASED = "urn:gone"
"""The only entity of which anything is erased."""
STRATEGIES: tuple[Strategy, ...] = get_args(Strategy)
KINDS = ("write", "merge", "fork", "delete_branch", "compact", "write_much", "revert", "erase")
WEIGHTS = (12, 7, 2.5, 0.4, 2, 0.5, 1, 0.4)
NARROW_WEIGHTS = (12, 8, 2, 0.2, 2.5, 0.3, 0.5, 0)
STEPS = 60
CHAIN = 18
"""Patches in a row that make a checkpoint due."""
BRANCHES_MAX = 5
NUMBERS = ("/n", "/n", "/n", "/f", "/l/0", "/l/1/0", "/o/f")
TEXTS = ("/t", "/o/t")


class Twins:
    """`plain` is never compacted, `compacted` is; both are asked the same and must answer the same."""

    def __init__(self, seed: int, plain: Engine, compacted: Engine) -> None:
        self.random = random.Random(seed)
        self.is_narrow = seed % 2 == 1
        self.ids = (IDS[0],) if self.is_narrow else (*IDS, *IDS, ERASED)
        self.plain = plain
        self.compacted = compacted
        self.live = ["main"]
        self.written: list[tuple[str, str, int]] = []
        """The branch, entity and version of each ordinary write."""
        self.floor = 1
        self.created = 0
        self.operations = 0
        self.merges = self.compactions = self.erasures = self.reverts = 0

    async def run(self) -> None:
        if self.is_narrow:
            await self.commit("main", set_(self.ids[0], self.document(), blind=True))
            await self.write_much()
        for _ in range(STEPS):
            (kind,) = self.random.choices(KINDS, NARROW_WEIGHTS if self.is_narrow else WEIGHTS)
            await getattr(self, kind)()
            assert self.plain.space.version == self.compacted.space.version
        await self.compare()

    @property
    def version(self) -> int:
        return int(self.plain.space.version)

    def request(self) -> str:
        self.operations += 1
        return f"o{self.operations}"

    async def compare(self) -> None:
        for name in self.live:
            for id_ in (*IDS, ERASED):
                assert await self.plain.value(id_, name) == await self.compacted.value(id_, name), (name, id_)

    # ------------------------------------------------------------ writes

    async def write(self) -> None:
        name, id_ = self.random.choice(self.live), self.random.choice(self.ids)
        choice = self.random.random()
        if choice < (0.3 if self.is_narrow else 0.12) or await self.plain.value(id_, name) is None:
            await self.commit(name, set_(id_, self.document(), blind=True))
        elif choice < (0.31 if self.is_narrow else 0.2):
            await self.commit(name, delete_(id_, blind=True))
        else:
            await self.commit(name, patch_(id_, self.operation(), blind=True))

    async def write_much(self) -> None:
        name, id_ = self.random.choice(self.live), self.ids[0]
        for _ in range(CHAIN):
            await self.commit(name, patch_(id_, self.operation(), blind=True))

    async def commit(self, name: str, operation: Operation) -> None:
        """What one of the two refuses, the other refuses too."""
        outcomes = [await one.commit(operation, branch=name) for one in (self.plain, self.compacted)]
        assert len({type(outcome) for outcome in outcomes}) == 1, outcomes
        if isinstance(outcomes[0], Accepted):
            self.written.append((name, operation.id, self.version))

    def document(self) -> dict[str, Any]:
        if self.is_narrow:  # few values, so that equal ones are often assigned on two branches
            return {"n": self.number(), "o": {"m": 2}}
        f = self.number() / 10
        document: dict[str, Any] = {"n": self.number(), "f": f, "l": [1, [0.1]], "o": {"f": 0.1, "t": "a"}, "t": "a"}
        for key in self.random.sample(sorted(document), self.random.choice([0, 0, 0, 1])):
            del document[key]
        return document

    def number(self) -> int:
        return self.random.randint(0, 2)

    def operation(self) -> dict[str, Any]:
        if self.is_narrow:
            return {"op": "increment", "path": self.random.choice(["/n", "/n", "/o/m"]), "by": 1}
        choice, path = self.random.random(), self.random.choice(NUMBERS)
        if choice < 0.65:
            return {"op": "increment", "path": path, "by": self.random.choice([1, 1, -1, 2, 0.1])}
        if choice < 0.8:
            return {"op": "add", "path": path, "value": self.random.choice([self.number(), self.number() / 10])}
        if choice < 0.93:
            return {"op": "add", "path": self.random.choice(TEXTS), "value": self.random.choice("abc")}
        if choice < 0.97:
            return {"op": "remove", "path": self.random.choice((*NUMBERS, *TEXTS))}
        return {"op": "move", "from": path, "path": self.random.choice((*NUMBERS, *TEXTS))}

    # ------------------------------------------------------------ branches

    async def fork(self) -> None:
        """From any branch, of branches too, and from the past as far as it can be read."""
        if len(self.live) < BRANCHES_MAX:
            name, parent = f"b{self.created}", self.random.choice(self.live)
            self.created += 1
            at = Version(self.random.randint(max(self.floor, self.version - 8), self.version))
            await self.structure(BranchCreate(name=BranchName(name), parent=BranchName(parent), fork=at))
            self.live.append(name)

    async def delete_branch(self) -> None:
        if len(self.live) > 1:
            name = self.live.pop(self.random.randrange(1, len(self.live)))
            await self.structure(BranchDelete(name=BranchName(name)))

    async def structure(self, details: BranchCreate | BranchDelete) -> None:
        for one in (self.plain, self.compacted):
            assert isinstance(await one.structure(details), Accepted)

    # ------------------------------------------------------------ what is compared

    async def merge(self) -> None:
        target = self.random.choice(self.live)
        source = self.random.choice([name for name in self.live if name != target] or [target])
        if source == target:
            return
        self.merges += 1
        at = max(self.floor, self.version - self.random.choice([0, 0, 0, 3]))
        wanted = MergeWanted(
            source=BranchName(source),
            target=BranchName(target),
            source_version=Version(at),
            strategy=self.random.choice(["lww", "fields", "fields", *STRATEGIES]),
        )
        request = self.request()
        gone: dict[EntityId, Content] = {EntityId(ERASED): Missing.ABSENT}

        async def ask(one: Engine, resolutions: dict[EntityId, Content]) -> PlannedMerge:
            return await merge(one.space, asked(request), _with(wanted, resolutions))

        answers = [await _answer(ask(one, {})) for one in (self.plain, self.compacted)]
        if all(isinstance(one, Erased | Compacted) for one in answers):  # resolved, and merged on
            request = self.request()
            answers = [await _answer(ask(one, gone)) for one in (self.plain, self.compacted)]
        assert _told(answers[0]) == _told(answers[1]), (wanted, answers)
        if isinstance(answers[0], PlannedMerge) and answers[0].version is not None:
            self.written.append((target, "", self.version))

    async def revert(self) -> None:
        """Of what the compaction left; what it has dropped cannot be undone, and that is no question of merges."""
        if not self.written:
            return
        name, _, version = self.random.choice(self.written[-12:])
        if name not in self.live:
            return
        request, wanted = self.request(), RevertWanted(branch=BranchName(name), versions=(Version(version),))

        async def ask(one: Engine) -> PlannedRevert:
            return await revert(one.space, asked(request), wanted)

        first = await _answer(ask(self.compacted))
        if not isinstance(first, Compacted):
            second = await _answer(ask(self.plain))
            assert _told(first) == _told(second), (wanted, first, second)
            self.reverts += 1

    async def erase(self) -> None:
        versions = [version for _, id_, version in self.written if id_ == ERASED and version > self.floor]
        if not versions:
            return
        request, chosen = self.request(), Version(self.random.choice(versions))
        self.erasures += 1
        for one in (self.plain, self.compacted):
            await erase(one.space, asked(request), {EntityId(ERASED): [chosen]}, {})

    async def compact(self) -> None:
        self.floor = self.random.choice([self.version, self.version, self.random.randint(self.floor, self.version)])
        self.compactions += 1
        request = self.request()
        await compact(self.compacted.space, asked(request), Version(self.floor), now=TimeMs(0))
        for number in range(int(self.compacted.space.version) - self.version):
            filler = BranchCreate(name=BranchName(f"{request}-{number}"), parent=MAIN, fork=Version(1))
            assert isinstance(await self.plain.structure(filler), Accepted)


def _with(wanted: MergeWanted, resolutions: dict[EntityId, Content]) -> MergeWanted:
    return MergeWanted(
        source=wanted.source,
        target=wanted.target,
        source_version=wanted.source_version,
        strategy=wanted.strategy,
        resolutions=resolutions,
    )


async def _answer(asking: Awaitable[T]) -> T | StemmaError:
    try:
        return await asking
    except StemmaError as error:
        return error


def _told(answer: Planned | StemmaError) -> object:
    """What both must say alike; the versions of facts are not: a checkpoint is one."""
    if isinstance(answer, MergeConflict):
        return type(answer), [(one.id, one.path, one.winner) for one in answer.facts["conflicts"]]
    if isinstance(answer, StemmaError):
        return type(answer)
    conflicts = [(one.id, one.path, one.winner) for one in getattr(answer, "conflicts", ())]
    return answer.version, conflicts, [(write.id, write.kind) for write in getattr(answer, "writes", ())]
