"""What is not durable yet, by prefix: the same as looking at all of it, at the cost of what is there."""

from __future__ import annotations

import random

import msgspec
import pytest

from stemmadb.protocol.model.log.state import EntityState, empty_state
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, Version
from stemmadb.server.engine.base.head_cache import Key
from stemmadb.server.engine.write.heads_by_prefix import Prefixed

DRAFT = BranchName("draft")


class Counted(dict[Key, EntityState]):
    """Heads that count how many of them were looked at."""

    looked = 0

    def __getitem__(self, key: Key) -> EntityState:
        self.looked += 1
        return super().__getitem__(key)


def head(id_: str, seen_after: int = 0) -> EntityState:
    return msgspec.structs.replace(empty_state(EntityId(id_)), seen_after=Version(seen_after))


def ids_under(prefixed: Prefixed, branch: BranchName, prefix: str) -> list[str]:
    return [found.id for found in prefixed.under(branch, prefix)]


@pytest.mark.rule("COMMIT-2")
def test_what_is_under_a_prefix_is_what_begins_with_it() -> None:
    chance = random.Random(7)
    letters = "ab:\U0010ffffé"
    texts = {"".join(chance.choices(letters, k=chance.randint(1, 5))) for _ in range(400)}
    heads = {
        (branch, EntityId(text)): head(text, chance.randint(0, 9))
        for text in texts
        for branch in (MAIN, DRAFT)
        if chance.random() < 0.7
    }
    prefixed = Prefixed(heads)
    for branch in (MAIN, DRAFT, BranchName("none")):
        for prefix in ("", "zz", *chance.sample(sorted(texts), 60), *(text[:2] for text in texts)):
            right = sorted(id_ for name, id_ in heads if name == branch and id_.startswith(prefix))
            assert ids_under(prefixed, branch, prefix) == right
            seen = max((heads[branch, EntityId(id_)].seen_after for id_ in right), default=0)
            assert prefixed.seen_after(branch, prefix) == seen


def test_a_read_of_a_prefix_looks_only_at_what_is_under_it() -> None:
    heads = Counted({(MAIN, EntityId(f"urn:{n:04}")): head(f"urn:{n:04}", n) for n in range(1_000)})
    prefixed = Prefixed(heads)
    for prefix, count in (("urn:none", 0), ("urn:001", 10), ("urn:9", 0), ("urn:0999", 1), ("a", 0)):
        heads.looked = 0
        assert len(ids_under(prefixed, MAIN, prefix)) == heads.looked == count


def test_many_reads_of_one_prefix_look_at_what_is_under_it_once() -> None:
    heads = Counted({(MAIN, EntityId(f"urn:{n:04}")): head(f"urn:{n:04}", n) for n in range(1_000)})
    prefixed = Prefixed(heads)
    assert {prefixed.seen_after(MAIN, "urn:") for _ in range(50)} == {999}
    assert heads.looked == 1_000
    assert (MAIN, EntityId("urn:0001")) in prefixed
    assert (DRAFT, EntityId("urn:0001")) not in prefixed
