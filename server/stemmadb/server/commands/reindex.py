"""`stemmadb space reindex`: makes the list of the spaces of each principal anew, from their access lists."""

from __future__ import annotations

from pathlib import Path

import click

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.inspection import space
from stemmadb.server.commands.shared import CommandShell, data_option, reading, showing_progress
from stemmadb.server.engine.plan.planned_write import access_list
from stemmadb.server.serving.workers import members
from stemmadb.server.storage.directory import worker_directories
from stemmadb.server.storage.port import Storage

__all__ = ["space"]


@space.command("reindex")
@data_option
@click.pass_obj
def reindex(shell: CommandShell, data: Path) -> dict[str, object]:
    """Make the list that `GET /v1/spaces` answers from anew, from the access list of every space.

    Example: stemmadb space reindex --data ./data
    """
    with showing_progress(shell), reading(data) as storage:
        lists = {one: _roles(storage, one) for one in storage.spaces()}
        members.write(data, lists, len(worker_directories(data)))
    shell.say(f"{len(lists)} spaces listed")
    return {"spaces": len(lists)}


def _roles(storage: Storage, space_: Did) -> object:
    log = storage.open(space_)
    try:
        with log.reader() as reader:
            return access_list(reader, space_)
    finally:
        log.close()
