"""Commits of an import that are verified and not yet appended: few appends, and a bounded number in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from stemmadb.protocol.model.branch import Span, visible
from stemmadb.protocol.model.facts import Fact
from stemmadb.protocol.model.ids import EntityId, Version
from stemmadb.protocol.model.limits import MEBIBYTE
from stemmadb.server.keeping.heads import Find, in_log
from stemmadb.server.keeping.records import Made
from stemmadb.server.storage.port import Entry, Place, SpaceLog

BATCH_BYTES: Final = 8 * MEBIBYTE
BATCH_COMMITS: Final = 2_000
FACT_BYTES: Final = 200
"""What a fact costs in memory besides its body."""


class Pending:
    """A tail of the log that is in memory alone. Looks facts up there, and then in the log."""

    def __init__(self, log: SpaceLog) -> None:
        self._log = log
        self._made: list[Made] = []
        self._facts: dict[EntityId, list[Fact]] = {}
        self._bytes = 0
        self._version = Version(0)
        self._cut = ExitStack()
        self._in_log: Find | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._cut.close()

    @property
    def newest(self) -> Made:
        return self._made[-1]

    def holding(self, arriving: Iterable[Made]) -> Iterator[Made]:
        """The same, each held just before it is given: the facts of one commit may continue each other."""
        for made in arriving:
            self._made.append(made)
            for fact in made[1]:
                self._facts.setdefault(fact.id, []).append(fact)
                self._bytes += FACT_BYTES + len(fact.body or b"")
            yield made

    def find(self, id_: EntityId, spans: tuple[Span, ...], before: Place) -> Fact | None:
        """The newest fact of an entity in the spans before a place (see `heads.Find`)."""
        for fact in reversed(self._facts.get(id_, [])):
            if Place(fact.version, fact.index) < before and visible(spans, fact.branch, fact.version):
                return fact
        if self._in_log is None:
            self._in_log = in_log(self._cut.enter_context(self._log.reader()))
        return self._in_log(id_, spans, before)

    def flush_if_full(self) -> None:
        if self._bytes >= BATCH_BYTES or len(self._made) >= BATCH_COMMITS:
            self.flush()

    def flush(self) -> None:
        """Appends what is held; everything held must have been verified."""
        if not self._made:
            return
        self._cut.close()
        self._in_log = None
        self._log.append(self._version, [Entry(commit, facts) for commit, facts in self._made])
        self._version = self.newest[0].version
        self._made, self._facts, self._bytes = [], {}, 0
