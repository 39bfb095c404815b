"""Watches over a real connection: no change is lost, none is told twice, whatever happens to the connection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from session_worlds import App, Stage, staged, staged_in, until
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.watches import Watch
from stemmadb.protocol.errors import BranchDeleted, GoingAway, LimitExceeded, UnknownBranch
from stemmadb.protocol.model.values.ids import EntityId
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.service.base.settings import ServiceSettings


class Mirror:
    """What an app knows that does as the documentation of `Change` says."""

    def __init__(self, watch: Watch) -> None:
        self.values: dict[str, Any] = {}
        self.version = 0
        self.may_fall = False
        self.error: BaseException | None = None
        self._watch = watch
        self.task = asyncio.create_task(self._follow())

    async def _follow(self) -> None:
        try:
            while True:
                change = await self._watch.next()
                assert not change.entered.keys() & self.values.keys(), "what is there does not enter"
                assert change.updated.keys() <= self.values.keys(), "what is not there is not updated"
                assert all(self.values[id_] != value for id_, value in change.updated.items()), "told twice"
                assert self.may_fall or change.version >= self.version, "versions never fall"
                self.version = change.version
                self.values |= change.entered | change.updated
                for id_ in change.left:
                    del self.values[id_]
        except Exception as error:
            self.error = error


async def follows(stage: Stage, mirror: Mirror) -> None:
    """Waits until the app knows what is durable, and no longer than a reconnect takes."""
    await until(lambda: mirror.error or mirror.values == stage.entities(), seconds=60, step=0.1)
    assert mirror.error is None


@pytest.mark.rule("SYNC-7")
@pytest.mark.parametrize("delay", [0.0, 0.004, 0.008, 0.012, 0.016])
def test_a_commit_between_the_request_of_a_watch_and_its_fill_is_told_once(delay: float) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app, bob = await stage.app(), await stage.app("bob")
        await (await bob.set("urn:a", {"n": 0})).confirmed()
        mirror = Mirror(app.space.watch("urn:*"))
        await asyncio.sleep(delay)
        for number in range(5):
            await bob.increment("urn:a")
            await bob.set(f"urn:{number}", number)
        await bob.space.settled()
        await follows(stage, mirror)
        assert mirror.values[EntityId("urn:a")] == {"n": 5}

    scenario()


@pytest.mark.rule("RESUME-1", "NURSERY-4")
@staged
async def test_a_watch_goes_on_over_reconnects_and_tells_only_what_changed(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    for number in range(10):
        await (await bob.set(f"urn:{number}", {"n": 0})).confirmed()
    watch = app.space.watch("urn:*")
    await watch.next()
    for round_ in range(5):
        app.line.offline()
        await (await bob.increment(f"urn:{round_}")).confirmed()
        app.line.online()
        change = await watch.next()
        assert change.updated == {f"urn:{round_}": {"n": 1}}
        assert not change.entered
        assert not change.left
    watch.close()


@pytest.mark.rule("SYNC-7", "RESUME-1")
@staged
async def test_a_watch_that_was_begun_offline_or_cut_while_it_fills_comes_whole(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    for number in range(50):
        await bob.set(f"urn:{number}", {"text": "x" * 20_000})
    await bob.space.settled()
    app.line.offline()
    first = Mirror(app.space.watch("urn:*"))
    app.line.online()
    app.line.drop_after(3)
    await follows(stage, first)
    app.line.drop_after(2)
    second = Mirror(app.space.watch("urn:1*"))
    await until(lambda: len(second.values) == 11)
    await (await bob.set("urn:1", 1)).confirmed()
    await follows(stage, first)
    await until(lambda: second.values[EntityId("urn:1")] == 1)


@pytest.mark.rule("RESUME-1")
@staged
async def test_a_watch_goes_on_over_a_compaction_of_where_it_stood(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    await (await bob.set("urn:a", {"n": 0})).confirmed()
    await (await bob.set("urn:b", {"n": 0})).confirmed()
    watch = app.space.watch("urn:*")
    await watch.next()
    app.line.offline()
    pending = await app.set("urn:mine", 1, blind=True)
    await (await bob.increment("urn:a")).confirmed()
    async with bob.space.transaction() as tx:
        tx.delete("urn:b")
    await tx.confirmed()
    owner = await stage.app("alice", line="another of alice")
    await owner.space.compact(4)
    app.line.online()
    await pending.confirmed()
    seen: dict[str, Any] = {EntityId("urn:a"): {"n": 0}, EntityId("urn:b"): {"n": 0}}
    while seen != stage.entities():
        change = await watch.next()
        seen |= change.entered | change.updated
        for id_ in change.left:
            del seen[id_]
    assert seen == {"urn:a": {"n": 1}, "urn:mine": 1}
    watch.close()


@pytest.mark.rule("RESUME-4", "NURSERY-7")
@staged
async def test_a_server_restored_from_a_backup_reports_what_it_lost_and_undecided_work_is_rejected(
    stage: Stage,
) -> None:
    app = await stage.app(disk=SimulatedJournal())
    await (await app.set("urn:a", {"n": 0})).confirmed()
    mirror = Mirror(app.space.watch("urn:*"))
    backup = stage.world.backup()
    lost: list[Any] = []
    app.space.on_lost(lost.append)
    await (await app.set("urn:b", {"n": 1})).confirmed()
    await (await app.increment("urn:a")).confirmed()
    app.line.offline()
    undecided = await app.set("urn:c", {"n": 1}, blind=True)
    await stage.world.restore(backup)
    mirror.may_fall = True
    app.line.online()
    await app.space.settled()
    await follows(stage, mirror)
    assert mirror.values == {"urn:a": {"n": 0}}
    assert undecided.status == "rejected"
    assert [one.code for one in app.space.rejected()] == ["conflict"]
    assert [one.version for one in lost] == [3, 4]
    assert app.space.status().lost == 2
    await (await app.space.rejected()[0].retry()).confirmed()
    await follows(stage, mirror)
    await app.restart()
    assert app.space.status().lost == 0
    assert len(app.disk.state().confirmed) == 2


@pytest.mark.rule("RESUME-4")
@staged
async def test_an_app_that_starts_after_the_restore_reports_the_losses_of_its_earlier_life(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal())
    backup = stage.world.backup()
    await (await app.set("urn:b", {"n": 1})).confirmed()
    await app.kill()
    await stage.world.restore(backup)
    await app.start()
    await app.space.connected()
    assert app.space.status().lost == 1


@pytest.mark.rule("NURSERY-4")
@staged
async def test_a_watch_of_a_branch_that_is_deleted_ends_with_that_error(stage: Stage) -> None:
    app, owner = await stage.app("bob"), await stage.app()
    draft = await owner.space.branch("draft", create=True)
    other = await owner.space.branch("other", create=True)
    watch = (await app.space.branch("draft")).watch("urn:*")
    offline_too = (await app.space.branch("other")).watch("urn:*")
    await watch.next()
    await offline_too.next()
    await owner.space.delete_branch(draft.branch_name)
    with pytest.raises(BranchDeleted):
        await watch.next()
    app.line.offline()
    await owner.space.delete_branch(other.branch_name)
    app.line.online()
    with pytest.raises(BranchDeleted):
        await offline_too.next()
    assert app.space.status().connection == "open"
    await (await app.set("urn:a", 1)).confirmed()


@pytest.mark.rule("NURSERY-4", "BRANCH-1", "COMPACT-1")
@staged
async def test_a_watch_of_a_branch_that_was_deleted_and_compacted_ends_with_an_error(stage: Stage) -> None:
    app, owner = await stage.app("bob"), await stage.app()
    draft = await owner.space.branch("draft", create=True)
    await (await owner.set("urn:a", 1)).confirmed()
    seen = await app.space.branch("draft")
    held = seen.watch("urn:*")
    await held.next()
    app.line.offline()
    await owner.space.delete_branch(draft.branch_name)
    last = await (await owner.set("urn:a", 2)).confirmed()
    await owner.space.compact(last)
    app.line.online()
    with pytest.raises(BranchDeleted):
        await held.next()
    with pytest.raises(BranchDeleted):
        await asyncio.wait_for(anext(aiter(seen.watch("urn:*"))), 30)
    with pytest.raises(BranchDeleted):
        await asyncio.wait_for(anext(aiter(draft.watch("urn:*"))), 30)


@staged
async def test_a_watch_of_a_branch_that_is_not_there_is_refused_and_others_go_on(stage: Stage) -> None:
    app = await stage.app()
    draft = await app.space.branch("draft", create=True)
    other = await app.space.branch("other", create=True)
    backup_of_space = draft.watch("urn:*")
    await backup_of_space.next()
    await app.space.delete_branch("other")
    refused = other.watch("urn:*")
    with pytest.raises((BranchDeleted, UnknownBranch)):
        await refused.next()
    async with draft.transaction() as tx:
        tx.set("urn:a", 1)
    assert (await backup_of_space.next()).entered == {"urn:a": 1}


@staged_in(limits=Limits(watches_max=4))
async def test_one_watch_too_many_is_refused_online_and_offline_and_the_others_go_on(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    mirrors = [Mirror(app.space.watch("urn:*")) for _ in range(4)]
    with pytest.raises(LimitExceeded, match="watches_max"):
        await app.space.watch("urn:*").next()
    app.line.offline()
    await asyncio.sleep(1)
    with pytest.raises(LimitExceeded, match="watches_max"):
        await app.space.watch("urn:b").next()
    app.line.online()
    await (await bob.set("urn:a", 1)).confirmed()
    for mirror in mirrors:
        await follows(stage, mirror)
        mirror.task.cancel()
    assert app.space.status().connection == "open"


@pytest.mark.rule("RESUME-1")
@staged_in(limits=Limits(schema_bytes_max=20_000))
async def test_watches_that_together_are_too_large_for_one_message_go_on_over_a_reconnect(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    schema = {"properties": {"text": {"enum": ["x" * 3_000, "small"]}}}
    mirrors = [Mirror(app.space.watch("urn:*", schema=schema | {"title": str(number)})) for number in range(10)]
    await (await bob.set("urn:a", {"text": "small"})).confirmed()
    for mirror in mirrors:
        await follows(stage, mirror)
    app.line.offline()
    await (await bob.set("urn:b", {"text": "small"})).confirmed()
    app.line.online()
    for mirror in mirrors:
        await follows(stage, mirror)
    assert app.space.status().connection == "open"


@staged_in(limits=Limits(watches_max=4))
async def test_a_watch_that_was_closed_makes_room_for_another(stage: Stage) -> None:
    app = await stage.app()
    for _ in range(20):
        async with app.space.watch("urn:*") as watch:
            await watch.next()


@staged_in(settings=ServiceSettings(requests_per_second=5))
async def test_a_watch_asked_for_too_fast_waits_its_turn(stage: Stage) -> None:
    app, bob = await stage.app(), await stage.app("bob")
    mirrors = [Mirror(app.space.watch(f"urn:{number}")) for number in range(20)]
    for number in range(20):
        await bob.set(f"urn:{number}", number)
    await bob.space.settled()
    for number, mirror in enumerate(mirrors):
        await until(lambda number=number, mirror=mirror: mirror.error or mirror.values == {f"urn:{number}": number})  # type: ignore[misc]
        assert mirror.error is None


@pytest.mark.rule("NURSERY-4")
@staged
async def test_closing_a_watch_or_the_client_ends_the_iteration(stage: Stage) -> None:
    app = await stage.app()
    watch = app.space.watch("urn:*")
    await watch.next()
    waiting = asyncio.create_task(watch.next())
    await asyncio.sleep(1)
    watch.close()
    with pytest.raises(GoingAway):
        await waiting
    other = app.space.watch("urn:*")
    seen = asyncio.create_task(_all(other))
    await asyncio.sleep(1)
    await app.close()
    assert len(await seen) == 1


async def _all(watch: Watch) -> list[Any]:
    return [change async for change in watch]


@pytest.mark.rule("NURSERY-4", "SYNC-6")
@staged
async def test_a_client_that_stops_reading_catches_up_and_its_mirror_is_right(stage: Stage) -> None:
    patient = ClientSettings(heartbeat_seconds=600, dead_seconds=600)
    app, bob = await stage.app(settings=patient), await stage.app("bob")
    mirror = Mirror(app.space.watch("urn:*"))
    await follows(stage, mirror)
    app.line.stop_reading()
    for number in range(200):
        await bob.set(f"urn:{number % 10}", {"n": number, "text": "x" * 5_000}, blind=True)
    await bob.space.settled()
    app.line.read_on()
    await follows(stage, mirror)


@pytest.mark.rule("NURSERY-4", "RESUME-1", "SYNC-1")
@pytest.mark.parametrize("seed", range(8))
def test_watches_follow_through_chaos_and_end_with_what_is_durable(seed: int) -> None:
    @staged_in(seed=seed)
    async def scenario(stage: Stage) -> None:
        apps: list[App] = [
            await stage.app("alice", disk=SimulatedJournal()),
            await stage.app("bob"),
            await stage.app("bob", line="bob2", disk=SimulatedJournal()),
        ]
        mirrors = [Mirror(app.space.watch("urn:*")) for app in apps]
        stage.world.chaos(every=0.5, longest=3.0)
        made = []
        for number in range(60):
            app = apps[number % 3]
            made.append(await app.set(f"urn:{number % 7}", {"n": number}, blind=number % 2 == 0))
            await asyncio.sleep(0.1)
        stage.world.calm()
        for app in apps:
            await app.space.settled()
        for mirror in mirrors:
            await follows(stage, mirror)
            mirror.task.cancel()
        accepted = [tx.version for tx in made if tx.status == "confirmed"]
        assert len(accepted) == len(set(accepted)) == len(stage.commits_of("alice")) + len(stage.commits_of("bob"))

    scenario()
