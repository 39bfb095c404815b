"""What a step of the cache writes: each entity once, whole watches, within the bound; and the vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cache_vectors import run
from stemmadb.client.cache.contents import CacheContents
from stemmadb.client.cache.equality import canonical, query_of
from stemmadb.client.cache.ledger import UNUSED_MS, CacheLedger
from stemmadb.client.cache.records import CacheHead
from stemmadb.client.nursery.changes import ConfirmedChanges
from stemmadb.client.nursery.confirmed import Confirmed, Membership
from stemmadb.client.nursery.entities import CachedEntity
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Hash, TimeMs, Version

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "vectors" / "cache.json").read_text())
IDS = tuple(EntityId(f"urn:e:{number}") for number in range(5))
VALUE: dict[str, Any] = {"text": "x" * 50}
SIZE = len(encode(VALUE))


class Cached:
    """Confirmed values, a ledger and what its steps come to."""

    def __init__(self, *, bytes_max: int = 10**6) -> None:
        self.confirmed = Confirmed()
        self.confirmed.changes = ConfirmedChanges()
        self.ledger = CacheLedger(bytes_max=bytes_max)
        self.contents = CacheContents()
        self.evicted: list[int] = []
        self.written = 0

    def watch(self, number: int, ids: tuple[EntityId, ...], *, used: int) -> None:
        self.confirmed.watches[number] = Membership(MAIN)
        query = Query((Root("urn:e:*", "", {"const": number}),))
        self.ledger.register(number, canonical(query), MAIN, now=TimeMs(used))
        for id_ in ids:
            self.confirmed.put((MAIN, id_), CachedEntity(VALUE, Version(1), Hash(bytes(32))))
            self.confirmed.enter(number, id_)
        self.confirmed.fill(number)

    def write(self, time: int, *in_use: int) -> None:
        changes, self.confirmed.changes = self.confirmed.changes, ConfirmedChanges()
        assert changes is not None
        head = CacheHead(Version(1), Hash(bytes(32)), TimeMs(time), None, b"")
        step, evicted = self.ledger.step(self.confirmed, changes, head, in_use)
        self.evicted += evicted
        if step is not None:
            self.contents.take(step)
            self.written += len(step.put)

    def end(self, number: int) -> None:
        self.confirmed.empty(number)
        del self.confirmed.watches[number]
        self.ledger.unregister(number)

    @property
    def stored(self) -> set[EntityId]:
        state = self.contents.state()
        return set() if state is None else {id_ for _, id_ in state.entities}


@pytest.mark.rule("CACHE-1", "CACHE-5")
def test_a_thousand_watches_store_each_entity_once_and_drop_it_with_the_last() -> None:
    cached = Cached()
    for number in range(1, 1001):
        cached.watch(number, IDS, used=number)
    cached.write(1_000)
    assert (cached.written, cached.stored, cached.ledger.bytes) == (5, set(IDS), 5 * SIZE)
    for number in range(1, 1000):
        cached.end(number)
    cached.write(1_001)
    assert (cached.written, cached.stored) == (5, set(IDS))
    cached.end(1_000)
    cached.write(1_002)
    assert (cached.stored, cached.ledger.bytes, cached.contents.state()) == (set(), 0, None)


@pytest.mark.rule("CACHE-5")
def test_one_entity_too_many_costs_the_least_recently_used_watch() -> None:
    cached = Cached(bytes_max=3 * SIZE)
    cached.watch(1, IDS[:2], used=5)
    cached.watch(2, IDS[1:3], used=4)
    cached.write(10)
    assert cached.stored == set(IDS[:3])
    cached.watch(3, IDS[3:4], used=9)
    cached.write(11)
    assert cached.evicted == [2]
    assert cached.stored == {*IDS[:2], IDS[3]}
    assert cached.ledger.bytes == 3 * SIZE
    cached.watch(4, IDS, used=20)
    cached.write(21, 4)
    assert cached.evicted == [2, 1, 3, 4], "one that does not fit alone is not cached"
    assert cached.stored == set()


@pytest.mark.rule("CACHE-5")
def test_a_watch_that_nobody_used_for_30_days_goes_before_all_others() -> None:
    cached = Cached(bytes_max=2 * SIZE)
    cached.watch(1, IDS[:1], used=100)
    cached.watch(2, IDS[1:2], used=50)
    cached.write(100)
    cached.watch(3, IDS[2:3], used=100 + UNUSED_MS)
    cached.write(100 + UNUSED_MS)
    assert cached.evicted == [2]
    cached = Cached(bytes_max=2 * SIZE)
    cached.watch(1, IDS[:1], used=100)
    cached.watch(2, IDS[1:2], used=50)
    cached.write(100)
    cached.watch(3, IDS[2:3], used=110)
    cached.write(110, 2)
    assert cached.evicted == [1], "what the app has open goes last"


@pytest.mark.rule("CACHE-3")
def test_queries_are_equal_by_their_canonical_json() -> None:
    one = Query((Root("urn:e:*", "", {"type": "object", "required": ["a"]}),))
    other = Query((Root("urn:e:*", "", {"required": ["a"], "type": "object"}),))
    assert canonical(one) == canonical(other)
    assert canonical(one) != canonical(Query(one.roots, "draft"))
    assert query_of(canonical(one)) == one


@pytest.mark.rule("CACHE-1", "CACHE-2", "CACHE-3", "CACHE-5")
@pytest.mark.parametrize("case", VECTORS["cases"], ids=lambda case: case["name"])
def test_vectors(case: dict[str, Any]) -> None:
    expected = {name: case[name] for name in ("cache", "open", "view")}
    assert run(case) == expected
