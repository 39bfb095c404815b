"""Why a space has one owner: two that decide on one log answer a commit that was sent twice both no and yes."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from engines import AHEAD, Engine, Held, engine, turns
from space import SPACE, patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.port import OwnedElsewhere
from stemmadb.server.storage.postgres import PostgresStorage
from verdicts import X, code, replace


def the_commit(it: Engine) -> Proposal:
    """Of one session, with one local: the same bytes wherever it is sent."""
    return it.propose(patch_(X, replace("/a", 2), blind=True), session="t", local=1)


@pytest.mark.rule("COMMIT-5", "STORE-8")
async def test_rejected_then_accepted_where_two_engines_decide_on_one_log() -> None:
    """The first copy waits in one engine; the second is rejected by the other, and the author gives up."""
    storage = MemoryStorage()
    held = Held()
    async with (
        engine(storage, workers=Executors(held, held), sizes=AHEAD) as slow,
        engine(storage, access=None, sizes=AHEAD) as quick,
    ):
        held.is_held = True
        first = slow.space.decide(the_commit(slow))
        waiting = asyncio.ensure_future(first)
        await turns()
        assert code(await quick.space.decide(the_commit(quick))) == "not_found"
        await quick.must(set_(X, {"a": 1}, blind=True), session="o")
        held.release()
        held.is_held = False
        assert code(await waiting) == "accepted"


@pytest.mark.rule("COMMIT-5", "STORE-8")
async def test_rejected_then_accepted_does_not_happen_between_two_nodes(url: str) -> None:
    """While one owns the space the other decides nothing; once it has lost it, it appends nothing."""
    one, other = PostgresStorage(url), PostgresStorage(url)
    try:
        async with engine(one) as slow:
            with pytest.raises(OwnedElsewhere):
                other.open(SPACE)
            with psycopg.connect(url, autocommit=True) as connection:  # as if it had been paused beyond its lease
                connection.execute("DELETE FROM stemmadb.node WHERE node = %s", (one.node.number,))
            async with engine(other, access=None) as quick:
                assert code(await quick.space.decide(the_commit(quick))) == "not_found"
                await quick.must(set_(X, {"a": 1}, blind=True), session="o")
                with pytest.raises(errors.Unavailable):
                    await slow.must(set_(X, {"a": 7}, blind=True), session="t", local=1)
                history = await quick.space.read(lambda reader: list(reader.history()))
                assert len(history) == 2
    finally:
        one.close()
        other.close()
