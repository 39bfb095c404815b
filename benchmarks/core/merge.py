"""A merge of 1,000 changed entities, and the best common ancestors after 1,000 merges back and forth."""

from __future__ import annotations

import statistics
import time
from bisect import bisect_right
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

from stemmadb.protocol.model.history.origins import OriginTrace, WrittenLeaves
from stemmadb.protocol.model.log.ancestry import BranchGraph, BranchPoint, MergeEdge, best_common_ancestors, graph
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.log.facts import NO_BODY, Fact, FactKind
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.merge import Candidate, MergeSide, plan
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version

ENTITIES = 1_000
MERGES = 1_000
DRAFT = BranchName("draft")
BRANCHES = {MAIN: BranchState(name=MAIN), DRAFT: BranchState(name=DRAFT, parent=MAIN, fork=Version(1), depth=2)}
DOCUMENT: dict[str, Any] = {
    "title": "write the spec",
    "done": False,
    "count": 1,
    "tags": ["a", "b"],
    "by": {"name": "alice", "role": "author"},
    "text": "a few words about what is to be done and why",
}


def fact(version: int, kind: FactKind, on: BranchName, id_: EntityId, payload: object) -> WrittenLeaves:
    body = encode(payload)
    place = {"version": Version(version), "index": 0, "branch": on, "id": id_, "kind": kind}
    return WrittenLeaves(Fact(**place, parent=NO_BODY, digest=NO_BODY, hash=NO_BODY, body=body))  # type: ignore[arg-type]


def candidate(number: int, *, both: bool) -> Candidate:
    """A document that the source changed in two fields; where both did, the target changed one of them and another.

    The history of an entity is read from its facts, as a store would, and only if the merge asks for it.
    """
    id_ = EntityId(f"urn:todo:{number}")
    source = DOCUMENT | {"title": "read the spec", "done": True}
    target = DOCUMENT | {"title": "print the spec", "count": 2} if both else DOCUMENT
    facts = [fact(1, "set", MAIN, id_, DOCUMENT), fact(3, "patch", DRAFT, id_, changes(source, "title", "done"))]
    if both:
        facts.insert(1, fact(2, "patch", MAIN, id_, changes(target, "title", "count")))

    @lru_cache(maxsize=1)
    def trace() -> OriginTrace:
        return OriginTrace(BRANCHES, facts)

    def side(value: dict[str, Any], name: BranchName, version: int) -> MergeSide:
        point = BranchPoint(name, Version(version))
        return MergeSide(value, point.version, lambda: trace().at(point).stamp)

    return Candidate(id_, (side(DOCUMENT, MAIN, 1),), side(source, DRAFT, 3), side(target, MAIN, 2 if both else 1))


def changes(value: dict[str, Any], *keys: str) -> list[dict[str, Any]]:
    return [{"op": "replace", "path": f"/{key}", "value": value[key]} for key in keys]


def merge_us(strategy: Strategy, *, both: bool) -> float:
    entities = [candidate(number, both=both) for number in range(ENTITIES)]
    started = time.perf_counter()
    made = plan(entities, strategy=strategy)
    taken = time.perf_counter() - started
    assert len(made.writes) == ENTITIES
    assert bool(made.conflicts) == both
    return taken * 1e6 / ENTITIES


def mixed_us(strategy: Strategy) -> float:
    """Half of the entities changed on one side, half on both."""
    entities = [candidate(number, both=number % 2 == 0) for number in range(ENTITIES)]
    started = time.perf_counter()
    made = plan(entities, strategy=strategy)
    taken = time.perf_counter() - started
    assert len(made.reads) == ENTITIES
    return taken * 1e6 / ENTITIES


def back_and_forth() -> BranchGraph:
    """Work on both branches and a merge of one into the other, in turn."""
    commits: dict[BranchName, list[Version]] = {MAIN: [Version(1)], DRAFT: []}
    edges = []
    for index in range(MERGES):
        target, source = (MAIN, DRAFT) if index % 2 else (DRAFT, MAIN)
        at = Version(3 * index + 4)
        commits[target].append(Version(at - 2))
        commits[source].append(Version(at - 1))
        commits[target].append(at)
        edges.append(MergeEdge(target, at, source, Version(at - 1)))

    def last(name: BranchName, version: Version) -> Version:
        count = bisect_right(commits[name], version)
        return commits[name][count - 1] if count else Version(0)

    return graph(BRANCHES, edges, last)


def ancestors_us() -> float:
    known = back_and_forth()
    head = Version(3 * MERGES + 9)
    started = time.perf_counter()
    found = best_common_ancestors(known, BranchPoint(DRAFT, head), BranchPoint(MAIN, head))
    taken = time.perf_counter() - started
    assert len(found) == 1
    return taken * 1e6


def median(measure: Callable[[], float], quick: bool) -> float:
    return statistics.median(measure() for _ in range(3 if quick else 15))


def run(quick: bool = False) -> list[dict[str, object]]:
    scenario = "merge of 1,000 changed entities, each"
    strategies: tuple[Strategy, ...] = ("lww", "fields")
    rows: list[tuple[str, str, Callable[[], float]]] = [
        (scenario, "one side changed", partial(merge_us, "lww", both=False))
    ]
    for name in strategies:
        rows.append((scenario, f"both sides changed, {name}", partial(merge_us, name, both=True)))
        rows.append((scenario, f"half and half, {name}", partial(mixed_us, name)))
    rows.append(("best common ancestors after 1,000 merges back and forth", "stemmadb", ancestors_us))
    return [{"scenario": text, "system": system, "p50_us": median(measure, quick)} for text, system, measure in rows]
