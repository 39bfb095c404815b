"""Founding a space: its access list, written with its own key straight into the store (ACL-3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from stemmadb.client.keys.identity import Identity
from stemmadb.protocol.model.access.access_roles import Role
from stemmadb.protocol.model.commit.admission import Accepted, Repeated
from stemmadb.protocol.model.commit.proposal import Proposal, prepare
from stemmadb.protocol.model.commit.request import Content, Operation, digest_request
from stemmadb.protocol.model.log.commit_record import LocalIdentity
from stemmadb.protocol.model.values.body import encode
from stemmadb.protocol.model.values.ids import Did, EntityId, Local
from stemmadb.protocol.wire.codec.msgpack_codec import encode_content
from stemmadb.server.engine.store import Store

USUAL: Final[Mapping[str, Role]] = {"alice": "own", "bob": "write", "carol": "read"}
SESSION: Final = bytes(16)
"""The space's own key writes once, so that its session needs no chance."""


async def found(store: Store, secret: bytes, roles: Mapping[Did, Role]) -> Did:
    """The space of this key with this access list; one that has it already stays as it is."""
    did = Identity.from_seed(secret).did
    space = await store.space(did, create=True)
    outcome = await space.decide(_first(did, roles))
    assert isinstance(outcome, Accepted | Repeated), f"the access list was refused: {outcome}"
    return did


def _first(did: Did, roles: Mapping[Did, Role]) -> Proposal:
    operation = Operation(op="set", id=EntityId(did), body=encode(dict(roles)), blind=True)
    content = Content(operations=(operation,))
    request = digest_request(SESSION, encode_content(content))
    return prepare(LocalIdentity(did, SESSION, Local(1)), request, content)
