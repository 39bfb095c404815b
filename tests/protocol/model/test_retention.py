"""Which bodies a compaction may drop, compared with the definition read aloud."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence

import pytest

from stemmadb.protocol.model.history import retention
from stemmadb.protocol.model.history.retained_origins import Mergeable
from stemmadb.protocol.model.history.retention import Chain, Outline, Pins, RetainedFacts
from stemmadb.protocol.model.log import ancestry, branch_spans
from stemmadb.protocol.model.log.ancestry import BranchGraph, BranchPoint, MergeEdge
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import BranchName, Version

MAIN = BranchName("main")


class World:
    """Branches, merges, and the facts of one entity, each at a version of its own."""

    def __init__(self) -> None:
        self.branches = {MAIN: BranchState(name=MAIN)}
        self.facts: list[Outline] = []
        self.edges: list[MergeEdge] = []
        self.tags: list[BranchPoint] = []
        self.version = Version(0)

    def tick(self) -> Version:
        self.version = Version(self.version + 1)
        return self.version

    def write(self, kind: FactKind, on: str = "main", *, size: int | None = 10) -> Version:
        self.tick()
        self.facts.append(Outline(self.version, 0, BranchName(on), kind, None if kind == "delete" else size))
        return self.version

    def fork(self, name: str, parent: str = "main", at: int | None = None) -> None:
        fork = self.version if at is None else Version(at)
        self.tick()
        self.branches[BranchName(name)] = BranchState(name=BranchName(name), parent=BranchName(parent), fork=fork)

    def end(self, name: str) -> None:
        old = self.branches[BranchName(name)]
        self.branches[old.name] = BranchState(name=old.name, parent=old.parent, fork=old.fork, deleted=self.tick())

    def merge(self, source: str, target: str, kind: FactKind | None = None) -> Version:
        seen = self.version
        version = self.tick() if kind is None else self.write(kind, target)
        self.edges.append(MergeEdge(BranchName(target), version, BranchName(source), seen))
        return version

    def graph(self) -> BranchGraph:
        return ancestry.graph(self.branches, self.edges, self._last)

    def pins(self, floor: int) -> Pins:
        return retention.pins(self.graph(), tags=self.tags, floor=Version(floor), head=self.version)

    def dropped(self, floor: int) -> list[int]:
        return [fact.version for fact in RetainedFacts(self.facts, self.branches).droppable(self.pins(floor))]

    def _last(self, name: BranchName, upto: Version) -> Version:
        made = [fact.version for fact in self.facts if fact.branch == name]
        made += [edge.version for edge in self.edges if edge.target == name]
        return max((version for version in made if version <= upto), default=Version(0))


def visible(world: World, point: BranchPoint) -> list[Outline]:
    spans = branch_spans.lineage(world.branches, point.branch, point.version)
    return [fact for fact in world.facts if branch_spans.visible(spans, fact.branch, fact.version)]


def naive(world: World, floor: int, *, origins: bool = True) -> list[int]:
    """Folds every state that must stay, and drops the bodies below the floor that none of them was folded from.

    With `origins`, for histories without merges, what leads from the last fact that all mergeable states have in
    common to each of them stays too, up to the last assignment of everything. A state without the entity has nothing
    in common with the others.
    """
    kept = [state for state in world.branches.values() if state.deleted is None or state.deleted >= floor]
    mergeable = {BranchPoint(s.name, Version(v)) for s in kept for v in range(floor, world.version + 1)}
    points = {*world.tags, *mergeable}
    points.update(BranchPoint(s.parent, s.fork) for s in kept if s.parent is not None)
    heads = [BranchPoint(state.name, world.version) for state in kept]
    for one in heads:
        for other in heads:
            if one != other:
                points.update(ancestry.best_common_ancestors(world.graph(), one, other))
    points = {
        BranchPoint(span.branch, span.upto)
        for point in points
        for span in branch_spans.lineage(world.branches, point.branch, point.version)
    }
    needed: set[int] = set()
    for point in points:
        needed.update(replayed(visible(world, point)))
    if origins:
        histories = [visible(world, point) for point in mergeable]
        for history in histories:
            needed.update(traced(history, trunk(histories)))
    return [f.version for f in world.facts if f.version < floor and f.size is not None and f.version not in needed]


def replayed(facts: Sequence[Outline]) -> Iterable[int]:
    for fact in reversed(facts):
        yield fact.version
        if fact.kind in ("set", "delete") or (fact.kind == "checkpoint" and fact.size is not None):
            return


def trunk(histories: Sequence[Sequence[Outline]]) -> Outline | None:
    common = [facts[0] for facts in zip(*histories, strict=False) if all(fact == facts[0] for fact in facts)]
    return common[-1] if common else None


def traced(facts: Sequence[Outline], common: Outline | None) -> Iterable[int]:
    for index in range(len(facts) - 1, -1, -1):
        fact = facts[index]
        yield fact.version
        if fact.kind in ("set", "delete") or fact.size is None or fact == common:
            yield from replayed(facts[: index + 1])
            return


def random_world(seed: int, *, merges: float = 0) -> World:
    chance = random.Random(seed)
    world = World()
    alive: dict[str, bool] = {"main": False}
    for step in range(chance.randint(3, 30)):
        live = [name for name in alive if world.branches[BranchName(name)].deleted is None]
        name = chance.choice(live)
        what = chance.random()
        source = chance.choice(list(alive))
        if source != name and chance.random() < merges:
            is_written = chance.random() < 0.5
            world.merge(source, name, "set" if is_written else None)
            alive[name] |= is_written
        elif what < 0.15:
            parent = chance.choice(list(alive))
            new, at = f"b{step}", chance.randint(0, world.version)
            world.fork(new, parent, at)
            seen = visible(world, BranchPoint(BranchName(new), world.version))
            alive[new] = bool(seen) and seen[-1].kind != "delete"
        elif what < 0.22 and name != "main":
            world.end(name)
        elif what < 0.3:
            world.tags.append(
                BranchPoint(BranchName(chance.choice(list(alive))), Version(chance.randint(0, world.version)))
            )
        else:
            kinds: list[FactKind] = ["set", "patch", "patch", "delete", "checkpoint"] if alive[name] else ["set"]
            kind = chance.choice(kinds)
            world.write(kind, name, size=chance.choice([10, 10, 10, None]))
            alive[name] = kind != "delete"
    return world


@pytest.mark.rule("COMPACT-1")
@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(0, 600, 100)])
def test_exactly_the_bodies_go_that_no_state_that_stays_is_replayed_from(seeds: range) -> None:
    dropped = 0
    for seed in seeds:
        world = random_world(seed)
        for floor in {0, 1, world.version // 2, world.version}:
            expected = naive(world, floor)
            assert world.dropped(floor) == expected, (seed, floor)
            dropped += len(expected)
    assert dropped > 100


@pytest.mark.rule("COMPACT-1", "MERGE-2")
@pytest.mark.parametrize("seeds", [range(start, start + 100) for start in range(1_000, 1_400, 100)])
def test_every_state_and_every_merge_base_stays_where_branches_were_merged(seeds: range) -> None:
    dropped = 0
    for seed in seeds:
        world = random_world(seed, merges=0.25)
        for floor in {world.version // 2, world.version}:
            found = world.dropped(floor)
            assert set(found) <= set(naive(world, floor, origins=False)), (seed, floor)
            dropped += len(found)
    assert dropped > 100


@pytest.mark.rule("COMPACT-1")
def test_what_was_overwritten_before_the_floor_goes_and_what_was_at_the_floor_stays() -> None:
    world = World()
    for _ in range(4):
        world.write("set")
    assert world.dropped(0) == []
    assert world.dropped(3) == [1, 2]
    assert world.dropped(4) == [1, 2, 3]


@pytest.mark.rule("COMPACT-1")
def test_a_chain_that_crosses_the_floor_stays_whole() -> None:
    world = World()
    world.write("set")
    world.write("set")
    world.write("patch")
    world.write("patch")
    world.write("patch")
    assert world.dropped(4) == [1]


@pytest.mark.rule("COMPACT-1")
def test_a_tag_a_fork_and_a_merge_base_keep_what_they_need() -> None:
    world = World()
    world.write("set")
    world.write("set")
    world.tags.append(BranchPoint(MAIN, Version(1)))
    world.fork("draft", at=2)
    for _ in range(3):
        world.write("set")
    world.write("set", "draft")
    assert world.dropped(world.version) == [4, 5]
    world.end("draft")
    assert world.dropped(world.version) == [4, 5], "deleted at the floor, it still can be read there"
    world.tick()
    assert world.dropped(world.version) == [2, 4, 5, 7]


@pytest.mark.rule("COMPACT-1")
def test_a_merge_base_that_is_no_fork_is_kept_while_both_branches_live() -> None:
    world = World()
    world.write("set")
    world.fork("draft")
    base = world.write("set", "draft")
    world.merge("draft", "main", "set")
    world.write("set", "draft")
    world.write("set")
    world.tick()
    assert base not in world.dropped(world.version)
    world.end("draft")
    world.tick()
    assert base in world.dropped(world.version)


@pytest.mark.rule("COMPACT-1", "MERGE-3")
def test_the_original_of_a_copy_stays_while_branches_hold_different_facts() -> None:
    world = World()
    world.write("set")
    world.fork("old")
    world.fork("draft")
    made = world.write("set", "draft")
    target = world.write("set")
    world.merge("draft", "main", "set")
    world.end("draft")
    world.write("patch")
    world.tick()
    assert {made, target}.isdisjoint(world.dropped(world.version))
    world.merge("main", "old")
    world.tick()
    assert {made, target}.isdisjoint(world.dropped(world.version)), "`old` knows of the merge, and holds another fact"
    world.end("old")
    world.tick()
    assert {made, target} <= set(world.dropped(world.version))


@pytest.mark.rule("COMPACT-1", "MERGE-3")
def test_an_assignment_of_everything_after_a_merge_lets_the_original_go() -> None:
    world = World()
    world.write("set")
    world.fork("draft")
    made = world.write("patch", "draft")
    world.write("patch")
    world.merge("draft", "main", "patch")
    world.write("patch", "draft")
    world.tick()
    assert made not in world.dropped(world.version)
    world.write("set")
    world.write("set", "draft")
    world.merge("draft", "main", "set")
    world.merge("main", "draft", "set")
    world.tick()
    assert made in world.dropped(world.version)


@pytest.mark.rule("COMPACT-1")
def test_a_merge_that_no_live_branch_knows_keeps_nothing() -> None:
    world = World()
    world.write("set")
    world.fork("one")
    world.fork("two")
    made = world.write("set", "one")
    world.merge("one", "two", "set")
    world.end("one")
    world.end("two")
    world.tick()
    assert made in world.dropped(world.version)


@pytest.mark.rule("COMPACT-1")
def test_a_checkpoint_lets_go_of_what_is_before_it_once_all_live_branches_know_that() -> None:
    world = World()
    world.write("set")
    world.fork("draft")
    world.write("patch")
    world.write("checkpoint")
    world.write("patch")
    assert world.dropped(world.version) == []
    world.end("draft")
    world.tick()
    assert world.dropped(world.version) == [1, 3]


@pytest.mark.rule("COMPACT-1")
def test_pins_cover_others_that_keep_nothing_more() -> None:
    world = World()
    for _ in range(6):
        world.write("set")
    pins = world.pins(4)
    world.write("set")
    world.fork("draft", at=5)
    assert pins.covers(world.pins(4)), "what forks above the floor needs nothing more"
    world.tags.append(BranchPoint(MAIN, Version(3)))
    tagged = world.pins(4)
    assert not pins.covers(tagged)
    assert tagged.covers(pins)
    other = Pins(Version(4), {BranchName("other"): [Version(1)]}, pins.mergeable, pins.looked_at)
    assert not pins.covers(other)


@pytest.mark.rule("COMPACT-1", "MERGE-3")
def test_pins_do_not_cover_a_later_fork_or_merge_that_looks_below_the_floor() -> None:
    world = World()
    for _ in range(3):
        world.write("set")
    world.tags.append(BranchPoint(MAIN, Version(2)))
    world.fork("draft")
    world.write("set", "draft")
    floor = world.version
    pins = world.pins(floor)
    world.merge("draft", "main")
    assert pins.covers(world.pins(floor)), "the source of the merge is at the floor"
    world.edges.append(MergeEdge(MAIN, world.tick(), BranchName("draft"), Version(4)))
    assert not pins.covers(world.pins(floor)), "the source of the merge is below it"
    world.edges.pop()
    world.fork("late", at=2)
    assert not pins.covers(world.pins(floor)), "a tag keeps the value there, and not what led to it"


@pytest.mark.rule("COMPACT-1", "SNAP-1")
def test_a_chain_is_counted_from_the_last_whole_value() -> None:
    world = World()
    world.write("set")
    world.write("patch", size=3)
    world.fork("draft")
    world.write("patch", "draft", size=4)
    world.write("patch", "draft", size=None)
    entity = RetainedFacts(world.facts, world.branches)
    draft = BranchName("draft")
    assert entity.chain(MAIN, world.version) == Chain(begins=Version(1), patches=1, patch_bytes=3)
    assert entity.chain(MAIN, Version(1)) == Chain(begins=Version(1), patches=0, patch_bytes=0)
    assert entity.chain(draft, world.version) == Chain(begins=Version(1), patches=3, patch_bytes=7)
    assert entity.chain(draft, Version(3)) is None
    assert entity.chain(BranchName("other"), world.version) is None
    assert entity.branches == {MAIN, draft}


@pytest.mark.rule("COMPACT-1")
def test_a_chain_begins_at_a_checkpoint_that_has_its_body() -> None:
    world = World()
    world.write("set")
    world.write("patch", size=3)
    world.write("checkpoint", size=None)
    world.write("patch", size=4)
    assert RetainedFacts(world.facts, world.branches).chain(MAIN, world.version) == Chain(Version(1), 2, 7)
    world.write("checkpoint")
    world.write("patch", size=5)
    assert RetainedFacts(world.facts, world.branches).chain(MAIN, world.version) == Chain(Version(5), 1, 5)


@pytest.mark.rule("COMPACT-1")
def test_an_entity_written_several_times_in_one_commit_keeps_the_last_of_them() -> None:
    facts = [Outline(Version(1), index, MAIN, "set", 10) for index in range(3)]
    entity = RetainedFacts(facts, {MAIN: BranchState(name=MAIN)})
    assert [fact.index for fact in entity.droppable(_only_main(2))] == [0, 1]
    pins = _only_main(1)
    assert entity.droppable(pins) == [], "at the floor nothing goes"


def _only_main(floor: int) -> Pins:
    at = Version(floor)
    return Pins(at, {MAIN: [at]}, Mergeable(at, {MAIN: at}, {}), set())
