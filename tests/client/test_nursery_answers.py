"""Answers of the server that the nursery takes, and those it asks for again."""

from __future__ import annotations

import pytest

from nursery_hands import adding, hand
from space import set_
from stemmadb.protocol.model.values.ids import MAIN, EntityId


@pytest.mark.rule("NURSERY-1", "SYNC-4")
def test_an_answer_that_misses_an_own_accepted_commit_settles_nothing() -> None:
    id_ = "urn:a"
    one = hand("", set_(id_, {"n": 1}))
    old, at = one.held(id_, as_of=1), one.space.version
    first = one.write(adding(id_, 10), bases=[(id_, old)])
    one.write(adding(id_, 100))
    one.tell(first)
    key = (MAIN, EntityId(id_))
    assert not one.nursery.answered(key, old, at), "it is asked for again"
    assert one.nursery.answered(key, one.held(id_), one.space.version)
