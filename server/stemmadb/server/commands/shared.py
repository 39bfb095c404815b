"""What the commands on a data directory share: their options, the shell they talk to, and the errors of files."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

import click

from stemmadb.protocol import errors, identity
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.server.commands.database_access import (
    READ_VIEW_MS_MAX,
    GivenDatabase,
    database,
    served_elsewhere,
    writable_database,
)
from stemmadb.server.maintenance.incoming import IncomingSpaces, incoming_spaces
from stemmadb.server.maintenance.progress import MaintenanceProgress, OnProgress
from stemmadb.server.storage.port import DiskFull, OwnedElsewhere, Storage, StorageFailed
from stemmadb.server.storage.sqlite import SqliteStorage
from stemmadb.server.storage.sqlite.connection import is_no_room


class CommandShell(Protocol):
    """What a command finds as the object of its context."""

    def say(self, text: str) -> None:
        """A line for a person."""
        ...

    def named(self, did: str) -> str:
        """A space or a person with the name that the user gave it, if there is one."""
        ...

    def did_of(self, name: str) -> str | None:
        """The space that has this name, None if there is none or there are several."""
        ...

    def counted(self, count: int, one: str, many: str | None = None) -> str:
        """`1 blob`, `2 blobs`."""
        ...

    def confirm(self, question: str, *, yes: bool) -> None:
        """Returns if the user means it: asks a person, and wants `--yes` of a program."""
        ...

    def name_of(self, did: str) -> str | None:
        """That name alone."""
        ...

    def ended(self, error: errors.StemmaError) -> None:
        """A part of the work was not done, and this is why: the first error decides how the command exits."""
        ...

    def progress(self) -> AbstractContextManager[Callable[[str, int, int | None], None]]:
        """Shows how far it is, while the block runs."""
        ...


def read_did(ctx: click.Context, option: click.Parameter, text: str | None) -> Did | None:  # noqa: ARG001
    """The callback of options that take a DID, or the name that a space has here."""
    if text is None:
        return None
    if not text.startswith("did:") and ctx.obj is not None:
        text = ctx.obj.did_of(text) or text
    identity.public_key(text)
    return Did(text)


data_option = click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("data"),
    show_default=True,
    help="The data directory.",
)
space_option = click.option(
    "--space", callback=read_did, metavar="NAME|DID", help="Only this space; default: all spaces."
)
one_space_option = click.option("--space", callback=read_did, metavar="NAME|DID", required=True, help="The space.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be removed, and remove nothing.")


@contextmanager
def showing_progress(shell: CommandShell, target: Path | None = None) -> Iterator[OnProgress]:
    """Where long work tells how far it is; errors of the storage become errors that a person can be told.

    `target` is the directory that is written, if there is one.
    """
    with shell.progress() as show, told(target):

        def on_progress(progress: MaintenanceProgress) -> None:
            show(progress.stage, progress.done, progress.total)

        yield on_progress


@contextmanager
def told(target: Path | None = None) -> Iterator[None]:
    try:
        yield
    except DiskFull as full:
        raise _full(target) from full
    except OwnedElsewhere as elsewhere:
        raise served_elsewhere(elsewhere.address) from elsewhere
    except StorageFailed as failed:
        why = "Run 'stemmadb verify' to see whether it is damaged."
        raise errors.Unavailable(f"The files of the space cannot be used ({failed}). {why}") from failed
    except OSError as failed:
        if not is_no_room(failed.errno):
            raise
        raise _full(target) from failed


def _full(target: Path | None) -> errors.StorageFull:
    where = "" if target is None else f" of {target}"
    return errors.StorageFull(f"The disk{where} is full, and what was begun is not there. Make room and try again.")


@contextmanager
def reading_all(
    data: Path, storage: GivenDatabase | None, *, read_view_ms_max: int = READ_VIEW_MS_MAX
) -> Iterator[Storage]:
    """The spaces of a directory, or those of a database, either of which may be in use."""
    if storage is None:
        with reading(data) as directory:
            yield directory
        return
    with database(storage, read_view_ms_max=read_view_ms_max) as opened:
        yield opened


@contextmanager
def arriving(data: Path, storage: GivenDatabase | None) -> Iterator[IncomingSpaces]:
    """Where new spaces are made: in a directory that no process uses, or in a database."""
    if storage is None:
        with incoming_spaces(data) as directory:
            yield directory
        return
    with writable_database(storage) as opened, opened.incoming() as place:
        yield place


@contextmanager
def reading(data: Path) -> Iterator[SqliteStorage]:
    """The spaces of a directory, which may be in use, to be read only."""
    if not data.is_dir():
        raise FileNotFoundError(errno.ENOENT, "there is no such directory", str(data))
    storage = SqliteStorage(data, read_only=True)
    try:
        yield storage
    finally:
        storage.close()


def now() -> TimeMs:
    return TimeMs(time.time_ns() // 1_000_000)


def shown(hash_: bytes) -> str:
    return reference.write(hash_)
