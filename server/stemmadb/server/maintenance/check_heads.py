"""The heads that a walk of the chain continues, looked up in the log and kept in bounded memory (FACT-2)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Final, TypeAlias

from stemmadb.protocol.model.log import branch_spans as branches
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.branch_spans import Span
from stemmadb.protocol.model.log.chain_heads import ChainHead
from stemmadb.protocol.model.log.facts import Fact
from stemmadb.protocol.model.log.state import BranchState
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, MAIN, BranchName, EntityId, Version
from stemmadb.server.storage.port import FactPosition, LogReader

HEADS_MAX: Final = 100_000

Find: TypeAlias = Callable[[EntityId, tuple[Span, ...], FactPosition], Fact | None]
"""The newest fact of an entity in the spans whose place is before the one given."""


class LogHeads:
    """Implements `ChainHeads`. Keeps the branches, and the heads that were used last.

    Everything else is asked of the log: all facts up to the one that the walk took last are there. A log that holds
    later ones too gives the same answers, since each question names the place before which it looks.
    """

    def __init__(self, find: Find, *, heads_max: int = HEADS_MAX) -> None:
        self._find = find
        self._heads_max = heads_max
        self._heads: OrderedDict[tuple[BranchName, EntityId], ChainHead] = OrderedDict()
        self._branches: dict[BranchName, BranchState] = {MAIN: BranchState(name=MAIN)}
        self._closed: set[BranchName] = set()
        self._next = FactPosition(EMPTY_SPACE, 0)

    def head(self, branch: BranchName, id_: EntityId) -> ChainHead | None:
        if branch in self._closed or branch not in self._branches:
            return None
        return self._keep(branch, id_, self._heads.get((branch, id_)) or self._look_up(branch, id_))

    def advance(self, fact: Fact) -> None:
        self._keep(fact.branch, fact.id, _head_after(fact))
        self._next = FactPosition(fact.version, fact.index + 1)

    def fork(self, name: BranchName, parent: BranchName, at: Version) -> bool:
        if name in self._branches or parent not in self._branches:
            return False
        self._branches[name] = BranchState(name=name, parent=parent, fork=at)
        return True

    def close(self, name: BranchName) -> bool:
        if name == MAIN or name not in self._branches or name in self._closed:
            return False
        self._closed.add(name)
        return True

    def _keep(self, branch: BranchName, id_: EntityId, head: ChainHead) -> ChainHead:
        self._heads[branch, id_] = head
        self._heads.move_to_end((branch, id_))
        if len(self._heads) > self._heads_max:
            self._heads.popitem(last=False)
        return head

    def _look_up(self, branch: BranchName, id_: EntityId) -> ChainHead:
        spans = branches.lineage(self._branches, branch, self._next.version)
        fact = self._find(id_, spans, self._next)
        return ChainHead(facts.empty(id_), alive=False) if fact is None else _head_after(fact)


def _head_after(fact: Fact) -> ChainHead:
    return ChainHead(fact.hash, alive=fact.kind != "delete")


def in_log(reader: LogReader) -> Find:
    """Looks in a read view of the log."""

    def find(id_: EntityId, spans: tuple[Span, ...], before: FactPosition) -> Fact | None:
        found = reader.facts_of(id_, spans, order="newest", after=before, limit=1)
        return found[0] if found else None

    return find
