"""Why nothing was merged or taken back, why a log skips versions, and what values were before."""

from __future__ import annotations

import pytest

from stemmadb.client.cli import explanations, layouts, old_values
from stemmadb.client.cli.safe_text import counted
from stemmadb.client.reading.entries import LogEntry
from stemmadb.client.testing import World
from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.log.commit_record import CommitKind
from stemmadb.protocol.model.values.ids import MAIN, BranchName, Did, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value


def entry(version: int, kind: CommitKind = "commit", **details: Value) -> LogEntry:
    return LogEntry(
        version=Version(version),
        kind=kind,
        author=Did("did:key:a"),
        time_ms=TimeMs(0),
        branch=BranchName(MAIN),
        details=details,
        hash="b3:",
    )


@pytest.mark.parametrize(
    ("versions", "says"),
    [
        ([], ""),
        ([3, 2, 1], ""),
        ([3, 1], "Version 2 is not on main"),
        ([9, 8, 5, 3], "Versions 4 and 6-7 are not on main"),
        (list(range(1, 30, 2))[::-1], "Versions 2, 4, 6, 8, 10, 12 and others are not on main"),
        ([1_000_000_000, 1], "Versions 2-999999999 are not on main"),
    ],
)
def test_a_log_says_why_versions_are_missing(versions: list[int], says: str) -> None:
    said = explanations.skipped(list(map(entry, versions)), "main")
    assert said.startswith(says)
    assert bool(said) is bool(says)
    assert not said or "branches and tags" in said


def test_a_merge_after_its_revert_is_explained() -> None:
    merged, reverted = entry(5, "merge", source="draft"), entry(7, "revert", versions=[5])
    says = "Version 5 merged draft into main, and version 7 took that back"
    assert explanations.reverted_merge([reverted, entry(6), merged], "draft", "main").startswith(says)
    assert explanations.reverted_merge([merged], "draft", "main") == ""
    assert explanations.reverted_merge([reverted, merged], "other", "main") == ""
    again = entry(9, "merge", source="draft")
    assert explanations.reverted_merge([again, reverted, merged], "draft", "main") == ""


async def a_story(world: World) -> None:
    await world.make_space("todo")
    async with world.connect() as db:
        space = await db.space("todo")
        async with space.transaction() as tx:
            tx.set("urn:a", {"n": 1, "done": False})
        first = await tx.confirmed()
        draft = await space.branch("draft", create=True)
        async with draft.transaction() as tx:
            tx.set("urn:a", {"n": 2, "done": False})
        await tx.confirmed()
        would = await draft.merge_into("main", dry_run=True)
        values = await old_values.merge_values(space, "draft", would)
        assert values.before == {"urn:a": {"n": 1, "done": False}}
        shown = layouts.planned(would.writes, would.writes_count, values.before)
        assert "/n  1 -> 2" in str(shown)
        merged = await draft.merge_into("main")
        assert merged.version is not None
        entries = await space.history("urn:a").all()
        places = await old_values.of_history(space, "urn:a", entries)
        assert [layouts.place_text(one) for one in places[merged.version]] == ["/n  1 -> 2"]
        assert places[first][0].path == ""
        left, right = space.at(version=first), space.at()
        found = await space.diff(left, right)
        assert "/n  1 -> 2" in str(layouts.difference(found, await old_values.of_difference(left, right, found)))
        assert await explanations.no_merge(space, "draft") == ""
        await space.revert(merged.version)
        assert "took that back" in await explanations.no_merge(space, "draft")
        assert "no revert changes" in await explanations.no_revert(space, [1])
        made = first + 1  # the branch
        assert await explanations.no_revert(space, [made]) == (
            f"Version {made} wrote no entity (branch.create draft): there is nothing to take back."
        )
        with pytest.raises(Malformed, match="wrote no entity"):
            await explanations.revert(space, [made])
        with pytest.raises(Malformed, match="was written on draft, not on main"):
            await explanations.revert(space, [made + 1])


def test_reports_show_old_and_new_values_and_say_why_nothing_is_done() -> None:
    World(seed=1).run(a_story)


def test_one_and_many() -> None:
    assert [counted(n, "body", "bodies") for n in (0, 1, 2)] == ["0 bodies", "1 body", "2 bodies"]
