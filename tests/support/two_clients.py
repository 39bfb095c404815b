"""Alice and bob in one space of a world, for tests that need no more than that."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.space import Space
from stemmadb.client.testing import World
from stemmadb.protocol.model.values.ids import Version


def in_a_world(scenario: Callable[[World, Space, Space], Awaitable[None]]) -> None:
    """Alice and bob, in one space."""

    async def main(world: World) -> None:
        did = await world.make_space("shared")
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            await scenario(world, await alice.space(did), await bob.space(did))

    World(seed=1).run(main)


async def put(space: Space, id_: str, value: Any, *, mark: int = 0) -> tuple[CommitName, Version]:
    async with space.transaction(note={"mark": mark}) as tx:
        tx.set(id_, value, blind=True)
    version = await tx.confirmed()
    assert tx._handle is not None
    return tx._handle.name, version
