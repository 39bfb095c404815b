"""`stemmadb backup` and `stemmadb restore`."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.database_access import GivenDatabase, database, storage_options
from stemmadb.server.commands.report import CommandReport
from stemmadb.server.commands.shared import (
    CommandShell,
    arriving,
    data_option,
    now,
    reading,
    showing_progress,
    shown,
    space_option,
    told,
)
from stemmadb.server.maintenance import manifest as manifests
from stemmadb.server.maintenance.backup import BackedUp, Failed, back_up
from stemmadb.server.maintenance.backup_exports import back_up_database, restore_database
from stemmadb.server.maintenance.manifest import ExportsManifest
from stemmadb.server.maintenance.progress import OnProgress
from stemmadb.server.maintenance.restore import restore as bring_back
from stemmadb.server.maintenance.verify import Verified

_directory = click.Path(file_okay=False, path_type=Path)


@click.command()
@click.argument("target", type=_directory)
@data_option
@storage_options
@space_option
@click.pass_obj
def backup(
    shell: CommandShell, target: Path, data: Path, storage: GivenDatabase | None, space: Did | None
) -> dict[str, object]:
    """Copy the spaces of a directory, which may be in use, to TARGET.

    TARGET is new, empty, or an older backup: then only what has changed is copied. A backup is laid out as a data
    directory, so that 'stemmadb verify --data TARGET' can verify it. Each copy is verified before it takes the place
    of an older one; a space that cannot be copied is reported, its older copy stays, and the others go on. With
    --storage the spaces of a database, as exports: a later backup adds what came since.

    Example: stemmadb backup --data ./data /backups/today
    """
    report = CommandReport(shell, looks=False)

    def failed(space: Did, error: Exception) -> None:
        report.take(space, partial(_raised, error, target))

    with showing_progress(shell, target) as on_progress:
        done = _backed_up(data, storage, target, space, on_progress, failed)
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


def _backed_up(
    data: Path,
    storage: GivenDatabase | None,
    target: Path,
    space: Did | None,
    on_progress: OnProgress,
    failed: Failed,
) -> list[BackedUp]:
    wanted = None if space is None else [space]
    if storage is None:
        with reading(data):
            return back_up(data, target, now=now, spaces=wanted, on_progress=on_progress, failed=failed)
    with database(storage) as opened:
        return back_up_database(opened, target, now=now, spaces=wanted, on_progress=on_progress, failed=failed)


def _raised(error: Exception, target: Path) -> dict[str, object]:
    with told(target):
        raise error


@click.command()
@click.argument("source", type=_directory)
@data_option
@storage_options
@space_option
@click.pass_obj
def restore(
    shell: CommandShell, source: Path, data: Path, storage: GivenDatabase | None, space: Did | None
) -> dict[str, object]:
    """Restore the spaces of the backup SOURCE into a data directory that has none.

    No process may be using the directory. Every space is verified before it can be seen; the backup is only read.
    With --storage into a database without spaces; SOURCE is the backup of a database then. Such a backup can be
    restored into a directory, too.

    Example: stemmadb restore --data ./data /backups/today
    """
    with showing_progress(shell, data if storage is None else None) as on_progress:
        done = _restored(source, data, storage, None if space is None else [space], on_progress)
    for one in done:
        shell.say(f"{shell.named(one.space)}: restored and verified, version {one.version}, {shown(one.hash)}")
    return {
        **({"data": str(data)} if storage is None else {"storage": storage.url}),
        "spaces": [
            {"space": one.space, "name": shell.name_of(one.space), "version": one.version, "hash": shown(one.hash)}
            for one in done
        ],
    }


def _restored(
    source: Path, data: Path, storage: GivenDatabase | None, spaces: list[Did] | None, on_progress: OnProgress
) -> list[Verified]:
    if isinstance(manifests.load_any(source), ExportsManifest):
        with arriving(data, storage) as place:
            return restore_database(source, place, spaces=spaces, on_progress=on_progress)
    if storage is not None:
        pipe = f"stemmadb export - --data {source} | stemmadb import - --storage {storage.url}"
        raise click.UsageError(f"{str(source)!r} is no backup of a database. For one of a directory: {pipe}")
    return bring_back(source, data, spaces=spaces, on_progress=on_progress)
