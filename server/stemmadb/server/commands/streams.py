"""`stemmadb export` and `stemmadb import`: a space with its whole history as one stream of lines."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.commands.database_access import PAGES_MS_MAX, GivenDatabase, storage_options
from stemmadb.server.commands.shared import (
    CommandShell,
    arriving,
    data_option,
    reading_all,
    showing_progress,
    shown,
    space_option,
)
from stemmadb.server.maintenance.backup import known_spaces
from stemmadb.server.maintenance.export import Exported
from stemmadb.server.maintenance.export import export as write_stream
from stemmadb.server.maintenance.import_batches import import_into
from stemmadb.server.maintenance.progress import OnProgress
from stemmadb.server.maintenance.stream import LineSource
from stemmadb.server.storage.blob_directory import sync_directory
from stemmadb.server.storage.port import Storage

STANDARD = "-"


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@data_option
@storage_options
@space_option
@click.pass_obj
def export(
    shell: CommandShell, file: str, data: Path, storage: GivenDatabase | None, space: Did | None
) -> dict[str, object] | None:
    """Write the spaces of a directory, which may be in use, with their whole history to FILE as JSON Lines.

    FILE must not exist; it appears once complete. With '-' the stream goes to standard output, where its last line
    is the summary.

    Example: stemmadb export --data ./data spaces.jsonl
    """
    target = None if file == STANDARD else Path(file).absolute().parent
    with (
        showing_progress(shell, target) as on_progress,
        reading_all(data, storage, read_view_ms_max=PAGES_MS_MAX) as opened,
    ):
        wanted = known_spaces(opened, None if space is None else [space])
        with _written(file) as write:
            done = [_exported(opened, one, write, on_progress) for one in wanted]
    if file == STANDARD:
        return None
    for one in done:
        counts = f"{shell.counted(one.facts, 'fact')}, {shell.counted(one.blobs, 'blob')}"
        shell.say(f"{shell.named(one.space)}: exported, version {one.version}, {counts}")
    return {
        "file": file,
        "spaces": [
            {
                "space": one.space,
                "name": shell.name_of(one.space),
                "version": one.version,
                "hash": shown(one.hash),
                "facts": one.facts,
                "blobs": one.blobs,
                "bytes": one.bytes,
            }
            for one in done
        ],
    }


def _exported(storage: Storage, space: Did, write: Callable[[bytes], object], on_progress: OnProgress) -> Exported:
    log = storage.open(space)
    try:
        return write_stream(log, write, on_progress=on_progress)
    finally:
        log.close()


@contextmanager
def _written(file: str) -> Iterator[Callable[[bytes], object]]:
    """Where to write; a file is seen under its name only once all of it is durable, and never replaces another."""
    if file == STANDARD:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    path = Path(file)
    _check_new(path)
    descriptor, waiting = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with open(descriptor, "wb") as stream:
            yield stream.write
            stream.flush()
            os.fsync(stream.fileno())
        _check_new(path)
        os.rename(waiting, path)
        sync_directory(path.parent)
    finally:
        Path(waiting).unlink(missing_ok=True)


def _check_new(path: Path) -> None:
    if path.exists():
        raise click.UsageError(f"{str(path)!r} exists, and nothing was written. Choose another name.")


@click.command("import")
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
@data_option
@storage_options
@space_option
@click.pass_obj
def import_(
    shell: CommandShell, file: str, data: Path, storage: GivenDatabase | None, space: Did | None
) -> dict[str, object]:
    """Read spaces from FILE, or with '-' from standard input, into a data directory that no process uses.

    The spaces must not exist yet. Everything is verified while it is read, and visible only once it is complete.
    With --storage into a database, which nodes may be using.

    Example: stemmadb import --data ./data spaces.jsonl
    """
    target = data if storage is None else None
    with showing_progress(shell, target) as on_progress, _read(file) as source, arriving(data, storage) as place:
        done = import_into(place, source, space=space, on_progress=on_progress)
    for one in done:
        counts = f"{shell.counted(one.facts, 'fact')}, {shell.counted(one.blobs, 'blob')}"
        shell.say(f"{shell.named(one.space)}: imported and verified, version {one.version}, {counts}")
    return {
        **({"data": str(data)} if storage is None else {"storage": storage.url}),
        "spaces": [
            {
                "space": one.space,
                "name": shell.name_of(one.space),
                "version": one.version,
                "hash": shown(one.hash),
                "facts": one.facts,
                "blobs": one.blobs,
            }
            for one in done
        ],
    }


@contextmanager
def _read(file: str) -> Iterator[LineSource]:
    if file == STANDARD:
        yield sys.stdin.buffer
    else:
        # Without O_NONBLOCK the open of a FIFO waits for a writer.
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as source:
            if not stat.S_ISREG(os.fstat(source.fileno()).st_mode):
                raise click.UsageError(f"{file!r} is not a regular file. Use '-' to read from a pipe.")
            yield source
