"""Import: reads an export stream into an empty log, and believes nothing of it that it has not checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.identity import public_key
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import genesis
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.maintenance import records
from stemmadb.server.maintenance.check_heads import HEADS_MAX, LogHeads
from stemmadb.server.maintenance.check_structure import FoldedStructure
from stemmadb.server.maintenance.check_uploads import UnwrittenTail
from stemmadb.server.maintenance.import_blobs import ArrivingBlobs
from stemmadb.server.maintenance.progress import Counter, OnProgress, quiet
from stemmadb.server.maintenance.records import Made, NotARecord
from stemmadb.server.maintenance.stream import (
    LINE_BYTES_MAX,
    BlobLine,
    CommitLine,
    EndLine,
    FactRecord,
    FactsLine,
    Header,
    Line,
    LineReader,
)
from stemmadb.server.maintenance.verify import Verified, verify
from stemmadb.server.storage.port import SpaceLog

FACTS_MAX: Final = 1 << 20  # the places of a commit
BOUNDS: Final = Limits(
    value_bytes_max=LINE_BYTES_MAX, depth_max=256, id_bytes_max=4_096, patch_operations_max=1_000_000
)
"""Wider than those of any server: what was admitted once can be read for ever (COMMIT-8)."""


def space_of(lines: LineReader, header: Header) -> Did:
    """The space whose stream it is; `BadStream` if it is none."""
    try:
        public_key(header.space)
    except StemmaError as wrong:
        lines.fail(wrong.message)
    return Did(header.space)


def receive(
    lines: LineReader,
    header: Header,
    log: SpaceLog,
    *,
    later: Iterable[LineReader] = (),
    on_progress: OnProgress = quiet,
    heads_max: int = HEADS_MAX,
) -> Verified:
    """Fills an empty log with the rest of a stream, and verifies what was stored.

    `later` are streams that go on where the one before them ends, as those of a backup do.

    `BadStream` names the line that cannot be right, `BrokenChain` the place in the history;
    the log is of no use then.
    """
    _take_commits(_Streams(lines, header, log, later, on_progress), log, heads_max)
    return verify(log, on_progress=on_progress)


class _Streams:
    """The commits of a stream and of those that go on where it ends; blobs are taken between them."""

    def __init__(
        self, lines: LineReader, header: Header, log: SpaceLog, later: Iterable[LineReader], on_progress: OnProgress
    ) -> None:
        self._lines = lines
        self._header = header
        self._log = log
        self._later = later
        self._on_progress = on_progress
        self._version = 0
        self._hash = reference.write(genesis(log.space))

    def commits(self) -> Iterator[Made]:
        yield from self._stream()
        for lines in self._later:
            header = lines.begin()
            if header is None or (header.space, header.after) != (self._log.space, self._version):
                lines.fail(f"a stream of {self._log.space} that goes on from version {self._version} belongs here")
            self._lines, self._header = lines, header
            yield from self._stream()

    def _stream(self) -> Iterator[Made]:
        counter = Counter(self._on_progress, "reading commits", self._header.version - self._header.after)
        facts = 0
        while isinstance(line := self._lines.next(), CommitLine):
            records_ = self._facts(line)
            try:
                made = records.read_commit(line, records_, BOUNDS)
            except NotARecord as wrong:
                self._lines.fail(str(wrong))
            yield made  # it was verified when the next one is asked for
            self._version, self._hash = line.version, line.hash
            facts += len(made[1])
            counter.add()
        counter.finish()
        if (self._version, self._hash) != (self._header.version, self._header.hash):
            self._lines.fail(
                f"the commits end at version {self._version}, and the stream was to end at {self._header.version}"
            )
        blobs = ArrivingBlobs(self._lines, self._log)
        end = _take_blobs(blobs, self._lines, line, self._on_progress)
        _check_end(self._lines, end, self._header, facts, blobs.count)

    def _facts(self, line: CommitLine) -> list[FactRecord]:
        """All facts of a commit, those in the lines after it included."""
        if not 0 <= line.fact_count <= FACTS_MAX:
            self._lines.fail(f"a commit has at most {FACTS_MAX} facts")
        found = list(line.facts)
        while len(found) < line.fact_count:
            more = self._lines.next()
            if not isinstance(more, FactsLine) or not more.facts:
                self._lines.fail(f"{line.fact_count - len(found)} facts of version {line.version} are missing")
            found += more.facts
        if len(found) > line.fact_count:
            self._lines.fail(f"version {line.version} has {line.fact_count} facts, and more are here")
        return found


def _take_commits(streams: _Streams, log: SpaceLog, heads_max: int) -> None:
    """Appends each commit once it has been verified."""
    made = FoldedStructure()
    with UnwrittenTail(log) as pending:
        heads = LogHeads(pending.find, heads_max=heads_max)
        for _ in chain.verify(log.space, pending.holding(streams.commits()), heads):
            made.take(*pending.newest)
            pending.flush_if_full()
        pending.flush()


def _take_blobs(blobs: ArrivingBlobs, lines: LineReader, line: Line, on_progress: OnProgress) -> EndLine:
    counter = Counter(on_progress, "reading blobs", every=100)
    while isinstance(line, BlobLine):
        blobs.take(line)
        counter.add()
        line = lines.next()
    if not isinstance(line, EndLine):
        lines.fail("a line of another kind belongs here")
    counter.finish()
    return line


def _check_end(lines: LineReader, end: EndLine, header: Header, facts: int, blobs: int) -> None:
    commits = header.version - header.after
    if (end.commits, end.facts, end.blobs, end.hash) != (commits, facts, blobs, header.hash):
        lines.fail("the 'end' line counts other commits, facts or blobs than there are")
    if end.stream != lines.hash_before():
        lines.fail("the lines before do not give the hash in the 'end' line")
