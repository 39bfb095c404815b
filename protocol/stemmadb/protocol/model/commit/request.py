"""What a client asks for in a commit, as it is sent: operations, declared reads, and their digest (COMMIT-2..5)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from blake3 import blake3

from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import MAIN, RANDOM_ID_BYTES, BranchName, EntityId, Hash, Local, Version
from stemmadb.protocol.model.values.json_values import INT_MAX

TAG_REQUEST: Final = "stemma.v1 request"

_Version: TypeAlias = Annotated[Version, msgspec.Meta(ge=0, le=INT_MAX)]
_Local: TypeAlias = Annotated[Local, msgspec.Meta(ge=1, le=INT_MAX)]
_Session: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=RANDOM_ID_BYTES, max_length=RANDOM_ID_BYTES)]
# Bounds for the plain Local would crash msgspec 0.22, which mixes up the bounds of an integer and the length of a
# tuple that share a union; `prepare` checks it instead.
PendingName: TypeAlias = Local | tuple[_Session, _Local]
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

    version: _Version
    id: EntityId | None = None
    prefix: str | None = None
    path: str = ""
    branch: BranchName | None = None
    locals: tuple[PendingName, ...] = ()


class Content(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, forbid_unknown_fields=True):
    """The content of a commit: what its digest covers and what is decided on."""

    operations: tuple[Operation, ...]
    reads: tuple[Read, ...] = ()
    branch: BranchName = MAIN
    note: bytes | None = None


def digest_request(nonce: bytes, content: bytes) -> Hash:
    """Covers the content as sent and the client's nonce, which nobody stores: the digest tells nothing (COMMIT-5)."""
    return blake3(encode((TAG_REQUEST, nonce, content))).digest()  # type: ignore[return-value]  # for each commit
