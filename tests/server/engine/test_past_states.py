"""Past states in memory: only what was read, only between the versions where it is known, and never too much."""

from __future__ import annotations

import random
from bisect import bisect_right

import pytest

from stemmadb.protocol.model.ids import MAIN, EntityId, Hash, Version
from stemmadb.server.engine.past_states import STATE_BYTES, PastCache, PastStates, State

X, Y = EntityId("urn:x"), EntityId("urn:y")


def state(version: int, size: int = 1) -> State:
    return State(Version(version), Hash(version.to_bytes(32, "big")), b"x" * size)


def keep(past: PastStates, id_: EntityId, kept: State, asked: int, floor: int = 0, generation: int = 0) -> None:
    past.keep(MAIN, id_, kept, asked=Version(asked), floor=Version(floor), generation=generation)


@pytest.mark.rule("HISTORY-2")
@pytest.mark.parametrize("seed", range(30))
def test_what_is_found_is_what_the_history_says(seed: int) -> None:
    """The oracle: an entity that was written at some versions, read at others."""
    chance = random.Random(seed)
    written = sorted(chance.sample(range(1, 200), 40))
    past = PastCache(1 << 20).share()
    answers = 0
    for _ in range(500):
        asked = chance.randint(written[0], 220)
        true = state(written[bisect_right(written, asked) - 1])
        found = past.find(MAIN, X, Version(asked))
        assert found in (None, true)
        answers += found is not None
        if chance.random() < 0.5:
            keep(past, X, true, asked)
            assert past.find(MAIN, X, Version(asked)) == true
    assert answers > 100


@pytest.mark.rule("COMPACT-1")
def test_nothing_below_the_floor_is_found_but_what_a_tag_kept() -> None:
    past = PastCache(1 << 20).share()
    keep(past, X, state(3), asked=20, floor=10)
    keep(past, X, state(2), asked=2, floor=10)  # which a tag kept
    found = [past.find(MAIN, X, Version(at)) is not None for at in (1, 2, 3, 9, 10, 20, 21)]
    assert found == [False, True, False, False, True, True, False]


@pytest.mark.rule("ERASE-1")
def test_what_was_read_before_all_was_forgotten_is_not_kept_after_it() -> None:
    past = PastCache(1 << 20).share()
    before = past.generation
    keep(past, X, state(1), asked=5)
    past.forget()
    assert past.find(MAIN, X, Version(5)) is None
    keep(past, X, state(1), asked=5, generation=before)
    assert past.find(MAIN, X, Version(5)) is None


def test_spaces_share_one_bound_and_nothing_else() -> None:
    cache = PastCache(10 * (STATE_BYTES + 100))
    one, other = cache.share(), cache.share()
    keep(one, X, state(1, 100), asked=1)
    assert other.find(MAIN, X, Version(1)) is None
    keep(other, X, state(2, 100), asked=2)
    one.forget()
    assert other.find(MAIN, X, Version(2)) == state(2, 100)
    assert cache.bytes == STATE_BYTES + 100


def test_the_entity_that_was_read_longest_ago_goes_first() -> None:
    cache = PastCache(5 * (STATE_BYTES + 100))
    past = cache.share()
    for number in range(5):
        keep(past, EntityId(f"urn:{number}"), state(1, 100), asked=1)
    assert past.find(MAIN, EntityId("urn:0"), Version(1)) is not None
    keep(past, Y, state(1, 100), asked=1)
    left = [past.find(MAIN, EntityId(f"urn:{number}"), Version(1)) is not None for number in range(5)]
    assert left == [True, False, True, True, True]
    assert cache.bytes == 5 * (STATE_BYTES + 100)


def test_one_entity_with_a_long_history_does_not_take_it_all() -> None:
    cache = PastCache(8 * (STATE_BYTES + 100))
    past = cache.share()
    keep(past, Y, state(1, 100), asked=1)
    for version in range(1, 100):
        keep(past, X, state(version, 100), asked=version)
        assert cache.bytes <= 3 * (STATE_BYTES + 100)
    assert past.find(MAIN, Y, Version(1)) is not None
