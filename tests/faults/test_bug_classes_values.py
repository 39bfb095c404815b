"""One regression for each bug class of merges, proofs, operations and layers that stores are known for."""

from __future__ import annotations

import msgspec
import pytest

from engines import engine
from faults_worlds import X, in_a_world, write
from service_peers import ALICE, BOB, SPACE, service_harness
from space import SPACE as ENGINE_SPACE
from space import delete_, patch_, set_
from stemmadb.client import Conflict, Space
from stemmadb.client.testing import World
from stemmadb.protocol.errors import BrokenChain, StemmaError, Unauthenticated
from stemmadb.protocol.model.commit.admission import RefusedCommit
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.connection.base import Closed
from stemmadb.protocol.wire.connection.client_side import SessionPosition


@pytest.mark.rule("MERGE-3", "MERGE-4")
@pytest.mark.parametrize("strategy", ["lww", "source", "target", "fields"])
def test_merge_losing_a_delete_one_that_only_one_side_made_holds_and_stays(strategy: str) -> None:
    async def scenario(world: World, main: Space, other: Space) -> None:
        for id_ in ("urn:source", "urn:target", X):
            await write(main, id_, 1)
        draft = await main.branch("draft", create=True)
        for space, id_ in ((draft, "urn:source"), (main, "urn:target")):
            async with space.transaction() as tx:
                tx.delete(id_, blind=True)
            await tx.confirmed()
        await write(draft, X, 2)
        assert await other.get(X) == 1
        for _ in range(2):
            await draft.merge_into("main", strategy=strategy)  # type: ignore[arg-type]
            assert world.truth.entities(main.did, "urn:") == {X: 2}
        await main.merge_into("draft", strategy=strategy)  # type: ignore[arg-type]
        assert world.truth.entities(main.did, "urn:", branch="draft") == {X: 2}

    in_a_world(scenario)


@pytest.mark.rule("FACT-2", "FACT-3")
async def test_false_proof_accepted_a_history_in_which_anything_was_exchanged_does_not_verify() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 1}, blind=True), set_("urn:y", 1, blind=True))
        await it.must(set_(X, {"n": 2}, blind=True))
        await it.must(delete_(X, blind=True))
        history = await it.space.read(lambda reader: list(reader.history()))
    list(chain.verify(ENGINE_SPACE, history))
    (commit, facts), others = history[2], history[:2]
    (fact,) = facts
    (earlier, *_) = history[1][1]
    exchanged = msgspec.structs.replace(fact, body=earlier.body, salt=earlier.salt, digest=earlier.digest)
    renamed = msgspec.structs.replace(fact, id=EntityId("urn:y"))
    for forged in (exchanged, renamed, earlier):
        with pytest.raises(BrokenChain):
            list(chain.verify(ENGINE_SPACE, [*others, (commit, (forged,))]))
    with pytest.raises(BrokenChain):
        list(chain.verify(ENGINE_SPACE, [*others, history[3]]))


@pytest.mark.rule("WIRE-2")
async def test_false_proof_accepted_a_signature_by_another_key_or_of_another_challenge_opens_nothing() -> None:
    async with service_harness() as home:
        used = home.peer(ALICE)
        used.take()
        kept: list[bytes] = []

        def sign(payload: bytes) -> bytes:
            kept.append(ALICE.sign(payload))
            return kept[0]

        used.give(used.connection.open(principal=ALICE.did, session=bytes(16), sign=sign, standing=SessionPosition()))
        await home.settle()
        assert used.closed is None
        for signed in (BOB.sign, SPACE.sign, lambda _: kept[0]):
            peer = home.peer(ALICE)
            peer.take()
            peer.give(peer.connection.open(principal=ALICE.did, session=bytes(16), sign=signed))
            await home.settle()
            assert isinstance(peer.closed, Closed)
            assert isinstance(peer.closed.error, Unauthenticated)


@pytest.mark.rule("COMMIT-6")
async def test_operations_in_one_commit_not_seeing_each_other_each_sees_those_before_it() -> None:
    one, two = {"op": "increment", "path": "/n", "by": 1}, {"op": "add", "path": "/list/-", "value": 2}
    async with engine() as it:
        await it.must(set_(X, {"n": 7}, blind=True))
        await it.must(
            set_(X, {"n": 0, "list": [1]}, blind=True),
            patch_(X, one, two, blind=True),
            patch_(X, one, blind=True),
            set_("urn:y", 1, blind=True),
            delete_("urn:y", blind=True),
        )
        assert await it.value(X) == {"n": 2, "list": [1, 2]}
        assert await it.value("urn:y") is None
        refused = await it.commit(delete_(X, blind=True), patch_(X, one, blind=True))
        assert isinstance(refused, RefusedCommit)
        assert await it.value(X) == {"n": 2, "list": [1, 2]}


async def shown(space: Space) -> list[Value]:
    """What the client shows, without asking anybody."""
    return [await space.get(X), await space.get("urn:refused")]


@pytest.mark.rule("NURSERY-3", "NURSERY-4")
def test_stacked_rollback_resurrecting_a_value_what_is_left_shows_what_it_would_without_it() -> None:
    """The first of three stacked commits is refused: nothing of it is shown again, not through the others either."""

    async def scenario(world: World, alice: Space, bob: Space) -> None:
        await write(alice, X, {"a": 0})
        watch = alice.watch("urn:*")
        await watch.next()
        world.network["alice"].offline()
        async with alice.transaction() as refused:
            value = await refused.get(X)
            assert value == {"a": 0}
            refused.set(X, {"a": 1, "refused": True})
            refused.set("urn:refused", 1)
        async with alice.transaction() as stays:
            stays.patch(X, [{"op": "add", "path": "/b", "value": 2}], blind=True)
        async with alice.transaction() as built:
            built.patch("urn:refused", [{"op": "replace", "path": "", "value": 3}])
        assert await shown(alice) == [{"a": 1, "refused": True, "b": 2}, 3]
        await write(bob, X, {"a": 9})
        world.network["alice"].online()
        with pytest.raises(Conflict):
            await refused.confirmed()
        assert await shown(alice) == [{"a": 9, "b": 2}, None]
        with pytest.raises(StemmaError):
            await built.confirmed()
        await stays.confirmed()
        assert await shown(alice) == [{"a": 9, "b": 2}, None]
        assert world.truth.entities(alice.did, "urn:") == {X: {"a": 9, "b": 2}}

    in_a_world(scenario)
