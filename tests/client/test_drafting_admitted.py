"""Drafts against the real admission: what a draft plans is accepted, and refused exactly where it must be."""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import pytest

from drafts import (
    IDS,
    PlainView,
    Transaction,
    after_all,
    name,
    overlaps,
    random_operation,
    random_value,
    submit,
    value_at,
)
from space import BOB, MemorySpace, delete_, patch_, set_
from stemmadb.client.nursery.entities import ABSENT, CachedEntity
from stemmadb.client.nursery.plans import CommitPlan
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.admission import Accepted, Outcome, RefusedCommit
from stemmadb.protocol.model.commit.request import Operation
from stemmadb.protocol.model.values import body
from stemmadb.protocol.model.values.ids import EntityId, Version

BLOCKS, SEEDS = 8, 150


class World:
    """A space with some history, a view of a part of it, and pending commits that stand on each other."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.space = MemorySpace()
        for _ in range(self.random.randint(0, 6)):
            self.foreign(self.random.choice(IDS))
        self.view = PlainView(to=self.space.version)
        self.view.covered = tuple(prefix for prefix in ("urn:a:", "urn:b:") if self.random.random() < 0.4)
        self.view.confirmed = {id_: one for id_ in IDS if (one := self.holding(id_)) is not None}
        self.plans: list[CommitPlan] = []
        for _ in range(self.random.randint(0, 3)):
            self.stack()

    def holding(self, id_: str) -> CachedEntity | None:
        """What is watched is true at the view's version; some of the rest was read at an older one, or then."""
        if id_.startswith(self.view.covered):
            one = value_at(self.space, id_, self.view.to)
            return None if one.value is ABSENT else one._replace(as_of=None)
        if self.random.random() < 0.5:
            return None
        return value_at(self.space, id_, self.random.randint(max(0, self.view.to - 1), self.view.to))

    def is_current(self, id_: str) -> bool:
        """Whether the view holds it as of its own version, or not at all."""
        one = self.view.confirmed.get(id_)
        return one is None or one.as_of in (None, self.view.to)

    def stack(self) -> None:
        """One more pending commit."""
        try:
            plan = Transaction(self.random.randrange(10**9), self.view, self.space).run().plan()
        except StemmaError:
            return
        if plan.writes:
            self.plans.append(plan)
            self.view.confirmed.update(plan.bases)
            self.view.pending.append((name(len(self.plans)), plan.writes))

    def foreign(self, id_: str) -> tuple[str, tuple[str, ...] | None] | None:
        """A commit of somebody else: what it wrote, if it was accepted."""
        made = self.foreign_operation(id_)
        if not isinstance(self.space.commit(made, author=BOB, session="other"), Accepted):
            return None
        if made.op != "patch":
            return id_, None
        return id_, patch.footprint(body.read_patch(made.body or b"")).writes

    def foreign_operation(self, id_: str) -> Operation:
        if self.random.random() < 0.3 or isinstance(self.space.value(id_), type(None)):
            return set_(id_, random_value(self.random), blind=True)
        if self.random.random() < 0.2:
            return delete_(id_, blind=True)
        return patch_(id_, random_operation(self.random), blind=True)

    def send_pending(self) -> bool:
        """Whether all that is pending was accepted."""
        outcomes = [submit(self.space, plan, local) for local, plan in enumerate(self.plans, 1)]
        return all(isinstance(outcome, Accepted) for outcome in outcomes)

    def can_be_applied(self, plan: CommitPlan) -> bool:
        """Whether the writes of the plan can be done on what is there now."""
        return all(
            after_all(
                value_at(self.space, id_, self.space.version).value,
                [write for write in plan.writes if write.id == id_],
            )
            is not None
            for id_ in IDS
        )


class Case(NamedTuple):
    seed: int
    transaction: Transaction
    plan: CommitPlan


def drafted(world: World, seed: int) -> Case | None:
    """A random transaction on the view of the world, if it writes something and can be done."""
    try:
        transaction = Transaction(seed, world.view, world.space).run()
        plan = transaction.plan()
    except StemmaError:
        return None
    return Case(seed, transaction, plan) if plan.writes else None


def refusal(outcome: Outcome) -> str | None:
    return outcome.error.code if isinstance(outcome, RefusedCommit) else None


def is_stale(world: World, plan: CommitPlan) -> bool:
    """Whether the view was too old for the plan already: it read something at a version before the view's."""
    return any(one.version < world.view.to for one in plan.reads)


@pytest.mark.rule("COMMIT-3", "COMMIT-4", "COMMIT-6", "NURSERY-2")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_nobody_disturbs_is_accepted_and_gives_the_values_that_the_draft_showed(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        world = World(seed)
        case = drafted(world, seed)
        if case is None or is_stale(world, case.plan) or not world.send_pending():
            continue
        applies = world.can_be_applied(case.plan)
        outcome = submit(world.space, case.plan, len(world.plans) + 1)
        if not applies:  # something blind, on what is not there
            assert refusal(outcome) in ("not_found", "patch_failed"), seed
            continue
        assert isinstance(outcome, Accepted), (seed, outcome)
        seen["accepted"] += 1
        seen["stacked"] += bool(world.plans)
        again = Transaction(seed, world.view, world.space).run()
        again.plan()
        shown = {id_: again.value(id_) for id_ in IDS if world.is_current(id_)}
        assert shown == {id_: world.space.value(id_) for id_ in shown}, seed
    assert seen["accepted"] > SEEDS / 3
    assert seen["stacked"] > SEEDS / 8


@pytest.mark.rule("COMMIT-2", "COMMIT-4")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_a_foreign_commit_refuses_it_exactly_where_it_overlaps_a_declared_read(block: int) -> None:
    seen: Counter[str] = Counter()
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        world = World(seed)
        case = drafted(world, seed)
        if case is None or is_stale(world, case.plan) or not world.send_pending():
            continue
        foreign = world.foreign(world.random.choice(IDS))
        if foreign is None:
            continue
        expected = any(overlaps(one, *foreign) for one in case.plan.reads)
        applies = world.can_be_applied(case.plan)
        outcome = submit(world.space, case.plan, len(world.plans) + 1)
        if expected:
            assert refusal(outcome) == "conflict", (seed, outcome)
            seen["conflict"] += 1
        elif applies:
            assert isinstance(outcome, Accepted), (seed, outcome)
            seen["accepted"] += 1
    assert min(seen["conflict"], seen["accepted"]) > SEEDS / 10, seen


@pytest.mark.rule("COMMIT-2", "COMMIT-3")
@pytest.mark.parametrize("block", range(BLOCKS))
def test_what_is_accepted_would_have_been_told_the_same_if_it_had_been_alone(block: int) -> None:
    """Every read that mattered was declared: made again on top of the foreign commit, all is the same."""
    seen = 0
    for seed in range(block * SEEDS, (block + 1) * SEEDS):
        world = World(seed)
        case = drafted(world, seed)
        if case is None or case.transaction.was_refused_blindly or not world.send_pending():
            continue
        world.foreign(world.random.choice(IDS))
        now = {id_: value_at(world.space, id_, world.space.version) for id_ in IDS}
        fresh = PlainView(to=world.space.version, covered=("urn:",), confirmed=dict(now))
        again = Transaction(seed, fresh, world.space).run()
        if again.was_refused_blindly:
            continue
        outcome = submit(world.space, case.plan, len(world.plans) + 1)
        if isinstance(outcome, RefusedCommit):
            continue
        again.plan()
        assert again.told == case.transaction.told, seed
        assert {id_: again.value(id_) for id_ in IDS} == {id_: world.space.value(id_) for id_ in IDS}, seed
        seen += 1
    assert seen > SEEDS / 6


@pytest.mark.rule("COMMIT-4")
def test_a_plan_falls_with_the_pending_commit_that_it_read_through() -> None:
    space = MemorySpace()
    space.must(set_("urn:a:1", {"n": 1}, blind=True), author=BOB, session="other")
    view = PlainView(to=space.version, covered=("urn:",), confirmed={"urn:a:1": value_at(space, "urn:a:1", 1)})
    first = Transaction(0, view, space)
    first.draft.patch("urn:a:1", [{"op": "replace", "path": "/n", "value": 2}])
    view.pending.append((name(1), first.plan().writes))
    second = Transaction(0, view, space)
    assert second.value("urn:a:1", "/n") == 2
    second.draft.set("urn:b:1", "seen")
    space.must(
        patch_("urn:a:1", {"op": "replace", "path": "/n", "value": 9}, blind=True), author=BOB, session="other"
    )
    assert isinstance(submit(space, first.plan(), 1), RefusedCommit)
    outcome = submit(space, second.plan(), 2)
    assert refusal(outcome) == "dependency"
    assert space.entity_at(view.branch, EntityId("urn:b:1"), Version(9)).version == 0
