"""A cursor covers the hash of each version that it pins: no list goes on in another history (QUERY-6).

After a restore, or a promotion of a standby that lost something, a version may be there again with another commit.
What covers a cursor stands before it. It is neither secret nor signed, like the cursor itself.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Collection
from typing import Final

from blake3 import blake3

from stemmadb.protocol.model.values.ids import Version
from stemmadb.server.service.base import cursors
from stemmadb.server.storage.port import LogReader

COVER_BYTES: Final = 8


def cover_of(log: LogReader, pinned: Collection[Version]) -> bytes | None:
    """What covers these versions of this log; None if one of them is not there."""
    versions = [version for version in pinned if version > 0]
    found = log.hashes(versions)
    if any(version not in found for version in versions):
        return None
    return blake3(b"".join(found[version] for version in versions)).digest(COVER_BYTES)


def covered(log: LogReader, cursor: str) -> str:
    """A cursor that was just written, as a client gets it."""
    cover = cover_of(log, cursors.pinned_by(cursor))
    assert cover is not None, "a page shows versions that are there"
    return base64.urlsafe_b64encode(cover + base64.urlsafe_b64decode(cursor)).decode()


def uncovered(log: LogReader, text: str) -> str:
    """The cursor in what a client gave back; `Malformed` if this log has another history."""
    try:
        whole = base64.b64decode(text, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise cursors.malformed() from None
    cursor = base64.urlsafe_b64encode(whole[COVER_BYTES:]).decode()
    if base64.urlsafe_b64encode(whole).decode() != text or (
        cover_of(log, cursors.pinned_by(cursor)) != whole[:COVER_BYTES]
    ):
        raise cursors.malformed()
    return cursor
