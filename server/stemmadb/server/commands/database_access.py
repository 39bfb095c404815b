"""Databases as commands use them: to read beside all others, or to write as a node without an address."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

import click

from stemmadb.protocol import errors
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.serving.settings.database_url import database_url
from stemmadb.server.storage.port import DiskFull, OwnedElsewhere, StorageFailed

if TYPE_CHECKING:
    from stemmadb.server.storage.postgres import PostgresStorage
    from stemmadb.server.storage.postgres.connection import PgConnection

READ_VIEW_MS_MAX: Final = 600_000
"""Verifying is one read, which may take long."""
PAGES_MS_MAX: Final = 5_000
"""What reads page by page goes on in later read views, so that appends are not kept waiting (STORE-10)."""

_STORAGE: Final = "A PostgreSQL database instead of the data directory: postgresql://user@host/db."
_BLOBS: Final = "With --storage: the directory of large blobs that the nodes share, if they have one."

T = TypeVar("T")


class GivenDatabase(NamedTuple):
    """A database as a command is told of it."""

    url: str
    blobs: Path | None = None
    has_blobs: bool = True
    """Whether the command has to do with blobs: then the directory must be the one that the nodes share."""


def _read_storage(_ctx: click.Context, _option: click.Parameter, url: str | None) -> GivenDatabase | None:
    return None if url is None else GivenDatabase(url, has_blobs=False)


storage_option = click.option("--storage", metavar="URL", callback=_read_storage, help=_STORAGE)


def storage_options(function: Callable[..., T]) -> Callable[..., T]:
    """`--storage` with `--blobs`, as one `storage`."""

    @click.option("--storage", metavar="URL", help=_STORAGE)
    @click.option("--blobs", "blobs_in", type=click.Path(file_okay=False, path_type=Path), help=_BLOBS)
    @wraps(function)
    def called(*args: object, storage: str | None, blobs_in: Path | None, **options: object) -> T:
        if storage is None and blobs_in is not None:
            raise click.UsageError("--blobs goes with --storage: a data directory has its blobs beside its spaces.")
        return function(*args, storage=None if storage is None else GivenDatabase(storage, blobs_in), **options)

    return called


needed_storage_option = click.option(
    "--storage", metavar="URL", required=True, help="The PostgreSQL database: postgresql://user@host/db."
)


@contextmanager
def database(storage: GivenDatabase, *, read_view_ms_max: int = READ_VIEW_MS_MAX) -> Iterator[PostgresStorage]:
    """The database, to be read only: a command that reads is no node."""
    with _opened(storage, read_only=True, read_view_ms_max=read_view_ms_max) as opened:
        yield opened


@contextmanager
def writable_database(storage: GivenDatabase) -> Iterator[PostgresStorage]:
    """The database, to write spaces that no live node owns: a node without an address, to which nobody connects."""
    with _opened(storage, read_only=False, read_view_ms_max=READ_VIEW_MS_MAX) as opened:
        yield opened


@contextmanager
def connected(storage: str) -> Iterator[PgConnection]:
    """One connection to the primary, for what is done to a database as a whole."""
    url = checked_url(storage)
    with _failures():
        with _driver():
            from stemmadb.server.storage.postgres.connection import connect, failures  # noqa: PLC0415
        connection = connect(url)
        try:
            with failures():
                yield connection
        finally:
            connection.close()


def claim(opened: PostgresStorage, space: Did) -> None:
    """The space is ours until the command ends; `Unavailable` says who has it."""
    address = opened.claim([space])[space]
    if address is not None:
        raise served_elsewhere(address)


def served_elsewhere(address: str) -> errors.Unavailable:
    if not address:
        return errors.Unavailable("Another command uses the space. Wait until it has ended, and try again.")
    return errors.Unavailable(
        f"The node at {address} serves the space. Ask that server, without --storage, or stop its nodes first."
    )


def checked_url(storage: str) -> str:
    """The address as it is, without a password in it."""
    try:
        return database_url(storage)
    except ValueError as wrong:
        raise click.UsageError(f"--storage cannot be used: {wrong}.") from None


@contextmanager
def _opened(storage: GivenDatabase, *, read_only: bool, read_view_ms_max: int) -> Iterator[PostgresStorage]:
    url = checked_url(storage.url)
    with _failures():
        with _driver():
            from stemmadb.server.storage.postgres import PostgresStorage  # noqa: PLC0415
        opened = PostgresStorage(url, read_only=read_only, program=_program(), read_view_ms_max=read_view_ms_max)
        try:
            if storage.has_blobs:
                opened.use_blobs(storage.blobs)
            yield opened
        finally:
            opened.close()


def _program() -> str:
    from importlib.metadata import version  # noqa: PLC0415  # other commands need not wait for it

    return version("stemmadb")


@contextmanager
def _driver() -> Iterator[None]:
    """psycopg is optional."""
    try:
        yield
    except ImportError:
        raise errors.Unavailable("psycopg is not installed. Run: pip install 'stemmadb[postgres]'") from None


@contextmanager
def _failures() -> Iterator[None]:
    """What can be wrong with a database, as a person is told."""
    try:
        yield
    except DiskFull:
        raise
    except OwnedElsewhere as elsewhere:
        raise served_elsewhere(elsewhere.address) from None
    except StorageFailed as failed:
        raise errors.Unavailable(f"The database cannot be used: {failed}") from None
