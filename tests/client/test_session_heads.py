"""New heads: an app that watches nothing learns of every commit at once, on whatever branch and connection."""

from __future__ import annotations

import asyncio

import pytest

from stemmadb.client import Space
from stemmadb.client.testing import World
from stemmadb.protocol.errors import UnsupportedProtocol
from stemmadb.server.service import service

SOON_SECONDS = 0.05


class Heads:
    """The versions that a callback was given, each with the time."""

    def __init__(self, space: Space) -> None:
        self.seen: list[tuple[float, int]] = []
        self.stop = space.on_head(self._take)

    def _take(self, version: int) -> None:
        self.seen.append((asyncio.get_running_loop().time(), version))

    async def reached(self, version: int, within: float) -> float:
        """How long it took until this version was seen."""
        began = asyncio.get_running_loop().time()
        async with asyncio.timeout(within):
            while not self.seen or self.seen[-1][1] < version:
                await asyncio.sleep(0.001)
        return self.seen[-1][0] - began


async def written(space: Space, id_: str) -> int:
    async with space.transaction() as tx:
        tx.set(id_, 1)
    return await tx.confirmed()


@pytest.mark.rule("SYNC-8")
def test_a_follower_that_watches_nothing_learns_of_a_head_at_once_on_any_branch() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("notes", writer="own", reader="read")
        async with world.connect("writer") as writer, world.connect("reader") as reader:
            space, heads = await writer.space(did), Heads(await reader.space(did))
            await asyncio.sleep(2)
            for number in range(3):
                version = await written(space, f"urn:note:{number}")
                assert await heads.reached(version, 1) <= SOON_SECONDS
            draft = await space.branch("draft", create=True)
            version = await written(draft, "urn:note:9")
            assert await heads.reached(version, 1) <= SOON_SECONDS
            assert [version for _, version in heads.seen] == sorted({version for _, version in heads.seen})
            heads.stop()
            heads.stop()
            before = len(heads.seen)
            await written(space, "urn:note:4")
            await asyncio.sleep(2)
            assert len(heads.seen) == before

    World(seed=3).run(scenario)


@pytest.mark.rule("SYNC-8")
def test_a_follower_goes_on_after_its_connection_was_lost_and_after_a_restore() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("notes", writer="own", reader="read")
        async with world.connect("writer") as writer, world.connect("reader") as reader:
            space, heads = await writer.space(did), Heads(await reader.space(did))
            await written(space, "urn:note:0")
            world.crash()
            await world.start()
            version = await written(space, "urn:note:1")
            await heads.reached(version, 60)
            version = await written(space, "urn:note:2")
            assert await heads.reached(version, 1) <= SOON_SECONDS

    World(seed=4).run(scenario)


def test_a_server_without_the_feature_is_followed_more_slowly_and_other_fields_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An older server refuses unknown fields, so that they must never be sent to it (WIRE-5)."""
    monkeypatch.setattr(service, "FEATURES", ())

    async def scenario(world: World) -> None:
        did = await world.make_space("notes", writer="own", reader="read")
        async with world.connect("writer") as writer, world.connect("reader") as reader:
            space, heads = await writer.space(did), Heads(await reader.space(did))
            version = await written(space, "urn:note:0")
            assert SOON_SECONDS < await heads.reached(version, 5) < 2
            await space.branch("draft", create=True)
            with pytest.raises(UnsupportedProtocol, match=r"merge\.expect_target"):
                await space.merge_from("draft", expect_target=version)
            with pytest.raises(UnsupportedProtocol, match=r"erase\.entities"):
                await space.erase("urn:note:0", [version], entities={"urn:note:1": [version]})
            await space.erase("urn:note:0", [version])

    World(seed=5).run(scenario)


@pytest.mark.rule("ERASE-2", "MERGE-5")
def test_the_client_erases_many_and_expects_a_version_of_the_target() -> None:
    async def scenario(world: World) -> None:
        did = await world.make_space("notes", writer="own")
        async with world.connect("writer") as writer:
            space = await writer.space(did)
            versions = {f"urn:note:{number}": [await written(space, f"urn:note:{number}")] for number in range(5)}
            first, *rest = versions
            done = await space.erase(first, versions[first], entities={id_: versions[id_] for id_ in rest})
            assert done.erased == 5
            assert await space.list("urn:note:*") == {}
            (entry,) = await space.log(branch=None, version=done.version).all(limit=1)
            assert entry.details is not None
            assert entry.details["entities"] == [{"id": id_, "versions": versions[id_]} for id_ in rest]
            draft = await space.branch("draft", create=True)
            await written(draft, "urn:note:7")
            with pytest.raises(Exception, match="written at version"):
                await draft.merge_into("main", expect_target=1)
            assert (await draft.merge_into("main", expect_target=done.version)).version is not None

    World(seed=6).run(scenario)
