"""Sync frames: the one ordered stream of a session, each frame a consistent view of a version (SYNC-1..7).

A frame takes the client from version `from` to version `to`. A large one comes in parts: every part but the last says
`more`, none of them counts before the last has come, and `joined` puts them together. For example:

    sync from 4 to 9, more: commits 5 and 6      kept aside
    sync from 4 to 9, more: the facts of 7       kept aside
    sync from 4 to 9: entered, left, verdicts    all of it is integrated at once; the client stands at 9
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Literal, TypeAlias

import msgspec

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.log.commit_record import CommitKind
from stemmadb.protocol.model.log.facts import FactKind
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId
from stemmadb.protocol.wire.messages.base import Message, Part
from stemmadb.protocol.wire.messages.commit import Verdict
from stemmadb.protocol.wire.messages.fields import (
    Body,
    Count,
    RandomId,
    Salt,
    WatchId,
    WireHash,
    WireLocal,
    WireTime,
    WireVersion,
)

Reset: TypeAlias = Literal["floor", "history"]
"""Why the client starts over: `to` lies below the compaction floor, or the server has another history there."""


class FactItem(Part, frozen=True, kw_only=True):
    """A fact. Its hash is computed from these fields; `digest` stands in where salt and body are gone (FACT-2).

    `branch` is given only where the commit has none of its own.
    """

    index: Count
    id: EntityId
    kind: FactKind
    parent: WireHash
    salt: Salt | None = None
    body: Body | None = None
    digest: WireHash | None = None
    branch: BranchName | None = None


class CommitItem(Part, frozen=True, kw_only=True):
    """A commit with its facts on watched entities, in order; `branch` is missing on space-wide writes.

    One whose facts do not fit comes as several items of the same version; only the first has the note (SYNC-1).
    """

    version: WireVersion
    kind: CommitKind = "commit"
    branch: BranchName | None = None
    author: Did
    time: WireTime
    session: RandomId | None = None
    local: WireLocal | None = None
    note: Body | None = None
    facts: tuple[FactItem, ...]


class Entered(Part, frozen=True, kw_only=True):
    """An entity that a watch now holds. Without `body` the client has it already, at this hash (SYNC-3)."""

    watch: WatchId
    branch: BranchName
    id: EntityId
    version: WireVersion
    hash: WireHash
    body: Body | None = None


class Left(Part, frozen=True, kw_only=True):
    """An entity that a watch no longer holds."""

    watch: WatchId
    branch: BranchName
    id: EntityId


class Ended(Part, frozen=True, kw_only=True):
    """A watch that is over, and why: its branch was deleted, or it outgrew a bound."""

    watch: WatchId
    code: str
    message: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)


class Kept(Part, frozen=True, kw_only=True):
    """A commit of the principal that the server has, to find out which others are lost (RESUME-4).

    `session` is given for the commits of other sessions than this one.
    """

    local: WireLocal
    session: RandomId | None = None
    version: WireVersion
    hash: WireHash


class Sync(Message, frozen=True, kw_only=True, tag="sync", rename={"from_": "from"}):
    """Takes the client from the state at `from` to the state at `to`; a part with `more` waits for the last."""

    from_: WireVersion
    to: WireVersion
    hash: WireHash
    verdicts: tuple[Verdict, ...] = ()
    commits: tuple[CommitItem, ...] = ()
    entered: tuple[Entered, ...] = ()
    left: tuple[Left, ...] = ()
    filled: tuple[WatchId, ...] = ()
    ended: tuple[Ended, ...] = ()
    reset: Reset | None = None
    kept: tuple[Kept, ...] = ()
    more: bool = False


def joined(parts: Sequence[Sync]) -> Sync:
    """The whole frame from its parts, each commit in one item; the caller has seen that the parts belong together."""
    last = parts[-1]
    if len(parts) == 1 and len(last.commits) < 2:
        return last
    commits = joined_commits([item for part in parts for item in part.commits])
    if len(parts) == 1:
        return last if len(commits) == len(last.commits) else msgspec.structs.replace(last, commits=commits)
    return msgspec.structs.replace(
        last,
        verdicts=tuple(item for part in parts for item in part.verdicts),
        commits=commits,
        entered=tuple(item for part in parts for item in part.entered),
        left=tuple(item for part in parts for item in part.left),
        filled=tuple(item for part in parts for item in part.filled),
        ended=tuple(item for part in parts for item in part.ended),
        kept=tuple(item for part in parts for item in part.kept),
    )


def joined_commits(items: Sequence[CommitItem]) -> tuple[CommitItem, ...]:
    """The commits with the items of one version put together; `Malformed` where one does not go on (SYNC-1)."""
    return tuple(_whole(list(pieces)) for _, pieces in groupby(items, key=attrgetter("version")))


def _whole(pieces: Sequence[CommitItem]) -> CommitItem:
    first = pieces[0]
    if len(pieces) == 1:
        return first
    outline = msgspec.structs.replace(first, note=None, facts=())
    if any(msgspec.structs.replace(piece, facts=()) != outline for piece in pieces[1:]):
        raise Malformed(path="commits", why=f"two items of version {first.version} are not of one commit")
    facts = tuple(fact for piece in pieces for fact in piece.facts)
    if any(after.index <= before.index for before, after in pairwise(facts)):
        raise Malformed(path="commits", why=f"the facts of version {first.version} do not continue by index")
    return msgspec.structs.replace(first, facts=facts)
