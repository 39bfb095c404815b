"""A watch that starts in the past and gets its changes in pages."""

from __future__ import annotations

import msgspec
import pytest

from stemmadb.client.space import Space
from stemmadb.client.testing import World
from stemmadb.protocol.model.query.query import Query, Root
from stemmadb.protocol.model.values.limits import DEFAULTS
from stemmadb.protocol.wire.messages.reading import WatchAnswer, WatchRequest
from stemmadb.protocol.wire.messages.sync import CommitItem, joined_commits

SMALL_PAGES = msgspec.structs.replace(DEFAULTS, part_bytes_max=600)


async def filled(space: Space) -> None:
    """With several pages, in one commit."""
    async with space.transaction(note={"message": "all at once"}) as tx:
        for number in range(12):
            tx.set(f"urn:doc:{number}", {"text": str(number) * 200}, blind=True)
    await tx.confirmed()


@pytest.mark.rule("WATCH-3", "SYNC-1")
def test_the_pages_of_a_watch_from_the_past_put_a_large_commit_together_again() -> None:
    """Seed 34: each page told the note of the commit again."""

    async def scenario(world: World) -> None:
        did = await world.make_space("shared")
        async with world.connect("alice") as db:
            space = await db.space(did)
            await filled(space)
            items: list[CommitItem] = []
            query, after = Query((Root("urn:*"),)), None
            while True:
                answer = await space._requester.ask(
                    WatchRequest, WatchAnswer, watch=200, query=query, since=1, after=after
                )
                items.extend(answer.commits)
                after = answer.next
                if after is None:
                    break
            assert len(items) > 1
            (commit,) = joined_commits(items)
            assert [fact.id for fact in commit.facts] == [f"urn:doc:{number}" for number in range(12)]

    World(seed=1, limits=SMALL_PAGES).run(scenario)
