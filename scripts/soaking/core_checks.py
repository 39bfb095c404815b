"""Checks of the pure core: random input against a naive oracle, nothing that can fail outside."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

import test_ancestry
import test_fuzz
import test_merge_laws
import test_watching_schedules
from scripts.soaking.kinds import Counts

import schedules
from fuzzing import corpus
from fuzzing.mutating import mutated
from fuzzing.targets import TARGETS
from stemmadb.protocol.errors import InvalidValue
from stemmadb.protocol.model.values import body, scan

STEPS: Final = 40
FUZZ_SHARE: Final = 20
"""A seed has this part of the inputs that a target gets on every change: about a second for all targets."""


def admission(seed: int) -> Counts:
    """Proposals, some stale, repeated or late, decided in batches."""
    schedule = schedules.Schedule(seed)
    schedule.run(steps=STEPS)
    return Counts(len(schedule.sent))


def watches(seed: int) -> Counts:
    """Commits on a graph of links."""
    return Counts(test_watching_schedules.runs_like_the_query_afresh(random.Random(seed)))


def merges(seed: int) -> Counts:
    """A history with forks and merges."""
    schedule = test_merge_laws.Schedule(seed)
    for _ in range(STEPS):
        schedule.step()
    schedule.check()
    return Counts(STEPS)


def ancestors(seed: int) -> Counts:
    """Pairs of commits of one graph."""
    test_ancestry.compare_with_brute_force(seed)
    return Counts(20)


def bodies(seed: int) -> Counts:
    """A hundred short texts of random bytes."""
    chance = random.Random(seed)
    for _ in range(100):
        data = chance.randbytes(chance.randrange(1, 24))
        assert _outcome(data, lambda raw: body.read(raw)[0]) == _outcome(data, scan.read), data.hex()
    return Counts(100)


def messages(seed: int) -> Counts:
    """Every message of the golden data, changed."""
    chance = random.Random(seed)
    return Counts(sum(test_fuzz.read_changed(case, chance, rounds=1) for case in test_fuzz.CASES))


def _outcome(data: bytes, read: Callable[[bytes], object]) -> str:
    try:
        return repr(read(data))
    except InvalidValue as refusal:
        return f"refused: {refusal.facts}"


def fuzz(seed: int) -> Counts:
    """Changed inputs for every fuzz target. What is kept as corpus grows, so a problem is told with its input."""
    count = 0
    for name, target in TARGETS.items():
        kept = corpus.read(corpus.CORPUS, name) or target.seeds()
        for data in mutated(kept, f"{seed} {name}", max(1, target.quick_runs // FUZZ_SHARE)):
            count += 1
            try:
                target.run(data)
            except Exception as error:
                raise AssertionError(f"keep it: tests/fuzzing/found/{name}/, {data.hex()}") from error
    return Counts(count)
