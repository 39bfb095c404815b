"""What history, log and blame tell: plain records, every value in them a copy of its own (HISTORY-1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import cast

from stemmadb.client.notes import Note, read_note
from stemmadb.client.reading.plain import decoded
from stemmadb.client.reading.times import Timed, as_datetime
from stemmadb.protocol.model.log.commit_record import CommitKind
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values import reference
from stemmadb.protocol.model.values.ids import HASH_BYTES, BranchName, Did, EntityId, Local, TimeMs, Version
from stemmadb.protocol.model.values.json_values import Value
from stemmadb.protocol.wire.messages import base, reading
from stemmadb.protocol.wire.messages.sync import FactItem

Patch = list[dict[str, Value]]
"""The operations of a patch (PATCH-1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FactChange:
    """What a commit did to one entity: `value` after a set, `patch` for a patch, neither for a delete.

    `gone` says that it was erased or compacted away; then a set has no value and a patch no operations.
    """

    id: EntityId
    kind: FactKind
    branch: BranchName | None
    value: Value = None
    patch: Patch | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryEntry(Timed):
    """One change of an entity, and the commit that made it.

        entry.version, entry.time, entry.author, entry.kind      (4, datetime, "did:key:...", "set")

    `kind` is `set` (then `value` is the whole value), `patch` (then `patch` has the operations), `delete`, or
    `checkpoint`, by which a server repeats a value and nothing changes. `gone` as in `FactChange`.
    """

    version: Version
    kind: FactKind
    author: Did
    time_ms: TimeMs
    branch: BranchName
    value: Value = None
    patch: Patch | None = None
    gone: bool = False
    note: Note = field(default_factory=Note)
    made_by: CommitKind = "commit"
    hash: str = field(repr=False)
    """The reference of this fact, `b3:...`."""
    session: bytes | None = field(default=None, repr=False)
    local: Local | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry(Timed):
    """One commit: who, when, where and why; `changes` only if the log was asked for them.

    `details` tell what a write other than an ordinary commit did, such as the source of a merge.
    """

    version: Version
    kind: CommitKind
    author: Did
    time_ms: TimeMs
    branch: BranchName | None
    note: Note = field(default_factory=Note)
    details: dict[str, Value] | None = None
    changes: tuple[FactChange, ...] = ()
    facts_count: int = 0
    hash: str = field(repr=False)
    """The reference of the commit, `b3:...`."""
    session: bytes | None = field(default=None, repr=False)
    local: Local | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class BlameLine:
    """The commit that last wrote the leaf at `path`.

    `compacted` says that a compaction took the facts that tell; then version, author and time are None.
    """

    path: str
    version: Version | None = None
    author: Did | None = None
    time_ms: TimeMs | None = None
    note: Note = field(default_factory=Note)
    compacted: bool = False

    @property
    def time(self) -> datetime | None:
        """When, as a datetime in UTC."""
        return None if self.time_ms is None else as_datetime(self.time_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt(Timed):
    """A write that was done: the version it took, the reference of its commit, and when."""

    version: Version
    time_ms: TimeMs
    hash: str = field(repr=False)


# ---------------------------------------------------------------- from the wire


def history_entry(entry: reading.HistoryEntry) -> HistoryEntry:
    return HistoryEntry(
        version=entry.version,
        kind=entry.kind,
        author=entry.author,
        time_ms=entry.time,
        branch=entry.branch,
        value=_value(entry.kind, entry.body),
        patch=_patch(entry.kind, entry.body),
        gone=_is_gone(entry.kind, entry.body),
        note=read_note(entry.note),
        made_by=entry.made_by,
        hash=reference.write(entry.hash),
        session=entry.session,
        local=entry.local,
    )


def log_entry(entry: reading.LogEntry, *, is_bare: bool = False) -> LogEntry:
    """`is_bare`: only ids were asked for, so that what is missing is not gone."""
    return LogEntry(
        version=entry.version,
        kind=entry.kind,
        author=entry.author,
        time_ms=entry.time,
        branch=entry.branch,
        note=read_note(entry.note),
        details=_details(entry.arguments),
        changes=tuple(_fact_change(item, entry.branch, is_bare=is_bare) for item in entry.items),
        facts_count=len(entry.facts),
        hash=reference.write(entry.hash),
        session=entry.session,
        local=entry.local,
    )


def blame_line(line: reading.BlameLine) -> BlameLine:
    return BlameLine(
        path=line.path,
        version=line.version,
        author=line.author,
        time_ms=line.time,
        note=read_note(line.note),
        compacted=line.compacted,
    )


def receipt(written: base.Written) -> Receipt:
    return Receipt(version=written.version, time_ms=written.time, hash=reference.write(written.hash))


def _fact_change(item: FactItem, branch: BranchName | None, *, is_bare: bool) -> FactChange:
    return FactChange(
        id=item.id,
        kind=item.kind,
        branch=item.branch or branch,
        value=_value(item.kind, item.body),
        patch=_patch(item.kind, item.body),
        gone=not is_bare and _is_gone(item.kind, item.body),
    )


def _value(kind: FactKind, body: bytes | None) -> Value:
    return None if kind == "patch" else decoded(body)


def _patch(kind: FactKind, body: bytes | None) -> Patch | None:
    return cast("Patch", decoded(body)) if kind == "patch" and body is not None else None


def _is_gone(kind: FactKind, body: bytes | None) -> bool:
    return body is None and kind != "delete"


def _details(arguments: bytes) -> dict[str, Value] | None:
    """What the write did; hashes in it as people see them (FACT-4)."""
    details = decoded(arguments)
    if not isinstance(details, dict):
        return None
    return {name: _shown(item) for name, item in details.items()}


def _shown(item: object) -> Value:
    is_hash = isinstance(item, bytes) and len(item) == HASH_BYTES
    return reference.write(item) if is_hash else cast("Value", item)  # type: ignore[arg-type]
