"""Who may do what: the ACL with one's own rights, and taking back a delegation."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from stemmadb.protocol.model.access.access_roles import Rights, Role
from stemmadb.protocol.model.values.ids import Did
from stemmadb.protocol.wire.messages.base import Part, Request, WriteRequest
from stemmadb.protocol.wire.messages.fields import WireHash, WireVersion


class AclAnswer(Part, frozen=True, kw_only=True):
    """`mine` is what the asking principal may do; `roles` are there for those who may read the ACL."""

    version: WireVersion
    mine: Rights
    roles: dict[Did, Role] = msgspec.field(default_factory=dict)


class AclRequest(Request, frozen=True, kw_only=True, tag="acl"):
    """Asks for the ACL as of a version, or at the head."""

    answer: ClassVar[type[Part]] = AclAnswer
    version: WireVersion | None = None


class RevokeRequest(WriteRequest, frozen=True, kw_only=True, tag="revoke"):
    """Takes back a delegation and all that were made from it; `delegation` is the hash of its bytes.

    With `token`, the bytes of an access token, it is taken back by its own signer (TOKEN-4; feature `revoke.token`).
    """

    delegation: WireHash
    token: bytes | None = None
