"""Deferral: later commits of a session wait for the one that could not be decided."""

from __future__ import annotations

import pytest

from space import ALICE, BOB, session_of
from stemmadb.protocol.errors import RateLimited, StorageFull, Unavailable
from stemmadb.protocol.model.commit import LocalIdentity, OperationIdentity
from stemmadb.protocol.model.deferral import Deferrals
from stemmadb.protocol.model.ids import Did, Local

S, T = session_of("s"), session_of("t")


def who(local: int, session: bytes = S, principal: Did = ALICE) -> LocalIdentity:
    return LocalIdentity(principal, session, Local(local))


@pytest.mark.rule("COMMIT-10")
def test_all_later_locals_of_a_session_are_deferred_until_that_one_is_sent_again() -> None:
    deferrals = Deferrals()
    cause = StorageFull()
    deferrals.defer(who(3), cause)
    assert deferrals.holds_back(who(4)) is cause
    assert deferrals.holds_back(who(9)) is cause
    assert deferrals.holds_back(who(3)) is None
    assert deferrals.holds_back(who(4)) is None


@pytest.mark.rule("COMMIT-10")
def test_the_lowest_undecided_local_is_the_one_to_wait_for() -> None:
    deferrals = Deferrals()
    first, second = Unavailable(), RateLimited(retry_after_ms=5)
    deferrals.defer(who(5), first)
    deferrals.defer(who(3), second)
    deferrals.defer(who(7), first)
    assert deferrals.holds_back(who(5)) is second
    assert deferrals.holds_back(who(3)) is None


@pytest.mark.rule("COMMIT-10")
def test_other_sessions_principals_and_operation_ids_do_not_wait() -> None:
    deferrals = Deferrals()
    deferrals.defer(who(3), Unavailable())
    deferrals.defer(OperationIdentity(BOB, S), Unavailable())
    assert deferrals.holds_back(who(4, T)) is None
    assert deferrals.holds_back(who(4, S, BOB)) is None
    assert deferrals.holds_back(OperationIdentity(ALICE, S)) is None


@pytest.mark.rule("COMMIT-10")
def test_an_earlier_local_passes_and_frees_nobody_and_a_new_connection_begins_afresh() -> None:
    deferrals = Deferrals()
    cause = Unavailable()
    deferrals.defer(who(3), cause)
    assert deferrals.holds_back(who(2)) is None
    assert deferrals.holds_back(who(4)) is cause
    deferrals.forget(ALICE, S)
    assert deferrals.holds_back(who(4)) is None
