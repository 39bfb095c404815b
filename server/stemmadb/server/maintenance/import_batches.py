"""Brings the spaces of export streams into a data directory that nobody holds, all of them or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stemmadb.protocol.errors import NotEmpty, UnknownSpace
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.maintenance.import_space import receive, space_of
from stemmadb.server.maintenance.incoming import SPACES, incoming, publish
from stemmadb.server.maintenance.progress import OnProgress, quiet
from stemmadb.server.maintenance.stream import LINE_BYTES_MAX, EndLine, Header, LineReader, LineSource
from stemmadb.server.maintenance.verify import Verified
from stemmadb.server.storage.directory import hold
from stemmadb.server.storage.sqlite import SqliteStorage


def import_spaces(
    source: LineSource,
    directory: Path,
    *,
    space: Did | None = None,
    on_progress: OnProgress = quiet,
    line_bytes_max: int = LINE_BYTES_MAX,
) -> list[Verified]:
    """Reads every stream of a file, or the one of a space, and shows the spaces once all of them are whole.

    `NotEmpty` if a space is in the directory already, `BadStream` or `BrokenChain` if a stream is not right; then
    nothing is left behind.
    """
    lines = LineReader(source, line_bytes_max=line_bytes_max)
    with hold(directory), incoming(directory) as place:
        SqliteStorage(directory).close()  # recovers a group WAL for the spaces that exist, and removes it
        imported = [_import_stream(lines, header, directory, place, on_progress) for header in _streams(lines, space)]
        if not imported and space is not None:
            raise UnknownSpace(space=space)
        if not imported:
            lines.fail("it is empty", ahead=1)
        publish(place, directory)
    return imported


def _streams(lines: LineReader, space: Did | None) -> Iterator[Header]:
    """The streams to read; each must be read to its end before the next is asked for."""
    while (header := lines.begin()) is not None:
        if space is None or header.space == space:
            yield header
        else:
            while not isinstance(lines.next(), EndLine):
                pass


def _import_stream(
    lines: LineReader, header: Header, directory: Path, place: Path, on_progress: OnProgress
) -> Verified:
    space = space_of(lines, header)
    if (directory / SPACES / space).exists():
        raise NotEmpty(directory=str(directory / SPACES / space))
    if (place / SPACES / space).exists():
        lines.fail(f"the stream of {space} is here twice")
    storage = SqliteStorage(place)
    try:
        log = storage.open(space, create=True)
        try:
            return receive(lines, header, log, on_progress=on_progress)
        finally:
            log.close()
    finally:
        storage.close()
