"""Found by fuzzing: what a client is refused for was kept in the server's memory for ever."""

from __future__ import annotations

import gc

import pytest

from service_peers import ALICE, put, read, service_harness
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.commit.proposal import prepare_or_refuse
from stemmadb.protocol.model.commit.request import Content, Operation
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.ids import EntityId, Hash, Local

ROUNDS = 20


def _errors() -> int:
    """How many errors are in memory that nobody can collect."""
    gc.collect()
    return sum(issubclass(type(one), StemmaError) for one in gc.get_objects())


def _bad() -> tuple[Operation, ...]:
    """A patch that could never be applied, a body that is not JSON, and an id that is none."""
    wrong = Operation(op="patch", id=EntityId("urn:a"), body=b"\x91\x81\xa2op\xa3add", blind=True)
    return wrong, Operation(op="set", id=EntityId("urn:a"), body=b"\xc1", blind=True), put("no id", 1)


def _prepared_and_forgotten(operation: Operation) -> None:
    """The caller's frame holds the proposal, and the trace of an error leads to that frame."""
    identity = LocalIdentity(ALICE.did, bytes(16), Local(1))
    proposal = prepare_or_refuse(identity, Hash(bytes(32)), Content(operations=(operation,)))
    assert proposal.refusal is not None


def test_a_proposal_that_could_never_be_accepted_leaves_nothing_in_memory() -> None:
    before = _errors()
    for operation in _bad() * ROUNDS:
        _prepared_and_forgotten(operation)
    assert _errors() <= before + 2


@pytest.mark.rule("WIRE-4")
async def test_a_commit_that_could_never_be_accepted_leaves_nothing_in_memory() -> None:
    async with service_harness() as home:
        peer = await home.peer(ALICE).open()
        before = None
        for number in range(ROUNDS):
            for operation in _bad():
                local = peer.send(operation)
                await peer.settle()
                assert peer.verdict(local).code != "internal"
            peer.events.clear()
            if number == 1:
                before = _errors()
        assert before is not None
        assert _errors() <= before + 2


@pytest.mark.rule("COMMIT-2")
async def test_a_stale_commit_leaves_nothing_in_memory() -> None:
    async with service_harness() as home:
        peer = await home.peer(ALICE).open()
        await peer.commit(put("urn:a", 0))
        before = None
        for number in range(ROUNDS):
            local = peer.send(put("urn:a", 1), reads=(read("urn:a", 0),))
            await peer.settle()
            assert peer.verdict(local).code == "conflict"
            peer.events.clear()
            if number == 1:
                before = _errors()
        assert before is not None
        assert _errors() <= before + 2
