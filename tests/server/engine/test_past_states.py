"""Past states in memory: only what was read, only between the versions where it is known, and never too much."""

from __future__ import annotations

import random
from bisect import bisect_right

import pytest

from stemmadb.protocol.model.values.ids import MAIN, EntityId, Hash, Version
from stemmadb.server.engine.read.past_states import (
    HISTORY_BYTES,
    LEAVES_MAX,
    STATE_BYTES,
    BlameKey,
    PastCache,
    PastState,
    PastStates,
)

X, Y = EntityId("urn:x"), EntityId("urn:y")


ONE: int = HISTORY_BYTES + len(X) + STATE_BYTES + 100
"""What an entity with one state of 100 bytes counts for."""


def state(version: int, size: int = 1) -> PastState:
    return PastState(Version(version), Hash(version.to_bytes(32, "big")), b"x" * size)


def keep(past: PastStates, id_: EntityId, kept: PastState, asked: int, floor: int = 0, generation: int = 0) -> None:
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
def test_nothing_below_the_floor_is_found() -> None:
    past = PastCache(1 << 20).share()
    for asked in (4, 6, 20):  # a tag keeps 4, another one 6, and none what lies between them
        keep(past, X, state(3), asked=asked, floor=10)
    found = [past.find(MAIN, X, Version(at)) is not None for at in (3, 4, 5, 6, 9, 10, 20, 21)]
    assert found == [False] * 5 + [True, True, False]


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
    cache = PastCache(10 * ONE)
    one, other = cache.share(), cache.share()
    keep(one, X, state(1, 100), asked=1)
    assert other.find(MAIN, X, Version(1)) is None
    keep(other, X, state(2, 100), asked=2)
    one.forget()
    assert other.find(MAIN, X, Version(2)) == state(2, 100)
    assert cache.bytes == ONE
    other.forget()
    assert cache.bytes == 0


def test_the_entity_that_was_read_longest_ago_goes_first() -> None:
    cache = PastCache(5 * ONE)
    past = cache.share()
    ids = [EntityId(f"urn:{number}") for number in range(5)]
    for id_ in ids:
        keep(past, id_, state(1, 100), asked=1)
    assert past.find(MAIN, ids[0], Version(1)) is not None
    keep(past, Y, state(1, 100), asked=1)
    assert [past.find(MAIN, id_, Version(1)) is not None for id_ in ids] == [True, False, True, True, True]
    assert cache.bytes == 5 * ONE


def test_one_entity_with_a_long_history_does_not_take_it_all() -> None:
    cache = PastCache(8 * ONE)
    past = cache.share()
    keep(past, Y, state(1, 100), asked=1)
    for version in range(1, 100):
        keep(past, X, state(version, 100), asked=version)
        assert cache.bytes <= 3 * ONE
    assert past.find(MAIN, Y, Version(1)) is not None


@pytest.mark.rule("HISTORY-2")
def test_of_all_blames_the_last_is_kept_until_its_space_forgets_it() -> None:
    cache = PastCache(10 * ONE)
    one, other = cache.share(), cache.share()
    key, leaves = BlameKey(MAIN, X, Version(1), ""), (("/a", Version(1)),)
    one.keep_blamed(key, leaves, generation=one.generation)
    other.forget()
    assert (one.blamed(key), other.blamed(key)) == (leaves, None)
    one.keep_blamed(key._replace(path="/b"), leaves * (LEAVES_MAX + 1), generation=one.generation)
    assert one.blamed(key._replace(path="/b")) is None
    before = one.generation
    one.forget()
    one.keep_blamed(key, leaves, generation=before)
    assert one.blamed(key) is None
