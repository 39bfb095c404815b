"""`stemmadb demo`: a space with a past to look at, so that no first look is at an empty one."""

from __future__ import annotations

import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import click

from stemmadb.client import Identity, Space, Transaction, connect
from stemmadb.client.cli.connection import Target, database, finished, server_options
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.demo_story import DRAFT, IDEAS, PEOPLE, TAG, StoryCommit, StoryFork, StoryTag, Write, story
from stemmadb.client.keys.names import Names, space_name
from stemmadb.protocol.errors import AlreadyExists
from stemmadb.protocol.model.values.ids import MAIN

DEMO = "demo"


@click.command()
@click.argument("name", default=DEMO)
@server_options
@click.pass_obj
def demo(shell: CliContext, target: Target, name: str) -> dict[str, object]:
    """Fill a new space with 300 commits by three people, two branches and a conflict, the same each time.

    Their keys are thrown away afterwards; the space is yours.

    Example: stemmadb demo
    """

    async def work() -> dict[str, object]:
        async with database(target) as db:
            if Names(target.config).on(await db.server(), space_name(name)) is not None:
                raise AlreadyExists(
                    f"There is a space {name!r} at {target.url} already. Say another name: stemmadb demo {name}2",
                    id=name,
                    branch=MAIN,
                )
            return await _filled(target, await db.space(name))

    done = finished(work, writes=True)
    shell.say(f"Space {name!r} has {done['version']} commits, the branches {DRAFT} and {IDEAS}, and the tag {TAG}.")
    shell.say(f"Look at it: stemmadb console --web --write --space {name}, or stemmadb console --space {name}")
    return {"name": name} | done


async def _filled(target: Target, space: Space) -> dict[str, object]:
    identities = {name: Identity.make() for name in PEOPLE}
    for who in identities.values():
        await space.acl.set(who.did, "write")
    founding = (await space.acl.get()).version
    async with AsyncExitStack() as stack:
        people: dict[str, Space] = {}
        for name, who in identities.items():
            config = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            db = await stack.enter_async_context(connect(target.url, identity=who, config=config))
            people[name] = await db.space(space.did)
        for step in story(founding):
            if isinstance(step, StoryCommit):
                await _committed(people[step.author], step)
            elif isinstance(step, StoryFork):
                await space.branch(step.name, create=True, note={"message": step.note})
            elif isinstance(step, StoryTag):
                await space.tags.create(step.name, note={"message": step.note})
    dids = {name: who.did for name, who in identities.items()}
    return {"space": space.did, "version": (await space.acl.get()).version, "people": dids}


async def _committed(space: Space, step: StoryCommit) -> None:
    on = space if step.branch == MAIN else await space.branch(step.branch)

    def write(tx: Transaction) -> None:
        for one in step.writes:
            _write(tx, one)

    await on.transact(write, note={"message": step.note})


def _write(tx: Transaction, one: Write) -> None:
    """Blind: the story says what is there, and each commit waits for the one before."""
    if one.is_delete:
        tx.delete(one.id, blind=True)
    elif one.patch:
        tx.patch(one.id, one.patch, blind=True)
    else:
        tx.set(one.id, one.value, blind=True)
