"""What a place was before and is after, for diffs, histories and merge reports: read from the server, bounded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from stemmadb.client.reading.differences import Difference
from stemmadb.client.reading.entries import HistoryEntry
from stemmadb.client.reading.merge import MergeClash, MergeReport, PlannedWrite
from stemmadb.client.reading.moment import Moment
from stemmadb.client.space import Space
from stemmadb.protocol.errors import Compacted, Erased, FutureVersion
from stemmadb.protocol.model.history import difference
from stemmadb.protocol.model.history.difference import Content, PathChange
from stemmadb.protocol.model.log.state import Missing
from stemmadb.protocol.model.values.ids import EntityId, Version
from stemmadb.protocol.model.values.json_values import Value

READ_MAX: Final = 50
"""Of how many entities or versions the old values are read; the others are shown without."""

Places: TypeAlias = Sequence[PathChange]


class ClashSides(NamedTuple):
    """What both sides of a merge had at a place that both changed."""

    source: Value
    target: Value


class MergeValues(NamedTuple):
    """What the target has where a merge writes, and both values of each contested place."""

    before: Mapping[EntityId, Content] = {}
    sides: Mapping[tuple[EntityId, str], ClashSides] = {}


async def merge_values(target: Space, source: str, report: MergeReport) -> MergeValues:
    """The values that a merge met on both sides."""
    before = await of_planned(target, report.target_version, report.writes)
    if not report.conflicts:
        return MergeValues(before)
    theirs = (await target.branch(source)).at(version=report.source_version)
    return MergeValues(before, await of_clashes(theirs, target.at(version=report.target_version), report.conflicts))


async def of_difference(left: Moment, right: Moment, found: Difference) -> dict[EntityId, Places]:
    """The places of each entity that both states have."""
    changed = [one.id for one in found if one.patch is not None][:READ_MAX]
    return {id_: difference.entity(await _at(left, id_), await _at(right, id_)) for id_ in changed}


async def of_history(space: Space, id_: str, entries: Sequence[HistoryEntry]) -> dict[Version, Places]:
    """The places that each change of an entity touched; none of those whose state before is not kept."""
    found: dict[Version, Places] = {}
    after: Content | None = None
    for entry in entries[:READ_MAX]:
        if after is None:
            after = await _at(space.at(version=entry.version), id_)
        before = await _at(space.at(version=max(entry.version - 1, 0)), id_)
        if not _is_gone(before) and not _is_gone(after):
            found[entry.version] = difference.entity(before, after)
        after = before
    return found


async def of_planned(target: Space, version: int, writes: Iterable[PlannedWrite]) -> dict[EntityId, Content]:
    """What the target has where a merge or a revert would write."""
    then = target.at(version=version)
    return {write.id: await _at(then, write.id) for write in list(writes)[:READ_MAX]}


async def of_clashes(
    source: Moment, target: Moment, clashes: Sequence[MergeClash]
) -> Mapping[tuple[EntityId, str], ClashSides]:
    """Both values of each contested place."""
    return {
        (one.id, one.path): ClashSides(await source.get(one.id, one.path), await target.get(one.id, one.path))
        for one in clashes[:READ_MAX]
    }


def _is_gone(content: Content) -> bool:
    return isinstance(content, Missing) and content in difference.GONE


async def _at(then: Moment, id_: str) -> Content:
    """A null is a value like any other, so that the answer to a query is looked at."""
    try:
        found = await then.query(id_)
    except (Compacted, FutureVersion):
        return Missing.COMPACTED
    except Erased:
        return Missing.ERASED
    return found.entities.get(EntityId(id_), Missing.ABSENT)
