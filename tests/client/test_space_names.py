"""Which space a name means: on a server that is known, replaced, new, or cannot be reached (NAME-1)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from stemmadb.client import Database, connect
from stemmadb.client.testing import World
from stemmadb.client.testing.names import SharedKeys, SharedNames
from stemmadb.protocol.errors import UnknownSpace, Unreachable
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.channel import Channel

HERE, SPELLED, FAR = "ws://127.0.0.1:8420", "ws://localhost:8420", "ws://far:8420"
pytestmark = pytest.mark.rule("NAME-1")


class User:
    """The names and keys of one person, whichever server they talk to; and what they were told."""

    def __init__(self) -> None:
        self.names = SharedNames()
        self.keys = SharedKeys()
        self.said: list[str] = []

    def connect(self, world: World, url: str = HERE) -> Database:
        return connect(
            url,
            identity=world.identity("alice"),
            dial=world.dial("alice"),
            names=self.names,
            keys=self.keys,
            random=world.random("alice"),
            now=world.clock,
            notice=self.said.append,
        )

    async def space(self, world: World, url: str = HERE, name: str = "todo") -> Did:
        async with self.connect(world, url) as db:
            return (await db.space(name)).did


def with_a_server(scenario: Callable[[World, User], Awaitable[None]]) -> Callable[[], None]:
    def test() -> None:
        async def run(world: World) -> None:
            await scenario(world, User())

        World(seed=1).run(run)

    return test


@with_a_server
async def test_two_spellings_of_an_address_lead_to_one_space(world: World, user: User) -> None:
    made = await user.space(world)
    assert await user.space(world, SPELLED) == made
    assert await user.space(world, HERE) == made
    assert user.said == []
    assert user.names.all(HERE) == user.names.all(SPELLED) == {"todo": made}


@with_a_server
async def test_a_space_that_the_server_lost_is_made_again_with_a_line(world: World, user: User) -> None:
    nothing = world.backup()
    made = await user.space(world)
    await world.restore(nothing)  # its files are gone, its key is not
    assert await user.space(world) == made
    assert user.said == [
        f"The server at {HERE} no longer has the space 'todo' ({made}): it was made again, and is empty."
    ]
    assert await user.space(world) == made
    assert len(user.said) == 1


@with_a_server
async def test_a_replaced_server_gets_a_new_space_and_the_line_names_the_old_one(world: World, user: User) -> None:
    old = await user.space(world)
    async with World(seed=2) as other:
        new = await user.space(other)
        assert new != old
        assert len(user.said) == 1
        assert f"it was {world.server.did}, it is {other.server.did}" in user.said[0]
        assert f"the one of before is {old}" in user.said[0]
        assert await user.space(other) == new
    assert await user.space(world) == old  # the old server is back: it is known by its DID
    assert len(user.said) == 1


@with_a_server
async def test_a_server_with_another_identity_that_has_the_space_is_used(world: World, user: User) -> None:
    made = await user.space(world)
    before = world.server
    await world.stop()
    world.server = world.identity("server, restored without its key")
    await world.start()
    assert await user.space(world) == made
    assert user.said == [
        f"The server at {HERE} was {before.did}, it is {world.server.did}. It has the space 'todo' ({made}), "
        "which is used."
    ]
    assert await user.space(world) == made
    assert len(user.said) == 1


@with_a_server
async def test_a_name_that_is_known_elsewhere_is_made_with_one_warning(world: World, user: User) -> None:
    old = await user.space(world)
    async with World(seed=2) as far:
        new = await user.space(far, FAR)
        assert new != old
        assert len(user.said) == 1
        assert user.said[0].endswith(f"You have another space 'todo' at {HERE}: {old}.")
        assert await user.space(far, FAR) == new
        assert await user.space(far, FAR, "new to all") is not None
    assert len(user.said) == 1


@with_a_server
async def test_a_server_that_cannot_be_reached_is_unreachable_whatever_the_name(world: World, user: User) -> None:
    await user.space(world)
    await world.stop()
    for url in (HERE, FAR):
        for name in ("todo", "another"):
            with pytest.raises(Unreachable):
                await user.space(world, url, name)
    assert user.names.find(HERE, "another") is None  # nothing was begun
    async with user.connect(world) as db:
        with pytest.raises(Unreachable):
            await db.server()
    await world.start()


@with_a_server
async def test_a_space_that_an_identity_may_not_see_is_not_made_again(world: World, user: User) -> None:
    await user.space(world)
    async with connect(
        HERE, identity=world.identity("eve"), dial=world.dial("eve"), names=user.names, keys=user.keys
    ) as db:
        with pytest.raises(UnknownSpace):
            await db.space("todo")
    assert user.said == []


@with_a_server
async def test_the_server_tells_who_it_is_and_no_session_is_opened(world: World, user: User) -> None:
    dialled: list[Did] = []

    async def dial(space: Did) -> Channel:
        dialled.append(space)
        return await world.dial("alice")(space)

    async with connect(HERE, identity=world.identity("alice"), dial=dial, names=user.names, keys=user.keys) as db:
        assert await db.server() == world.server.did
    assert len(dialled) == 1
    assert user.names.server(HERE) == world.server.did
