"""The state that a batch of fast-path commits is decided on (COMMIT-2..6).

A fast-path commit is the next of its session, on main, by a principal that may write every id; it sets, patches or
deletes, and its declared reads are of single ids, through no other commit, and hold. Looking at the heads is then all
it takes.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from stemmadb.protocol.model.log.state import EntityState
from stemmadb.protocol.model.values.ids import BranchName, Did, EntityId, Hash, Local, TimeMs, Version

Key: TypeAlias = tuple[BranchName, EntityId]
Session: TypeAlias = tuple[Did, bytes]


class BatchBase(msgspec.Struct, gc=False):
    """It goes on with each commit that is accepted, and belongs to one batch.

    `heads` are of main and must have all that the batch names, and the access list; `highest` must have its sessions.
    """

    space: Did
    version: Version
    hash: Hash
    time: TimeMs
    heads: dict[Key, EntityState]
    highest: dict[Session, Local]
