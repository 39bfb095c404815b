"""Batches: commits that became durable together, as sessions and watches get them; some are read from the log."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from stemmadb.protocol.model.commit.admission import Accepted
from stemmadb.protocol.model.log.branch_spans import lineage
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, BranchDelete, Erase
from stemmadb.protocol.model.log.state import EntityState, Missing
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.server.engine.base.moments import BranchLookup
from stemmadb.server.engine.base.state_chunks import scan
from stemmadb.server.engine.read.entities import EntityValue, entity_of
from stemmadb.server.service.base.commit_event import CommitEvent
from stemmadb.server.storage.port import LogReader

HEAD_BYTES: Final = 256
"""What a kept head or record takes in memory beside its value and its body."""


Head: TypeAlias = EntityState | EntityValue | None
Heads: TypeAlias = dict[BranchName, dict[EntityId, Head]]


class BatchChanges(Mapping[EntityId, EntityValue | None]):
    """The entities of one branch that a batch wrote, as they are after it; each is made when it is first asked for.

    None is what is not there: deleted, or erased (ERASE-1).
    """

    __slots__ = ("_heads", "_made")

    def __init__(self, heads: Mapping[EntityId, Head]) -> None:
        self._heads = heads
        self._made: dict[EntityId, EntityValue | None] = {}

    def __getitem__(self, id_: EntityId) -> EntityValue | None:
        if id_ not in self._made:
            self._made[id_] = _entity(self._heads[id_])
        return self._made[id_]

    def __contains__(self, id_: object) -> bool:
        return id_ in self._heads

    def __iter__(self) -> Iterator[EntityId]:
        return iter(self._heads)

    def __len__(self) -> int:
        return len(self._heads)


UNCHANGED: Final = BatchChanges({})
NONE: Final[frozenset[BranchName]] = frozenset()


class Batch:
    """Commits `after` < version <= `to`, in order, with the heads as they are after the last of them.

    All sessions share it, so it must not be changed.
    """

    __slots__ = (
        "after",
        "commits",
        "deleted",
        "erases",
        "hash",
        "is_ordinary",
        "size",
        "to",
        "weight",
        "written",
    )

    def __init__(self, commits: Sequence[CommitEvent], heads: Heads) -> None:
        last = commits[-1].commit
        self.after = Version(commits[0].commit.version - 1)
        self.to = last.version
        self.hash: Hash = last.hash
        self.commits = tuple(commits)
        size, details = 0, []
        for event in commits:
            for fact in event.facts:
                if fact.body is not None:
                    size += len(fact.body)
            if event.commit.arguments != NO_ARGUMENTS:
                details.append(event.commit.details)
        self.size = size
        """The bytes of the bodies."""
        self.is_ordinary = not details
        """Whether it has nothing but commits of sessions."""
        for of_branch in heads.values():
            size += _weight(of_branch.values())
        self.weight = size
        """What it keeps in memory, about."""
        self.deleted = frozenset(one.name for one in details if isinstance(one, BranchDelete)) if details else NONE
        """Branches that were deleted in it."""
        self.erases = bool(details) and any(isinstance(one, Erase) for one in details)
        """Whether bodies of earlier batches were destroyed, so that those must not be sent any more (ERASE-1)."""
        self.written: Mapping[BranchName, BatchChanges] = {
            branch: BatchChanges(of_branch) for branch, of_branch in heads.items()
        }
        """What it wrote, by branch."""

    def changes(self, branch: BranchName) -> BatchChanges:
        """What it wrote on a branch, as it is after the batch; made from memory, without a look into the log."""
        return self.written.get(branch, UNCHANGED)


def decided(accepted: Sequence[Accepted]) -> Batch:
    """The batch of what the writer has just made durable."""
    heads: Heads = {}
    for one in accepted:
        for (branch, id_), state in one.written.items():
            heads.setdefault(branch, {})[id_] = state
    return Batch([CommitEvent(one.commit, one.facts) for one in accepted], heads)


def logged(reader: LogReader, *, after: Version, to: Version, bytes_max: int) -> Batch:
    """The batch that begins after a version, read from the log: up to `to`, or as much as the bound allows.

    Values are those of its last version; what was destroyed since is not there.
    """
    commits: list[CommitEvent] = []
    size = 0
    for commit, facts in reader.history(after):
        commits.append(CommitEvent(commit, facts))
        size += HEAD_BYTES + sum(len(fact.body or b"") for fact in facts)
        if commit.version == to or size >= bytes_max:
            break
    return Batch(commits, _heads(reader, commits))


def _heads(reader: LogReader, commits: Sequence[CommitEvent]) -> Heads:
    written: dict[BranchName, dict[EntityId, None]] = {}
    for event in commits:
        for fact in event.facts:
            written.setdefault(fact.branch, {})[fact.id] = None
    branches, to = BranchLookup(reader), commits[-1].commit.version
    return {
        branch: {id_: entity_of(state) for id_, (state,) in scan(reader, [lineage(branches, branch, to)], ids)}
        for branch, ids in written.items()
    }


def _entity(head: Head) -> EntityValue | None:
    if not isinstance(head, EntityState):
        return head
    if isinstance(head.value, Missing):
        return None
    return EntityValue(head.id, head.hashed, head.hash, head.value, head.size)


def _weight(heads: Collection[Head]) -> int:
    return HEAD_BYTES * len(heads) + sum([head.size for head in heads if head is not None])
