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
    assert deferrals.holds_back(who(4)) is cause
    assert deferrals.holds_back(who(3)) is None
    assert deferrals.holds_back(who(4)) is None
    assert deferrals.holds_back(who(9)) is None


@pytest.mark.rule("COMMIT-10", "COMMIT-5")
def test_what_was_held_back_is_awaited_too_so_that_nothing_overtakes_it() -> None:
    deferrals = Deferrals()
    cause = Unavailable()
    deferrals.defer(who(3), cause)
    assert deferrals.holds_back(who(4)) is cause
    assert deferrals.holds_back(who(3)) is None
    assert deferrals.holds_back(who(7)) is cause
    assert [deferrals.holds_back(who(local)) for local in (4, 7, 8)] == [None, None, None]


@pytest.mark.rule("COMMIT-10")
def test_the_lowest_undecided_local_is_the_one_to_wait_for() -> None:
    deferrals = Deferrals()
    cause = RateLimited(retry_after_ms=5)
    for local in (5, 3, 7):
        deferrals.defer(who(local), cause)
    assert deferrals.holds_back(who(5)) is cause
    assert [deferrals.holds_back(who(local)) for local in (3, 5, 7)] == [None, None, None]


@pytest.mark.rule("COMMIT-10")
def test_only_so_many_are_awaited_and_the_rest_is_held_back_all_the_same() -> None:
    deferrals = Deferrals(awaited_max=2)
    deferrals.defer(who(1), Unavailable())
    assert all(deferrals.holds_back(who(local)) for local in (2, 3, 4))
    assert [deferrals.holds_back(who(local)) for local in (1, 2, 3)] == [None, None, None]


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
