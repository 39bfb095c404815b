"""Apps that start on their cache, in virtual time: what is shown, as of when, and what may not stay."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import structs

from session_worlds import App, Stage, staged, staged_in, until
from stemmadb.client import connect
from stemmadb.client.cache.records import CacheStep
from stemmadb.client.journal.memory import SimulatedJournal
from stemmadb.client.journal.port import JournalStep
from stemmadb.client.session.settings import ClientSettings
from stemmadb.client.watches import Watch
from stemmadb.protocol.errors import Conflict, Malformed, NotInView
from stemmadb.protocol.model.values.ids import MAIN, Did, EntityId

OPEN: dict[str, Any] = {"properties": {"done": {"const": False}}, "required": ["done"]}
GATHERED = 1.0
"""Virtual seconds after which what a frame changed is on the disk."""


async def cached(stage: Stage, **options: Any) -> App:
    """An app with a cache, and a space in which something is."""
    app = await stage.app(disk=SimulatedJournal(), cache=True, **options)
    for number in range(3):
        await (await app.set(f"urn:todo:{number}", {"n": number, "done": number == 2})).confirmed()
    return app


async def first(watch: Watch) -> dict[str, Any]:
    """What the watch shows first."""
    return dict((await watch.next()).entered)


async def watched(app: App, selector: str = "urn:todo:*", **options: Any) -> dict[str, Any]:
    """Watches until it is filled and on disk; the watch stays open."""
    app.watch = app.space.watch(selector, **options)  # type: ignore[attr-defined]
    found = await first(app.watch)  # type: ignore[attr-defined]
    await asyncio.sleep(GATHERED)
    return found


@pytest.mark.rule("CACHE-1", "CACHE-3")
@staged
async def test_an_app_that_starts_offline_shows_what_it_saw_and_says_as_of_when(stage: Stage) -> None:
    app = await cached(stage)
    before = await watched(app, schema=OPEN)
    assert set(before) == {"urn:todo:0", "urn:todo:1"}
    version = app.space.status().local_head
    app.line.offline()
    await app.increment("urn:todo:0")
    await app.restart()
    watch = app.space.watch("urn:todo:*", schema=OPEN)
    as_of = watch.as_of
    assert as_of is not None
    assert (watch.state, as_of.version) == ("offline", version)
    assert 0 < as_of.time <= stage.world.clock()
    assert await first(watch) == {"urn:todo:0": {"n": 1, "done": False}, "urn:todo:1": before["urn:todo:1"]}
    assert (app.space.status().cache, app.space.status().as_of) == ("on", as_of)
    app.line.online()
    app.space.nudge()
    await app.space.settled()
    assert (watch.state, watch.as_of) == ("live", None)
    assert stage.value("urn:todo:0") == {"n": 1, "done": False}


@pytest.mark.rule("CACHE-3")
@staged
async def test_a_get_of_what_is_cached_is_answered_and_anything_else_is_not_in_view(stage: Stage) -> None:
    app = await cached(stage)
    await watched(app, "urn:todo:0")
    app.line.offline()
    await app.restart()
    assert await app.space.get("urn:todo:0") == {"n": 0, "done": False}
    with pytest.raises(NotInView):
        await app.space.get("urn:todo:1")
    other = app.space.watch("urn:todo:*")
    assert other.state == "filling"
    app.line.online()
    app.space.nudge()
    assert set(await first(other)) == {"urn:todo:0", "urn:todo:1", "urn:todo:2"}
    assert await app.space.get("urn:todo:1") == {"n": 1, "done": False}


@pytest.mark.rule("CACHE-3", "RESUME-1")
@staged
async def test_the_first_frame_after_a_start_is_the_difference(stage: Stage) -> None:
    app = await cached(stage)
    bob = await stage.app("bob")
    await watched(app)
    await app.kill()
    await (await bob.set("urn:todo:1", {"n": 100, "done": False})).confirmed()
    app.line.offline()
    await app.start()
    watch = app.space.watch("urn:todo:*")
    assert len(await first(watch)) == 3
    app.line.online()
    app.space.nudge()
    change = await watch.next()
    assert (change.entered, change.left, list(change.updated)) == ({}, (), ["urn:todo:1"])


@pytest.mark.rule("CACHE-3")
@staged
async def test_a_commit_on_a_stale_cache_conflicts_and_loses_nothing(stage: Stage) -> None:
    app = await cached(stage)
    bob = await stage.app("bob")
    await watched(app)
    app.line.offline()
    await app.restart()
    await (await bob.set("urn:todo:1", {"n": 100})).confirmed()
    tx = await app.bump("urn:todo:1")
    app.line.online()
    app.space.nudge()
    with pytest.raises(Conflict):
        await tx.confirmed()
    assert stage.value("urn:todo:1") == {"n": 100}


@pytest.mark.rule("CACHE-4", "RESUME-4")
@staged
async def test_after_a_restore_of_the_server_values_of_the_lost_history_are_gone(stage: Stage) -> None:
    app = await cached(stage)
    backup = stage.world.backup()
    await (await app.set("urn:todo:9", {"n": 9, "done": False})).confirmed()
    await watched(app)
    app.line.offline()
    await stage.world.restore(backup)
    await app.restart()
    watch = app.space.watch("urn:todo:*")
    assert "urn:todo:9" in await first(watch)
    app.line.online()
    app.space.nudge()
    assert (await watch.next()).left == ("urn:todo:9",)
    assert app.space.status().lost == 1
    await asyncio.sleep(GATHERED)
    cache = app.disk.state().cache
    assert cache is not None
    assert "urn:todo:9" not in {id_ for _, id_ in cache.entities}


@pytest.mark.rule("CACHE-6", "RESUME-1")
@staged
async def test_after_a_compaction_past_the_cache_everything_comes_again(stage: Stage) -> None:
    app = await cached(stage)
    bob = await stage.app("bob")
    owner = await stage.app("alice", line="other")
    await watched(app)
    app.line.offline()
    await app.kill()
    for _ in range(3):
        await (await bob.set("urn:todo:1", {"n": 100, "done": True})).confirmed()
    await owner.space.compact(owner.space.status().local_head)
    await app.start()
    watch = app.space.watch("urn:todo:*")
    await first(watch)
    app.line.online()
    app.space.nudge()
    assert (await watch.next()).updated == {"urn:todo:1": {"n": 100, "done": True}}
    assert await first(app.space.watch("urn:todo:*")) == stage.entities("urn:todo:")


@pytest.mark.rule("CACHE-4", "ACL-2")
@staged
async def test_a_reader_without_rights_loses_the_cache_at_the_first_answer(stage: Stage) -> None:
    owner = await cached(stage)
    carol = await stage.app("carol", disk=SimulatedJournal(), cache=True)
    await watched(carol)
    assert carol.disk.state().cache is not None
    carol.line.offline()
    await carol.kill()
    await owner.space.acl.remove(stage.world.identity("carol").did)
    await carol.start()
    watch = carol.space.watch("urn:todo:*")
    assert len(await first(watch)) == 3
    carol.line.online()
    carol.space.nudge()
    await until(lambda: carol.disk.state().cache is None)
    assert watch.state == "filling"
    await carol.kill()
    carol.line.offline()
    await carol.start()
    assert carol.space.watch("urn:todo:*").state == "filling"


@pytest.mark.rule("CACHE-4", "ACL-4")
@staged
async def test_another_set_of_delegations_is_another_cache(stage: Stage) -> None:
    await cached(stage)
    app = await delegate_app(stage, await delegated(stage, "urn:todo:*"))
    await watched(app)
    app.line.offline()
    await app.restart()
    assert app.space.watch("urn:todo:*").state == "offline"
    app.delegations = (await delegated(stage, "urn:todo:*"),)
    await app.restart()
    assert app.space.watch("urn:todo:*").state == "filling"
    await app.kill()
    assert app.disk.state().cache is None, "it went at once, without a connection"
    app.line.online()
    await app.start()
    await app.space.connected()
    await app.close()


@pytest.mark.rule("CACHE-4", "ACL-4", "RESUME-1")
@pytest.mark.parametrize("has_cache", [True, False])
@pytest.mark.parametrize("steps", ["wide narrow", "narrow wide", "narrow other", "wide narrow wide"])
def test_under_other_delegations_an_app_shows_what_they_let_it_read(steps: str, has_cache: bool) -> None:
    """The server judges the version that a client had by the delegations of now; so the client goes on from nothing.

    Nothing it could not read before is missing, and nothing it may not read any more stays.
    """
    prefixes = {"wide": "*", "narrow": "urn:todo:*", "other": "urn:note:*"}

    async def scenario(stage: Stage) -> None:
        owner = await cached(stage)
        await (await owner.set("urn:note:1", "a note")).confirmed()
        tokens = {name: await delegated(stage, prefix) for name, prefix in prefixes.items()}
        app = await delegate_app(stage, tokens[steps.split(maxsplit=1)[0]], has_cache=has_cache)
        for turn, name in enumerate(steps.split()):
            if turn:
                app.delegations = (tokens[name],)
                await app.restart()
            shown = app.space.live("*")
            await shown.ready
            await app.space.connected()
            await asyncio.sleep(GATHERED)
            assert dict(shown) == stage.entities(prefixes[name].removesuffix("*")), (name, turn)
        await app.close()

    staged_in()(scenario)()


async def delegated(stage: Stage, prefix: str) -> str:
    """A token of the owner's for dave, another one each time."""
    owner = await stage.app("alice", line="delegator")
    token = await owner.space.delegate(stage.world.identity("dave").did, "read", prefixes=[prefix], expires=10**6)
    await owner.close()
    return token


async def delegate_app(stage: Stage, token: str, *, has_cache: bool = True) -> App:
    """An app of dave's that has its rights by this token."""
    app = App(
        stage, "dave", disk=SimulatedJournal(), line=None, settings=ClientSettings(), wrap=_same, cache=has_cache
    )
    app.delegations = (token,)
    return await app.start()


def _same(dial: Any) -> Any:
    return dial


@pytest.mark.rule("CACHE-4")
@staged
async def test_forget_deletes_the_cache_and_not_the_journal(stage: Stage) -> None:
    app = await cached(stage)
    await watched(app)
    app.line.offline()
    await app.increment("urn:todo:0")
    await app.space.forget()
    assert app.disk.state().cache is None
    assert len(app.disk.state().pending) == 1
    assert app.space.status().cache == "off"
    app.line.online()
    await app.space.settled()
    await asyncio.sleep(GATHERED)
    assert app.disk.state().cache is None, "nothing more is cached in this run"
    assert app.watch.state == "live"  # type: ignore[attr-defined]


@pytest.mark.rule("CACHE-1")
@staged
async def test_the_cache_of_another_server_is_dropped(stage: Stage) -> None:
    app = await cached(stage)
    await watched(app)
    app.core.session.server = Did("did:key:z6MkiTBz1ymuepAQ4HEHYSF1H8quG5GLVVQR3djdX3mDooWp")
    app.core.session.standing(app.core.limits)
    assert app.disk.state().cache is None


@pytest.mark.rule("CACHE-3", "CACHE-5")
@staged
async def test_a_watch_that_was_closed_stays_cached_and_opens_at_once(stage: Stage) -> None:
    app = await cached(stage, settings=ClientSettings(cache_idle_watches_max=2))
    bob = await stage.app("bob")
    for number in (0, 1, 2):
        async with app.space.watch(f"urn:todo:{number}") as watch:
            await watch.next()
        await asyncio.sleep(GATHERED)
    await (await bob.set("urn:todo:2", {"n": 7})).confirmed()
    await asyncio.sleep(GATHERED)
    app.line.offline()
    await asyncio.sleep(GATHERED)
    again = app.space.watch("urn:todo:2")
    assert (again.state, await first(again)) == ("offline", {"urn:todo:2": {"n": 7}})
    assert app.space.watch("urn:todo:1").state == "offline"
    assert app.space.watch("urn:todo:0").state == "filling", "the one that was not used for longest"
    cache = app.disk.state().cache
    assert cache is not None
    assert {id_ for _, id_ in cache.entities} == {"urn:todo:1", "urn:todo:2"}


@pytest.mark.rule("CACHE-5")
@staged
async def test_past_its_bound_the_cache_drops_whole_watches(stage: Stage) -> None:
    app = await stage.app(disk=SimulatedJournal(), cache=True, settings=ClientSettings(cache_bytes_max=500))
    for kind, size in (("a", 200), ("b", 200), ("c", 600)):
        await (await app.set(f"urn:{kind}:1", {"text": "x" * size})).confirmed()
    opened = []
    for kind in "abc":
        opened.append(app.space.watch(f"urn:{kind}:*"))
        await opened[-1].next()
        await asyncio.sleep(GATHERED)
    cache = app.disk.state().cache
    assert cache is None or {id_ for _, id_ in cache.entities} <= {"urn:a:1", "urn:b:1"}
    assert [one.state for one in opened] == ["live"] * 3, "what has no room is still watched"


@pytest.mark.rule("CACHE-1")
def test_a_cache_needs_a_journal() -> None:
    with pytest.raises(Malformed, match="needs a journal"):
        connect(cache=True)


@pytest.mark.rule("CACHE-2")
@pytest.mark.parametrize("after", [0.0, 0.004, 0.01, 0.02, 0.1, 0.26, 0.5])
def test_an_app_killed_at_any_moment_shows_whole_frames(after: float) -> None:
    @staged
    async def scenario(stage: Stage) -> None:
        app = await cached(stage)
        bob = await stage.app("bob")
        await watched(app)
        for number in range(4):
            async with bob.space.transaction() as tx:
                for id_ in ("urn:todo:0", "urn:todo:1"):
                    tx.set(id_, {"n": 100 + number})
        await app.increment("urn:todo:2")
        await asyncio.sleep(after)
        app.line.offline()
        await app.restart()
        watch = app.space.watch("urn:todo:*")
        assert watch.state == "offline"
        shown = await first(watch)
        one, other = shown["urn:todo:0"]["n"], shown["urn:todo:1"]["n"]
        assert (one, other) == (0, 1) or one == other, "a commit is shown whole or not at all"
        assert shown["urn:todo:2"]["n"] == 3
        app.line.online()
        app.space.nudge()
        await app.space.settled()
        await until(lambda: watch.state == "live")
        assert await first(app.space.watch("urn:todo:*")) == stage.entities("urn:todo:")
        assert stage.value("urn:todo:2")["n"] == 3

    scenario()


@pytest.mark.rule("CACHE-2")
@staged
async def test_a_commit_is_journaled_with_the_cache_it_was_made_on(stage: Stage) -> None:
    """Else the journal would stand later than the cache, which could not be used."""
    app = await cached(stage)
    bob = await stage.app("bob")
    await watched(app)
    await (await bob.set("urn:todo:0", {"n": 50})).confirmed()
    await until(lambda: app.core.session.nursery.value(MAIN, EntityId("urn:todo:0")) == {"n": 50}, step=0.001)
    app.line.offline()
    await (await app.increment("urn:todo:0")).journaled()
    await app.restart()
    watch = app.space.watch("urn:todo:*")
    assert watch.state == "offline"
    assert (await first(watch))["urn:todo:0"] == {"n": 51}


@pytest.mark.rule("CACHE-2", "NURSERY-1")
@staged
async def test_an_undecided_commit_whose_facts_are_cached_is_not_shown_twice(stage: Stage) -> None:
    app = await cached(stage)
    await watched(app)
    app.line.offline()
    await (await app.increment("urn:todo:0")).journaled()
    await app.kill()
    state = app.disk.state()
    assert state.cache is not None
    head = structs.replace(state.cache.head, integrated=(state.pending[0].name,))
    app.disk.write(JournalStep(cache=CacheStep(head=head)), lambda _: None)
    await app.start()
    assert await app.space.get("urn:todo:0") == {"n": 0, "done": False}
    await app.kill()
    app.disk.write(JournalStep(cache=CacheStep(head=state.cache.head)), lambda _: None)
    await app.start()
    assert await app.space.get("urn:todo:0") == {"n": 1, "done": False}
