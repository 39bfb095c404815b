"""Counts, prefixes, previews and histograms through the SDK equal what lists and logs give (QUERY-9..11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from served import config_of, served
from stemmadb.client import connect
from stemmadb.client.sync import connect as connect_sync


@pytest.mark.rule("QUERY-9", "QUERY-10", "QUERY-11", "HISTORY-4")
async def test_overviews_of_the_sdk_equal_lists_and_logs(tmp_path: Path) -> None:
    async with served(config_of(tmp_path / "data")) as url, connect(url, config=tmp_path / "config") as db:
        space = await db.space("todo")
        for number in range(12):
            async with space.transaction(note=f"number {number}") as tx:
                tx.set(f"urn:todo:{number}", {"n": number, "text": "x" * 100 * number}, blind=True)
                tx.set(f"urn:user:{number % 3}", number, blind=True)
        await space.settled()
        draft = await space.branch("draft", create=True)
        async with draft.transaction() as tx:
            tx.delete("urn:todo:3", blind=True)
        await space.settled()

        listed = await space.list("urn:*")
        counted = await space.count("urn:*")
        assert (counted.entities, counted.exact) == (len(listed), True)
        assert (await draft.count(["urn:todo:*", "urn:user:1"])).entities == 12
        assert (await space.count("urn:todo:*", version=3)).entities == 2

        children = await space.prefixes("urn:*").all()
        assert [(one.prefix, one.entities, one.exact) for one in children] == [
            ("urn:todo:", 12, True),
            ("urn:user:", 3, True),
        ]
        assert [one.prefix for one in await space.prefixes("urn:user:*").all(limit=2)] == ["urn:user:0", "urn:user:1"]

        names = await space.previews("urn:*", shape="ids").all()
        assert [(one.id, one.value, one.truncated) for one in names] == [(id_, None, False) for id_ in sorted(listed)]
        for one in await space.previews("urn:todo:*").all():
            if not one.truncated:
                assert one.value == listed[one.id]
                continue
            assert one.omitted == ("/text",)
            assert isinstance(one.value, dict)
            assert {"n": one.value["n"]} == one.value

        log = await space.log(branch=None).all()
        found = await space.histogram(branch=None, buckets=3)
        assert sum(one.commits for one in found.buckets) == len(log)
        assert found.exact
        assert (await space.histogram(by="time", prefix="urn:user:*")).buckets[-1].to_version == 13

        bare = await space.log(with_ids=True, kinds=["commit"]).all()
        assert [entry.version for entry in bare] == [
            entry.version for entry in await space.log(kinds=["commit"]).all()
        ]
        assert {change.id for change in bare[0].changes} == {"urn:todo:11", "urn:user:2"}
        assert not [change for entry in bare for change in entry.changes if change.gone or change.value is not None]
        kinds = await space.log(branch=None, kinds=["branch.create"]).all()
        assert [entry.kind for entry in kinds] == ["branch.create"]

        def blocking() -> None:
            with connect_sync(url, config=tmp_path / "config") as db:
                space = db.space("todo")
                assert space.count("urn:*").entities == len(listed)
                assert [one.entities for one in space.prefixes("urn:*").all()] == [12, 3]
                assert len(space.previews("urn:todo:*").all()) == 12
                assert space.histogram(by="time").exact

        await asyncio.to_thread(blocking)
