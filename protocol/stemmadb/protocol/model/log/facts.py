"""Facts: one state transition of one entity, and the hashes that chain them (FACT-1..4)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, Literal, Protocol

import msgspec
from blake3 import blake3

from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import BranchName, EntityId, Hash, Version
from stemmadb.protocol.model.values.reference import hash_bytes

FactKind = Literal["set", "patch", "delete", "checkpoint"]

SALT_BYTES: Final = 16
TAG_EMPTY: Final = "stemma.v1 empty"
TAG_FACT: Final = "stemma.v1 fact"


class Foldable(Protocol):
    """A fact as far as its state is concerned."""

    @property
    def id(self) -> EntityId: ...
    @property
    def kind(self) -> FactKind: ...
    @property
    def body(self) -> bytes | None: ...


class Fact(msgspec.Struct, frozen=True, gc=False):
    """A stored fact. Its body and salt go together and may be gone; the digest and the hash stay (FACT-2)."""

    version: Version
    index: int
    branch: BranchName
    id: EntityId
    kind: FactKind
    parent: Hash
    digest: Hash
    hash: Hash
    salt: bytes | None = None
    body: bytes | None = None

    @property
    def is_gone(self) -> bool:
        """Whether a body there was has been erased or compacted away."""
        return self.body is None and self.kind != "delete"


def digest_of(salt: bytes, body: bytes) -> Hash:
    """The salted digest under which a body is known; without the salt nobody can guess the body from it."""
    return blake3(salt + body).digest()  # type: ignore[return-value]  # as `hash_bytes`, for each body


NO_BODY: Final = hash_bytes(b"")
"""The digest of what has no body: a delete, a commit without message and metadata."""


def hash_fact(kind: FactKind, id_: str, parent: bytes, digest: bytes) -> Hash:
    """BLAKE3(msgpack [tag, kind, id, parent, digest]) (FACT-2)."""
    return blake3(encode((TAG_FACT, kind, id_, parent, digest))).digest()  # type: ignore[return-value]  # as above


@lru_cache(maxsize=65_536)
def empty(id_: str) -> Hash:
    """The Empty reference of an id: the parent of its first fact (FACT-4)."""
    return hash_bytes(encode((TAG_EMPTY, id_)))
