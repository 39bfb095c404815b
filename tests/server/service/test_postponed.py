"""Commits that are to be sent again: the lowest is at hand, whatever comes and goes."""

from __future__ import annotations

from random import Random

import pytest

from stemmadb.protocol.errors import RateLimited, Unavailable
from stemmadb.protocol.model.ids import Local
from stemmadb.server.service.postponed import Postponed


@pytest.mark.rule("COMMIT-10")
@pytest.mark.parametrize("seed", range(20))
def test_the_lowest_is_that_of_a_plain_map(seed: int) -> None:
    random, postponed, plain = Random(seed), Postponed(), {}
    for _ in range(200):
        local = Local(random.randint(1, 30))
        match random.choice(("add", "add", "remove", "remove_up_to")):
            case "add":
                plain[local] = Unavailable()
                postponed.add(local, plain[local])
            case "remove":
                plain.pop(local, None)
                postponed.remove(local)
            case _:
                plain = {one: why for one, why in plain.items() if one > local}
                postponed.remove_up_to(local)
        assert postponed.unready == plain
        assert bool(postponed) is bool(plain)
        if plain:
            assert postponed.first == min(plain)


@pytest.mark.rule("COMMIT-10")
def test_the_last_reason_counts() -> None:
    postponed = Postponed()
    postponed.add(Local(3), Unavailable())
    later = RateLimited(retry_after_ms=5)
    postponed.add(Local(3), later)
    assert postponed.unready[postponed.first] is later


@pytest.mark.rule("COMMIT-10")
def test_what_is_put_off_again_and_again_takes_no_more_memory() -> None:
    postponed = Postponed()
    for _ in range(1_000):
        postponed.add(Local(1), Unavailable())
        postponed.remove(Local(1))
    assert len(postponed._lowest) == 0
