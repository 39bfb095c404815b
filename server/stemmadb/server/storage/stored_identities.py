"""Under which session, and as what, an identity is stored."""

from __future__ import annotations

from typing import Final

from stemmadb.protocol.model.log.commit_record import Identity, LocalIdentity

NO_SESSION: Final = b""
"""The session of writes that carry an operation id."""


def session_of(identity: Identity) -> tuple[str, bytes]:
    """The key of the session under which an identity is filed."""
    if isinstance(identity, LocalIdentity):
        return identity.principal, identity.session
    return identity.principal, NO_SESSION


def number_in_session(identity: Identity) -> int | bytes:
    return identity.local if isinstance(identity, LocalIdentity) else identity.operation
