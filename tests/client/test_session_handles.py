"""Handles: who waits for a verdict hears of it, once, and does not wait for the next turn of the loop to send."""

from __future__ import annotations

import asyncio

import pytest

from nursery_hands import SESSION
from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.session.handle import Handle
from stemmadb.protocol.errors import GoingAway
from stemmadb.protocol.model.values.ids import Local, Version

NAME = CommitName(SESSION, Local(1))


def handle(hurried: list[str]) -> Handle:
    return Handle(NAME, since=0.0, hurry=lambda: hurried.append("sent"))


@pytest.mark.rule("NURSERY-7")
async def test_one_that_gives_up_waiting_takes_nobody_with_it() -> None:
    one = handle([])
    waiting = [asyncio.create_task(one.confirmed()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[1].cancel()
    await asyncio.gather(waiting[1], return_exceptions=True)
    assert one.is_awaited
    one.confirm(Version(7))
    assert [await waiting[0], await waiting[2]] == [7, 7]
    assert await one.confirmed() == 7


@pytest.mark.rule("NURSERY-7")
async def test_a_caller_that_gives_up_is_no_longer_counted() -> None:
    one = handle([])
    waiting = asyncio.create_task(one.confirmed())
    await asyncio.sleep(0)
    assert one.is_awaited
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    assert not one.is_awaited


async def test_waiting_for_a_verdict_sends_what_waits_for_the_next_turn() -> None:
    hurried: list[str] = []
    one = handle(hurried)
    waiting = asyncio.create_task(one.confirmed())
    await asyncio.sleep(0)
    assert hurried == ["sent"]
    one.confirm(Version(1))
    await waiting
    await one.confirmed()
    assert hurried == ["sent"], "what is decided needs no sending"


async def test_a_refusal_while_sending_is_raised_at_once() -> None:
    one = Handle(NAME, since=0.0, hurry=lambda: one.abandon(GoingAway("over")))
    with pytest.raises(GoingAway):
        await one.confirmed()


async def test_the_journal_wakes_all_that_wait_for_it() -> None:
    one = handle([])
    waiting = [asyncio.create_task(one.journaled()) for _ in range(2)]
    await asyncio.sleep(0)
    one.mark_journaled()
    await asyncio.gather(*waiting)
    assert one.is_journaled
