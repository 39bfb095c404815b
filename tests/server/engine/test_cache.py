"""The cache of heads and the other bounded memories of a writer."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from stemmadb.protocol.model.log.changes import Changes, RecordedChange
from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.body import encode, read_stored
from stemmadb.protocol.model.values.ids import MAIN, Did, EntityId, Hash, Version
from stemmadb.server.engine.base.head_cache import CHANGE_BYTES, HEAD_BYTES, VALUE_FACTOR, HeadCache, Key, footprint
from stemmadb.server.engine.write.due_snapshots import Backlog, Due
from stemmadb.server.engine.write.lru import Recent
from stemmadb.server.storage.port import FactPosition


def key(number: int) -> Key:
    return MAIN, EntityId(f"urn:{number}")


def head(number: int, size: int = 0, changes: Changes | None = None) -> EntityState:
    id_ = EntityId(f"urn:{number}")
    return EntityState(id_, Version(1), Hash(b""), None, size, changes, Version(0), Version(1))


def test_a_head_counts_by_its_value_and_its_changes() -> None:
    change = RecordedChange(Version(1), Did("did:key:x"), None)
    assert footprint(head(1)) == HEAD_BYTES
    assert footprint(head(1, 10, Changes([change] * 5, 3))) == HEAD_BYTES + 10 * VALUE_FACTOR + 3 * CHANGE_BYTES


def test_the_head_that_was_not_used_for_longest_goes_first() -> None:
    cache = HeadCache(3 * HEAD_BYTES)
    share = cache.share()
    for number in (1, 2, 3):
        share.put({key(number): head(number)})
    assert share.find([key(1)])[0] is not None
    share.put({key(4): head(4)})
    assert share.find([key(2)])[0] is None
    assert all(share.find([key(number)])[0] is not None for number in (1, 3, 4))


def test_the_bytes_never_pass_the_bound_and_are_counted_exactly() -> None:
    cache = HeadCache(10 * HEAD_BYTES)
    share = cache.share()
    held: dict[int, EntityState] = {}
    for step in range(500):
        number = step * 7 % 23
        held[number] = head(number, size=step * 13 % 400)
        share.put({key(number): held[number]})
        assert cache.bytes <= 10 * HEAD_BYTES
        there = [one for number, one in held.items() if share.find([key(number)])[0] is one]
        assert cache.bytes == sum(map(footprint, there))
        assert len(cache) == len(there) >= 1


def test_a_head_larger_than_the_cache_is_not_kept_and_costs_no_other_its_place() -> None:
    cache = HeadCache(2 * HEAD_BYTES)
    share = cache.share()
    share.put({key(1): head(1)})
    share.put({key(2): head(2)})
    share.put({key(2): head(2, size=HEAD_BYTES)})
    assert share.find([key(2)])[0] is None
    assert share.find([key(1)])[0] is not None
    assert cache.bytes == HEAD_BYTES


def test_a_head_put_again_replaces_the_one_before() -> None:
    cache = HeadCache(4 * HEAD_BYTES)
    share = cache.share()
    share.put({key(1): head(1, size=100)})
    share.put({key(1): (newer := head(1, size=10))})
    assert share.find([key(1)])[0] is newer
    assert cache.bytes == footprint(newer)


def test_spaces_share_one_bound_and_drop_only_their_own() -> None:
    cache = HeadCache(3 * HEAD_BYTES)
    one, other = cache.share(), cache.share()
    one.put({key(1): head(1)})
    other.put({key(1): (theirs := head(1))})
    assert one.find([key(1)])[0] is not theirs
    one.drop()
    assert one.find([key(1)])[0] is None
    assert other.find([key(1)])[0] is theirs
    assert cache.bytes == HEAD_BYTES
    for number in (2, 3, 4):
        one.put({key(number): head(number)})
    assert other.find([key(1)])[0] is None


DOCUMENT = {
    "title": "write the spec of the storage",
    "done": False,
    "tags": ["a", "b", "important"],
    "by": {"name": "alice", "at": 1_700_000_000_000},
    "note": "x" * 60,
    "score": 1.5,
}


def test_what_a_typical_document_takes_is_not_estimated_too_low() -> None:
    body = encode(DOCUMENT)
    cache = HeadCache(1 << 30)
    share = cache.share()
    gc.collect()
    tracemalloc.start()
    for number in range(2_000):
        id_ = EntityId(f"urn:todo:{number:08d}")
        changes = Changes([RecordedChange(Version(number + 1_000), Did("did:key:x"), ("/done",))], 1)
        hash_ = Hash(b"%032d" % number)
        version = Version(number + 100_000)
        state = EntityState(id_, version, hash_, read_stored(body), len(body), changes, Version(number), version)
        share.put({(MAIN, id_): state})
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert 0.7 * cache.bytes < taken < 1.1 * cache.bytes


def test_recent_keeps_what_was_used_last_within_its_count() -> None:
    recent: Recent[str, int | None] = Recent(2)
    recent.put("a", 1)
    recent.put("b", None)
    assert "b" in recent
    assert recent.get("a") == 1
    recent.put("c", 3)
    assert "b" not in recent
    assert recent.get("b") is None
    recent.put("a", 5)
    recent.put("d", 4)
    assert (recent.get("a"), recent.get("c"), len(recent)) == (5, None, 2)
    recent.clear()
    assert len(recent) == 0


def due(number: int, version: int, size: int = 1) -> Due:
    return Due(key(number), FactPosition(Version(version), 0), {"n": version}, size)


@pytest.mark.rule("SNAP-1")
def test_the_backlog_of_snapshots_is_bounded_by_count_and_by_bytes() -> None:
    backlog = Backlog(count_max=2, bytes_max=10)
    backlog.add([due(1, 1, 4), due(2, 2, 4), due(3, 3, 1)])
    assert [one.place.version for one in backlog.take()] == [1, 2]
    assert len(backlog.due) == 0
    backlog.add([due(1, 1, 6), due(2, 2, 5), due(3, 3, 4)])
    assert [one.place.version for one in backlog.take()] == [1, 3]
    backlog.add([due(1, 1, 10)])
    backlog.clear()
    backlog.add([due(2, 2, 10)])
    assert [one.place.version for one in backlog.take()] == [2]


@pytest.mark.rule("SNAP-1")
def test_a_backlog_presses_long_before_it_drops_any() -> None:
    """By count or by bytes: a batch then goes by a worker, which writes them."""

    def presses(*sizes: int) -> bool:
        backlog = Backlog(count_max=8, bytes_max=80)
        backlog.add([due(number, number, size) for number, size in enumerate(sizes, 1)])
        return backlog.is_pressing

    assert [presses(1), presses(1, 1), presses(19), presses(20)] == [False, True, False, True]


@pytest.mark.rule("SNAP-1", "HISTORY-3")
def test_every_snapshot_of_a_head_is_kept_as_far_as_there_is_room() -> None:
    backlog = Backlog(count_max=3, bytes_max=10)
    backlog.add([due(1, 1, 4), due(1, 2, 4), due(1, 3, 4), due(2, 4, 2), due(2, 5, 0)])
    assert [one.place.version for one in backlog.take()] == [1, 2, 4]


def test_what_is_known_to_be_missing_is_used_like_anything_else() -> None:
    recent: Recent[str, int | None] = Recent(2)
    recent.put("missing", None)
    recent.put("there", 1)
    assert recent.get("missing") is None
    recent.put("new", 2)
    assert "missing" in recent
    assert "there" not in recent


def test_heads_that_are_found_together_stay_longest_and_one_that_lacks_is_no_answer() -> None:
    cache = HeadCache(3 * footprint(head(1)))
    share = cache.share()
    share.put({key(number): head(number) for number in (1, 2, 3)})
    assert share.find_all([key(1), key(9)]) is None
    assert share.find_all([key(1), key(2)]) == {key(1): head(1), key(2): head(2)}
    share.put({key(4): head(4)})
    assert share.find([key(1), key(2), key(3), key(4)]) == [head(1), head(2), None, head(4)]
    assert cache.share().find_all([key(1)]) is None, "another space has none of them"
