"""Commits that are to be sent again: the lowest is at hand, whatever comes and goes."""

from __future__ import annotations

from random import Random

import pytest

from stemmadb.protocol.errors import RateLimited, Unavailable
from stemmadb.protocol.model.values.ids import Local
from stemmadb.server.service.session.deferred import DeferredCommits


@pytest.mark.rule("COMMIT-10")
@pytest.mark.parametrize("seed", range(20))
def test_the_lowest_is_that_of_a_plain_map(seed: int) -> None:
    random, deferred, plain = Random(seed), DeferredCommits(), {}
    for _ in range(200):
        local = Local(random.randint(1, 30))
        match random.choice(("add", "add", "remove", "remove_up_to")):
            case "add":
                plain[local] = Unavailable()
                deferred.add(local, plain[local])
            case "remove":
                plain.pop(local, None)
                deferred.remove(local)
            case _:
                plain = {one: why for one, why in plain.items() if one > local}
                deferred.remove_up_to(local)
        assert deferred.unready == plain
        assert bool(deferred) is bool(plain)
        if plain:
            assert deferred.first == min(plain)


@pytest.mark.rule("COMMIT-10")
def test_the_last_reason_counts() -> None:
    deferred = DeferredCommits()
    deferred.add(Local(3), Unavailable())
    later = RateLimited(retry_after_ms=5)
    deferred.add(Local(3), later)
    assert deferred.unready[deferred.first] is later


@pytest.mark.rule("COMMIT-10")
def test_what_is_put_off_again_and_again_takes_no_more_memory() -> None:
    deferred = DeferredCommits()
    for _ in range(1_000):
        deferred.add(Local(1), Unavailable())
        deferred.remove(Local(1))
    assert len(deferred._lowest) == 0
