"""Two clients in a space of their own in virtual time: the stage of small regressions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from stemmadb.client import Space
from stemmadb.client.testing import World
from stemmadb.protocol.model.values.ids import Version

X: Final = "urn:x"
Scenario: TypeAlias = Callable[[World, Space, Space], Awaitable[None]]


def in_a_world(scenario: Scenario, **given: Any) -> None:
    """Alice and bob in a space that is theirs, in virtual time."""

    async def with_both(world: World) -> None:
        await world.make_space()
        async with world.connect("alice") as alice, world.connect("bob") as bob:
            await scenario(world, await alice.space("todo"), await bob.space("todo"))

    World(seed=5, **given).run(with_both)


async def write(space: Space, id_: str, value: object) -> Version:
    async with space.transaction() as tx:
        tx.set(id_, value, blind=True)
    return await tx.confirmed()
