"""A console in a world of the test kit: lines in, text of 80 columns out, the same at every run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from drawn_shapes import text_of
from stemmadb.client import Space
from stemmadb.client.cli.safe_text import Viewer
from stemmadb.client.console.catalogue import carry_out
from stemmadb.client.console.replies import ConsoleReply
from stemmadb.client.console.state import ConsoleState
from stemmadb.client.testing import World
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import Version

COLUMNS: Final = 80
SPACE: Final = "todo"
MINUTE: Final = 60.0


class TypedConsole:
    """A console that remembers where it stands."""

    def __init__(self, world: World, state: ConsoleState) -> None:
        self.world = world
        self.state = state

    async def reply(self, line: str) -> ConsoleReply:
        reply = await carry_out(self.state, line)
        self.state = reply.state or self.state
        return reply

    async def text(self, line: str, *, columns: int = COLUMNS) -> str:
        """What is shown."""
        reply = await self.reply(line)
        return "\n".join(text_of(shape, columns) for shape in reply.shapes)

    async def error(self, line: str) -> StemmaError:
        """What it is refused with: one sentence, perhaps with a hint."""
        with pytest.raises(StemmaError) as caught:
            await self.reply(line)
        error = caught.value
        assert "\n" not in error.message
        assert error.message.endswith((".", "?")) or "Usage:" in error.message
        return error

    def writing(self) -> TypedConsole:
        """The same in a console that writes."""
        return TypedConsole(self.world, replace(self.state, may_write=True))


@asynccontextmanager
async def console(world: World, who: str = "alice") -> AsyncIterator[TypedConsole]:
    """The console of somebody, in a space that all know."""
    await world.make_space(SPACE)
    names = {str(world.identity(name).did): name for name in ("alice", "bob", "carol")}
    async with world.connect(who) as db:
        space = await db.space(SPACE)
        state = ConsoleState(
            space=space,
            name=SPACE,
            me=db.identity.did,
            url=db.url,
            viewer=Viewer(names, zone=UTC),
            now=lambda: datetime.fromtimestamp(world.clock() / 1_000, UTC),
        )
        yield TypedConsole(world, state)


async def put(space: Space, note: str | None = None, /, **values: Any) -> Version:
    """Writes `urn:todo:1` for the keyword `_1`; a minute passes."""
    async with space.transaction(note=note) as tx:
        for name, value in values.items():
            tx.set(f"urn:todo:{name.removeprefix('_')}", value)
    version = await tx.confirmed()
    await asyncio.sleep(MINUTE)
    return version


async def tell_story(space: Space) -> None:
    """Version 2 to 12: two items, a branch that is merged, one that conflicts, one that was deleted, a tag."""
    spec, milk = {"title": "write the spec", "done": False}, {"title": "milk", "done": False}
    await put(space, "first items", _1=spec, _2=milk)
    await put(space, "finished", _1=spec | {"done": True})
    draft = await space.branch("draft", create=True)  # 4
    await put(draft, "reworded", _1={"title": "write the manual", "done": True})
    await draft.merge_into("main")  # 6
    fix = await space.branch("fix", create=True)  # 7
    await put(fix, "oat", _2={"title": "oat milk", "done": False})
    await put(space, "soy", _2={"title": "soy milk", "done": False})
    await space.branch("old", create=True)  # 10
    await space.delete_branch("old")
    await space.tags.create("v1")  # 12


def in_a_console(scenario: Callable[[TypedConsole], Awaitable[None]], *, who: str = "alice", seed: int = 5) -> None:
    """Runs it in virtual time."""

    async def run(world: World) -> None:
        async with console(world, who) as made:
            await scenario(made)

    World(seed=seed).run(run)


def in_the_story(scenario: Callable[[TypedConsole], Awaitable[None]], *, who: str = "alice") -> None:
    """The same after the story was told, by alice."""

    async def run(world: World) -> None:
        await world.make_space(SPACE)
        async with world.connect("alice") as db:
            await tell_story(await db.space(SPACE))
        async with console(world, who) as made:
            await scenario(made)

    World(seed=5).run(run)
