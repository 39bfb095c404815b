"""The index of watchers: a change finds those it concerns, and looks at nobody else (WATCH-2)."""

from __future__ import annotations

from random import Random

import pytest

from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.server.service.watch.watch_index import WatchIndex, narrowed_ids, narrowed_prefixes

MAIN, DRAFT = BranchName("main"), BranchName("draft")
A, B = EntityId("urn:a"), EntityId("urn:b")


@pytest.mark.rule("WATCH-2")
@pytest.mark.parametrize("seed", range(20))
def test_it_finds_what_a_look_at_every_watcher_finds(seed: int) -> None:
    random = Random(seed)
    index: WatchIndex[int] = WatchIndex()
    known: dict[int, tuple[BranchName, set[EntityId], tuple[str, ...]]] = {}
    ids = [EntityId(f"urn:{kind}:{number}") for kind in ("x", "yy") for number in range(6)]
    for watcher in range(120):
        branch = random.choice((MAIN, DRAFT))
        chosen = set(random.sample(ids, random.randrange(4)))
        prefixes = tuple(random.sample(("", "urn:x", "urn:yy:", "urn:x:1"), random.choice((0, 0, 1, 2))))
        index.add(watcher, branch, ids=chosen, prefixes=prefixes)
        known[watcher] = (branch, chosen, prefixes)
        changed = random.choice(sorted(known))
        more, fewer = set(random.sample(ids, 3)) - known[changed][1], set(sorted(known[changed][1])[:1])
        index.change(changed, watched=more, unwatched=fewer)
        known[changed][1].update(more)
        known[changed][1].difference_update(fewer)
        if random.random() < 0.5:
            dropped = random.choice(sorted(known))
            index.drop(dropped)
            index.drop(dropped)
            del known[dropped]
        written = {branch: random.sample(ids, 3) for branch in (MAIN, DRAFT, BranchName("other"))}
        assert index.find(written) == {
            one: concerned
            for one, (on, its, under) in known.items()
            if (concerned := [id_ for id_ in written[on] if id_ in its or id_.startswith(under)])
        }
        assert len(index) == len(known)
        for one, (on, its, under) in known.items():
            assert index.concerns(one, ids) == [id_ for id_ in ids if id_ in its or id_.startswith(under)]
            assert one in index.watching(on)
    for watcher in tuple(known):
        index.drop(watcher)
    assert not index._branches
    assert not index._watched


def test_a_watcher_by_id_and_by_prefix_is_found_once() -> None:
    index: WatchIndex[str] = WatchIndex()
    index.add("w", MAIN, ids=[A], prefixes=("urn:", ""))
    index.add("other", MAIN, ids=[A], prefixes=())
    assert index.find({MAIN: [A, B]}) == {"w": [A, B], "other": [A]}
    index.drop("w")
    assert index.find({MAIN: [A, B]}) == {"other": [A]}


def test_a_scope_narrows_ids_and_prefixes() -> None:
    assert narrowed_ids([A, B], ("urn:b", "urn:c")) == [B]
    assert narrowed_ids([A, B], ()) == []
    assert narrowed_prefixes(("",), ("urn:b", "urn:a")) == ("urn:a", "urn:b")
    assert narrowed_prefixes(("urn:a:1", "urn:c"), ("urn:a", "urn:b")) == ("urn:a:1",)
    assert narrowed_prefixes(("urn:a",), ("urn:a:1", "urn:a:2", "urn:a:1")) == ("urn:a:1", "urn:a:2")
    assert narrowed_prefixes(("urn:a",), ()) == ()
