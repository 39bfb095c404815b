"""Import: reads an export stream into an empty log, and believes nothing of it that it has not checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.identity import public_key
from stemmadb.protocol.model.log import chain
from stemmadb.protocol.model.log.commit_record import genesis
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import Did, Version
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
    lines: LineReader, header: Header, log: SpaceLog, *, on_progress: OnProgress = quiet, heads_max: int = HEADS_MAX
) -> Verified:
    """Fills an empty log with the rest of a stream, and verifies what was stored.

    `BadStream` names the line that cannot be right, `BrokenChain` the place in the history;
    the log is of no use then.
    """
    commits = _Commits(lines)
    last = _take_commits(commits, header, log, on_progress, heads_max)
    if (last.version, reference.write(last.hash)) != (header.version, header.hash):
        lines.fail(f"the commits end at version {last.version}, and the stream was to end at {header.version}")
    blobs = ArrivingBlobs(lines, log)
    end = _take_blobs(blobs, lines, commits.ending, on_progress)
    _check_end(lines, end, header, last.facts, blobs.count)
    return verify(log, on_progress=on_progress)


class _Commits:
    """The commits of a stream; then `ending` is the line after them."""

    def __init__(self, lines: LineReader) -> None:
        self._lines = lines
        self.ending: Line

    def read(self) -> Iterator[Made]:
        while isinstance(line := self._lines.next(), CommitLine):
            facts = self._facts(line)
            try:
                yield records.read_commit(line, facts, BOUNDS)
            except NotARecord as wrong:
                self._lines.fail(str(wrong))
        self.ending = line

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


def _take_commits(
    commits: _Commits, header: Header, log: SpaceLog, on_progress: OnProgress, heads_max: int
) -> chain.ChainProgress:
    """Appends each commit once it has been verified."""
    counter = Counter(on_progress, "reading commits", header.version)
    made = FoldedStructure()
    last = chain.ChainProgress(Version(0), genesis(log.space), 0)
    with UnwrittenTail(log) as pending:
        heads = LogHeads(pending.find, heads_max=heads_max)
        for progress in chain.verify(log.space, pending.holding(commits.read()), heads):
            last = progress
            made.take(*pending.newest)
            pending.flush_if_full()
            counter.add()
        pending.flush()
    counter.finish()
    return last


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
    if (end.commits, end.facts, end.blobs, end.hash) != (header.version, facts, blobs, header.hash):
        lines.fail("the 'end' line counts other commits, facts or blobs than there are")
    if end.stream != lines.hash_before():
        lines.fail("the lines before do not give the hash in the 'end' line")
