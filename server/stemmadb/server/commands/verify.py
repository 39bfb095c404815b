"""`stemmadb verify`: is everything that is stored what was written?"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.database_access import GivenDatabase, storage_options
from stemmadb.server.commands.report import CommandReport
from stemmadb.server.commands.shared import (
    CommandShell,
    data_option,
    reading_all,
    showing_progress,
    shown,
    space_option,
)
from stemmadb.server.maintenance import manifest as manifests
from stemmadb.server.maintenance.backup import known_spaces
from stemmadb.server.maintenance.manifest import ExportsManifest
from stemmadb.server.maintenance.progress import OnProgress
from stemmadb.server.maintenance.verify import verify_space
from stemmadb.server.storage.port import Storage


@click.command()
@data_option
@storage_options
@space_option
@click.pass_obj
def verify(shell: CommandShell, data: Path, storage: GivenDatabase | None, space: Did | None) -> dict[str, object]:
    """Verify the whole history of each space: hashes, bodies, snapshots, blobs and files.

    Reads a directory that may be in use, a backup too. Names the first place of each space that does not hold, and
    exits with 1 then; with 3 if a space merely cannot be read now.

    Example: stemmadb verify --data ./data
    """
    report = CommandReport(shell, looks=True)
    if storage is None and data.is_dir() and isinstance(manifests.load_any(data), ExportsManifest):
        raise click.UsageError(f"{str(data)!r} is the backup of a database: 'stemmadb restore' verifies it.")
    with showing_progress(shell) as on_progress, reading_all(data, storage) as opened:
        for one in known_spaces(opened, None if space is None else [space]):
            report.take(one, partial(_verified, shell, opened, one, on_progress))
    if not report.spaces:
        shell.say(f"There are no spaces in {storage.url if storage else data}.")
    return report.answer(verified=len(report.good) == len(report.spaces))


def _verified(shell: CommandShell, storage: Storage, space: Did, on_progress: OnProgress) -> dict[str, object]:
    done = verify_space(storage, space, on_progress=on_progress)
    counts = f"{shell.counted(done.facts, 'fact')}, {shell.counted(done.blobs, 'blob')}"
    shell.say(f"{shell.named(space)}: verified, version {done.version}, {counts}, {shown(done.hash)}")
    return {
        "space": space,
        "name": shell.name_of(space),
        "version": done.version,
        "hash": shown(done.hash),
        "facts": done.facts,
        "snapshots": done.snapshots,
        "blobs": done.blobs,
    }
