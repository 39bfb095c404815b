"""What a client asks for in a commit, as it is sent: operations, declared reads, and their digest (COMMIT-2..5)."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec
from blake3 import blake3

from stemmadb.protocol.model.body import encode
from stemmadb.protocol.model.ids import MAIN as MAIN_BRANCH
from stemmadb.protocol.model.ids import BranchName, EntityId, Hash, Local, Version

TAG_REQUEST: Final = "stemma.v1 request"
NONCE_BYTES: Final = 16

PendingName: TypeAlias = Local | tuple[bytes, Local]
"""An own pending commit: its local in the same session, or (session, local) in another one of the principal's."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """`set` and `patch` bring a body, `delete` none; `blind` claims nothing about what was there (COMMIT-3)."""

    op: Literal["set", "patch", "delete"]
    id: EntityId
    body: bytes | None = None
    blind: bool = False


class Read(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """A declared read of one path of an entity, or of a whole id prefix ("nothing else is there") (COMMIT-2).

    `version` is the confirmed version it was read at. A read through own pending commits names them in `locals`, and
    `version` is then the basis beneath them (COMMIT-4).
    """

    version: Version
    id: EntityId | None = None
    prefix: str | None = None
    path: str = ""
    branch: BranchName | None = None
    locals: tuple[PendingName, ...] = ()


class Content(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The content of a commit: what its digest covers and what is decided on."""

    operations: tuple[Operation, ...]
    reads: tuple[Read, ...] = ()
    branch: BranchName = MAIN_BRANCH
    note: bytes | None = None


def digest_request(nonce: bytes, content: bytes) -> Hash:
    """Covers the content as sent and the client's nonce, which nobody stores: the digest tells nothing (COMMIT-5)."""
    return Hash(blake3(encode((TAG_REQUEST, nonce, content))).digest())
