"""Commits and other writes of those who act under delegations, in a real space (ACL-1, ACL-4)."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from delegations import DORA, EMIL, OLGA, delegate
from engines import Clock, Engine, Held, engine, turns
from space import ALICE, SPACE, patch_, prefix_, set_, structural
from stemmadb.protocol.errors import Forbidden
from stemmadb.protocol.model.access.delegation import DelegatedRights, name_of, verify
from stemmadb.protocol.model.commit.admission import Accepted, Outcome
from stemmadb.protocol.model.commit.proposal import Proposal
from stemmadb.protocol.model.log.commit_record import Identity, OperationIdentity, Revoke
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, TimeMs, Version
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.engine.base.executors import Executors
from stemmadb.server.engine.base.space_port import Asked
from stemmadb.server.engine.plan import branch_writes, compaction, erasure, merge, undo
from stemmadb.server.engine.plan.merge import MergeWanted
from stemmadb.server.engine.plan.undo import RevertWanted
from stemmadb.server.storage.memory import MemoryStorage
from stemmadb.server.storage.sqlite import SqliteStorage
from verdicts import code, refusal

ACCESS = {SPACE: "own", OLGA.did: "own", ALICE: "write"}
MINE, OTHER = "urn:a:1", "urn:b:1"
TOKEN = delegate(OLGA, DORA)


def shown(*tokens: bytes) -> tuple[DelegatedRights, ...]:
    return verify(tokens, space=SPACE, audience=DORA.did)


DELEGATED = shown(TOKEN)


@asynccontextmanager
async def delegating(**how: Any) -> AsyncIterator[Engine]:
    async with engine(access=ACCESS, clock=Clock(5_000), **how) as it:
        await it.must(set_(MINE, {"n": 0}, blind=True), set_(OTHER, {"n": 0}, blind=True))
        yield it


def proposed(
    it: Engine, *operations: Any, delegated: tuple[DelegatedRights, ...] = DELEGATED, **how: Any
) -> Proposal:
    plain = it.propose(*operations, author=DORA.did, session="dora", **how)
    return msgspec.structs.replace(plain, delegated=delegated)


async def commit(it: Engine, *operations: Any, **how: Any) -> Outcome:
    return await it.space.decide(proposed(it, *operations, **how))


def asked(number: int, delegated: tuple[DelegatedRights, ...] = DELEGATED, at: int = 5_000) -> Asked:
    identity = OperationIdentity(DORA.did, number.to_bytes(16, "big"))
    return Asked(identity, Hash(number.to_bytes(32, "big")), delegated=delegated, at=TimeMs(at))


@pytest.mark.rule("ACL-4")
@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_delegate_writes_until_it_is_revoked(kind: str, tmp_path: Path) -> None:
    storage = MemoryStorage() if kind == "memory" else SqliteStorage(tmp_path)
    async with delegating(storage=storage) as it:
        assert code(await commit(it, set_(MINE, 1, blind=True))) == "accepted"
        assert code(await commit(it, set_(OTHER, 1, blind=True))) == "forbidden"
        assert code(await it.structure(Revoke(delegation=name_of(TOKEN)), author=OLGA.did)) == "accepted"
        assert code(await commit(it, set_(MINE, 2, blind=True))) == "forbidden"
        assert await it.value(MINE) == 1
    async with engine(storage, access=None, clock=Clock(5_000)) as it:
        assert code(await commit(it, set_(MINE, 2, blind=True), local=9)) == "forbidden"
    storage.close()


@pytest.mark.rule("ACL-4")
async def test_a_delegate_whose_chain_was_revoked_writes_nothing_more() -> None:
    above = delegate(OLGA, EMIL, prefixes=("urn:",))
    chain = shown(above, delegate(EMIL, DORA, parent=above))
    async with delegating() as it:
        assert code(await commit(it, set_(MINE, 1, blind=True), delegated=chain)) == "accepted"
        await it.structure(Revoke(delegation=name_of(above)), author=OLGA.did)
        assert code(await commit(it, set_(MINE, 2, blind=True), delegated=chain)) == "forbidden"
        assert code(await commit(it, set_(MINE, 2, blind=True))) == "accepted"


@pytest.mark.rule("ACL-1", "ACL-4", "COMMIT-10")
async def test_a_revocation_in_flight_holds_for_what_comes_after_it() -> None:
    writing = Held()
    async with delegating(workers=Executors(writing=writing, reading=Held())) as it:
        assert code(await commit(it, set_(MINE, 1, blind=True))) == "accepted"
        writing.is_held = True
        revoke = structural(Revoke(delegation=name_of(TOKEN)), "revoke", author=OLGA.did)
        decisions = [it.space.submit(revoke), it.space.submit(proposed(it, set_(MINE, 2, blind=True)))]
        await turns()
        assert not any(one.done() for one in decisions)
        writing.release()
        assert [code(one) for one in await asyncio.gather(*decisions)] == ["accepted", "forbidden"]


@pytest.mark.rule("ACL-1", "ACL-4")
async def test_one_batch_with_a_revocation_in_its_middle_is_decided_in_order() -> None:
    async with delegating() as it:
        batch = [
            proposed(it, set_(MINE, 1, blind=True)),
            structural(Revoke(delegation=name_of(TOKEN)), "revoke", author=OLGA.did),
            proposed(it, set_(MINE, 2, blind=True)),
            it.propose(set_(OTHER, 2, blind=True)),
        ]
        outcomes = await asyncio.gather(*map(it.space.submit, batch))
        assert [code(one) for one in outcomes] == ["accepted", "accepted", "forbidden", "accepted"]


@pytest.mark.rule("ACL-4")
async def test_another_node_that_revokes_is_heard_of() -> None:
    shared = MemoryStorage()
    async with delegating(storage=shared) as one, engine(shared, access=None, clock=Clock(5_000)) as other:
        assert code(await commit(one, set_(MINE, 1, blind=True))) == "accepted"
        revoke = structural(Revoke(delegation=name_of(TOKEN)), "revoke", author=OLGA.did)
        assert code(await other.space.decide(revoke)) == "accepted"
        assert code(await commit(one, set_(MINE, 2, blind=True))) == "forbidden"


@pytest.mark.rule("ACL-4")
async def test_a_delegation_expires_while_its_holder_works() -> None:
    async with delegating() as it:
        it.clock.now = 8_999
        assert code(await commit(it, set_(MINE, 1, blind=True))) == "accepted"
        it.clock.now = 9_000
        assert code(await commit(it, set_(MINE, 2, blind=True))) == "forbidden"


# ---------------------------------------------------------------- declared reads


@pytest.mark.rule("COMMIT-2", "ACL-1")
async def test_how_much_others_write_is_not_felt_by_a_delegate() -> None:
    async with delegating(limits=Limits(scan_facts_max=8)) as it:
        version = it.space.version
        for number in range(20):
            await it.must(set_(f"urn:b:{number}", 1, blind=True), author=ALICE)
        for prefix in ("", "urn:", "urn:a:", "urn:b:"):
            outcome = await commit(it, set_(f"urn:a:new{prefix}", 1, blind=True), reads=[prefix_(prefix, version)])
            assert code(outcome) == "accepted", prefix
            version = it.space.version
        outcome = await it.commit(set_("urn:z", 1, blind=True), reads=[prefix_("urn:", 2)])
        assert code(outcome) == "conflict", "one who may read everything is told"


@pytest.mark.rule("COMMIT-2", "ACL-1")
@pytest.mark.parametrize("prefix", ["", "urn:", "urn:a:"])
async def test_what_changes_in_its_own_ids_is_felt_however_much_changes_elsewhere(prefix: str) -> None:
    async with delegating(limits=Limits(scan_facts_max=8)) as it:
        version = it.space.version
        for number in range(20):
            await it.must(set_(f"urn:{'0' if number % 2 else 'z'}:{number}", 1, blind=True), author=ALICE)
        await it.must(set_("urn:a:2", 1, blind=True), author=ALICE)
        error = refusal(await commit(it, set_("urn:a:3", 1, blind=True), reads=[prefix_(prefix, version)]))
        assert [one.id for one in error.facts["stale"]] == ["urn:a:2"]


@pytest.mark.rule("COMMIT-2", "ACL-4")
async def test_reads_are_narrowed_to_those_delegations_that_hold() -> None:
    second = delegate(OLGA, DORA, prefixes=("urn:b:", "urn:"), expires=6_000)
    both = shown(TOKEN, second)
    async with delegating() as it:
        version = it.space.version
        await it.must(set_(OTHER, 1, blind=True), author=ALICE)
        reads = [prefix_("", version)]
        assert code(await commit(it, set_("urn:a:3", 1, blind=True), reads=reads, delegated=both)) == "conflict"
        it.clock.now = 7_000
        assert code(await commit(it, set_("urn:a:3", 1, blind=True), reads=reads, delegated=both)) == "accepted"


# ---------------------------------------------------------------- writes beside commits


async def forked(it: Engine, *ids: str) -> None:
    """A branch on which these were changed."""
    await branch_writes.create_branch(it.space, owner(1), name=BranchName("draft"))
    for id_ in ids:
        operation = patch_(id_, {"op": "replace", "path": "/n", "value": 7}, blind=True)
        await it.must(operation, branch="draft", author=ALICE)


def owner(number: int) -> Asked:
    return Asked(OperationIdentity(OLGA.did, number.to_bytes(16, "big")), Hash(number.to_bytes(32, "big")))


WANTED = MergeWanted(source=BranchName("draft"))


@pytest.mark.rule("ACL-1", "ACL-4")
@pytest.mark.parametrize("changed", [(MINE, OTHER), (MINE,), (OTHER,)])
async def test_a_delegate_for_some_ids_merges_nothing(changed: tuple[str, ...]) -> None:
    """Also where all of it is within its ids: what a merge leaves out, a later one does not merge any more."""
    async with delegating() as it:
        await forked(it, *changed)
        with pytest.raises(Forbidden) as caught:
            await merge.merge(it.space, asked(1), WANTED)
        assert "urn:" not in caught.value.message
        assert await it.value(MINE) == {"n": 0}


@pytest.mark.rule("ACL-1", "ACL-4")
async def test_a_delegate_undoes_only_what_is_all_within_its_ids() -> None:
    async with delegating() as it:
        inside = await it.must(set_("urn:a:5", 1, blind=True), author=ALICE)
        across = await it.must(set_("urn:a:6", 1, blind=True), set_("urn:b:6", 1, blind=True), author=ALICE)
        with pytest.raises(Forbidden):
            await undo.revert(it.space, asked(1), RevertWanted(versions=(across,)))
        done = await undo.revert(it.space, asked(2), RevertWanted(versions=(inside,)))
        assert done.reverted == (inside,)


@pytest.mark.rule("ACL-1", "ACL-4")
@pytest.mark.parametrize(
    ("delegated", "at"),
    [
        (DELEGATED, 9_000),
        (DELEGATED, 999),
        (shown(delegate(OLGA, DORA, role="read")), 5_000),
        (verify([delegate(EMIL, DORA)], space=SPACE, audience=DORA.did), 5_000),
    ],
)
@pytest.mark.parametrize("dry_run", [True, False])
async def test_nothing_is_planned_for_one_whose_delegation_does_not_hold(
    delegated: tuple[DelegatedRights, ...], at: int, dry_run: bool
) -> None:
    async with engine(access=ACCESS, clock=Clock(500)) as it:
        await it.must(set_(MINE, {"n": 0}, blind=True))
        await forked(it, MINE)
        it.clock.now = at
        with pytest.raises(Forbidden):
            await merge.merge(it.space, asked(1, delegated, at), WANTED, dry_run=dry_run)
        with pytest.raises(Forbidden):
            await undo.revert(
                it.space, asked(2, delegated, at), RevertWanted(versions=(Version(2),)), dry_run=dry_run
            )


@pytest.mark.rule("ACL-4", "COMMIT-7")
async def test_what_is_planned_goes_by_the_later_of_the_clock_and_the_log() -> None:
    async with delegating() as it:
        await forked(it, MINE)
        assert (await merge.merge(it.space, asked(1, at=8_999), WANTED, dry_run=True)).writes
        with pytest.raises(Forbidden):
            await merge.merge(it.space, asked(1, at=9_000), WANTED, dry_run=True)
        it.clock.now = 9_000
        await it.must(set_(OTHER, 1, blind=True))
        with pytest.raises(Forbidden):
            await merge.merge(it.space, asked(1, at=8_999), WANTED, dry_run=True)


@pytest.mark.rule("ACL-4")
async def test_nothing_is_planned_for_one_who_was_revoked() -> None:
    async with delegating() as it:
        await forked(it, MINE)
        assert (await merge.merge(it.space, asked(1), WANTED, dry_run=True)).writes
        await it.structure(Revoke(delegation=name_of(TOKEN)), author=OLGA.did)
        with pytest.raises(Forbidden):
            await merge.merge(it.space, asked(1), WANTED, dry_run=True)


@pytest.mark.rule("ACL-1", "ACL-4")
async def test_an_owner_that_shows_a_narrow_delegation_does_nothing_that_owners_do() -> None:
    roles = {**ACCESS, DORA.did: "own"}
    async with engine(access=roles, clock=Clock(5_000)) as it:
        version = await it.must(set_(MINE, 1, blind=True))
        draft = BranchName("draft")
        writes: list[Callable[[Asked], Awaitable[object]]] = [
            lambda by: branch_writes.create_branch(it.space, by, name=draft),
            lambda by: branch_writes.create_tag(it.space, by, name="t"),
            lambda by: compaction.compact(it.space, by, Version(1), now=TimeMs(5_000)),
            lambda by: erasure.erase(it.space, by, {EntityId(MINE): [version]}, {BranchName("main"): b"\x01"}),
        ]
        for number, write in enumerate(writes, 1):
            with pytest.raises(Forbidden):
                await write(asked(number))
        assert it.space.version == version
        for number, write in enumerate(writes, 1):
            await write(asked(number, delegated=()))


# ---------------------------------------------------------------- what is decided at once is decided right


@pytest.mark.rule("ACL-1", "ACL-4")
@pytest.mark.parametrize("seed", range(6))
async def test_every_verdict_is_what_the_log_before_it_says(seed: int) -> None:
    """Commits of delegates, revocations and new lists, all at once; then each accepted one is judged by the log."""
    chance = random.Random(seed)
    tokens = [delegate(OLGA, DORA, nonce=bytes([number]) * 16) for number in range(6)]
    async with delegating() as it:
        waiting: list[asyncio.Future[Outcome]] = []
        names: dict[Identity, bytes] = {}
        for number in range(60):
            token, kind = chance.choice(tokens), chance.randrange(8)
            if kind == 0:
                name = f"revoke {number}"
                waiting.append(it.space.submit(structural(Revoke(delegation=name_of(token)), name, author=SPACE)))
            elif kind == 1:
                roles = {**ACCESS, OLGA.did: chance.choice(["own", "own", "write"])}
                operation = set_(SPACE, roles, blind=True)
                waiting.append(it.space.submit(it.propose(operation, author=SPACE, session="list")))
            else:
                one = proposed(it, set_(MINE, number, blind=True), delegated=shown(token))
                names[one.identity] = name_of(token)
                waiting.append(it.space.submit(one))
            if chance.randrange(5) == 0:
                await turns(chance.randrange(4))
        outcomes = await asyncio.gather(*waiting)
        assert {code(one) for one in outcomes} == {"accepted", "forbidden"}
        history = await it.space.read(lambda reader: list(reader.history()))
        is_owner, revoked = True, set[bytes]()
        accepted = {one.commit.identity for one in outcomes if isinstance(one, Accepted)}
        for record, facts in history:
            if record.identity in names:
                assert is_owner
                assert names[record.identity] not in revoked
            if isinstance(record.details, Revoke):
                revoked.add(record.details.delegation)
            for fact in facts:
                if fact.id == EntityId(SPACE) and fact.body is not None:
                    is_owner = msgspec.msgpack.decode(fact.body).get(OLGA.did) == "own"
        assert accepted <= {record.identity for record, _ in history}
