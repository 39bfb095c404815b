"""Commits and facts as lines of an export stream, and back, byte for byte (FACT-2, FACT-3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.identity import public_key
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import NO_ARGUMENTS, Commit, Identity, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.protocol.model.values import body, ids, reference
from stemmadb.protocol.model.values.ids import (
    RANDOM_ID_BYTES,
    BranchName,
    Did,
    EntityId,
    Hash,
    Local,
    TimeMs,
    Version,
)
from stemmadb.protocol.model.values.json_values import INT_MAX
from stemmadb.protocol.model.values.limits import Limits
from stemmadb.server.maintenance.stream import FACTS_BYTES, CommitLine, FactRecord, FactsLine

Made: TypeAlias = tuple[Commit, tuple[Fact, ...]]


class NotARecord(Exception):
    """What a line says cannot be a commit or a fact of one."""


def lines_of(commit: Commit, its_facts: Sequence[Fact]) -> Iterator[CommitLine | FactsLine]:
    """The lines of a commit: one, unless its bodies are large together."""
    parts = _in_parts([_fact_record(fact, named=commit.branch is None) for fact in its_facts])
    yield _commit_line(commit, next(parts, []), len(its_facts))
    for part in parts:
        yield FactsLine(facts=part)


def _in_parts(records: Sequence[FactRecord]) -> Iterator[list[FactRecord]]:
    part: list[FactRecord] = []
    size = 0
    for record in records:
        part.append(record)
        size += len(record.body or b"") + len(record.id)
        if size >= FACTS_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _commit_line(commit: Commit, records: list[FactRecord], count: int) -> CommitLine:
    identity = commit.identity
    local = identity if isinstance(identity, LocalIdentity) else None
    is_erased = commit.note is None and commit.note_digest != NO_BODY
    return CommitLine(
        version=commit.version,
        previous=reference.write(commit.previous),
        hash=reference.write(commit.hash),
        time=commit.time,
        author=identity.principal,
        session=None if local is None else local.session,
        local=None if local is None else local.local,
        operation=identity.operation if isinstance(identity, OperationIdentity) else None,
        branch=commit.branch,
        request=reference.write(commit.request),
        arguments=None if commit.arguments == NO_ARGUMENTS else commit.arguments,
        note=commit.note,
        note_salt=commit.note_salt,
        note_digest=reference.write(commit.note_digest) if is_erased else None,
        fact_count=count,
        facts=records,
    )


def _fact_record(fact: Fact, *, named: bool) -> FactRecord:
    return FactRecord(
        id=fact.id,
        kind=fact.kind,
        branch=fact.branch if named else None,
        parent=reference.write(fact.parent),
        hash=reference.write(fact.hash),
        salt=fact.salt,
        body=fact.body,
        digest=reference.write(fact.digest) if fact.is_gone else None,
    )


def read_commit(line: CommitLine, records: Sequence[FactRecord], limits: Limits) -> Made:
    """The commit and its facts; `NotARecord` says what is wrong. Whether they verify is for the chain to say."""
    try:
        commit = _commit(line, records, limits)
        made = [_fact(commit, index, record, limits) for index, record in enumerate(records)]
    except StemmaError as wrong:
        raise NotARecord(wrong.message) from wrong
    return commit, tuple(made)


def _commit(line: CommitLine, records: Sequence[FactRecord], limits: Limits) -> Commit:
    if not (0 < line.version <= INT_MAX and 0 <= line.time <= INT_MAX):
        raise NotARecord("a version is 1 or more, a time 0 or more, and both fit in 64 bits")
    if line.note is not None:
        body.read(line.note, depth_max=limits.depth_max)
    return Commit(
        version=Version(line.version),
        previous=reference.read(line.previous),
        identity=_identity(line),
        time=TimeMs(line.time),
        request=reference.read(line.request),
        branch=None if line.branch is None else ids.branch_name(line.branch),
        facts=tuple(reference.read(record.hash) for record in records),
        fact_branches=() if line.branch is not None else tuple(_branch_of(record) for record in records),
        arguments=NO_ARGUMENTS if line.arguments is None else line.arguments,
        note_digest=_digest(line.note_salt, line.note, line.note_digest),
        note=line.note,
        note_salt=line.note_salt,
        hash=reference.read(line.hash),
    )


def _identity(line: CommitLine) -> Identity:
    public_key(line.author)
    author = Did(line.author)
    match line.session, line.local, line.operation:
        case None, None, bytes() as operation if len(operation) == RANDOM_ID_BYTES:
            return OperationIdentity(author, operation)
        case bytes() as session, int() as local, None if len(session) == RANDOM_ID_BYTES and 0 < local <= INT_MAX:
            return LocalIdentity(author, session, Local(local))
        case _:
            pass
    raise NotARecord(f"a commit has a session and a local, or an operation id, of {RANDOM_ID_BYTES} bytes each")


def _fact(commit: Commit, index: int, record: FactRecord, limits: Limits) -> Fact:
    if commit.branch is not None and record.branch is not None:
        raise NotARecord("a fact names a branch only where its commit has none")
    _check_body(record, limits)
    return Fact(
        version=commit.version,
        index=index,
        branch=commit.branch or _branch_of(record),
        id=EntityId(ids.entity_id(record.id, limits.id_bytes_max)),
        kind=record.kind,
        parent=reference.read(record.parent),
        digest=_digest(record.salt, record.body, record.digest),
        hash=reference.read(record.hash),
        salt=record.salt,
        body=record.body,
    )


def _branch_of(record: FactRecord) -> BranchName:
    return ids.branch_name(record.branch or "")


def _check_body(record: FactRecord, limits: Limits) -> None:
    """What a body holds is JSON within the bounds, and a list of operations for a patch (MODEL-3)."""
    if record.body is None:
        return
    if record.kind == "patch":
        body.read_patch(record.body, limits)
    else:
        body.read_value(record.body, limits)


def _digest(salt: bytes | None, data: bytes | None, stored_digest: str | None) -> Hash:
    """The digest of what is there, or the one that is told of what is gone."""
    if data is None or salt is None:
        if data is not None or salt is not None:
            raise NotARecord("a body and its salt are there or gone together")
        return NO_BODY if stored_digest is None else reference.read(stored_digest)
    if stored_digest is not None:
        raise NotARecord("a digest is told only of what is gone")
    return facts.digest_of(salt, data)
