"""The pauses between tries: bounded on both sides, spread, and never shorter than the server asks for."""

from __future__ import annotations

import random

import pytest

from stemmadb.client.dialing.backoff import FLOOR_SECONDS, RETRY_AFTER_MAX_SECONDS, Backoff

pytestmark = pytest.mark.rule("RESUME-5")


def test_the_most_that_is_waited_doubles_up_to_a_bound() -> None:
    backoff = Backoff(lambda: 1.0, first_s=0.1, most_s=1.0)
    assert [backoff.next() for _ in range(6)] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.0, 1.0])


def test_a_pause_is_drawn_from_all_up_to_the_most() -> None:
    source = random.Random(3)
    pauses = [Backoff(source.random, first_s=4.0).next() for _ in range(2_000)]
    assert all(FLOOR_SECONDS <= pause <= 4.0 for pause in pauses)
    for quarter in range(4):
        assert 400 < sum(quarter <= pause < quarter + 1 for pause in pauses) < 600


def test_a_pause_is_never_nothing() -> None:
    backoff = Backoff(lambda: 0.0)
    assert {backoff.next() for _ in range(10)} == {FLOOR_SECONDS}


def test_what_the_server_asks_for_is_waited_in_full_and_those_who_wait_are_spread() -> None:
    assert Backoff(lambda: 0.0).next(2_000) == 2.0 + FLOOR_SECONDS
    assert Backoff(lambda: 1.0, first_s=0.5).next(2_000) == 2.5
    assert Backoff(lambda: 1.0, first_s=0.5).next(0) == 0.5


def test_a_server_cannot_send_a_client_away_for_ever() -> None:
    assert Backoff(lambda: 0.0).next(2**62) == RETRY_AFTER_MAX_SECONDS + FLOOR_SECONDS


def test_after_a_success_pauses_are_short_again() -> None:
    backoff = Backoff(lambda: 1.0, first_s=0.1)
    first = backoff.next()
    backoff.next()
    backoff.reset()
    assert backoff.next() == first


def test_a_million_failures_are_counted_without_overflow() -> None:
    backoff = Backoff(lambda: 1.0, factor=1e300)
    assert [backoff.next() for _ in range(5)][-1] == 10.0
