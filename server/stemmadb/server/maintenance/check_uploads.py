"""Commits of an import that are verified and not yet appended: few appends, and a bounded number in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import Final, Self

from stemmadb.protocol.model.log.branch_spans import Span, visible
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.limits import MEBIBYTE
from stemmadb.server.maintenance.check_heads import Find, in_log
from stemmadb.server.maintenance.records import Made
from stemmadb.server.storage import blocking
from stemmadb.server.storage.port import AcceptedWrite, AppendBatch, FactPosition, SpaceLog

BATCH_BYTES: Final = 8 * MEBIBYTE
BATCH_COMMITS: Final = 2_000
FACT_BYTES: Final = 200
"""What a fact costs in memory besides its body."""


class UnwrittenTail:
    """A tail of the log that is in memory alone. Looks facts up there, and then in the log."""

    def __init__(self, log: SpaceLog) -> None:
        self._log = log
        self._made: list[Made] = []
        self._facts: dict[EntityId, list[Fact]] = {}
        self._bytes = 0
        self._version = Version(0)
        self._view = ExitStack()
        self._in_log: Find | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._view.close()

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

    def find(self, id_: EntityId, spans: tuple[Span, ...], before: FactPosition) -> Fact | None:
        """The newest fact of an entity in the spans before a place (see `heads.Find`)."""
        for fact in reversed(self._facts.get(id_, [])):
            if FactPosition(fact.version, fact.index) < before and visible(spans, fact.branch, fact.version):
                return fact
        if self._in_log is None:
            self._in_log = in_log(self._view.enter_context(self._log.reader()))
        return self._in_log(id_, spans, before)

    def flush_if_full(self) -> None:
        if self._bytes >= BATCH_BYTES or len(self._made) >= BATCH_COMMITS:
            self.flush()

    def flush(self) -> None:
        """Appends what is held; everything held must have been verified."""
        if not self._made:
            return
        self._view.close()
        self._in_log = None
        writes = [AcceptedWrite(commit, facts) for commit, facts in self._made]
        blocking.append(self._log, AppendBatch(self._version, writes))
        self._version = self.newest[0].version
        self._made, self._facts, self._bytes = [], {}, 0
