"""Own commits that are in the log before their verdict is told, and own writes that others took away meanwhile."""

from __future__ import annotations

import pytest
from msgspec.structs import replace as changed

from nursery_hands import Hand, hand, patching, setting
from space import ALICE, delete_, set_
from stemmadb.client.nursery.entities import ABSENT, CommitName
from stemmadb.protocol.errors import Conflict
from stemmadb.protocol.model.values.ids import EMPTY_SPACE
from stemmadb.protocol.wire import records
from stemmadb.protocol.wire.messages.sync import CommitItem, Sync

A, B = "urn:a", "urn:b"
RESTORED = Conflict("restored", count=0, stale=())


def landed(one: Hand, name: CommitName) -> CommitItem:
    """The commit as anybody's, as a frame has it where its session is an older one."""
    record, facts = next((record, facts) for record, facts in one.space.history if record.author == ALICE)
    return changed(records.commit_item(record, facts), session=name.session, local=name.local)


def restored(one: Hand, *commits: CommitItem) -> Sync:
    return one.frame(from_=EMPTY_SPACE, reset="history", verdicts=(), commits=commits)


@pytest.mark.rule("RESUME-4", "NURSERY-7")
def test_a_commit_that_the_restored_log_has_is_not_refused() -> None:
    one = hand("urn:")
    name = one.write(setting(A, 1, blind=True))
    lost = one.write(setting(B, 1, blind=True))
    one.decide(name)
    one.integrate(restored(one, landed(one, name)))
    refused = one.nursery.refuse_all(RESTORED)
    assert [refusal.pending.name for refusal in refused] == [lost]
    assert one.pending() == [name]


@pytest.mark.rule("RESUME-4")
def test_what_landed_in_another_history_has_not_landed_in_this_one() -> None:
    one = hand("urn:")
    name = one.write(setting(A, 1, blind=True))
    one.decide(name)
    item = landed(one, name)
    one.integrate(one.frame(verdicts=(), commits=(item,)))
    assert one.hidden() == [name]
    one.space = Hand().space  # a backup from before
    one.integrate(restored(one))
    assert [refusal.pending.name for refusal in one.nursery.refuse_all(RESTORED)] == [name]


@pytest.mark.rule("NURSERY-1", "SYNC-3")
def test_work_on_an_own_new_entity_that_others_deleted_in_the_same_frame_is_left_out() -> None:
    one = hand("urn:")
    first = one.write(setting(A, {"n": 1}, blind=True))
    second = one.write(patching(A, {"op": "replace", "path": "/n", "value": 2}, blind=True))
    one.decide(first)
    one.other(delete_(A))
    one.deliver()
    assert (one.value(A), one.hidden()) == (ABSENT, [second])
    assert one.nursery.wanted() == frozenset()


@pytest.mark.rule("NURSERY-5", "COMMIT-5")
def test_a_commit_of_somebody_else_under_our_name_hides_nothing_of_ours() -> None:
    """Session ids are seen by everybody who watches."""
    one = hand("urn:")
    one.nursery._principal = ALICE
    name = one.write(setting(A, 1, blind=True))
    one.other(set_(B, 2))
    record, facts = one.space.history[-1]
    theirs = changed(records.commit_item(record, facts), session=name.session, local=name.local)
    one.deliver(commits=(theirs,))
    assert one.hidden() == []
    one.deliver(commits=(changed(theirs, author=ALICE),))
    assert one.hidden() == [name]
