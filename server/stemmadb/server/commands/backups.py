"""`stemmadb backup` and `stemmadb restore`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.report import CommandReport
from stemmadb.server.commands.shared import (
    CommandShell,
    data_option,
    now,
    reading,
    showing_progress,
    shown,
    space_option,
    told,
)
from stemmadb.server.maintenance.backup import back_up
from stemmadb.server.maintenance.restore import restore as bring_back

_directory = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("target", type=_directory)
@data_option
@space_option
@click.pass_obj
def backup(shell: CommandShell, target: Path, data: Path, space: Did | None) -> dict[str, object]:
    """Copy the spaces of a directory, which may be in use, to TARGET.

    TARGET is new, empty, or an older backup: then only what has changed is copied. A backup is laid out as a data
    directory, so that 'stemmadb verify --data TARGET' can verify it. Each copy is verified before it takes the place
    of an older one; a space that cannot be copied is reported, its older copy stays, and the others go on.

    Example: stemmadb backup --data ./data /backups/today
    """
    report = CommandReport(shell, looks=False)

    def failed(space: Did, error: Exception) -> None:
        report.take(space, partial(_raised, error, target))

    with showing_progress(shell, target) as on_progress, reading(data):
        wanted = None if space is None else [space]
        done = back_up(data, target, now=now, spaces=wanted, on_progress=on_progress, failed=failed)
    for one in done:
        did = "copied" if one.is_new else "unchanged"
        shell.say(f"{shell.named(one.space)}: {did}, version {one.version}, {shown(one.hash)}")
        report.spaces.append(
            {
                "space": one.space,
                "name": shell.name_of(one.space),
                "version": one.version,
                "hash": shown(one.hash),
                "copied": one.is_new,
            }
        )
    return report.answer(target=str(target))


def _raised(error: Exception, target: Path) -> dict[str, object]:
    with told(target):
        raise error


@click.command()
@click.argument("source", type=_directory)
@data_option
@space_option
@click.pass_obj
def restore(shell: CommandShell, source: Path, data: Path, space: Did | None) -> dict[str, object]:
    """Restore the spaces of the backup SOURCE into a data directory that has none.

    No process may be using the directory. Every space is verified before it can be seen; the backup is only read.

    Example: stemmadb restore --data ./data /backups/today
    """
    with showing_progress(shell, data) as on_progress:
        done = bring_back(source, data, spaces=None if space is None else [space], on_progress=on_progress)
    for one in done:
        shell.say(f"{shell.named(one.space)}: restored and verified, version {one.version}, {shown(one.hash)}")
    return {
        "data": str(data),
        "spaces": [
            {"space": one.space, "name": shell.name_of(one.space), "version": one.version, "hash": shown(one.hash)}
            for one in done
        ],
    }
