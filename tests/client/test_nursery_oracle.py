"""Each rule of the nursery by name, on the pure object: no server, no clock, frames made by hand."""

from __future__ import annotations

import ast
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

import stemmadb.client.nursery
from nursery_hands import SESSION, Hand, adding, deleting, hand, patching, setting
from nursery_oracle import Log, Oracle, Read
from space import delete_, patch_, session_of, set_
from stemmadb.client.nursery.commit_names import CommitNames
from stemmadb.client.nursery.entities import ABSENT, UNKNOWN, CommitName
from stemmadb.client.nursery.pending import named
from stemmadb.client.nursery.plans import CommitPlan, CommitWrite, PlannedRead
from stemmadb.protocol.errors import JournalFailed
from stemmadb.protocol.model.log.facts import NO_BODY, digest_of, empty, hash_fact
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, EntityId, Hash, Local, TimeMs, Version
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.sync import Entered, Sync

A, B, C = "urn:a", "urn:b", "urn:c"
MANY = 10_000
SECONDS = 5.0
"""Far more than it takes, far less than it would if each commit cost as much as all the others."""


def increment(by: int) -> dict[str, Any]:
    return {"op": "increment", "path": "/n", "by": by}


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


# ---------------------------------------------------------------- confirmed and pending


@pytest.mark.rule("NURSERY-1")
def test_the_view_is_confirmed_with_the_pending_operations_on_top() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    first = one.write(adding(A, 10))
    second = one.write(setting(B, "new", blind=True))
    assert one.value(A) == {"n": 11}
    assert one.value(B) == "new"
    shown = one.shown(A)
    assert shown is not None
    assert (shown.basis, [layer.name for layer in shown.layers]) == (Version(1), [first])
    one.other(patch_(A, increment(100)))
    one.deliver()
    assert one.value(A) == {"n": 111}
    assert one.pending() == [first, second]


@pytest.mark.rule("NURSERY-1")
def test_what_is_known_to_be_absent_is_shown_so_and_what_is_not_watched_is_not_in_view() -> None:
    one = hand("urn:a", set_(A, 1), set_(B, 2))
    nowhere = one.shown("urn:a:none")
    assert nowhere is not None
    assert (nowhere.value, nowhere.basis) == (ABSENT, Version(1))
    assert one.shown(B) is None
    assert one.value(B) is UNKNOWN


@pytest.mark.rule("NURSERY-1")
def test_a_layer_that_no_longer_applies_is_skipped_whole_flagged_and_comes_back() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, {"n": 1}))
    both = one.write(adding(A, 10), adding(B, 10))
    assert (one.value(A), one.value(B), one.hidden()) == ({"n": 11}, {"n": 11}, [])
    one.other(delete_(A))
    one.deliver()
    assert (one.value(A), one.value(B), one.hidden()) == (ABSENT, {"n": 1}, [both])
    assert one.pending() == [both]
    one.other(set_(A, {"n": 5}))
    one.deliver()
    assert (one.value(A), one.value(B), one.hidden()) == ({"n": 15}, {"n": 11}, [])


@pytest.mark.rule("NURSERY-1")
def test_what_is_built_on_a_skipped_commit_is_skipped_with_it_and_what_is_not_stays() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, {"n": 1}), set_(C, 0))
    bottom = one.write(adding(A, 10), adding(B, 10))
    above = one.write(setting(B, {"n": 100}), reads=[B])
    beside = one.write(setting(C, 9, blind=True))
    assert above not in one.hidden()
    one.other(delete_(A))
    one.deliver()
    assert one.hidden() == [bottom, above]
    assert (one.value(B), one.value(C)) == ({"n": 1}, 9)
    assert beside not in one.hidden()


@pytest.mark.rule("NURSERY-1")
def test_what_was_read_keeps_its_version_and_is_dropped_at_the_next_own_verdict_that_touches_it() -> None:
    one = hand("", set_(A, {"n": 1}))
    name = one.write(adding(A, 10), bases=[(A, one.held(A, as_of=1))])
    one.other(set_(B, 1))
    one.deliver()
    shown = one.shown(A)
    assert shown is not None
    assert (shown.value, shown.basis) == ({"n": 11}, Version(1))
    assert [c.pending.name for c in one.tell(name).confirmed] == [name]
    assert one.shown(A) is None


@pytest.mark.rule("NURSERY-1")
def test_what_was_read_is_dropped_at_a_rejection_too() -> None:
    one = hand("", set_(A, {"n": 1}))
    name = one.write(adding(A, 10), bases=[(A, one.held(A, as_of=1))])
    one.refuse(name)
    one.deliver()
    assert one.shown(A) is None


@pytest.mark.rule("NURSERY-1")
def test_what_was_read_gives_way_to_a_watch_that_knows_it_is_gone() -> None:
    one = hand("", set_(A, {"n": 1}))
    name = one.write(adding(A, 10), bases=[(A, one.held(A, as_of=1))])
    one.other(delete_(A))
    one.watch("urn:")
    one.deliver()
    assert (one.value(A), one.hidden()) == (ABSENT, [name])


@pytest.mark.rule("NURSERY-1", "NURSERY-3")
def test_what_was_read_before_an_own_commit_was_confirmed_does_not_bring_the_old_value_back() -> None:
    one = hand("", set_(A, {"n": 1}))
    before = one.held(A, as_of=1)
    one.write(setting(A, {"n": 2}), reads=[A])
    one.tell()
    one.write(adding(A, 10), bases=[(A, before)])
    assert one.value(A) != {"n": 11}


@pytest.mark.rule("NURSERY-1")
def test_what_is_no_longer_watched_stays_beneath_pending_work_as_of_the_version_it_was_true_at() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, {"n": 1}))
    one.write(adding(A, 10))
    one.nursery.unwatch(1)
    del one.watchers[1]
    one.other(patch_(A, increment(100)))
    one.deliver()
    shown = one.shown(A)
    assert shown is not None
    assert (shown.value, shown.basis, one.nursery.to) == ({"n": 11}, Version(1), Version(2))
    assert one.shown(B) is None


# ---------------------------------------------------------------- views


@pytest.mark.rule("NURSERY-2")
def test_a_view_stays_as_it_was_while_frames_and_own_commits_come() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, 1))
    name = one.write(adding(A, 10))
    view = one.nursery.view(MAIN)
    one.other(set_(A, {"n": 50}), delete_(B), set_(C, 3))
    one.tell(name)
    one.write(setting(B, "later", blind=True))
    shown = {id_: view.shown(EntityId(id_)) for id_ in (A, B, C)}
    assert [one_ and one_.value for one_ in shown.values()] == [{"n": 11}, 1, ABSENT]
    assert [one_.basis for one_ in shown.values() if one_] == [1, 1, 1]
    assert view.to == 1
    listing = view.listing("urn:")
    assert listing is not None
    assert list(listing) == [A, B]
    assert list(view.layers_under("urn:")) == [A]
    assert one.value(A) == {"n": 60}


@pytest.mark.rule("NURSERY-2")
def test_a_view_keeps_a_commit_that_is_skipped_later_on_all_its_entities() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, {"n": 1}))
    name = one.write(adding(A, 10), adding(B, 10))
    view = one.nursery.view(MAIN)
    one.other(delete_(A))
    one.deliver()
    assert one.hidden() == [name]
    for id_ in (A, B):
        shown = view.shown(EntityId(id_))
        assert shown is not None
        assert (shown.value, [layer.name for layer in shown.layers]) == ({"n": 11}, [name])


@pytest.mark.rule("NURSERY-2")
def test_a_view_stays_as_it_was_when_everything_is_forgotten() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    view = one.nursery.view(MAIN)
    one.integrate(msgspec.structs.replace(one.frame(), from_=Version(0), reset="floor"))
    shown = view.shown(EntityId(A))
    assert shown is not None
    assert shown.value == {"n": 1}


# ---------------------------------------------------------------- rejections


@pytest.mark.rule("NURSERY-3")
def test_a_rejected_bottom_takes_only_its_dependents_and_the_others_show_what_they_would_without() -> None:
    one = hand("urn:", set_(A, {"n": 1, "t": 0}), set_(B, 0))
    bottom = one.write(patching(A, replace("/t", 1)), reads=[A])
    beside = one.write(adding(A, 10))
    above = one.write(setting(B, 5), reads=[A, B])
    assert (one.value(A), one.value(B)) == ({"n": 11, "t": 1}, 5)
    one.refuse(bottom)
    came = one.deliver()
    assert [(gone.pending.name, gone.because) for gone in came.refused] == [(bottom, None), (above, bottom)]
    assert one.pending() == [beside]
    assert (one.value(A), one.value(B)) == ({"n": 11, "t": 0}, 0)


@pytest.mark.rule("NURSERY-3")
def test_the_cascade_goes_through_commits_that_do_not_touch_the_same_entities() -> None:
    one = hand("urn:", set_(A, 0), set_(B, 0), set_(C, 0))
    first = one.write(setting(A, 1), reads=[A])
    second = one.write(setting(B, 1), reads=[A, B])
    third = one.write(setting(C, 1), reads=[B, C])
    one.refuse(first)
    came = one.deliver()
    assert [gone.pending.name for gone in came.refused] == [first, second, third]
    assert [one.value(id_) for id_ in (A, B, C)] == [0, 0, 0]


@pytest.mark.rule("NURSERY-3")
def test_a_stacked_rollback_never_brings_back_a_value_that_was_replaced() -> None:
    one = hand("urn:", set_(A, "old"))
    first = one.write(setting(A, "first"), reads=[A])
    second = one.write(setting(A, "second", blind=True))
    one.other(set_(A, "theirs"))
    one.decide(first)
    one.deliver()
    assert one.value(A) == "second"
    one.refuse(second)
    one.deliver()
    assert one.value(A) == "theirs"


@pytest.mark.rule("NURSERY-3")
def test_what_fell_is_never_confirmed_whatever_comes_later() -> None:
    one = hand("urn:", set_(A, 0))
    first = one.write(setting(A, 1), reads=[A])
    second = one.write(setting(A, 2), reads=[A])
    one.decide(second)  # a server that is wrong, or has seen another first
    late = one.frame(verdicts=())
    one.refuse(first)
    came = one.integrate(msgspec.structs.replace(late, verdicts=one.frame().verdicts[-1:]))
    assert [gone.pending.name for gone in came.refused] == [first, second]
    again = one.deliver(verdicts=(verdict_of(second, 2, empty(A)),))
    assert again.confirmed == ()
    assert again.strangers


@pytest.mark.rule("NURSERY-3")
def test_a_commit_made_on_an_older_view_of_a_refused_one_is_refused_at_once() -> None:
    one = hand("urn:", set_(A, 0))
    first = one.write(setting(A, 1), reads=[A])
    late = one.reading(A)
    one.refuse(first)
    one.deliver()
    name = CommitName(SESSION, Local(9))
    refusal = one.nursery.add(named(CommitPlan(MAIN, (setting(A, 2),), (late,)), name, nonce=bytes(16)))
    assert refusal is not None
    assert (refusal.code, refusal.because, one.value(A), one.pending()) == ("dependency", first, 0, [])


@pytest.mark.rule("NURSERY-3", "NURSERY-7")
def test_a_commit_that_could_not_be_kept_leaves_with_all_that_depend_on_it() -> None:
    one = hand("urn:", set_(A, 0))
    first = one.write(setting(A, 1), reads=[A])
    second = one.write(setting(A, 2), reads=[A])
    came = one.nursery.refuse(first, JournalFailed(path="here", why="no room"))
    assert [(gone.pending.name, gone.code) for gone in came] == [(first, "journal_failed"), (second, "dependency")]
    assert one.value(A) == 0


# ---------------------------------------------------------------- what watchers are told


@pytest.mark.rule("NURSERY-4")
def test_a_change_hidden_under_a_pending_layer_is_told_when_it_becomes_visible() -> None:
    one = hand("urn:", set_(A, "old"))
    watcher = one.watchers[1]
    first = watcher.take(one.nursery)
    assert first is not None
    assert first.entered == {A: "old"}
    name = one.write(setting(A, "mine", blind=True))
    mine = watcher.take(one.nursery)
    assert mine is not None
    assert mine.updated == {A: "mine"}
    one.other(set_(A, "theirs"))
    one.deliver()
    assert watcher.take(one.nursery) is None
    one.refuse(name)
    one.deliver()
    visible = watcher.take(one.nursery)
    assert visible is not None
    assert (visible.entered, visible.updated, visible.left) == ({}, {A: "theirs"}, ())


@pytest.mark.rule("NURSERY-4")
def test_an_own_write_that_is_confirmed_as_it_was_shown_is_told_once() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    watcher = one.watchers[1]
    watcher.take(one.nursery)
    one.write(adding(A, 1))
    one.write(setting(B, 1, blind=True))
    change = watcher.take(one.nursery)
    assert change is not None
    assert (change.updated, change.entered) == ({A: {"n": 2}}, {B: 1})
    one.tell()
    assert one.pending() == []
    assert watcher.take(one.nursery) is None


@pytest.mark.rule("NURSERY-4")
def test_a_commit_that_is_skipped_is_told_on_all_its_entities() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, {"n": 1}))
    watcher = one.watchers[1]
    one.write(adding(A, 10), adding(B, 10))
    watcher.take(one.nursery)
    one.other(delete_(A))
    one.deliver()
    change = watcher.take(one.nursery)
    assert change is not None
    assert (change.updated, change.left) == ({B: {"n": 1}}, (A,))


# ---------------------------------------------------------------- frames


@pytest.mark.rule("NURSERY-5")
def test_a_verdict_for_a_local_that_was_never_made_here_tells_of_a_stranger() -> None:
    one = hand("urn:", set_(A, 0))
    strange = verdict_of(CommitName(SESSION, Local(7)), 2, empty(A))
    assert one.deliver(verdicts=(strange,)).strangers
    one.write(setting(A, 1, blind=True))
    assert not one.tell().strangers


@pytest.mark.rule("NURSERY-5")
def test_the_verdict_on_another_commit_of_the_same_name_confirms_nothing() -> None:
    """Somebody with a copy of the journal used the local first, for a commit of another shape."""
    one = hand("", set_(A, 0))
    name = one.write(setting(A, 1, blind=True), setting(B, 1, blind=True))
    theirs = one.space.commit(set_(C, 1, blind=True), session="me", local=name.local)
    del theirs
    record, facts = one.space.history[-1]
    verdict = AcceptedVerdict(
        local=name.local,
        version=record.version,
        time=record.time,
        hash=record.hash,
        request=record.request,
        hashes=tuple(fact.hash for fact in facts),
        salts=tuple(fact.salt for fact in facts),
    )
    came = one.deliver(verdicts=(verdict,))
    assert (came.confirmed, came.strangers, one.pending()) == ((), True, [name])


def test_own_facts_and_those_of_others_are_applied_by_version_and_not_as_they_stand_in_the_frame() -> None:
    one = hand("urn:", set_(A, {"n": 1, "t": 0}))
    first = one.write(adding(A, 10))
    second = one.write(patching(A, replace("/t", 7), blind=True))
    one.decide(first)
    one.other(patch_(A, replace("/n", 0), increment(5)))
    one.decide(second)
    one.other(patch_(A, increment(100)))
    frame = one.frame()
    came = one.integrate(msgspec.structs.replace(frame, verdicts=frame.verdicts[::-1]))
    assert {c.pending.name for c in came.confirmed} == {first, second}
    assert one.nursery.wanted() == frozenset()
    assert one.value(A) == one.space.value(A) == {"n": 105, "t": 7}


def test_a_verdict_whose_facts_came_already_only_settles_the_commit() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    name = one.write(adding(A, 10))
    one.decide(name)
    verdict = one.frame().verdicts
    record, facts = one.space.history[-1]
    told = records.commit_item(record, facts)
    came = one.deliver(commits=(told,), verdicts=verdict)
    assert [c.pending.name for c in came.confirmed] == [name]
    assert one.value(A) == {"n": 11}


def test_an_own_commit_of_an_older_session_is_not_shown_twice_while_its_verdict_is_awaited() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    name = one.write(adding(A, 10))
    one.decide(name)
    verdict = one.frame().verdicts[0]
    assert isinstance(verdict, AcceptedVerdict)
    record, facts = one.space.history[-1]
    frame = one.frame(commits=(records.commit_item(record, facts),), verdicts=())
    one.nursery.integrate(frame, session=session_of("new"), issued=0)
    assert (one.value(A), one.pending()) == ({"n": 11}, [name])
    late = one.frame(verdicts=(msgspec.structs.replace(verdict, session=SESSION),))
    came = one.nursery.integrate(late, session=session_of("new"), issued=0)
    assert [c.pending.name for c in came.confirmed] == [name]
    assert one.value(A) == {"n": 11}


@pytest.mark.rule("SYNC-4")
def test_a_wrong_parent_makes_the_entity_unknown_until_it_was_asked_for_once() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, 0))
    one.write(adding(A, 10))
    one.other(patch_(A, increment(100)))
    one.other(patch_(A, increment(1_000)))
    frame = one.frame()
    one.integrate(msgspec.structs.replace(frame, commits=frame.commits[1:]))
    key = (MAIN, EntityId(A))
    assert one.nursery.wanted() == {key}
    assert one.value(A) is UNKNOWN
    assert one.value(B) == 0
    assert one.nursery.answered(key, one.held(A), one.space.version)
    assert (one.value(A), one.nursery.wanted()) == ({"n": 1_111}, frozenset())
    one.other(patch_(A, increment(1)))
    one.deliver()
    assert one.nursery.wanted() == frozenset()
    assert one.value(A) == {"n": 1_112}


@pytest.mark.rule("SYNC-3", "SYNC-4")
def test_what_entered_without_a_body_and_is_not_what_is_held_is_unknown() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    one.watch("urn:a")
    held = one.held(A)
    right = Entered(watch=2, branch=MAIN, id=EntityId(A), version=held.version, hash=held.hash)
    one.deliver(entered=(right,), filled=())
    assert one.nursery.wanted() == frozenset()
    assert one.value(A) == {"n": 1}
    one.watch("urn:")
    wrong = msgspec.structs.replace(right, watch=3, hash=empty(B))
    one.deliver(entered=(wrong,), filled=())
    assert one.nursery.wanted() == {(MAIN, EntityId(A))}
    assert one.value(A) is UNKNOWN


@pytest.mark.rule("SYNC-4")
def test_an_answer_from_before_a_later_fact_is_not_taken() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    one.other(patch_(A, increment(100)))
    old, at = one.held(A), one.space.version
    frame = one.frame()
    wrong = msgspec.structs.replace(frame.commits[0].facts[0], parent=empty(A))
    one.integrate(
        msgspec.structs.replace(frame, commits=(msgspec.structs.replace(frame.commits[0], facts=(wrong,)),))
    )
    one.other(patch_(A, increment(1_000)))
    one.deliver()
    key = (MAIN, EntityId(A))
    assert not one.nursery.answered(key, old, at)
    assert one.value(A) is UNKNOWN
    assert one.nursery.answered(key, one.held(A), one.space.version)
    assert one.value(A) == {"n": 1_101}


@pytest.mark.rule("SYNC-4")
def test_an_own_commit_whose_hash_is_another_leaves_the_entity_unknown() -> None:
    one = hand("urn:", set_(A, {"n": 1}))
    name = one.write(adding(A, 10))
    one.other(patch_(A, increment(100)))
    one.decide(name)
    came = one.deliver(commits=())
    assert [c.pending.name for c in came.confirmed] == [name]
    assert one.nursery.wanted() == {(MAIN, EntityId(A))}
    assert one.value(A) is UNKNOWN


def test_a_blind_patch_on_what_nobody_holds_is_unknown_and_asked_for() -> None:
    one = hand("", set_(A, {"n": 1}))
    one.write(patching(A, increment(10), blind=True))
    shown = one.shown(A)
    assert shown is not None
    assert (shown.value, len(shown.layers)) == (UNKNOWN, 1)
    key = (MAIN, EntityId(A))
    assert one.nursery.wanted() == {key}
    assert one.nursery.answered(key, one.held(A), Version(1))
    assert (one.value(A), one.nursery.wanted()) == ({"n": 11}, frozenset())
    one.write(setting(A, "all of it", blind=True))
    assert one.value(A) == "all of it"


def test_a_set_shows_its_value_although_nobody_knows_what_was_there() -> None:
    one = hand("", set_(A, {"n": 1}))
    one.write(patching(A, increment(10), blind=True))
    one.write(setting(A, {"n": 7}, blind=True))
    one.write(adding(A, 1))
    assert (one.value(A), one.nursery.wanted()) == ({"n": 8}, frozenset())
    one.write(deleting(A, blind=True))
    assert one.value(A) is ABSENT


@pytest.mark.rule("RESUME-1")
def test_starting_over_keeps_what_is_pending_on_top_of_what_comes_again() -> None:
    one = hand("urn:", set_(A, {"n": 1}), set_(B, 1))
    name = one.write(adding(A, 10))
    one.other(set_(A, {"n": 5}), delete_(B))
    one.nursery.unfill(1)
    came = one.integrate(msgspec.structs.replace(one.frame(), from_=Version(0), reset="floor"))
    assert came.refused == ()
    assert (one.value(A), one.value(B), one.pending()) == ({"n": 15}, ABSENT, [name])


@pytest.mark.rule("RESUME-4")
def test_after_another_history_every_undecided_commit_can_be_rejected() -> None:
    one = hand("urn:", set_(A, 0))
    first = one.write(setting(A, 1), reads=[A])
    second = one.write(setting(B, 1, blind=True))
    came = one.nursery.refuse_all(JournalFailed(path="", why=""))
    assert [gone.pending.name for gone in came] == [first, second]
    assert (one.value(A), one.value(B), one.pending()) == (0, ABSENT, [])


@pytest.mark.rule("NURSERY-6")
def test_the_nursery_imports_neither_io_nor_a_clock_nor_randomness() -> None:
    folder = Path(next(iter(stemmadb.client.nursery.__path__)))
    impure = {"asyncio", "time", "datetime", "random", "secrets", "os", "socket", "threading", "pathlib", "logging"}
    for path in sorted(folder.glob("*.py")):
        tree = ast.walk(ast.parse(path.read_text()))
        names = [
            name
            for node in tree
            if isinstance(node, ast.Import | ast.ImportFrom)
            for name in ([node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names])
        ]
        assert not impure & {name.partition(".")[0] for name in names}, path.name


# ---------------------------------------------------------------- many


class Many:
    """Ten thousand pending commits on some entities, each built on the one before of the same entity."""

    def __init__(self, distinct: int) -> None:
        self.hand = Hand()
        self.hand.watch("urn:")
        self.ids = [EntityId(f"urn:m:{number}") for number in range(distinct)]
        self.heads = {id_: empty(id_) for id_ in self.ids}
        self.hand.integrate(
            Sync(
                from_=Version(0),
                to=Version(1),
                hash=empty("1"),
                filled=(1,),
                entered=tuple(
                    Entered(watch=1, branch=MAIN, id=id_, version=Version(1), hash=hash_, body=encode(0))
                    for id_, hash_ in self.heads.items()
                ),
            )
        )
        last: dict[EntityId, CommitName] = {}
        for number in range(MANY):
            id_ = self.ids[number % distinct]
            read = PlannedRead(Version(1), id_, through=CommitNames.of([last[id_]] if id_ in last else []))
            last[id_] = self.hand.write(setting(id_, number), reads=[read])

    def accepted(self, count: int) -> Sync:
        """The frame that confirms the oldest of them."""
        to = self.hand.nursery.to
        verdicts = []
        for place, pending in enumerate(self.hand.nursery.pending()[:count], start=1):
            write, salt = pending.writes[0], bytes(16)
            digest = digest_of(salt, write.body or b"")
            self.heads[write.id] = hash_fact("set", write.id, self.heads[write.id], digest)
            verdicts.append(verdict_of(pending.name, to + place, self.heads[write.id], salt, pending.request))
        return Sync(from_=to, to=Version(to + count), hash=empty(str(to)), verdicts=tuple(verdicts))


def verdict_of(
    name: CommitName, version: int, hash_: Hash, salt: bytes = b"s" * 16, request: Hash = NO_BODY
) -> AcceptedVerdict:
    return AcceptedVerdict(
        local=name.local,
        version=Version(version),
        time=TimeMs(0),
        hash=hash_,
        request=request,
        hashes=(hash_,),
        salts=(salt,),
    )


@pytest.mark.parametrize("distinct", [1, 100, MANY])
def test_ten_thousand_pending_commits_are_made_and_confirmed_in_no_time(distinct: int) -> None:
    began = time.process_time()
    many = Many(distinct)
    one = many.hand
    assert one.value("urn:m:0") == MANY - distinct
    while one.pending():
        came = one.integrate(many.accepted(100))
        assert len(came.confirmed) == 100
        assert not one.nursery.wanted()
    assert one.value("urn:m:0") == MANY - distinct
    assert time.process_time() - began < SECONDS


@pytest.mark.rule("NURSERY-3")
@pytest.mark.parametrize("distinct", [1, 100])
def test_the_rejected_bottom_of_ten_thousand_takes_its_own_with_it_in_no_time(distinct: int) -> None:
    one = Many(distinct).hand
    one.refuse(one.pending()[0])
    began = time.process_time()
    came = one.deliver(from_=Version(1), to=Version(1), hash=empty("1"), left=(), entered=())
    assert time.process_time() - began < SECONDS
    assert len(came.refused) == MANY // distinct
    assert len(one.pending()) == MANY - MANY // distinct
    assert one.value("urn:m:0") == 0


# ---------------------------------------------------------------- the oracle itself


def test_the_oracle_skips_what_does_not_apply_and_what_is_built_on_it() -> None:
    oracle = Oracle(Log())
    first, second, third = (CommitName(SESSION, Local(number)) for number in (1, 2, 3))
    oracle.reads[MAIN, EntityId(A)] = Read(ABSENT, Version(0))
    oracle.write(first, plan_of(adding(A, 1), setting(B, 1)))
    oracle.write(second, plan_of(setting(C, 1), through=first))
    oracle.write(third, plan_of(setting(C, 2)))
    picture = oracle.picture()
    assert picture.skipped == [first, second]
    assert list(picture.layers) == [(MAIN, C)]
    oracle.refuse(first)
    assert oracle.ended == {first: "rejected", second: "fallen"}


def plan_of(*writes: CommitWrite, through: CommitName | None = None) -> CommitPlan:
    names = CommitNames.of([] if through is None else [through])
    return CommitPlan(MAIN, writes, (PlannedRead(Version(0), EntityId(A), through=names),))
