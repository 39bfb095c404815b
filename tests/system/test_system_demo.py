"""`stemmadb demo`: 300 commits, two branches, one conflict, and the same story each time."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from command_line import here
from served import config_of, served
from stemmadb.client import connect
from stemmadb.client.cli.demo_story import CONTESTED, DRAFT, IDEAS, STORY_COMMITS, StoryCommit, story


def test_the_story_is_the_same_each_time_and_ends_at_its_version() -> None:
    steps = list(story())
    assert steps == list(story())
    assert len(steps) == STORY_COMMITS - 1
    assert len(list(story(founding=4))) == STORY_COMMITS - 4
    assert {step.author for step in steps if isinstance(step, StoryCommit)} == {"ada", "bob", "eva"}


async def test_the_demo_fills_a_space_that_can_be_looked_at(tmp_path: Path) -> None:
    config = tmp_path / "config"
    async with served(config_of(tmp_path / "data")) as url:

        def typed(*words: str) -> Any:
            return here("demo", *words, "--url", url, "--config", config, "--json")

        first = await asyncio.to_thread(typed)
        assert first.code == 0, first
        assert first.json["version"] == STORY_COMMITS
        second = await asyncio.to_thread(typed, "again")
        assert second.json["version"] == STORY_COMMITS
        again = await asyncio.to_thread(typed)
        assert (again.code, again.error) == (4, "already_exists")
        where = ("--space", "demo", "--url", url, "--config", config, "--json")
        counted = await asyncio.to_thread(here, "list", "urn:todo:", "--count", "--at", "tag:v1", *where)
        listed = await asyncio.to_thread(here, "list", "urn:todo:", "--at", "tag:v1", *where)
        assert (counted.json["count"], counted.json["exact"]) == (len(listed.json["entities"]), True)
        assert counted.json["version"] == listed.json["version"]
        forks = await asyncio.to_thread(here, "log", "--all", "--kind", "branch.create", *where)
        assert [entry["kind"] for entry in forks.json["entries"]] == ["branch.create"] * 2
        async with connect(url, config=config) as db:
            spaces = [await db.space("demo"), await db.space("again")]
            for branch in ("main", DRAFT, IDEAS):
                values = [await (await space.branch(branch)).list("urn:*") for space in spaces]
                assert values[0] == values[1]
                assert len(values[0]) > 20
            space = spaces[0]
            assert [one.name for one in await space.branches()] == [DRAFT, IDEAS, "main"]
            draft = await space.branch(DRAFT)
            for strategy in ("fields", "lww"):
                report = await draft.merge_into("main", strategy=strategy, dry_run=True)
                assert [one.id for one in report.conflicts] == [CONTESTED], strategy
            log = await space.log(branch=None).all()
            assert len(log) == STORY_COMMITS
            assert len({entry.author for entry in log}) >= 4
            assert (await space.at(tag="v1").get(CONTESTED, "/title")) == "Write the launch text"
