"""Two apps that write from copies of one journal."""

from __future__ import annotations

import pytest

from stemmadb.client.space import Space
from stemmadb.client.testing import AppDisk, World
from stemmadb.protocol.errors import IdentityClash


async def put(space: Space, id_: str, value: int) -> int:
    async with space.transaction() as tx:
        tx.set(id_, value, blind=True)
    return await tx.confirmed()


@pytest.mark.rule("SYNC-2", "NURSERY-5", "WATCH-1")
def test_what_a_copy_of_the_journal_wrote_under_the_name_of_a_pending_commit_is_shown() -> None:
    """Seed 283: the server left its facts out, since a commit of that name was held; the watch stayed wrong."""

    async def scenario(world: World) -> None:
        did, disk = await world.make_space("shared"), AppDisk()
        async with world.connect("alice", journal=disk) as db:
            mine = await db.space(did)
            await put(mine, "urn:x", 0)
            watch = mine.watch("urn:*")
            assert (await watch.next()).entered == {"urn:x": 0}
            world.network["alice"].offline()
            async with world.connect("alice", journal=disk.copy(), dial=world.dial("copy")) as other:
                theirs = await other.space(did)
                async with mine.transaction() as tx:
                    tx.set("urn:mine", 1, blind=True)
                assert await put(theirs, "urn:x", 5) == 3
            world.network["alice"].online()
            with pytest.raises(IdentityClash):
                await tx.confirmed()
            assert await mine.get("urn:x") == 5
            shown = {"urn:x": 0}
            while shown != {"urn:x": 5}:
                change = await watch.next()
                shown |= change.entered | change.updated  # type: ignore[arg-type]
                for id_ in change.left:
                    del shown[id_]
                assert change.version == 2 or shown["urn:x"] == 5

    World(seed=1).run(scenario)
