"""An answer waits for the stream of its session, and not for ever."""

from __future__ import annotations

import asyncio

import pytest

from service_peers import ALICE, service_harness
from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.service.base.settings import ServiceSettings
from stemmadb.server.service.stream.awaiting import PendingAnswer, PendingAnswers


@pytest.mark.rule("SYNC-7")
async def test_an_answer_that_the_stream_does_not_reach_is_given_up() -> None:
    async with service_harness(settings=ServiceSettings(answer_wait_ms=1)) as made:
        await made.peer(ALICE).open()
        (session,) = made.service.sessions
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        version = Version(session.outbox.to + 1)
        session.outbox.answer(version, lambda: outcome.set_result("sent"), lambda: outcome.set_result("given up"))
        assert await asyncio.wait_for(outcome, 10) == "given up"
        assert not session.outbox.expects_more


@pytest.mark.rule("SYNC-7")
async def test_an_answer_is_sent_once_and_not_given_up_afterwards() -> None:
    pending, said = PendingAnswers(1), list[str]()
    answer = PendingAnswer(Version(3), lambda: said.append("sent"), lambda: said.append("given up"))
    pending.add(answer, lambda: False)
    pending.release(Version(3))
    await asyncio.sleep(0.01)
    assert said == ["sent"]


@pytest.mark.rule("SYNC-7", "SYNC-6")
async def test_a_client_that_does_not_read_waits_for_itself() -> None:
    pending, said, looked = PendingAnswers(1), list[str](), list[int]()
    answer = PendingAnswer(Version(3), lambda: said.append("sent"), lambda: said.append("given up"))

    def is_stalled() -> bool:
        looked.append(1)
        return len(looked) < 3

    pending.add(answer, is_stalled)
    async with asyncio.timeout(10):
        while not said:
            await asyncio.sleep(0.001)
    assert said == ["given up"]
    assert len(looked) == 3


async def test_a_session_that_is_over_is_answered_nothing() -> None:
    pending, said = PendingAnswers(1), list[str]()
    answer = PendingAnswer(Version(3), lambda: said.append("sent"), lambda: said.append("given up"))
    pending.add(answer, lambda: False)
    pending.close()
    await asyncio.sleep(0.01)
    assert not said
