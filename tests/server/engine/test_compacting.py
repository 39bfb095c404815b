"""Compacting on a real space: what goes, what stays, what is written anew, and what comes between."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from asking import Overtaken, asked, tip_of
from destroying import all_bytes, snapshot_everything, verified
from engines import Engine, engine
from snapshots import drop_snapshots
from space import ALICE, BOB, SPACE, delete_, patch_, set_
from stemmadb.protocol import errors
from stemmadb.protocol.model.commit.admission import RefusedCommit, Repeated
from stemmadb.protocol.model.history.retention import Outline
from stemmadb.protocol.model.log.commit_record import BranchCreate, BranchDelete, Compact, Erase, TagCreate
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import MAIN, BranchName, EntityId, TimeMs, Version
from stemmadb.protocol.model.values.limits import MEBIBYTE, Limits
from stemmadb.server.engine.plan import branch_writes, compaction, compaction_plan, erasure
from stemmadb.server.engine.plan.compaction import CompactionDone
from stemmadb.server.engine.plan.planned_write import ATTEMPTS_MAX
from stemmadb.server.storage.port import Destroyed, FactPosition, LogReader, Snapshot
from stemmadb.server.storage.sqlite import SqliteStorage

X = EntityId("urn:x")
NOW = TimeMs(1_000)
DRAFT = BranchName("draft")
LONG = 16


async def compact(it: Engine, floor: int, name: str = "c", **how: Any) -> CompactionDone:
    return await compaction.compact(it.space, asked(name), Version(floor), now=NOW, **how)


async def bodies(it: Engine) -> list[int]:
    """The versions at which the entity still has a body."""

    def ask(reader: LogReader) -> list[int]:
        return [fact.version for fact in reader.facts_of(X) if fact.body is not None]

    return await it.space.read(ask)


async def facts_at(it: Engine, version: int) -> tuple[Fact, ...]:
    def ask(reader: LogReader) -> tuple[Fact, ...]:
        return reader.facts([Version(version)]).get(Version(version), ())

    return await it.space.read(ask)


async def snapshots(it: Engine) -> list[Snapshot]:
    return await it.space.read(lambda reader: list(reader.snapshots()))


async def patched(it: Engine, times: int, branch: str = "main") -> None:
    for number in range(times):
        edit = {"op": "replace", "path": "/n", "value": number}
        await it.must(patch_(X, edit, blind=True), branch=branch)


async def fork(it: Engine, at: int | None = None) -> None:
    version = it.space.version if at is None else Version(at)
    await it.structure(BranchCreate(name=DRAFT, parent=MAIN, fork=version))


@pytest.mark.rule("COMPACT-1", "HISTORY-2")
async def test_what_was_overwritten_below_the_floor_goes_and_answers_compacted() -> None:
    async with engine() as it:
        for number in range(4):
            await it.must(set_(X, {"n": number}, blind=True))
        done = await compact(it, 4)
        assert (done.version, done.floor, done.bodies, done.bytes) == (6, 4, 2, 2 * len(b"\x81\xa1n\x00"))
        assert (done.blobs, done.snapshots) == (0, 0)
        assert await bodies(it) == [4, 5]
        assert await it.value(X, version=4) == {"n": 2}
        with pytest.raises(errors.Compacted) as told:
            await it.value(X, version=3)
        assert told.value.facts == {"version": 3, "oldest": 4}
        record = await it.space.read(lambda reader: reader.commits([done.version])[done.version])
        assert (record.details, record.hash, record.time) == (
            Compact(floor=Version(4), bodies=2, bytes=done.bytes),
            done.hash,
            done.time,
        )
        await verified(it)


@pytest.mark.rule("COMPACT-1")
async def test_tags_keep_what_they_name() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 1}, blind=True))
        await it.must(patch_(X, {"op": "replace", "path": "/n", "value": 2}, blind=True))
        await it.structure(TagCreate(name="kept", branch=MAIN, version=Version(3)))
        for number in range(3):
            await it.must(set_(X, {"n": number}, blind=True))
        await compact(it, 7)
        assert await bodies(it) == [2, 3, 7]
        assert await it.value(X, version=3) == {"n": 2}
        with pytest.raises(errors.Compacted):
            await it.value(X, version=2)


@pytest.mark.rule("COMPACT-1", "COMMIT-5", "COMMIT-11")
async def test_exactly_once_holds_for_what_is_gone_and_for_the_compaction() -> None:
    async with engine() as it:
        first = it.propose(set_(X, {"n": 1}, blind=True))
        await it.space.decide(first)
        await it.must(set_(X, {"n": 2}, blind=True))
        done = await compact(it, 3)
        head = await tip_of(it.space)
        assert await it.space.decide(first) == Repeated(Version(2))
        again = await compact(it, 3)
        assert again == done
        assert (again.floor, again.bodies) == (3, 1)
        with pytest.raises(errors.IdentityClash):
            await compaction.compact(it.space, asked("c", request="other"), Version(2), now=NOW)
        assert await tip_of(it.space) == head
        await compact(it, 4, "later")
        assert await compact(it, 3) == done


@pytest.mark.rule("COMPACT-1")
async def test_a_floor_at_or_below_the_present_one_takes_nothing_that_can_be_read() -> None:
    async with engine() as it:
        for number in range(4):
            await it.must(set_(X, {"n": number}, blind=True))
        await compact(it, 4)
        for floor in (0, 2, 4):
            done = await compact(it, floor, f"c{floor}")
            assert (done.floor, done.bodies) == (4, 0)
        assert await it.value(X, version=4) == {"n": 2}
        await verified(it)


@pytest.mark.rule("COMPACT-1", "ACL-1")
async def test_what_cannot_be_compacted_is_refused_and_nothing_is_written() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 1}, blind=True))
        await it.must(set_(X, {"n": 2}, blind=True))
        head = await tip_of(it.space)
        with pytest.raises(errors.FutureVersion):
            await compact(it, 4)
        with pytest.raises(errors.Malformed):
            await compact(it, -1)
        with pytest.raises(errors.Forbidden) as told:
            await compaction.compact(it.space, asked("b", author=BOB), Version(99), now=NOW)
        assert told.value.facts == {"action": "write", "needs": "own"}
        assert await tip_of(it.space) == head
        assert await bodies(it) == [2, 3]


@pytest.mark.rule("COMPACT-1", "FACT-1")
async def test_a_long_chain_gets_a_checkpoint_and_goes_with_the_next_compaction() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, LONG)
        head = it.space.version
        done = await compact(it, head)
        assert done.bodies == 0
        (checkpoint,) = await facts_at(it, done.version)
        assert (checkpoint.kind, checkpoint.branch, checkpoint.id) == ("checkpoint", MAIN, X)
        await it.must(patch_(X, {"op": "add", "path": "/m", "value": 1}, blind=True))
        again = await compact(it, it.space.version, "again")
        assert again.bodies == LONG + 1
        assert await bodies(it) == [done.version, done.version + 1]
        assert await it.value(X) == {"n": LONG - 1, "m": 1}
        assert await facts_at(it, again.version) == ()
        await verified(it)


@pytest.mark.rule("COMPACT-1")
async def test_checkpoints_are_written_only_where_they_help() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        begun = it.space.version
        await patched(it, LONG - 1)
        assert await facts_at(it, (await compact(it, it.space.version, "short")).version) == ()
        await patched(it, 1)
        assert await facts_at(it, (await compact(it, begun, "begins at the floor")).version) == ()
        done = await compact(it, it.space.version, "not wanted", checkpoints=False)
        assert await facts_at(it, done.version) == ()
        await it.must(delete_(X, blind=True))
        assert await facts_at(it, (await compact(it, it.space.version, "deleted")).version) == ()


@pytest.mark.rule("COMPACT-1", "ERASE-1")
async def test_what_is_erased_gets_no_snapshot_at_the_floor() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, {"n": "secret"}, blind=True))
        await patched(it, LONG)
        floor = it.space.version
        await erasure.erase(it.space, asked("e"), {X: [secret]}, {})
        await it.space.in_turn(drop_snapshots)
        await compact(it, floor)
        assert await snapshots(it) == []


@pytest.mark.rule("COMPACT-1", "ERASE-1")
async def test_an_erased_head_gets_no_checkpoint() -> None:
    async with engine() as it:
        secret = await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, LONG)
        details, gone = Erase(id=X, versions=(secret,)), Destroyed(facts=[FactPosition(secret, 0)], snapshots_of=[X])
        await it.structure(details, destroyed=gone)  # by one who did not mend the head
        assert await facts_at(it, (await compact(it, it.space.version)).version) == ()


@pytest.mark.rule("COMPACT-1")
async def test_a_value_as_large_as_its_patches_is_left_alone() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": "x" * 5_000}, blind=True))
        for number in range(6):
            edit = {"op": "replace", "path": "/n", "value": str(number) * 1_000}
            await it.must(patch_(X, edit, {"op": "add", "path": "/m", "value": "y" * 5_000}, blind=True))
        assert await facts_at(it, (await compact(it, it.space.version)).version) != ()
        await it.must(set_(X, {"n": "x" * 50_000}, blind=True))
        await it.must(patch_(X, {"op": "add", "path": "/m", "value": "y" * 5_000}, blind=True))
        assert await facts_at(it, (await compact(it, it.space.version, "large")).version) == ()


@pytest.mark.rule("COMPACT-1")
async def test_checkpoints_are_bounded_in_number_and_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine(limits=Limits(bulk_operations_max=2)) as it:
        for name in "abc":
            await it.must(set_(f"urn:{name}", {"n": 0}, blind=True))
            for number in range(LONG):
                edit = {"op": "replace", "path": "/n", "value": number}
                await it.must(patch_(f"urn:{name}", edit, blind=True))
        floor = it.space.version
        assert [fact.id for fact in await facts_at(it, (await compact(it, floor)).version)] == ["urn:a", "urn:b"]
        assert [fact.id for fact in await facts_at(it, (await compact(it, floor, "d")).version)] == ["urn:c"]
    monkeypatch.setattr(compaction_plan, "CHECKPOINT_BYTES_MAX", 9)
    async with engine() as it:
        for id_ in (X, "urn:y", "urn:z"):
            await it.must(set_(id_, {"n": 0}, blind=True))
            for number in range(LONG):
                await it.must(patch_(id_, {"op": "replace", "path": "/n", "value": number}, blind=True))
        done = await compact(it, it.space.version)
        assert [len(fact.body or b"") for fact in await facts_at(it, done.version)] == [4, 4]


@pytest.mark.rule("COMPACT-1", "SNAP-1")
async def test_snapshots_below_the_floor_go_but_for_one_where_the_way_to_it_is_long() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, LONG)
        last = it.space.version
        floor = await it.must(set_("urn:short", {"n": 0}, blind=True))
        await patched(it, 5)
        await snapshot_everything(it)
        kept = {one.place for one in await snapshots(it) if one.place.version >= floor}
        dropped = len(await snapshots(it)) - len(kept)
        done = await compact(it, floor)
        assert (done.snapshots, done.bytes > 0) == (dropped, True)
        assert {one.place for one in await snapshots(it)} == kept | {FactPosition(last, 0)}
        value = await it.value(X, version=floor)
        await it.space.in_turn(drop_snapshots)
        assert await it.value(X, version=floor) == value == {"n": LONG - 1}


@pytest.mark.rule("COMPACT-1", "SNAP-1")
async def test_the_snapshot_at_the_floor_is_of_the_fact_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await patched(it, LONG)
        last = it.space.version
        await it.must(set_("urn:other", 1, blind=True))
        await it.space.in_turn(drop_snapshots)
        await compact(it, it.space.version)
        assert [(one.id, one.place.version) for one in await snapshots(it)] == [(X, last)]
        monkeypatch.setattr(compaction_plan, "RENEWED_MAX", 0)
        await compact(it, it.space.version, "again", checkpoints=False)
        assert await snapshots(it) == []


def once(act: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[None]]:
    left = [act]

    async def meanwhile() -> None:
        if left:
            await left.pop()()

    return meanwhile


@pytest.mark.rule("COMPACT-1", "COMMIT-2")
async def test_a_head_that_is_written_meanwhile_gets_no_checkpoint_and_the_rest_goes_on() -> None:
    async with engine() as it:
        for id_ in (X, "urn:y"):
            await it.must(set_(id_, {"n": 0}, blind=True))
            for number in range(LONG):
                await it.must(patch_(id_, {"op": "replace", "path": "/n", "value": number}, blind=True))
        space = Overtaken(it.space, once(lambda: it.must(set_(X, {"n": "new"}, blind=True))))
        done = await compaction.compact(space, asked("c"), it.space.version, now=NOW)
        assert space.decisions == 2
        assert [fact.id for fact in await facts_at(it, done.version)] == ["urn:y"]
        assert await it.value(X) == {"n": "new"}


@pytest.mark.rule("COMPACT-1", "BRANCH-1")
async def test_a_branch_that_is_deleted_meanwhile_gets_no_checkpoint() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await fork(it)
        await patched(it, LONG, "draft")
        space = Overtaken(it.space, once(lambda: it.structure(BranchDelete(name=DRAFT))))
        done = await compaction.compact(space, asked("c"), it.space.version, now=NOW)
        assert space.decisions == 2
        assert await facts_at(it, done.version) == ()


class Interrupted(Overtaken):
    """Something happens between the plan and the look that confirms it."""

    def __init__(self, it: Engine, meanwhile: Callable[[], Awaitable[object]]) -> None:
        super().__init__(it.space, meanwhile)
        self._it = it
        self.looks = 0

    async def read(self, ask: Any) -> Any:
        found = await self._it.space.read(ask)
        self.looks += 1
        await self._meanwhile()
        return found

    async def decide(self, proposal: Any, destroyed: Any = None) -> Any:
        return await self._it.space.decide(proposal, destroyed)


@pytest.mark.rule("COMPACT-1")
async def test_a_branch_or_a_tag_that_is_made_meanwhile_below_the_floor_makes_it_plan_again() -> None:
    async with engine() as it:
        for number in range(6):
            await it.must(set_(X, {"n": number}, blind=True))
        space = Interrupted(it, once(lambda: fork(it, at=3)))
        await compaction.compact(space, asked("c"), Version(6), now=NOW)
        assert await it.value(X, "draft") == {"n": 1}
        assert await bodies(it) == [3, 6, 7]
    async with engine() as it:
        for number in range(6):
            await it.must(set_(X, {"n": number}, blind=True))
        tag = TagCreate(name="t", branch=MAIN, version=Version(4))
        await compaction.compact(Interrupted(it, once(lambda: it.structure(tag))), asked("c"), Version(6), now=NOW)
        assert await it.value(X, version=4) == {"n": 2}


@pytest.mark.rule("COMPACT-1")
async def test_work_that_looks_only_above_the_floor_does_not_make_it_plan_again() -> None:
    async with engine() as it:
        for number in range(6):
            await it.must(set_(X, {"n": number}, blind=True))

        async def work() -> None:
            await fork(it)
            await it.must(set_(X, {"n": "new"}, blind=True), branch="draft")

        space = Interrupted(it, once(work))
        await compaction.compact(space, asked("c"), Version(6), now=NOW)
        assert space.looks == 2, "the plan and its confirmation"
        assert await it.value(X, "draft") == {"n": "new"}


async def test_it_gives_up_after_a_bounded_number_of_attempts() -> None:
    async with engine() as it:
        for number in range(12):
            await it.must(set_(X, {"n": number}, blind=True))
        tags = iter(range(3, 12))

        async def tag() -> None:
            version = Version(next(tags))
            await it.structure(TagCreate(name=f"t{version}", branch=MAIN, version=version))

        with pytest.raises(errors.MergeBusy):
            await compaction.compact(Interrupted(it, tag), asked("c"), Version(13), now=NOW)
        assert len(await bodies(it)) == 12
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await fork(it)
        await patched(it, LONG)
        space = Refusing(it)
        with pytest.raises(errors.MergeBusy):
            await compaction.compact(space, asked("c"), it.space.version, now=NOW)
        assert space.decisions == ATTEMPTS_MAX


class Refusing(Overtaken):
    """A space on which every decision is overtaken, by nothing that the plan could leave out."""

    def __init__(self, it: Engine) -> None:
        super().__init__(it.space, lambda: it.must(set_("urn:other", 1, blind=True)))

    async def decide(self, *_: Any) -> Any:
        self.decisions += 1
        return RefusedCommit(errors.Conflict(count=1, stale=()), Version(0))


@pytest.mark.rule("COMMIT-11")
async def test_a_compaction_that_is_accepted_twice_at_a_time_is_done_once() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        await it.must(set_(X, {"n": 1}, blind=True))
        space = Overtaken(it.space, once(lambda: compact(it, 3)))
        done = await compaction.compact(space, asked("c"), Version(3), now=NOW)
        assert done.version == it.space.version == 4


async def test_what_admission_refuses_is_raised() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": 0}, blind=True))
        roles = {SPACE: "own", ALICE: "read"}
        revoke = once(lambda: it.must(set_(SPACE, roles, blind=True), author=SPACE, session="first"))
        with pytest.raises(errors.Forbidden):
            await compaction.compact(Overtaken(it.space, revoke), asked("c"), Version(2), now=NOW)


@pytest.mark.rule("COMPACT-1")
async def test_a_fork_or_a_tag_below_the_floor_is_refused_unless_a_tag_keeps_it() -> None:
    async with engine() as it:
        for number in range(4):
            await it.must(set_(X, {"n": number}, blind=True))
        await it.structure(TagCreate(name="kept", branch=MAIN, version=Version(3)))
        await compact(it, 5)
        with pytest.raises(errors.Compacted):
            await branch_writes.create_branch(it.space, asked("b"), name=DRAFT, fork=Version(2))
        with pytest.raises(errors.Compacted):
            await branch_writes.create_tag(it.space, asked("t"), name="late", version=Version(4))
        await branch_writes.create_branch(it.space, asked("k"), name=DRAFT, fork=Version(3))
        assert await it.value(X, "draft") == {"n": 1}


def test_places_take_eight_bytes_each_and_come_back_as_they_were() -> None:
    places = compaction_plan.FactPlaces()
    facts = [(1, 0), (2**40, 99_999), (7, 2**20 - 1)]
    for version, index in facts:
        places.add(Outline(Version(version), index, MAIN, "set", 1))
    assert list(places) == [FactPosition(Version(version), index) for version, index in facts]
    assert len(places) == 3
    assert FactPosition(Version(7), 2**20 - 1) in places
    assert FactPosition(Version(7), 0) not in places


async def test_nothing_of_what_went_is_left_in_the_log() -> None:
    async with engine() as it:
        await it.must(set_(X, {"n": "old secret"}, blind=True))
        await snapshot_everything(it)
        await it.must(set_(X, {"n": "new"}, blind=True))
        await compact(it, 3)
        assert b"old secret" not in await all_bytes(it)


@pytest.mark.rule("COMPACT-1")
async def test_values_as_large_as_they_may_be_are_compacted(tmp_path: Path) -> None:
    async with engine(SqliteStorage(tmp_path)) as it:
        for number in range(4):
            await it.must(set_("urn:large", {"n": number, "text": "x" * (7 * MEBIBYTE)}, blind=True))
        for number in range(20):
            await it.must(patch_("urn:large", {"op": "replace", "path": "/n", "value": number}, blind=True))
        done = await compact(it, it.space.version, "large values")
        assert done.bodies >= 3
        assert done.bytes >= 3 * 7 * MEBIBYTE
        value = await it.value("urn:large")
        assert (value["n"], len(value["text"])) == (19, 7 * MEBIBYTE)
        assert sum(path.stat().st_size for path in tmp_path.rglob("*.db")) < 3 * 7 * MEBIBYTE
