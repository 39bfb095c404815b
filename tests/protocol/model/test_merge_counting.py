"""Counting on random histories: no increment counts twice, and none is lost in silence (MERGE-2, MERGE-3)."""

from __future__ import annotations

import random

import pytest

from merge_space import Space
from stemmadb.protocol.model.log.ancestry import BranchPoint, knowledge
from stemmadb.protocol.model.log.commit_record import Strategy
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version

X = EntityId("urn:x")
HISTORIES = 1_000


class Counting:
    """A counter that is seeded, incremented, forked and merged, from past versions too.

    What a branch should hold is the sum of the increments that its knowledge covers, told from the log of increments
    alone. That holds until a merge picks a side, which it must have recorded; a branch that knows of such a merge is
    not asked any more.
    """

    def __init__(self, seed: int, *strategies: Strategy, seeds: int = 1) -> None:
        self.random = random.Random(seed)
        self.strategies = strategies
        self.space = Space()
        self.names = ["main"]
        self.made: list[tuple[str, int, int]] = []
        self.picked: list[tuple[str, int]] = []
        self.asked = 0
        for index in range(1, seeds):
            self.names.append(f"s{index}")
            self.space.fork(self.names[-1])
        for name in self.names:
            self.space.set(name, X, {"n": 0})
        self.seeded = int(self.space.version)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.random.choices([self.increment, self.fork, self.merge], [4, 1, 5])[0]()

    def increment(self) -> None:
        name, by = self.random.choice(self.names), self.random.choice([1, 1, 2, -1, 5])
        version = self.space.patch(name, X, {"op": "increment", "path": "/n", "by": by})
        self.made.append((name, version, by))

    def fork(self) -> None:
        if len(self.names) < 5:
            name, head = f"b{len(self.names)}", int(self.space.version)
            self.space.fork(
                name, self.random.choice(self.names), self.random.randint(max(self.seeded, head - 5), head)
            )
            self.names.append(name)

    def merge(self) -> None:
        if len(self.names) > 1:
            source, target = self.random.sample(self.names, 2)
            version = max(self.seeded, int(self.space.version) - self.random.choice([0, 0, 0, 2, 4]))
            plan = self.space.merge(source, target, self.random.choice(self.strategies), version=version)
            if any(conflict.winner != "both" for conflict in plan.conflicts):
                self.picked.append((target, int(self.space.version)))
            self.check(target)

    def check(self, name: str) -> None:
        known = knowledge(self.space.graph(), BranchPoint(BranchName(name), self.space.version))

        def is_known(made_on: str, version: int) -> bool:
            return version <= known.get(BranchName(made_on), Version(0))

        if not any(is_known(*pick) for pick in self.picked):
            self.asked += 1
            expected = sum(by for made_on, version, by in self.made if is_known(made_on, version))
            assert self.space.get(name) == {"n": expected}


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_under_fields_every_known_increment_counts_exactly_once() -> None:
    asked = 0
    for seed in range(HISTORIES):
        history = Counting(seed, "fields")
        history.run(18)
        assert history.picked == []
        asked += history.asked
    assert asked > 3 * HISTORIES


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_with_any_strategy_an_increment_that_does_not_count_is_in_a_recorded_conflict() -> None:
    asked = picked = 0
    for seed in range(HISTORIES):
        history = Counting(seed, "fields", "fields", "lww", "source", "target")
        history.run(14)
        asked, picked = asked + history.asked, picked + len(history.picked)
    assert asked > HISTORIES
    assert picked > HISTORIES // 5


@pytest.mark.rule("MERGE-2", "MERGE-3")
def test_a_counter_seeded_equally_on_several_branches_loses_nothing_in_silence() -> None:
    asked = 0
    for seed in range(HISTORIES):
        history = Counting(seed, "fields", seeds=3)
        history.run(14)
        asked += history.asked
    assert asked > 2 * HISTORIES
