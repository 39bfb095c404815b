"""A tiny store in memory that commits, forks and merges with the functions under test, and nothing else."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence

import msgspec

from stemmadb.protocol.model import merge
from stemmadb.protocol.model.history.difference import Content
from stemmadb.protocol.model.history.origins import OriginTrace, WrittenLeaves
from stemmadb.protocol.model.history.stamps import Stamp
from stemmadb.protocol.model.log import branch_spans, replay
from stemmadb.protocol.model.log.ancestry import (
    BranchGraph,
    BranchPoint,
    MergeEdge,
    best_common_ancestors,
    graph,
    is_ancestor,
    knower,
    split,
)
from stemmadb.protocol.model.log.commit_record import Arguments, Strategy
from stemmadb.protocol.model.log.facts import NO_BODY, Fact, FactKind
from stemmadb.protocol.model.log.state import BranchState, Missing
from stemmadb.protocol.model.merge import Candidate, MergePlan, MergeSide
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

ABSENT = Missing.ABSENT


def make_fact(
    version: int, kind: FactKind, payload: object = None, *, on: str = "main", id_: str = "urn:x", gone: bool = False
) -> Fact:
    return Fact(
        version=Version(version),
        index=0,
        branch=BranchName(on),
        id=EntityId(id_),
        kind=kind,
        parent=NO_BODY,
        digest=NO_BODY,
        hash=NO_BODY,
        body=None if gone or kind == "delete" else encode(payload),
    )


class Space:
    """A space in memory. Every write takes the next version; hashes and admission are left out."""

    def __init__(self) -> None:
        self.version = Version(0)
        self.branches: dict[BranchName, BranchState] = {MAIN: BranchState(name=MAIN)}
        self.edges: list[MergeEdge] = []
        self.commits: dict[BranchName, list[Version]] = {}
        self.facts: dict[EntityId, list[WrittenLeaves]] = {}
        self.resolved: dict[EntityId, list[Version]] = {}
        self.traces_made = 0

    def fork(self, name: str, parent: str = "main", version: int | None = None) -> int:
        above, at = BranchName(parent), self.version if version is None else Version(version)
        branch_spans.check_create(self.branches.get, BranchName(name), parent=above, fork=at, head=self.version)
        depth = self.branches[above].depth + 1
        self._next()
        self.branches[BranchName(name)] = BranchState(name=BranchName(name), parent=above, fork=at, depth=depth)
        return self.version

    def delete_branch(self, name: str) -> None:
        branch_spans.check_delete(self.branches.get, BranchName(name))
        old = self.branches[BranchName(name)]
        self._next()
        self.branches[old.name] = BranchState(
            name=old.name, parent=old.parent, fork=old.fork, depth=old.depth, deleted=self.version
        )

    def set(self, on: str, id_: str, value: Value) -> int:
        return self._commit(on, [("set", id_, encode(value))])

    def patch(self, on: str, id_: str, *operations: Mapping[str, Value]) -> int:
        return self._commit(on, [("patch", id_, encode(operations))])

    def delete(self, on: str, id_: str) -> int:
        return self._commit(on, [("delete", id_, None)])

    def get(self, on: str, id_: str = "urn:x", version: int | None = None) -> Content:
        spans = branch_spans.lineage(
            self.branches, BranchName(on), Version(self.version if version is None else version)
        )
        facts = [written.fact for written in self.facts.get(EntityId(id_), ())]
        return replay.fold(ABSENT, [fact for fact in facts if branch_spans.visible(spans, fact.branch, fact.version)])

    def trace(self, id_: str = "urn:x") -> OriginTrace:
        self.traces_made += 1
        written, resolved = self.facts.get(EntityId(id_), ()), self.resolved.get(EntityId(id_), ())
        return OriginTrace(self.branches, written, self.edges, resolved, common=self._common)

    def _common(self, edge: MergeEdge, version: Version) -> bool:
        source, target = BranchPoint(edge.source, edge.source_version), BranchPoint(edge.target, edge.version)
        return self._split(source, target)(version)

    def _split(self, one: BranchPoint, other: BranchPoint) -> Callable[[Version], bool]:
        knows = knower(self.graph(), split(self.branches, one, other), self._made_on)
        return lambda version: not version or knows(version)

    def graph(self) -> BranchGraph:
        return graph(self.branches, self.edges, self._last)

    def merge(
        self,
        source: str,
        target: str = "main",
        strategy: Strategy = "lww",
        resolutions: Mapping[EntityId, Content] | None = None,
        *,
        version: int | None = None,
        dry_run: bool = False,
        ignore: Sequence[EntityId] = (),
    ) -> MergePlan:
        theirs = BranchPoint(BranchName(source), Version(self.version if version is None else version))
        mine = BranchPoint(BranchName(target), self.version)
        merge.check_merge(
            self.branches.get,
            source=theirs.branch,
            source_version=theirs.version,
            target=mine.branch,
            head=mine.version,
        )
        plan = merge.plan(
            self._candidates(theirs, mine), strategy=strategy, resolutions=resolutions or {}, ignore=ignore
        )
        if not dry_run and not is_ancestor(self.graph(), theirs, mine):
            operations = [(write.operation.op, write.id, write.operation.body) for write in plan.writes]
            self._commit(target, operations, plan.details(source=theirs, target_version=mine.version))
            self.edges.append(MergeEdge(mine.branch, self.version, theirs.branch, theirs.version))
            for id_ in plan.resolved:
                self.resolved.setdefault(id_, []).append(self.version)
        return plan

    def _candidates(self, source: BranchPoint, target: BranchPoint) -> list[Candidate]:
        bases = best_common_ancestors(self.graph(), source, target)
        ids: set[EntityId] = set()
        for base in bases:
            one, other = (branch_spans.lineage(self.branches, at.branch, at.version) for at in (source, base))
            spans = branch_spans.apart(one, other)
            ids |= {id_ for id_, facts in self.facts.items() if any(_within(spans, item.fact) for item in facts)}
        return [self._candidate(id_, bases, source, target) for id_ in sorted(ids)]

    def _candidate(
        self, id_: EntityId, bases: tuple[BranchPoint, ...], source: BranchPoint, target: BranchPoint
    ) -> Candidate:
        made: list[OriginTrace] = []

        def side(point: BranchPoint) -> MergeSide:
            content = self.get(point.branch, id_, point.version)

            def stamp() -> Stamp:
                if not made:
                    made.append(self.trace(id_))
                return made[0].at(point).stamp

            def knows(version: Version) -> bool:
                return knower(self.graph(), point, self._made_on)(version)

            return MergeSide(content, self._last_fact(id_, point), stamp, knows)

        return Candidate(id_, tuple(map(side, bases)), side(source), side(target), self._split(source, target))

    def _made_on(self, version: Version) -> BranchName:
        return next((name for name, made in self.commits.items() if version in made), MAIN)

    def _last_fact(self, id_: EntityId, point: BranchPoint) -> Version:
        spans = branch_spans.lineage(self.branches, point.branch, point.version)
        seen = [item.fact.version for item in self.facts.get(id_, ()) if _within(spans, item.fact)]
        return max(seen, default=Version(0))

    def _commit(
        self, on: str, operations: Sequence[tuple[FactKind, str, bytes | None]], details: Arguments | None = None
    ) -> int:
        self._next()
        for kind, id_, body in operations:
            fact = msgspec.structs.replace(make_fact(self.version, kind, on=on, id_=id_), body=body)
            self.facts.setdefault(EntityId(id_), []).append(WrittenLeaves(fact, details))
        self.commits.setdefault(BranchName(on), []).append(self.version)
        return self.version

    def _last(self, name: BranchName, version: Version) -> Version:
        versions = self.commits.get(name, [])
        count = bisect_right(versions, version)
        return versions[count - 1] if count else Version(0)

    def _next(self) -> None:
        self.version = Version(self.version + 1)


def _within(spans: Sequence[branch_spans.Span], fact: Fact) -> bool:
    return branch_spans.visible(spans, fact.branch, fact.version)
