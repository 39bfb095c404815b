"""What differs between two states, entity by entity (HISTORY-1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypeAlias, cast

from stemmadb.client.reading.entries import Patch
from stemmadb.client.reading.moment import Moment
from stemmadb.client.reading.plain import decoded
from stemmadb.client.reading.times import milliseconds, optional_version
from stemmadb.client.requester import Requester
from stemmadb.protocol.model.query.query import EVERY
from stemmadb.protocol.model.values import ids
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages import reading
from stemmadb.protocol.wire.messages.reading import ErasedSides

Side: TypeAlias = int | datetime | str | Moment | None
"""A version or a time of the branch that is asked, the head of another branch by its name, what `at(...)` gave, or
None: the head."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EntityChange:
    """An entity that differs. `patch` leads from the one value to the other; `value` is that of the only side that
    has one. `before` and `after` are the versions of its last changes, None where it is not there. `erased` names the
    sides whose value was erased."""

    id: EntityId
    before: Version | None = None
    after: Version | None = None
    patch: Patch | None = None
    value: Value = None
    erased: ErasedSides | None = None

    @property
    def kind(self) -> Literal["added", "removed", "changed"]:
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What differs between two states, by id; falsy if nothing does:

    for change in await space.diff(3, 7):
        print(change.kind, change.id, change.patch)
    """

    left: Version
    right: Version
    changes: tuple[EntityChange, ...]

    def __iter__(self) -> Iterator[EntityChange]:
        return iter(self.changes)

    def __len__(self) -> int:
        return len(self.changes)

    @property
    def version(self) -> Version:
        """The later of the two versions that were compared."""
        return max(self.left, self.right)


async def diff(
    requester: Requester, left: Side, right: Side = None, *, branch: BranchName, prefix: str = EVERY
) -> Difference:
    """What leads from the left state to the right one, of the entities under a prefix such as `urn:todo:*`."""
    fields: dict[str, Any] = {
        "left": await _moment(left, branch),
        "right": await _moment(right, branch),
        "prefix": ids.id_prefix(prefix.removesuffix(EVERY), requester.limits.id_bytes_max),
    }
    answer = await requester.ask(reading.DiffRequest, reading.DiffAnswer, **fields)
    changes = list(answer.changes)
    while answer.next is not None:
        answer = await requester.ask(reading.DiffRequest, reading.DiffAnswer, **fields, after=answer.next)
        changes.extend(answer.changes)
    return Difference(left=answer.left, right=answer.right, changes=tuple(map(_change, changes)))


async def _moment(side: Side, branch: BranchName) -> reading.Moment:
    if isinstance(side, Moment):
        version = await side.settled()
        return reading.Moment(branch=side.branch, version=version)
    if isinstance(side, str):
        return reading.Moment(branch=ids.branch_name(side))
    if isinstance(side, datetime):
        return reading.Moment(branch=branch, time=milliseconds(side))
    return reading.Moment(branch=branch, version=optional_version(side))


def _change(change: reading.EntityChange) -> EntityChange:
    patch = None if change.patch is None else cast("Patch", decoded(change.patch))
    return EntityChange(
        id=change.id,
        before=change.left,
        after=change.right,
        patch=patch,
        value=decoded(change.body),
        erased=change.erased,
    )
