"""The plan of a merge: what it writes, what it must have read, and every conflict (MERGE-1, MERGE-4).

A dry run and a merge are the same plan; the merge commits it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from stemmadb.protocol.errors import InvalidMerge, MergeConflict
from stemmadb.protocol.model import patch
from stemmadb.protocol.model.commit.request import Operation, Read
from stemmadb.protocol.model.history.difference import Content, item, keys, same
from stemmadb.protocol.model.log.ancestry import BranchPoint
from stemmadb.protocol.model.log.commit_record import Contested, Merge, Strategy
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.merge.check import check_strategy
from stemmadb.protocol.model.merge.decide import MergeDecision, Resolutions, decide
from stemmadb.protocol.model.merge.report import MergeFindings, by_entity
from stemmadb.protocol.model.merge.sides import Candidate
from stemmadb.protocol.model.values import pointer
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import EMPTY_SPACE, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

NO_RESOLUTIONS: Resolutions = {}
PATCH_BYTES: Final = 4096
PATCH_TO_SET: Final = 2
"""A patch takes at most this many bytes and this many times those of a `set`; a `set` is written instead."""
_SHORT: Final = 512  # what is this short has no long paths in common with what was there, so that it can be tried


class EntityWrite(msgspec.Struct, frozen=True):
    """One entity to write: what the target holds afterwards, and the narrowest operation that leads there."""

    content: Content
    operation: Operation

    @property
    def id(self) -> EntityId:
        return self.operation.id


class MergePlan(msgspec.Struct, frozen=True):
    """What the merge does on the target.

    `reads` are the entities the source changed, at the version of their last fact on the target: written or not, the
    plan is right only while they stay as they are (MERGE-1). `resolved` are those whose resolution was taken.
    """

    strategy: Strategy
    writes: tuple[EntityWrite, ...] = ()
    reads: tuple[Read, ...] = ()
    conflicts: tuple[Contested, ...] = ()
    resolved: tuple[EntityId, ...] = ()

    def details(self, *, source: BranchPoint, target_version: Version) -> Merge:
        """The record of the merge that commits this plan: of its conflicts the entities, not the paths (ERASE-1)."""
        return Merge(
            source=source.branch,
            source_version=source.version,
            target_version=target_version,
            strategy=self.strategy,
            resolved=self.resolved,
            conflicts=by_entity(self.conflicts),
        )


def plan(
    entities: Iterable[Candidate],
    *,
    strategy: Strategy = "lww",
    resolutions: Resolutions = NO_RESOLUTIONS,
    ignore: Collection[EntityId] = (),
    oldest: Version = EMPTY_SPACE,
) -> MergePlan:
    """Three-way, entity by entity; those to ignore, such as the ACL, stay as they are on the target.

    `InvalidMerge` for an unknown strategy or a resolution of what is not in conflict, `MergeConflict` with every
    conflict left under `fail`, `Erased` or `Compacted` (with the `oldest` version that can be read) where a value is
    asked for that is gone.
    """
    made = _Making(check_strategy(strategy), resolutions, oldest)
    for entity in entities:
        if entity.id not in ignore:
            made.take(entity)
    return made.plan()


class _Making:
    def __init__(self, strategy: Strategy, resolutions: Resolutions, oldest: Version) -> None:
        self._strategy = strategy
        self._resolutions = resolutions
        self._oldest = oldest
        self._writes: list[EntityWrite] = []
        self._reads: list[Read] = []
        self._report = MergeFindings()
        self._resolved: list[EntityId] = []

    def take(self, entity: Candidate) -> None:
        decision = decide(entity, self._strategy, self._resolutions, self._oldest)
        if decision is None:
            return
        self._reads.append(Read(version=entity.target.version, id=entity.id))
        self._report.add(decision.conflicts)
        if decision.is_resolved:
            self._resolved.append(entity.id)
        operation = _operation(entity.id, entity.target.content, decision)
        if operation is not None:
            self._writes.append(EntityWrite(decision.content, operation))

    def plan(self) -> MergePlan:
        self._check_resolutions()
        self._check_failed()
        return MergePlan(
            self._strategy,
            tuple(self._writes),
            tuple(self._reads),
            tuple(self._report.conflicts),
            tuple(self._resolved),
        )

    def _check_resolutions(self) -> None:
        unused = self._resolutions.keys() - set(self._resolved)
        if unused:
            raise InvalidMerge(why=f"{min(unused)!r} is not in conflict and needs no resolution")

    def _check_failed(self) -> None:
        left = [conflict for conflict in self._report.conflicts if conflict.winner != "resolution"]
        if self._strategy == "fail" and left:
            raise MergeConflict(count=len(left), conflicts=tuple(left))


def _operation(id_: EntityId, target: Content, decision: MergeDecision) -> Operation | None:
    """The narrowest operation from the target's content to the merged one; None if there is nothing to write.

    A patch rather than a `set` of about its size, because a `set` collides with every reader of the entity; but not
    one of many times its size, which repeats long keys in every path. A
    resolution is written even if it is what the target holds: it was made now, and originates at its own version.
    """
    content = decision.content
    if isinstance(content, Missing):
        return Operation(op="delete", id=id_) if target is not Missing.ABSENT else None
    if same(target, content):
        return _set(id_, content) if decision.is_resolved else None
    whole = _set(id_, content)
    return whole if isinstance(target, Missing) else _patch(id_, target, content, whole)


def _patch(id_: EntityId, target: Value, content: Value, whole: Operation) -> Operation:
    size = len(whole.body or b"")
    bytes_max = PATCH_BYTES + PATCH_TO_SET * size
    if size > _SHORT and not _fits(target, content, 0, [bytes_max]):
        return whole
    steps = patch.diff(target, content)
    body = encode(steps)
    return whole if _is_whole(steps) or len(body) > bytes_max else Operation(op="patch", id=id_, body=body)


def _fits(old: Content, new: Content, above: int, left: list[int]) -> bool:
    """Whether the paths of a patch are within the bytes that are left, each key being repeated in those below it."""
    if isinstance(old, dict) and isinstance(new, dict):
        changed = (key for key in keys(old, new) if not same(item(old, key), item(new, key)))
        return all(_fits(item(old, key), item(new, key), above + 1 + len(key.encode()), left) for key in changed)
    left[0] -= above
    return left[0] >= 0


def _set(id_: EntityId, content: Value) -> Operation:
    return Operation(op="set", id=id_, body=encode(content))


def _is_whole(steps: list[dict[str, Value]]) -> bool:
    return len(steps) == 1 and steps[0]["op"] == "replace" and steps[0]["path"] == pointer.ROOT
