"""Brings the spaces of export streams into a data directory that nobody holds, or a database: all of them or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from stemmadb.protocol.errors import UnknownSpace
from stemmadb.protocol.model.values.ids import Did
from stemmadb.server.maintenance.import_space import receive, space_of
from stemmadb.server.maintenance.incoming import IncomingSpaces, incoming_spaces
from stemmadb.server.maintenance.progress import OnProgress, quiet
from stemmadb.server.maintenance.stream import LINE_BYTES_MAX, EndLine, Header, LineReader, LineSource
from stemmadb.server.maintenance.verify import Verified


def import_spaces(
    source: LineSource,
    directory: Path,
    *,
    space: Did | None = None,
    on_progress: OnProgress = quiet,
    line_bytes_max: int = LINE_BYTES_MAX,
) -> list[Verified]:
    """`import_into` a data directory that nobody holds."""
    with incoming_spaces(directory) as target:
        return import_into(target, source, space=space, on_progress=on_progress, line_bytes_max=line_bytes_max)


def import_into(
    target: IncomingSpaces,
    source: LineSource,
    *,
    space: Did | None = None,
    on_progress: OnProgress = quiet,
    line_bytes_max: int = LINE_BYTES_MAX,
) -> list[Verified]:
    """Reads every stream of a file, or the one of a space, and shows the spaces once all of them are whole.

    `NotEmpty` if a space is there already, `BadStream` or `BrokenChain` if a stream is not right; then nothing is
    left behind.
    """
    lines = LineReader(source, line_bytes_max=line_bytes_max)
    imported: dict[Did, Verified] = {}
    for header in _streams(lines, space):
        found = space_of(lines, header)
        if header.after:
            lines.fail(f"it goes on from version {header.after}: restore the backup that it is a part of")
        if found in imported:
            lines.fail(f"the stream of {found} is here twice")
        imported[found] = _import_stream(lines, header, target, found, on_progress)
    if not imported and space is not None:
        raise UnknownSpace(space=space)
    if not imported:
        lines.fail("it is empty", ahead=1)
    target.publish()
    return list(imported.values())


def _streams(lines: LineReader, space: Did | None) -> Iterator[Header]:
    """The streams to read; each must be read to its end before the next is asked for."""
    while (header := lines.begin()) is not None:
        if space is None or header.space == space:
            yield header
        else:
            while not isinstance(lines.next(), EndLine):
                pass


def _import_stream(
    lines: LineReader, header: Header, target: IncomingSpaces, space: Did, on_progress: OnProgress
) -> Verified:
    log = target.open(space)
    try:
        return receive(lines, header, log, on_progress=on_progress)
    finally:
        log.close()
