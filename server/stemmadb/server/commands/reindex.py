"""`stemmadb space reindex`: makes the list of the spaces of each principal anew, from their access lists."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.database_access import GivenDatabase, claim, storage_option, writable_database
from stemmadb.server.commands.inspection import space
from stemmadb.server.commands.report import CommandReport
from stemmadb.server.commands.shared import CommandShell, data_option, reading, showing_progress
from stemmadb.server.engine.plan.planned_write import access_list
from stemmadb.server.serving.workers import members
from stemmadb.server.storage.directory import worker_directories
from stemmadb.server.storage.port import Storage

__all__ = ["space"]


@space.command("reindex")
@data_option
@storage_option
@click.pass_obj
def reindex(shell: CommandShell, data: Path, storage: GivenDatabase | None) -> dict[str, object]:
    """Make the list that `GET /v1/spaces` answers from anew, from the access list of every space.

    With --storage: for the spaces that no live node serves. A node lists those that it serves itself.

    Example: stemmadb space reindex --data ./data
    """
    if storage is not None:
        return _reindexed_database(shell, storage)
    with showing_progress(shell), reading(data) as opened:
        lists = {one: _roles(opened, one) for one in opened.spaces()}
        members.write(data, lists, len(worker_directories(data)))
    shell.say(f"{len(lists)} spaces listed")
    return {"spaces": len(lists)}


def _reindexed_database(shell: CommandShell, storage: GivenDatabase) -> dict[str, object]:
    report = CommandReport(shell, looks=False)
    with showing_progress(shell), writable_database(storage) as opened:

        def listed(one: Did) -> dict[str, object]:
            claim(opened, one)
            log = opened.open(one)
            try:
                with log.reader() as reader:
                    opened.write_members({one: access_list(reader, one)})
            finally:
                log.close()
            return {"space": one, "name": shell.name_of(one)}

        for one in opened.spaces():
            report.take(one, partial(listed, one))
    shell.say(f"{len(report.good)} spaces listed")
    failed = [one for one in report.spaces if "error" in one]
    return report.answer() | {"spaces": len(report.good), "failed": failed}


def _roles(storage: Storage, space_: Did) -> object:
    log = storage.open(space_)
    try:
        with log.reader() as reader:
            return access_list(reader, space_)
    finally:
        log.close()
