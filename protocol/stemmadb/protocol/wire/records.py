"""From the model's facts and commits to the items of messages, and back: what is sent verifies as what was stored."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import attrgetter

from msgspec.structs import replace

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.log import facts
from stemmadb.protocol.model.log.commit_record import Commit, Identity, LocalIdentity, OperationIdentity
from stemmadb.protocol.model.log.facts import NO_BODY, Fact
from stemmadb.protocol.model.values.ids import BranchName, Hash, Version
from stemmadb.protocol.wire.messages.commit import AcceptedVerdict
from stemmadb.protocol.wire.messages.reading import LogEntry, QueriedEntity
from stemmadb.protocol.wire.messages.sync import CommitItem, FactItem


def fact_item(fact: Fact, *, names_branch: bool = False) -> FactItem:
    """A fact as it is sent; the digest goes along only where the body is gone."""
    return FactItem(
        index=fact.index,
        id=fact.id,
        kind=fact.kind,
        parent=fact.parent,
        salt=fact.salt,
        body=fact.body,
        digest=fact.digest if fact.is_gone else None,
        branch=fact.branch if names_branch else None,
    )


def bare_item(fact: Fact, *, names_branch: bool = False) -> FactItem:
    """What a fact is about, without what it says."""
    return FactItem(
        index=fact.index,
        id=fact.id,
        kind=fact.kind,
        parent=fact.parent,
        branch=fact.branch if names_branch else None,
    )


def fact_of(item: FactItem, version: Version, branch: BranchName | None) -> Fact:
    """The fact an item brings, its digest and hash computed here and not taken on trust (FACT-2)."""
    on = item.branch or branch
    if on is None:
        raise Malformed(path="branch", why="neither the commit nor the fact names a branch")
    digest = _digest(item)
    return Fact(
        version=version,
        index=item.index,
        branch=on,
        id=item.id,
        kind=item.kind,
        parent=item.parent,
        digest=digest,
        hash=facts.hash_fact(item.kind, item.id, item.parent, digest),
        salt=item.salt,
        body=item.body,
    )


def _digest(item: FactItem) -> Hash:
    if (item.salt is None) is not (item.body is None):
        raise Malformed(path="salt", why="a body and its salt come together")
    if item.salt is not None and item.body is not None:
        return facts.digest_of(item.salt, item.body)
    if item.kind == "delete":
        return NO_BODY
    if item.digest is None:
        raise Malformed(path="digest", why="a fact without a body needs its digest")
    return item.digest


def salts_of(its_facts: Sequence[Fact]) -> tuple[bytes | None, ...]:
    """What a verdict brings of each fact."""
    return tuple([fact.salt for fact in its_facts])


def accepted(commit: Commit, salts: tuple[bytes | None, ...], *, session: bytes) -> AcceptedVerdict:
    """The verdict on a commit of a principal; its session is named if it is not the one that is told."""
    identity = commit.identity
    assert isinstance(identity, LocalIdentity), "only ordinary commits have verdicts"
    return AcceptedVerdict(
        local=identity.local,
        session=None if identity.session == session else identity.session,
        version=commit.version,
        time=commit.time,
        hash=commit.hash,
        request=commit.request,
        hashes=commit.facts,
        salts=salts,
    )


def commit_item(commit: Commit, its_facts: Sequence[Fact]) -> CommitItem:
    """A commit with those of its facts that a session is to see."""
    identity = commit.identity
    local = identity if isinstance(identity, LocalIdentity) else None
    return CommitItem(
        version=commit.version,
        kind=commit.kind,
        branch=commit.branch,
        author=identity.principal,
        time=commit.time,
        session=local.session if local else None,
        local=local.local if local else None,
        note=commit.note,
        facts=tuple(fact_item(fact, names_branch=commit.branch is None) for fact in its_facts),
    )


def log_entry(commit: Commit, its_facts: Sequence[Fact] = ()) -> LogEntry:
    """The whole record of a commit, with everything its hash covers (FACT-3)."""
    identity = commit.identity
    local = identity if isinstance(identity, LocalIdentity) else None
    return LogEntry(
        version=commit.version,
        hash=commit.hash,
        previous=commit.previous,
        kind=commit.kind,
        arguments=commit.arguments,
        branch=commit.branch,
        author=identity.principal,
        session=local.session if local else None,
        local=local.local if local else None,
        operation=identity.operation if isinstance(identity, OperationIdentity) else None,
        time=commit.time,
        request=commit.request,
        note_digest=commit.note_digest,
        note=commit.note,
        note_salt=commit.note_salt,
        facts=commit.facts,
        fact_branches=commit.fact_branches,
        items=tuple(fact_item(fact, names_branch=commit.branch is None) for fact in its_facts),
    )


def commit_of(entry: LogEntry) -> Commit:
    """The record a log entry brings, as `chain.verify` takes it; its hash is the one that was sent."""
    return Commit(
        version=entry.version,
        previous=entry.previous,
        identity=_identity(entry),
        time=entry.time,
        request=entry.request,
        branch=entry.branch,
        facts=entry.facts,
        fact_branches=entry.fact_branches,
        arguments=entry.arguments,
        note_digest=entry.note_digest,
        note=entry.note,
        note_salt=entry.note_salt,
        hash=entry.hash,
    )


def whole_body(one: QueriedEntity) -> bytes:
    """The value of an entity of which all was asked for; `Malformed` where less came."""
    if one.body is None or one.truncated:
        raise Malformed(path="/entities", why=f"the value of {one.id!r} is not whole")
    return one.body


def joined_entries(entries: Sequence[LogEntry]) -> tuple[LogEntry, ...]:
    """The entries of several pages of `log`, each commit once: a page may end inside an entry, whose items go on.

    An entry that goes on has the version and the hash of the one before and brings only items.
    """
    return tuple(_whole(list(pieces)) for _, pieces in groupby(entries, key=attrgetter("version")))


def _whole(pieces: Sequence[LogEntry]) -> LogEntry:
    first = pieces[0]
    if len(pieces) == 1:
        return first
    if any(piece.hash != first.hash or piece.facts for piece in pieces[1:]):
        raise Malformed(path="entries", why=f"two entries of version {first.version} are not of one commit")
    items = tuple(item for piece in pieces for item in piece.items)
    if any(after.index <= before.index for before, after in pairwise(items)):
        raise Malformed(path="entries", why=f"the items of version {first.version} do not continue by index")
    return replace(first, items=items)


def _identity(entry: LogEntry) -> Identity:
    if entry.session is not None and entry.local is not None and entry.operation is None:
        return LocalIdentity(entry.author, entry.session, entry.local)
    if entry.operation is not None and entry.session is None and entry.local is None:
        return OperationIdentity(entry.author, entry.operation)
    raise Malformed(path="operation", why="a commit has a session and a local, or an operation id")
