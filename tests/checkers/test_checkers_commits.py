"""The checkers of logs, frames, reads, states and chains accept what is right, and name what is wrong."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from check_chain import broken_chain
from check_frames import Facts, Frame, torn_stream
from check_log import Acknowledged, Entry, disputed, doubled, fallen, gone_back, lost, resurrected, strangers
from check_reads import Observed, ServerRead, Told, changed_past, stale
from check_states import differing, diverged
from plain_bytes import body_digest, empty_hash, fact_hash, pack, space_hash
from plain_chain import commit_hash
from violations import SHOWN, Violated, Violation, expect_none

LOG = [Entry(version, f"commit {version}", 1_000 + version // 3, bytes([version])) for version in range(1, 8)]
ACKNOWLEDGED = [Acknowledged(one.identity, one.version, one.hash) for one in LOG[1:6]]
SPACE = "did:key:zSpace"


def kinds(found: Iterable[Violation]) -> list[str]:
    return [one.kind for one in found]


# ---------------------------------------------------------------- logs


def test_a_log_that_has_all_that_was_acknowledged_is_right() -> None:
    expect_none(lost(ACKNOWLEDGED, LOG), doubled(LOG), gone_back(LOG), disputed(ACKNOWLEDGED * 2))
    expect_none(strangers(LOG, [one.identity for one in LOG]), resurrected(LOG, ["commit 9"]))


def test_an_acknowledged_commit_that_is_lost_moved_or_altered_is_named() -> None:
    assert kinds(lost(ACKNOWLEDGED, LOG[:4])) == ["lost", "lost"]
    assert kinds(lost([replace(ACKNOWLEDGED[0], version=9)], LOG)) == ["moved"]
    assert kinds(lost([replace(ACKNOWLEDGED[0], hash=b"other")], LOG)) == ["altered"]
    assert kinds(lost([replace(ACKNOWLEDGED[0], hash=None)], LOG)) == []


def test_an_identity_that_is_there_twice_is_named() -> None:
    assert kinds(doubled([*LOG, replace(LOG[2], version=8)])) == ["doubled"]
    again = replace(ACKNOWLEDGED[0], version=9)
    assert kinds(disputed([*ACKNOWLEDGED, again])) == ["disputed"]
    assert kinds(disputed([*ACKNOWLEDGED, replace(ACKNOWLEDGED[0], identity="another")])) == ["disputed"]


def test_versions_and_times_that_go_back_are_named() -> None:
    assert kinds(gone_back(LOG[:2] + LOG[3:])) == ["version"]
    assert kinds(gone_back([*LOG, LOG[-1]])) == ["version"]
    assert kinds(gone_back([*LOG, Entry(8, "late", 5)])) == ["time"]
    assert kinds(fallen([1, 4, 4, 9], who="alice")) == []
    assert kinds(fallen([1, 4, 3, 3, 5], who="alice")) == ["fallen", "fallen"]


def test_what_nobody_made_and_what_was_refused_must_not_be_there() -> None:
    assert kinds(strangers(LOG, [one.identity for one in LOG[1:]])) == ["stranger"]
    assert kinds(resurrected(LOG, ["commit 3"])) == ["resurrected"]


def test_many_violations_are_told_in_short() -> None:
    with pytest.raises(Violated, match="and 5 more") as told:
        expect_none([Violation("lost", str(number)) for number in range(SHOWN + 5)])
    assert len(told.value.violations) == SHOWN + 5


# ---------------------------------------------------------------- frames

A, B, AB = frozenset({"a"}), frozenset({"b"}), frozenset({"a", "b"})
FACTS: dict[int, Facts] = {2: A, 3: AB, 6: B}
STREAM = [Frame(0, 2, ((2, A),)), Frame(2, 2), Frame(2, 5, ((3, AB),)), Frame(5, 7, ((6, B),))]


def test_frames_that_are_slices_of_the_log_are_right() -> None:
    assert kinds(torn_stream(STREAM, FACTS)) == []
    assert kinds(torn_stream(STREAM[2:], FACTS, since=2)) == []
    assert kinds(torn_stream([*STREAM[:2], Frame(0, 7, is_reset=True)], FACTS)) == []


@pytest.mark.parametrize(
    ("stream", "named"),
    [
        ([STREAM[0], STREAM[3]], ["gap"]),
        ([Frame(0, 7, ((2, A), (6, B)))], ["gap"]),
        ([*STREAM, STREAM[3]], ["repeated", "repeated"]),
        ([Frame(0, 7, ((2, A), (3, AB), (3, AB), (6, B)))], ["repeated"]),
        ([Frame(0, 7, ((3, AB), (2, A), (6, B)))], ["order"]),
        ([Frame(0, 2, ((2, A), (3, AB))), STREAM[2]], ["ahead", "repeated"]),
        ([Frame(0, 7, ((2, A), (3, A), (6, B)))], ["torn"]),
        ([Frame(0, 7, ((2, A), (3, AB), (4, B), (6, B)))], ["torn"]),
        ([*STREAM[:3], Frame(5, 4)], ["back"]),
    ],
)
def test_a_stream_that_is_no_slice_of_the_log_is_named(stream: list[Frame], named: list[str]) -> None:
    assert kinds(torn_stream(stream, FACTS))[: len(named)] == named


# ---------------------------------------------------------------- reads


def test_a_read_is_as_new_as_what_was_acknowledged_before_it_began() -> None:
    told = [Told(3.0, 7), Told(1.0, 5), Told(2.0, 4)]
    expect_none(stale(told, [ServerRead(0.5, 0), ServerRead(1.0, 0), ServerRead(2.5, 5), ServerRead(9.0, 8)]))
    assert kinds(stale(told, [ServerRead(2.5, 4), ServerRead(3.5, 6), ServerRead(3.5, 7)])) == ["stale", "stale"]


def test_a_past_state_that_changes_is_named_and_one_that_is_gone_stays_gone() -> None:
    seen: list[Observed[object]] = [Observed(1, {"n": 1}), Observed(2, {"n": 2}), Observed(1, {"n": 1})]
    expect_none(changed_past(seen))
    assert kinds(changed_past([*seen, Observed(2, {"n": 3})])) == ["past"]
    erased: list[Observed[object]] = [*seen, Observed(2, "gone"), Observed(2, "gone")]
    assert kinds(changed_past(erased)) == ["past"]
    assert kinds(changed_past(erased, gone=lambda state: state == "gone")) == []
    assert kinds(changed_past([*erased, Observed(2, {"n": 2})], gone=lambda state: state == "gone")) == ["past"]


# ---------------------------------------------------------------- states


def test_a_watcher_and_all_views_hold_what_is_there() -> None:
    truth = {"a": 1, "b": 2}
    expect_none(differing(dict(truth), truth, who="watch 1"), diverged({"alice": truth, "bob": truth}, truth))
    assert kinds(differing({"a": 1, "c": 3}, truth, who="watch 1")) == ["missing", "held"]
    assert kinds(differing({"a": 0, "b": 2}, truth, who="watch 1")) == ["differs"]
    assert kinds(diverged({"alice": truth, "bob": {"a": 1}}, truth)) == ["diverged"]


# ---------------------------------------------------------------- chains


def entry_of(version: int, previous: bytes, parent: bytes) -> dict[str, Any]:
    """A commit that sets one entity, as `log` tells it."""
    body, salt = pack({"n": version}), bytes([version]) * 16
    hashed = fact_hash("set", "urn:a", parent, body_digest(salt, body))
    item = {"index": 0, "kind": "set", "id": "urn:a", "parent": parent, "salt": salt, "body": body}
    made: dict[str, Any] = {
        "version": version, "previous": previous, "branch": "main", "author": "did:key:zAlice", "session": b"s" * 16,
        "local": version, "time": 1_000, "request": b"r" * 32, "note_digest": body_digest(None, None),
        "facts": [hashed], "items": [item],
    }  # fmt: skip
    return made | {"hash": commit_hash(SPACE, made)}


def a_chain(count: int) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for version in range(1, count + 1):
        previous, parent = (entries[-1]["hash"], entries[-1]["facts"][0]) if entries else (space_hash(SPACE), None)
        entries.append(entry_of(version, previous, parent or empty_hash("urn:a")))
    return entries


def test_a_chain_verifies_or_its_first_broken_link_is_named() -> None:
    entries = a_chain(4)
    expect_none(broken_chain(SPACE, entries, tip=entries[-1]["hash"]))
    assert kinds(broken_chain(SPACE, entries[:-1], tip=entries[-1]["hash"])) == ["chain"]
    assert kinds(broken_chain(SPACE, entries[:1] + entries[2:])) == ["chain"]
    entries[2]["items"][0]["body"] = pack({"n": 9})
    [violation] = broken_chain(SPACE, entries)
    assert violation.what == "version 3: the hash of urn:a"
