"""Windows and live maps through the whole client: the first n stay live, pages follow, own writes are on top."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from session_worlds import App, Stage, staged
from stemmadb.client.live_map import LiveMap
from stemmadb.client.watching import Change
from stemmadb.protocol.errors import GoingAway, InvalidQuery, UnsupportedProtocol

ORDER = ("-/rank", "/title")


async def filled(stage: Stage, count: int = 12) -> App:
    app = await stage.app("bob")
    async with app.space.transaction() as tx:
        for number in range(count):
            tx.set(f"urn:todo:{number:02}", {"rank": number % 5, "title": f"t{number}", "done": number % 2 == 0})
    await tx.confirmed()
    return app


def expected(entities: dict[Any, Any], limit: int) -> list[str]:
    rows = [(-one["rank"], one["title"], id_) for id_, one in entities.items()]
    return [id_ for _, _, id_ in sorted(rows)][:limit]


@pytest.mark.rule("QUERY-8")
@staged
async def test_a_query_in_order_comes_in_pages_at_any_moment(stage: Stage) -> None:
    app = await filled(stage)
    version = app.space.status().local_head
    whole = expected(stage.entities(), 99)
    await (await app.set("urn:todo:99", {"rank": 9, "title": "new"})).confirmed()
    for moment, ids in ((app.space, ["urn:todo:99", *whole]), (app.space.at(version=version), whole)):
        pages: list[str] = []
        after = None
        while True:
            found = await moment.query("urn:todo:*", order=ORDER, limit=5, after=after)
            pages += found
            after = found.after
            if after is None:
                break
        assert pages == ids
    done: dict[str, Any] = {"properties": {"done": {"const": True}}, "required": ["done"]}
    found = await app.space.query("urn:todo:*", schema=done, order="/title", limit=2)
    assert [one.id for one in found.roots] == list(found) == ["urn:todo:00", "urn:todo:10"]


@pytest.mark.rule("QUERY-8")
@staged
async def test_own_pending_writes_are_in_the_window_at_once(stage: Stage) -> None:
    app = await filled(stage)
    app.line.stop_reading()
    await app.set("urn:todo:50", {"rank": 50, "title": "mine"})
    app.line.read_on()
    found = await app.space.query("urn:todo:*", order=ORDER, limit=3)
    assert next(iter(found)) == "urn:todo:50"


@pytest.mark.rule("WATCH-4", "WATCH-1")
@staged
async def test_a_watch_with_order_and_limit_equals_the_query_run_afresh(stage: Stage) -> None:
    writer, dice = await filled(stage), Random(5)
    app = await stage.app("alice")
    async with app.space.live("urn:todo:*", order=ORDER, limit=4) as live:
        await live.ready
        for step in range(40):
            id_ = f"urn:todo:{dice.randrange(14):02}"
            async with writer.space.transaction() as tx:
                if dice.random() < 0.25 and stage.value(id_) is not None:
                    tx.delete(id_, blind=True)
                else:
                    tx.set(id_, {"rank": dice.randrange(6), "title": f"s{step}"}, blind=True)
            await tx.confirmed()
            if step % 13 == 5:
                app.line.cut()
            await asyncio.sleep(2)
            assert list(live) == expected(stage.entities(), 4)
            assert dict(live) == {id_: stage.value(id_) for id_ in live}


@pytest.mark.rule("WATCH-4")
@staged
async def test_a_pending_delete_leaves_the_window_shorter_until_the_verdict(stage: Stage) -> None:
    app = await filled(stage)
    async with app.space.live("urn:todo:*", order=ORDER, limit=3) as live:
        await live.ready
        first = next(iter(live))
        app.line.offline()
        async with app.space.transaction() as tx:
            tx.delete(first, blind=True)
        await asyncio.sleep(0.1)
        assert len(live) == 2
        app.line.online()
        app.space.nudge()
        await tx.confirmed()
        await asyncio.sleep(1)
        assert list(live) == expected(stage.entities(), 3)


@pytest.mark.rule("NURSERY-4")
@staged
async def test_a_live_map_is_a_mapping_that_calls_back(stage: Stage) -> None:
    app = await filled(stage, 3)
    told: list[Change] = []
    live = app.space.live("urn:todo:*")
    assert (live.state, dict(live)) == ("filling", {})
    await live.ready
    stop = live.on_change(told.append)
    assert list(live) == sorted(live) == ["urn:todo:00", "urn:todo:01", "urn:todo:02"]
    await (await app.set("urn:todo:01", {"rank": 100})).confirmed()
    await asyncio.sleep(0.1)
    assert (live["urn:todo:01"], [list(one.updated) for one in told]) == ({"rank": 100}, [["urn:todo:01"]])
    stop()
    await (await app.set("urn:todo:03", {"rank": 3})).confirmed()
    await asyncio.sleep(0.1)
    assert (len(told), len(live)) == (1, 4)
    live.close()
    await asyncio.sleep(0.1)
    assert (live.state, len(live), live.error) == ("ended", 4, None)


@staged
async def test_a_live_map_that_never_fills_says_so(stage: Stage) -> None:
    app = await stage.app("alice")
    app.line.offline()
    live: LiveMap = app.space.live("urn:todo:*")
    live.close()
    with pytest.raises(GoingAway):
        await live.ready
    refused: tuple[Any, ...] = ({"limit": 0}, {"limit": "5"}, {"order": [1]}, {"order": ["/a"] * 5}, {"after": {}})
    for wrong in refused:
        with pytest.raises(InvalidQuery):
            app.space.watch("urn:*", **wrong)


@pytest.mark.rule("QUERY-8", "WIRE-5")
@staged
async def test_a_server_that_knows_no_windows_is_not_sent_one(stage: Stage) -> None:
    app = await filled(stage)
    live = app.space.live("urn:todo:*", limit=2)
    await live.ready
    session = app.core.session
    session.requester.features = frozenset()
    with pytest.raises(UnsupportedProtocol, match="Upgrade the server"):
        await app.space.query("urn:todo:*", limit=2)
    with pytest.raises(UnsupportedProtocol):
        app.space.watch("urn:todo:*", limit=3)
    assert session.standing(app.core.limits).watches == ()
    await asyncio.sleep(0.1)
    assert (live.state, type(live.error)) == ("ended", UnsupportedProtocol)


@staged
async def test_a_transaction_reads_a_default_where_nothing_is(stage: Stage) -> None:
    app = await stage.app("alice")
    await (await app.set("urn:a", {"n": None, "list": [1]})).confirmed()
    async with app.space.transaction() as tx:
        assert await tx.get("urn:none", default={"n": 0}) == {"n": 0}
        assert await tx.get("urn:a", "/m", default=7) == 7
        assert await tx.get("urn:a", "/list/3", default=7) == 7
        assert await tx.get("urn:a", "/n", default=7) is None, "null is a value"
        assert await tx.get("urn:none") is None
