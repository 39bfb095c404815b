"""The export stream: JSON Lines that carry a space with its whole history, blobs included.

One JSON object on each line, ended by a line feed. Its first member, `stemmadb`, says what the line is:

    export  format (1), space, version and hash: whose history, and its last commit. Always the first line. `after`
            where the stream goes on from a version: a part of a backup.
    commit  one commit with its facts, in the order of versions. A fact whose body is gone brings its digest instead.
            A commit with many facts goes on in lines of `facts`; `fact_count` says how many there are in all.
    facts   more facts of the commit before.
    blob    hash, size, content_type and created of a blob; its bytes follow in `chunk` lines, none for an empty one.
    chunk   bytes of the blob before, and the offset `at` which they belong.
    end     how many commits, facts and blobs there were, the hash of the last commit, and in `stream` the BLAKE3 of
            all bytes before this line. Always the last line; a stream without it is not whole.

Bytes are base64 with padding; hashes are references, `b3:...` (FACT-4); times are milliseconds since the epoch.
`arguments` and `note` of a commit and `body` of a fact are the very bytes that FACT-2 and FACT-3 hash. What is null
is left out, and the arguments of an ordinary commit too. Several streams may follow each other, one for each space.
Snapshots are not in it: they are folds of the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NoReturn, Protocol, TypeAlias

import msgspec
from blake3 import blake3

from stemmadb.protocol.errors import BadStream
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.limits import MEBIBYTE

FORMAT: Final = 1
LINE_BYTES_MAX: Final = 256 * MEBIBYTE
"""A line has one body at least, and the arguments of a merge can name 100,000 entities."""
FACTS_BYTES: Final = 4 * MEBIBYTE
"""A line ends with the fact that brings the bodies in it to this size."""
CHUNK_BYTES: Final = 768 * 1024
"""Of a blob in one line: 1 MiB of base64."""


class _Line(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="stemmadb", omit_defaults=True, forbid_unknown_fields=True
):
    pass


class Header(_Line, frozen=True, kw_only=True, tag="export"):
    format: int
    space: str
    version: int
    hash: str
    after: int = 0


class FactRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`branch` only where the commit has none; `digest` only where the body is gone."""

    id: str
    kind: FactKind
    branch: str | None = None
    parent: str
    hash: str
    salt: bytes | None = None
    body: bytes | None = None
    digest: str | None = None


class CommitLine(_Line, frozen=True, kw_only=True, tag="commit"):
    """`session` and `local`, or `operation`; `note_digest` only where the note is gone."""

    version: int
    previous: str
    hash: str
    time: int
    author: str
    session: bytes | None = None
    local: int | None = None
    operation: bytes | None = None
    branch: str | None = None
    request: str
    arguments: bytes | None = None
    note: bytes | None = None
    note_salt: bytes | None = None
    note_digest: str | None = None
    fact_count: int = 0
    facts: list[FactRecord] = []


class FactsLine(_Line, frozen=True, kw_only=True, tag="facts"):
    facts: list[FactRecord]


class BlobLine(_Line, frozen=True, kw_only=True, tag="blob"):
    hash: str
    size: int
    content_type: str
    created: int


class ChunkLine(_Line, frozen=True, kw_only=True, tag="chunk"):
    at: int
    data: bytes


class EndLine(_Line, frozen=True, kw_only=True, tag="end"):
    end: Literal[True]
    commits: int
    facts: int
    blobs: int
    hash: str
    stream: str


Line: TypeAlias = Header | CommitLine | FactsLine | BlobLine | ChunkLine | EndLine

_decoder = msgspec.json.Decoder(Line)
_encoder = msgspec.json.Encoder()


class LineSource(Protocol):
    """A file to read lines from."""

    def readline(self, limit: int, /) -> bytes: ...


class LineWriter:
    """Writes lines, and hashes what it has written."""

    def __init__(self, write: Callable[[bytes], object]) -> None:
        self._write = write
        self._hasher = blake3()
        self.bytes_written = 0

    def put(self, line: Line) -> None:
        data = _encoder.encode(line) + b"\n"
        self._hasher.update(data)
        self._write(data)
        self.bytes_written += len(data)

    def hash(self) -> str:
        return reference.write(self._hasher.digest())


class LineReader:
    """Reads lines, never more than one of them in memory, and hashes what it has read.

    `number` is the line it has given last; several streams in one file are counted on.
    """

    def __init__(self, source: LineSource, *, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._source = source
        self._line_bytes_max = line_bytes_max
        self._hasher = blake3()
        self._before = blake3()
        self.number = 0

    def begin(self) -> Header | None:
        """The first line of the next stream; None if there is none."""
        self._hasher = blake3()
        line = self._next()
        if line is None:
            return None
        if not isinstance(line, Header):
            self.fail("a stream begins with an 'export' line")
        if line.format != FORMAT:
            self.fail(f"format {line.format} is not known; this StemmaDB reads {FORMAT}")
        return line

    def next(self) -> Line:
        line = self._next()
        if line is None:
            self.fail("the stream ends before its 'end' line", ahead=1)
        return line

    def hash_before(self) -> str:
        """The hash of the stream up to the line given last, without it."""
        return reference.write(self._before.digest())

    def fail(self, why: str, *, ahead: int = 0) -> NoReturn:
        raise BadStream(line=self.number + ahead, why=why.rstrip("."))

    def _next(self) -> Line | None:
        data = self._source.readline(self._line_bytes_max + 1)
        if not data:
            return None
        self.number += 1
        if len(data) > self._line_bytes_max:
            self.fail(f"a line has at most {self._line_bytes_max} bytes")
        if not data.endswith(b"\n"):
            self.fail("the line is not whole")
        self._before = self._hasher.copy()
        self._hasher.update(data)
        try:
            line: Line = _decoder.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as wrong:
            self.fail(f"it is not a line of an export ({wrong})")
        return line
