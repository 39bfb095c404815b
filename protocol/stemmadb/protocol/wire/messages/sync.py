"""Sync frames: the one ordered stream of a session, each frame a consistent cut (SYNC-1..7).

A server makes the same commit and the same value known to many sessions. It encodes each once (`codec.encode_item`)
and puts the bytes into every frame that needs them (`spliced`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, pairwise
from operator import attrgetter
from typing import Any, Literal, TypeAlias, cast

import msgspec

from stemmadb.protocol.errors import Malformed
from stemmadb.protocol.model.commit import CommitKind
from stemmadb.protocol.model.facts import FactKind
from stemmadb.protocol.model.ids import BranchName, Did, EntityId
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


class EntityItem(Part, frozen=True, kw_only=True):
    """A whole folded value: `version` and `hash` are those of the entity's last fact."""

    branch: BranchName
    id: EntityId
    version: WireVersion
    hash: WireHash
    body: Body | None = None


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
    """A commit of the principal that the server has: all others the client saw confirmed are lost (RESUME-4).

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


def spliced(frame: Sync, *, commits: Sequence[msgspec.Raw] = (), entered: Sequence[msgspec.Raw] = ()) -> Sync:
    """The frame with already encoded items behind its own; it encodes to the same bytes, without the work."""
    return msgspec.structs.replace(
        frame,
        commits=(*frame.commits, *cast("Sequence[CommitItem]", commits)),
        entered=(*frame.entered, *cast("Sequence[Entered]", entered)),
    )


def joined(parts: Sequence[Sync]) -> Sync:
    """The whole frame from its parts, each commit in one item; the caller has seen that the parts belong together."""
    last = parts[-1]
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
        raise Malformed(path="commits", why=f"the facts of version {first.version} do not go on by index")
    return msgspec.structs.replace(first, facts=facts)
