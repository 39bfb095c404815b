"""`stemmadb status`, through the server: is it there, who am I, and how does a space stand."""

from __future__ import annotations

import click

from stemmadb.client import Database, Space
from stemmadb.client.cli.connection import Target, database, finished, open_space, space_options, viewer
from stemmadb.client.cli.context import CliContext
from stemmadb.client.cli.probe import probe
from stemmadb.client.keys.names import Names
from stemmadb.protocol.errors import Unavailable


@click.command()
@space_options
@click.pass_obj
def status(shell: CliContext, target: Target) -> dict[str, object]:
    """Show whether a server is there and ready, who you are to it, and with --space how that space stands.

    Example: stemmadb status --space todo
    """

    async def work() -> dict[str, object]:
        is_ready, says = await probe(target.url)
        async with database(target) as db:
            answer: dict[str, object] = {
                "url": target.url,
                "ready": is_ready,
                "says": says,
                "server": await db.server(),
                "identity": db.identity.did,
            }
            return answer if target.space is None else answer | {"space": await _space(db, target)}

    answer = finished(work)
    shell.say(f"server    {target.url}, {'ready' if answer['ready'] else 'not ready: ' + str(answer['says'])}")
    shell.say(f"          {answer['server']}")
    shell.say(f"identity  {viewer(target).named(str(answer['identity']))}")
    if isinstance(about := answer.get("space"), dict):
        shell.say(f"space     {about['name']} ({about['did']})" if about["name"] else f"space     {about['did']}")
        for name in ("version", "role", "branches", "tags"):
            shell.say(f"{name:<9} {about[name]}")
    if not answer["ready"]:
        return shell.no(Unavailable(f"The server at {target.url} is not ready: {answer['says']}"), **answer)
    return answer


async def _space(db: Database, target: Target) -> dict[str, object]:
    space: Space = await open_space(db, target)
    access = await space.acl.get()
    names = {did: name for name, did in Names(target.config).all(target.url).items()}
    return {
        "name": names.get(space.did),
        "did": space.did,
        "version": access.version,
        "role": access.mine.role,
        "branches": len(await space.branches()),
        "tags": len(await space.tags.list()),
    }
