"""Facts, commits and the chain: what a hash covers, and that verify finds every change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from blake3 import blake3
from hypothesis import given, settings
from hypothesis import strategies as st

from chains import History, make_space, verified
from stemmadb.protocol.errors import BrokenChain
from stemmadb.protocol.model.log import chain, commit_record, facts
from stemmadb.protocol.model.log.commit_record import Commit, Compact, Erase
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, EntityId, Hash, Version


@pytest.mark.rule("FACT-3")
def test_a_history_made_by_admission_verifies_to_its_end() -> None:
    space = make_space()
    last = list(chain.verify(space.space, space.history))[-1]
    assert (last.version, last.hash, last.facts) == (space.version, space.hash, 7)


@pytest.mark.rule("FACT-2")
def test_the_hash_of_a_fact_is_the_documented_one() -> None:
    space = make_space()
    fact = space.history[0][1][0]
    assert fact.salt is not None
    assert fact.body is not None
    digest = blake3(fact.salt + fact.body).digest()
    empty = blake3(encode(["stemma.v1 empty", "urn:x"])).digest()
    assert fact.parent == empty
    assert fact.hash == blake3(encode(["stemma.v1 fact", "set", "urn:x", empty, digest])).digest()


@pytest.mark.rule("FACT-3")
def test_the_hash_of_a_commit_is_the_documented_one() -> None:
    space = make_space()
    record, its_facts = space.history[0]
    assert isinstance(record.identity, commit_record.LocalIdentity)
    assert record.note_salt is not None
    assert record.note is not None
    preimage = [
        "stemma.v1 commit",
        space.space,
        blake3(encode(["stemma.v1 space", space.space])).digest(),
        1,
        encode(None),
        "main",
        record.author,
        record.identity.session,
        record.identity.local,
        record.time,
        record.request,
        blake3(record.note_salt + record.note).digest(),
        [fact.hash for fact in its_facts],
        [],
    ]
    assert record.hash == blake3(encode(preimage)).digest()


@pytest.mark.rule("FACT-2")
def test_a_fact_on_a_branch_follows_the_one_before_the_fork() -> None:
    space = make_space()
    first, on_draft = space.history[0][1][0], space.history[2][1][0]
    on_main, on_twig = space.history[3][1][0], space.history[6][1][0]
    assert on_draft.parent == on_main.parent == first.hash
    assert on_twig.parent == on_draft.hash


def without_bodies(history: History, *versions: int, notes: bool = True) -> History:
    """The history with the bodies, and the notes, of these versions destroyed."""
    return [
        (record, its_facts)
        if record.version not in versions
        else (
            msgspec.structs.replace(record, note=None, note_salt=None) if notes else record,
            tuple(msgspec.structs.replace(fact, body=None, salt=None) for fact in its_facts),
        )
        for record, its_facts in history
    ]


@pytest.mark.rule("FACT-2", "ERASE-1")
def test_a_body_can_be_destroyed_with_its_salt_and_an_erasure_explains_it() -> None:
    space = make_space()
    space.structure(Erase(id=EntityId("urn:x"), versions=(Version(1), Version(3), Version(4))))
    space.structure(Erase(id=EntityId("urn:y"), versions=(Version(1),)))
    history = without_bodies(space.history, 1, 3, 4)
    assert verified(space, history) == space.version
    assert history[0][1][0].is_gone
    assert not history[3][1][0].is_gone


@pytest.mark.rule("FACT-2", "COMPACT-1")
def test_a_compaction_explains_the_bodies_below_its_floor_and_no_notes() -> None:
    space = make_space()
    space.structure(Compact(floor=Version(4)))
    assert verified(space, without_bodies(space.history, 1, 3, notes=False)) == space.version
    with pytest.raises(BrokenChain, match="version 1, commit: its body is gone"):
        verified(space, without_bodies(space.history, 1, 3))
    with pytest.raises(BrokenChain, match="version 4, fact 1"):
        verified(space, without_bodies(space.history, 1, 3, 4, notes=False))


@pytest.mark.rule("FACT-2", "ERASE-1")
def test_a_body_that_nothing_explains_is_lost_and_named() -> None:
    space = make_space()
    space.structure(Erase(id=EntityId("urn:x"), versions=(Version(1),)))
    with pytest.raises(BrokenChain, match=r"version 1, fact 1 \(urn:y\): its body is gone"):
        verified(space, without_bodies(space.history, 1))
    with pytest.raises(BrokenChain, match="version 3, fact 0"):
        verified(space, without_bodies(space.history, 3))


@pytest.mark.rule("FACT-2")
def test_the_border_between_salt_and_body_cannot_be_moved() -> None:
    space = make_space()
    record, its_facts = space.history[0]
    fact = its_facts[0]
    assert fact.salt is not None
    assert fact.body is not None
    moved = msgspec.structs.replace(fact, salt=fact.salt + fact.body[:3], body=fact.body[3:])
    with pytest.raises(BrokenChain, match="its body does not give its digest"):
        verified(space, replaced(space.history, 0, fact=moved))
    assert record.note is not None
    assert record.note_salt is not None
    note = msgspec.structs.replace(record, note_salt=record.note_salt + record.note[:1], note=record.note[1:])
    with pytest.raises(BrokenChain, match="message and metadata"):
        verified(space, replaced(space.history, 0, record=note))


def other(value: Any) -> Any:
    """Another value of the same type."""
    if isinstance(value, bytes):
        return bytes([value[0] ^ 1]) + value[1:] if value else b"\x00"
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    if isinstance(value, tuple):
        return (*value, value[0]) if value else (b"\x00" * 32,)
    return msgspec.structs.replace(value, principal=Did(value.principal + "x"))


def replaced(
    history: History, at: int, record: Commit | None = None, fact: Fact | None = None, index: int = 0
) -> History:
    old_record, old_facts = history[at]
    new_facts = old_facts if fact is None else (*old_facts[:index], fact, *old_facts[index + 1 :])
    return [*history[:at], (record or old_record, new_facts), *history[at + 1 :]]


FACT_FIELDS = [name for name in Fact.__struct_fields__ if name != "kind"]


@pytest.mark.rule("FACT-2", "FACT-3")
@pytest.mark.parametrize("name", FACT_FIELDS)
@pytest.mark.parametrize("at", [0, 2, 6])
def test_a_change_in_any_field_of_a_fact_is_found_at_its_place(name: str, at: int) -> None:
    space = make_space()
    fact = space.history[at][1][0]
    changed = msgspec.structs.replace(fact, **{name: other(getattr(fact, name))})
    with pytest.raises(BrokenChain) as caught:
        verified(space, replaced(space.history, at, fact=changed))
    assert caught.value.facts["version"] == at + 1
    assert caught.value.facts["place"].startswith("fact")


@pytest.mark.rule("FACT-2")
@pytest.mark.parametrize(
    ("at", "index", "change", "why"),
    [
        (0, 0, {"kind": "patch"}, "does not give its hash"),
        (0, 0, {"body": None}, "does not give its digest"),
        (0, 0, {"salt": None}, "does not give its digest"),
        (3, 0, {"digest": Hash(b"\x00" * 32)}, "a delete has no body"),
        (3, 0, {"kind": "set"}, "does not give its hash"),
        (3, 0, {"body": b"", "salt": b""}, "a delete has no body"),
    ],
)
def test_a_fact_of_another_kind_or_with_half_a_body_is_found(at: int, index: int, change: Any, why: str) -> None:
    space = make_space()
    fact = msgspec.structs.replace(space.history[at][1][index], **change)
    with pytest.raises(BrokenChain, match=why):
        verified(space, replaced(space.history, at, fact=fact, index=index))


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize("name", Commit.__struct_fields__)
def test_a_change_in_any_field_of_a_commit_is_found(name: str) -> None:
    space = make_space()
    record = space.history[0][0]
    changed = msgspec.structs.replace(record, **{name: other(getattr(record, name))})
    with pytest.raises(BrokenChain) as caught:
        verified(space, replaced(space.history, 0, record=changed))
    assert caught.value.facts["version"] == 1


@pytest.mark.rule("FACT-3")
@pytest.mark.parametrize(
    ("tamper", "version"),
    [
        (lambda history: history[1:], 1),
        (lambda history: history[:2] + history[3:], 3),
        (lambda history: [history[0], history[2], history[1], *history[3:]], 2),
        (lambda history: [history[0], *history], 2),
        (lambda history: [*history[:3], (history[3][0], history[3][1][::-1]), *history[4:]], 4),
        (lambda history: [*history[:3], (history[3][0], history[3][1][:1]), *history[4:]], 4),
    ],
)
def test_what_is_missing_doubled_or_out_of_order_is_found(tamper: Callable[[History], History], version: int) -> None:
    space = make_space()
    with pytest.raises(BrokenChain) as caught:
        verified(space, tamper(space.history))
    assert caught.value.facts["version"] == version


@pytest.mark.rule("FACT-3")
@given(st.integers(0, 6), st.data())
@settings(derandomize=True, deadline=None, max_examples=150)
def test_one_flipped_bit_anywhere_is_found(at: int, data: st.DataObject) -> None:
    space = make_space()
    record, its_facts = space.history[at]
    part: Any = data.draw(st.sampled_from([record, *its_facts]))
    name = data.draw(st.sampled_from([f for f in part.__struct_fields__ if isinstance(getattr(part, f), bytes)]))
    raw = bytearray(getattr(part, name))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = msgspec.structs.replace(part, **{name: bytes(raw)})
    if isinstance(changed, Commit):
        history = replaced(space.history, at, record=changed)
    else:
        history = replaced(space.history, at, fact=changed, index=changed.index)
    with pytest.raises(BrokenChain) as caught:
        verified(space, history)
    assert caught.value.facts["version"] == at + 1


@pytest.mark.rule("FACT-4")
def test_the_tags_of_all_hashes_are_distinct() -> None:
    from stemmadb.protocol.model.commit import request

    tags = [facts.TAG_EMPTY, facts.TAG_FACT, commit_record.TAG_COMMIT, commit_record.TAG_GENESIS, request.TAG_REQUEST]
    assert len(set(tags)) == len(tags)
    assert facts.empty(EntityId("urn:x")) != facts.empty(EntityId("urn:y"))


@pytest.mark.rule("COMMIT-5")
def test_the_request_digest_covers_the_content_and_the_nonce() -> None:
    from stemmadb.protocol.model.commit.request import digest_request

    digests = {digest_request(n, c) for n, c in [(b"n", b"c"), (b"m", b"c"), (b"n", b"d"), (b"nc", b"")]}
    assert len(digests) == 4
    assert digest_request(b"n", b"c") == blake3(encode(["stemma.v1 request", b"n", b"c"])).digest()
