"""Merges, and the report of what both sides had changed (MERGE-1 to 4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypedDict, Unpack, cast, get_args

import msgspec

from stemmadb.client.reading.entries import Patch
from stemmadb.client.reading.plain import Given, check_options, decoded, encoded_given, encoded_note
from stemmadb.client.reading.times import optional_version
from stemmadb.client.requester import Requester
from stemmadb.protocol.errors import InvalidMerge, MergeConflict
from stemmadb.protocol.model.log.commit_record import Contested, Strategy
from stemmadb.protocol.model.values import ids, reference
from stemmadb.protocol.model.values.ids import EntityId, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.protocol.wire.messages import structure
from stemmadb.protocol.wire.version import EXPECT_TARGET


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClash:
    """A place that both sides changed differently, the versions there, and which side was taken.

    `base` is None where nothing was in common; `winner` is `source`, `target`, `resolution`, or `both` where changes
    were put together.
    """

    id: EntityId
    path: str
    base: Version | None
    source: Version
    target: Version
    winner: Literal["source", "target", "both", "resolution"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedWrite:
    """What a merge or a revert would write: `value` for a set, `patch` for a patch, neither for a delete."""

    id: EntityId
    kind: Literal["set", "patch", "delete"]
    value: Value = None
    patch: Patch | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeReport:
    """What a merge did, or would do on a dry run.

        report = await draft.merge_into("main")
        for clash in report.conflicts:
            print(clash.id, clash.path, clash.winner)

    `version` is None if nothing was written: on a dry run, or since the target has it all. The lists are cut at the
    server's page bound; the counts are not.
    """

    version: Version | None
    source_version: Version
    target_version: Version
    conflicts: tuple[MergeClash, ...] = ()
    conflicts_count: int = 0
    writes: tuple[PlannedWrite, ...] = ()
    writes_count: int = 0
    hash: str | None = field(default=None, repr=False)
    time_ms: TimeMs | None = field(default=None, repr=False)


class MergeOptions(TypedDict, total=False):
    """How a merge is done."""

    strategy: Strategy
    """What decides where both changed: `lww` (the default), `source`, `target`, `fields`, or `fail`."""
    resolutions: Mapping[str, Given]
    """What contested entities shall be, a value or `DELETED`; these come before the strategy."""
    source_version: int | None
    expect_target: int | None
    """Merge only if nothing was written on the target after this version; `Conflict` otherwise."""
    dry_run: bool
    note: Value


async def merge(requester: Requester, source: str, target: str, **options: Unpack[MergeOptions]) -> MergeReport:
    """Brings what the source has to the target.

    With the strategy `fail` conflicts raise `MergeConflict`, whose `facts["conflicts"]` are `MergeClash` objects.
    """
    check_options("merge", options, MergeOptions)
    limits, strategy = requester.limits, options.get("strategy", "lww")
    if strategy not in get_args(Strategy):
        raise InvalidMerge(why=f"there is no strategy {str(strategy)[:80]!r}, only {', '.join(get_args(Strategy))}")
    expected = optional_version(options.get("expect_target"))
    if expected is not None:
        requester.check_feature(EXPECT_TARGET)
    try:
        report = await requester.write(
            structure.MergeRequest,
            structure.MergeReport,
            source=ids.branch_name(source),
            target=ids.branch_name(target),
            source_version=optional_version(options.get("source_version")),
            strategy=strategy,
            resolutions=_resolutions(options.get("resolutions", {}), limits),
            expect_target=expected,
            dry_run=options.get("dry_run", False),
            note=encoded_note(options.get("note"), limits),
        )
    except MergeConflict as error:
        error.facts["conflicts"] = _clashes(error.facts.get("conflicts"))
        raise
    return _report(report)


def planned_write(write: structure.MergeWrite) -> PlannedWrite:
    """What the wire says would be written."""
    if write.kind == "patch":
        return PlannedWrite(id=write.id, kind=write.kind, patch=cast("Patch", decoded(write.body)))
    return PlannedWrite(id=write.id, kind=write.kind, value=decoded(write.body))


def _resolutions(resolutions: Mapping[str, Given], limits: Limits) -> tuple[structure.Resolution, ...]:
    return tuple(
        structure.Resolution(id=ids.entity_id(id_, limits.id_bytes_max), body=encoded_given(given, limits))
        for id_, given in resolutions.items()
    )


def _report(report: structure.MergeReport) -> MergeReport:
    return MergeReport(
        version=report.version,
        source_version=report.source_version,
        target_version=report.target_version,
        conflicts=tuple(map(_clash, report.conflicts)),
        conflicts_count=report.conflicts_count,
        writes=tuple(map(planned_write, report.writes)),
        writes_count=report.writes_count,
        hash=None if report.hash is None else reference.write(report.hash),
        time_ms=report.time,
    )


def _clashes(conflicts: object) -> tuple[MergeClash, ...]:
    """The conflicts inside an error's details, which carry no types; none if they did not fit in the message."""
    try:
        return tuple(map(_clash, msgspec.convert(conflicts or (), tuple[Contested, ...])))
    except msgspec.ValidationError:
        return ()


def _clash(contested: Contested) -> MergeClash:
    return MergeClash(
        id=contested.id,
        path=contested.path,
        base=contested.base,
        source=contested.source,
        target=contested.target,
        winner=contested.winner,
    )
