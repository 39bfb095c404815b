"""The answers for programs: entries and reports as JSON has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TypeAlias

from stemmadb.client.cli.old_values import Places
from stemmadb.client.reading.branches import Branch, Tag
from stemmadb.client.reading.differences import EntityChange
from stemmadb.client.reading.entries import BlameLine, FactChange, HistoryEntry, LogEntry
from stemmadb.client.reading.merge import MergeClash, MergeReport, PlannedWrite
from stemmadb.client.watching import Change
from stemmadb.protocol.model.history.difference import PathChange
from stemmadb.protocol.model.log.state import Missing

Answer: TypeAlias = dict[str, object]


def of_log(entry: LogEntry, *, facts: bool) -> Answer:
    answer: Answer = {
        "version": entry.version,
        "time": of_time(entry.time),
        "author": entry.author,
        "kind": entry.kind,
        "branch": entry.branch,
        "note": entry.note,
        "details": entry.details,
        "facts_count": entry.facts_count,
        "hash": entry.hash,
    }
    return answer | ({"facts": [of_fact(one) for one in entry.changes]} if facts else {})


def of_fact(fact: FactChange) -> Answer:
    return {"id": fact.id, "kind": fact.kind, "branch": fact.branch} | of_written(fact)


def of_history(entry: HistoryEntry, places: Places | None = None) -> Answer:
    changes: Answer = {} if places is None else {"changes": list(map(of_place, places))}
    return (
        {
            "version": entry.version,
            "time": of_time(entry.time),
            "author": entry.author,
            "kind": entry.kind,
            "branch": entry.branch,
            "note": entry.note,
            "made_by": entry.made_by,
            "hash": entry.hash,
        }
        | of_written(entry)
        | changes
    )


def of_place(place: PathChange) -> Answer:
    """What was and is at a path; a side without a value is left out, since a null is one."""
    sides = {"old": place.old, "new": place.new}
    known: Answer = {name: value for name, value in sides.items() if not isinstance(value, Missing)}
    return {"path": place.path, "kind": place.kind} | known


def of_written(written: FactChange | HistoryEntry) -> Answer:
    """A value after a set, a patch, or that it is gone; a null is a value."""
    if written.gone:
        return {"gone": True}
    if written.kind == "delete":
        return {}
    return {"patch": written.patch} if written.patch is not None else {"value": written.value}


def of_blame(line: BlameLine) -> Answer:
    if line.time is None:
        return {"path": line.path, "compacted": True}
    return {
        "path": line.path,
        "version": line.version,
        "time": of_time(line.time),
        "author": line.author,
        "note": line.note,
    }


def of_entity_change(change: EntityChange, places: Places | None = None) -> Answer:
    answer: Answer = {"id": change.id, "kind": change.kind, "before": change.before, "after": change.after}
    if change.erased is not None:
        answer["erased"] = change.erased
    if places is not None:
        answer["changes"] = list(map(of_place, places))
    return answer | ({"value": change.value} if change.patch is None else {"patch": change.patch})


def of_branch(branch: Branch) -> Answer:
    return {
        "name": branch.name,
        "version": branch.version,
        "parent": branch.parent,
        "fork": branch.fork,
        "deleted": branch.deleted,
    }


def of_tag(tag: Tag) -> Answer:
    return {"name": tag.name, "branch": tag.branch, "version": tag.version}


def of_merge(report: MergeReport) -> Answer:
    return {
        "version": report.version,
        "source_version": report.source_version,
        "target_version": report.target_version,
        "conflicts_count": report.conflicts_count,
        "conflicts": [of_clash(one) for one in report.conflicts],
        "writes_count": report.writes_count,
        "writes": [of_planned(one) for one in report.writes],
    }


def of_clash(clash: MergeClash) -> Answer:
    return {
        "id": clash.id,
        "path": clash.path,
        "base": clash.base,
        "source": clash.source,
        "target": clash.target,
        "winner": clash.winner,
    }


def of_planned(write: PlannedWrite) -> Answer:
    answer: Answer = {"id": write.id, "kind": write.kind}
    if write.kind == "delete":
        return answer
    return answer | ({"patch": write.patch} if write.patch is not None else {"value": write.value})


def of_change(change: Change) -> Mapping[str, object]:
    return {
        "version": change.version,
        "entered": change.entered,
        "updated": change.updated,
        "left": list(change.left),
    }


def of_time(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
