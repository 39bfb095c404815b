"""What all messages share: a map with a string field `type`; requests have an `id` and name their answer (WIRE-4)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stemmadb.protocol.wire.messages.fields import (
    Cursor,
    PageSize,
    RandomId,
    RequestId,
    WireHash,
    WireTime,
    WireVersion,
)


class Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A piece of a message. What has its default value is left out; what is not known is refused."""


class Message(Part, frozen=True, kw_only=True, tag_field="type"):
    """One message. Its class is found by `type`."""


class Done(Part, frozen=True, kw_only=True):
    """The answer that says only that it was done."""


class Request(Message, frozen=True, kw_only=True):
    """Gets exactly one answer, `ok` or `error`, which carries the same `id`."""

    id: RequestId
    answer: ClassVar[type[Part]] = Done


class PagedRequest(Request, frozen=True, kw_only=True):
    """Asks for a list. `after` is the `next` of the page before; pages are pinned to the version of the first."""

    after: Cursor | None = None
    limit: PageSize | None = None


class PagedAnswer(Part, frozen=True, kw_only=True):
    """A page, as of `version`. Without `next` it is the last."""

    version: WireVersion
    next: Cursor | None = None


class Written(Part, frozen=True, kw_only=True):
    """A write that took a version of its own: the same answer each time its operation id is sent (COMMIT-11)."""

    version: WireVersion
    hash: WireHash
    time: WireTime


class WriteRequest(Request, frozen=True, kw_only=True):
    """Changes the space and is done once, however often it is sent: `operation` is 16 random bytes (COMMIT-11).

    `nonce` are 16 others, made once and stored by nobody: with them the request digest tells nothing (COMMIT-5).
    """

    answer: ClassVar[type[Part]] = Written
    operation: RandomId
    nonce: RandomId
