"""The log of a space: its commits by branch, author, session, prefix and time, in pages (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import msgspec
from msgspec.structs import replace

from stemmadb.protocol.errors import FutureVersion, UnknownBranch
from stemmadb.protocol.model.log.commit_record import Commit, CommitKind, Erase, Merge
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import DEFAULTS, Limits
from stemmadb.protocol.wire.messages.reading import LogEntry
from stemmadb.server.engine.base.paging import Budget, MayRead, Pace, anything, fill
from stemmadb.server.engine.read.log_pieces import LogPlace, Piece, pieces
from stemmadb.server.storage.port import LogFilter, LogReader

EVERY_COMMIT = LogFilter()


class LogPage(msgspec.Struct, frozen=True):
    """A page, as of `version`; `next` is given back as `after`, with `version` as `upto` of the filter.

    A commit whose facts do not fit goes on in an entry of the same version on the next page.
    """

    version: Version
    entries: tuple[LogEntry, ...]
    next: LogPlace | None


def page(  # noqa: PLR0913
    reader: LogReader,
    wanted: LogFilter = EVERY_COMMIT,
    *,
    with_facts: bool = False,
    with_ids: bool = False,
    kinds: Collection[CommitKind] = (),
    after: LogPlace | None = None,
    limit: int | None = None,
    may_read: MayRead = anything,
    limits: Limits = DEFAULTS,
) -> LogPage:
    """The next commits that pass the filter, whole records, so that a client can verify the chain (FACT-3).

    A caller that may not read everything gets no commit of which it may read no fact, none that names an entity that
    it may not read, and of the others only the facts that it may read. `with_ids` brings them without salt and body.
    """
    assert wanted.after is None, "the place after which a page begins is given apart"
    budget = Budget(limit, limits)
    version = _version(reader, wanted)
    question = LogQuestion(reader, wanted, may_read, with_facts=with_facts, with_ids=with_ids, kinds=kinds)
    pieces, next_ = fill(question.pieces(after, limits), _size, budget)
    return LogPage(version, tuple(piece.entry for piece in pieces), next_)


def _version(reader: LogReader, wanted: LogFilter) -> Version:
    head = reader.tip().version
    if wanted.branch is not None and reader.branch(wanted.branch) is None:
        raise UnknownBranch(branch=wanted.branch)
    if wanted.upto is not None and wanted.upto > head:
        raise FutureVersion(version=wanted.upto, head=head)
    return head if wanted.upto is None else wanted.upto


class LogQuestion:
    """One walk through the commits that are wanted."""

    def __init__(
        self,
        reader: LogReader,
        wanted: LogFilter,
        may_read: MayRead,
        *,
        with_facts: bool = False,
        with_ids: bool = False,
        kinds: Collection[CommitKind] = (),
    ) -> None:
        self._reader = reader
        self._kinds = frozenset(kinds)
        if self._kinds and "commit" not in self._kinds:
            wanted = replace(wanted, structural=True)
        self._wanted = wanted
        self._may_read = may_read
        self._is_narrow = may_read is not anything
        self._with_facts = with_facts
        self._with_ids = with_ids and not with_facts

    def pieces(self, after: LogPlace | None, limits: Limits) -> Iterator[tuple[LogPlace, Piece | None]]:
        """The pieces of each commit, each with the place after it."""
        if after is not None and after.index is not None:
            yield from self._pieces_of(self._reader.commits([after.version])[after.version], limits, after.index)
        for commit in self._commits(None if after is None else after.version):
            yield from self._pieces_of(commit, limits)

    def visible(self) -> Iterator[tuple[Commit, bool]]:
        """Each commit that passes the filter, and whether it is shown."""
        for commit in self._commits(None):
            yield commit, not (self._is_narrow and self._hides(commit, self._facts(commit)))

    def _commits(self, after: Version | None) -> Iterator[Commit]:
        pace = Pace()
        while found := self._reader.log(replace(self._wanted, after=after), pace.count):
            yield from found
            pace.learn(sum(len(commit.arguments) + 32 * len(commit.facts) for commit in found))
            after = found[-1].version

    def _pieces_of(
        self, commit: Commit, limits: Limits, inside: int | None = None
    ) -> Iterator[tuple[LogPlace, Piece | None]]:
        if self._kinds and commit.kind not in self._kinds:
            yield LogPlace(commit.version), None
            return
        facts = self._facts(commit)
        if self._is_narrow and self._hides(commit, facts):
            yield LogPlace(commit.version), None
            return
        has_items = self._with_facts or self._with_ids
        items = [fact for fact in facts if self._may_read(fact.id)] if has_items else []
        for piece in pieces(commit, items, limits, inside, is_bare=self._with_ids):
            yield piece.end, piece

    def _facts(self, commit: Commit) -> tuple[Fact, ...]:
        if not commit.facts or not (self._with_facts or self._with_ids or self._is_narrow):
            return ()
        return self._reader.facts([commit.version])[commit.version]

    def _hides(self, commit: Commit, facts: tuple[Fact, ...]) -> bool:
        """A commit found by a prefix is returned only to a caller that may read what was found."""
        if not all(map(self._may_read, _named(commit))):
            return True
        prefix = self._wanted.prefix or ""
        return bool(facts) and not any(fact.id.startswith(prefix) and self._may_read(fact.id) for fact in facts)


def _named(commit: Commit) -> Iterator[EntityId]:
    """The entities that a record names, in its arguments, which are sent as they were hashed."""
    details = commit.details
    if isinstance(details, Erase):
        yield from (entity.id for entity in details.every_entity())
    elif isinstance(details, Merge):
        yield from details.resolved
        yield from (contested.id for contested in details.conflicts)


def _size(piece: Piece) -> int:
    return piece.size
