"""Journals without a disk: one that keeps nothing, and one for tests that can be slow, break, crash and be copied."""

from __future__ import annotations

import pytest

from journals import SESSION, confirmed, journaled, name, numbered, state_after
from stemmadb.client.journal.memory import MemoryJournal, SimulatedJournal
from stemmadb.client.journal.port import Journal, JournalState, JournalStep
from stemmadb.protocol.errors import JournalFailed

Told = list[Exception | None]


async def test_without_a_path_a_step_is_done_at_once_and_nothing_is_kept() -> None:
    journal: Journal = MemoryJournal()
    told: Told = []
    journal.write(numbered(1), told.append)
    assert told == [None]
    assert not journal.keeps
    assert journal.load() == JournalState()
    await journal.close()


@pytest.mark.rule("NURSERY-5")
async def test_what_is_kept_in_memory_is_there_after_a_restart() -> None:
    journal = SimulatedJournal()
    told: Told = []
    for number in range(1, 31):
        journal.write(numbered(number), told.append)
    assert told == [None] * 30
    await journal.close()
    assert journal.keeps
    assert journal.load() == journal.state() == state_after(30)


def test_a_step_that_is_held_is_told_in_order_when_it_is_released() -> None:
    journal = SimulatedJournal()
    journal.hold()
    told: list[int] = []
    for number in (1, 2, 3):
        journal.write(numbered(number), lambda _, number=number: told.append(number))  # type: ignore[misc]
    assert (told, journal.waiting, journal.state()) == ([], 3, JournalState())
    journal.release(1)
    assert (told, journal.waiting, journal.state()) == ([1], 2, state_after(1))
    journal.write(numbered(4), lambda _: told.append(4))
    assert told == [1], "it is still held"
    journal.release()
    assert (told, journal.state()) == ([1, 2, 3, 4], state_after(4))
    journal.write(numbered(5), lambda _: told.append(5))
    assert told == [1, 2, 3, 4, 5]


def test_who_writes_when_told_does_not_overtake_what_waits() -> None:
    journal = SimulatedJournal()
    journal.hold()
    told: list[int] = []

    def tell_and_write(_: Exception | None) -> None:
        told.append(1)
        journal.write(numbered(4), lambda _: told.append(4))

    journal.write(numbered(1), tell_and_write)
    for number in (2, 3):
        journal.write(numbered(number), lambda _, number=number: told.append(number))  # type: ignore[misc]
    journal.release()
    assert (told, journal.waiting, journal.state()) == ([1, 2, 3, 4], 0, state_after(4))


async def test_closing_lets_what_is_held_become_durable() -> None:
    journal = SimulatedJournal()
    journal.hold()
    told: Told = []
    journal.write(numbered(1), told.append)
    await journal.close()
    assert (told, journal.state()) == ([None], state_after(1))


def test_a_crash_takes_what_was_not_durable_and_tells_nobody() -> None:
    journal = SimulatedJournal()
    journal.write(numbered(1), lambda _: None)
    journal.hold()
    told: Told = []
    journal.write(numbered(2), told.append)
    journal.crash()
    assert (told, journal.waiting, journal.load()) == ([], 0, state_after(1))
    journal.write(numbered(2), told.append)
    assert (told, journal.load()) == ([None], state_after(2))


def test_after_a_failure_every_step_fails_until_the_app_starts_again() -> None:
    journal = SimulatedJournal()
    journal.write(numbered(1), lambda _: None)
    journal.hold()
    told: Told = []
    journal.write(numbered(2), told.append)
    error = JournalFailed(path="x", why="the disk is full")
    journal.fail(error)
    journal.release()
    journal.write(numbered(3), told.append)
    assert (told, journal.state()) == ([error, error], state_after(1))
    journal.crash()
    journal.write(numbered(2), told.append)
    assert (told[-1], journal.state()) == (None, state_after(2))


@pytest.mark.rule("NURSERY-5")
def test_a_copy_goes_its_own_way() -> None:
    journal = SimulatedJournal()
    journal.write(JournalStep(session=SESSION, add=(journaled(1), journaled(2))), lambda _: None)
    other = journal.copy()
    other.write(JournalStep(confirm=(confirmed(1), confirmed(2)), forget=(name(1),)), lambda _: None)
    assert [commit.name for commit in journal.state().pending] == [name(1), name(2)]
    assert other.state().pending == ()
    assert [commit.name for commit in other.state().confirmed] == [name(2)]


def test_a_commit_is_not_kept_twice_in_memory() -> None:
    journal = SimulatedJournal()
    journal.write(JournalStep(add=(journaled(1),)), lambda _: None)
    with pytest.raises(AssertionError, match="kept already"):
        journal.write(JournalStep(add=(journaled(1),)), lambda _: None)
