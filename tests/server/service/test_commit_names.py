"""Two clients with copies of one journal use the same names for different commits; reads mean the right one."""

from __future__ import annotations

import pytest

from service_peers import ALICE, Peer, put, service_harness
from stemmadb.protocol.model.commit.request import Read
from stemmadb.protocol.model.values.ids import EntityId, Local, Version
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict, RejectedVerdict, Verdict

SESSION = bytes(15) + b"7"
X, Y = "urn:x:1", "urn:x:2"


@pytest.mark.rule("COMMIT-4")
async def test_what_was_built_on_an_own_commit_is_not_accepted_on_another_one_of_the_same_name() -> None:
    """Simulation, seed 1000258: a commit was refused and all above it fell, and one of those was accepted."""
    async with service_harness() as home:
        first = await home.peer(ALICE, session=SESSION).open()
        assert isinstance(await first.commit(put(X, "the one")), AcceptedVerdict)
        second = await home.peer(ALICE, session=SESSION).open()
        clash = second.send(put(X, "the other"))
        built = second.send(put(Y, "on the other"), reads=(through(clash),))
        await home.settle()
        clashed = last(second, clash)
        assert isinstance(clashed, RejectedVerdict)
        assert clashed.code == "identity_clash"
        against = last(second, built)
        assert isinstance(against, RejectedVerdict)
        assert against.code == "dependency"


@pytest.mark.rule("COMMIT-4")
async def test_that_holds_for_commits_of_an_older_session_as_well() -> None:
    """Simulation, seed 1000960: plain locals are those of the session that the commit names."""
    async with service_harness() as home:
        first = await home.peer(ALICE, session=SESSION).open()
        assert isinstance(await first.commit(put(X, "the one")), AcceptedVerdict)
        second = await home.peer(ALICE, session=bytes(15) + b"8").open()
        second.send(put(X, "the other"), local=Local(1), session=SESSION)
        second.send(put(Y, "on the other"), local=Local(2), session=SESSION, reads=(through(Local(1)),))
        await home.settle()
        clashed, against = last(second, Local(1)), last(second, Local(2))
        assert isinstance(clashed, RejectedVerdict)
        assert isinstance(against, RejectedVerdict)
        assert (clashed.code, against.code) == ("identity_clash", "dependency")


@pytest.mark.rule("COMMIT-4")
async def test_what_was_built_on_an_own_commit_is_accepted_also_if_that_is_sent_again_first() -> None:
    async with service_harness() as home:
        first = await home.peer(ALICE, session=SESSION).open()
        first.send(put(X, "the one"))
        await home.settle()
        second = await home.peer(ALICE, session=SESSION).open()
        again = second.send(put(X, "the one"))
        built = second.send(put(Y, "on it"), reads=(through(again),))
        await home.settle()
        assert isinstance(last(second, again), AcceptedVerdict)
        assert isinstance(last(second, built), AcceptedVerdict)


def last(peer: Peer, local: Local) -> Verdict:
    """On opening it was told what became of the one that it does not know."""
    return [one for frame in peer.frames for one in frame.verdicts if one.local == local][-1]


def through(local: Local) -> Read:
    return Read(id=EntityId(Y), version=Version(1), locals=(local,))
