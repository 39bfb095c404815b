"""A commit and what becomes of it: accepted, rejected with reasons, or deferred (COMMIT-5, COMMIT-10, SYNC-5)."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from stemmadb.protocol.model.commit.stale_reads import StaleRead
from stemmadb.protocol.model.values.ids import BranchName, EntityId
from stemmadb.protocol.wire.messages.base import Message, Part
from stemmadb.protocol.wire.messages.fields import (
    Body,
    Count,
    EncodedContent,
    RandomId,
    Salt,
    WireHash,
    WireLocal,
    WireTime,
    WireVersion,
)


class CommitMessage(Message, frozen=True, kw_only=True, tag="commit"):
    """A commit of the session. `content` is hashed as sent, together with the nonce (MODEL-4, COMMIT-5).

    `session` is given only when an undecided commit of an older session of the same principal is sent again.
    """

    local: WireLocal
    nonce: RandomId
    content: EncodedContent
    session: RandomId | None = None


class Deferred(Message, frozen=True, kw_only=True, tag="deferred"):
    """Not a verdict: the commit could not be decided now and stays pending (COMMIT-10)."""

    local: WireLocal
    session: RandomId | None = None
    code: str
    retry_after_ms: Count = 0


class AcceptedVerdict(Part, frozen=True, kw_only=True, tag_field="verdict", tag="accepted"):
    """The commit is durable at `version`. One hash and one salt for each of its facts; a delete has no salt.

    `request` is the digest of what was accepted: where it is another than that of the commit the client has under
    this name, somebody else used the name (COMMIT-5).
    """

    local: WireLocal
    session: RandomId | None = None
    version: WireVersion
    time: WireTime
    hash: WireHash
    request: WireHash
    hashes: tuple[WireHash, ...]
    salts: tuple[Salt | None, ...]


class Current(Part, frozen=True, kw_only=True):
    """An entity of a stale read as it is now, so that a retry needs no round trip; without `body` it has no value."""

    branch: BranchName
    id: EntityId
    version: WireVersion
    hash: WireHash
    body: Body | None = None


class RejectedVerdict(Part, frozen=True, kw_only=True, tag_field="verdict", tag="rejected"):
    """The commit is not in the log. `stale` and `current` are there for a conflict, within a size bound (SYNC-5)."""

    local: WireLocal
    session: RandomId | None = None
    code: str
    message: str
    details: dict[str, Any] = msgspec.field(default_factory=dict)
    stale: tuple[StaleRead, ...] = ()
    current: tuple[Current, ...] = ()


Verdict: TypeAlias = AcceptedVerdict | RejectedVerdict
