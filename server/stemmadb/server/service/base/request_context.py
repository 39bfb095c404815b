"""The context of a request: its caller with current rights, and the open space with what belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from stemmadb.protocol.errors import Forbidden
from stemmadb.protocol.model.access.access_roles import Rights
from stemmadb.protocol.model.access.delegation import DelegatedRights
from stemmadb.protocol.model.values.ids import Did, TimeMs
from stemmadb.server.engine.base.paging import MayRead, anything
from stemmadb.server.engine.blobs.blobs import BlobStore
from stemmadb.server.engine.plan.known_merges import KnownMerges
from stemmadb.server.engine.read.reader import Reader
from stemmadb.server.engine.space import OpenSpace
from stemmadb.server.service.base.turns import Turns

EVERY_PREFIX = ""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One for each open space, shared by its sessions; `merges` are those read so far."""

    space: OpenSpace
    blobs: BlobStore
    merges: KnownMerges
    now: Callable[[], TimeMs]
    previews: Turns = field(default_factory=Turns)
    """Dry runs of merges and reverts: one at a time of each principal."""


class Caller(msgspec.Struct, frozen=True):
    """A principal in a session, with what it may do now: by the access list at the head, narrowed (ACL-2)."""

    principal: Did
    session: bytes
    rights: Rights
    delegated: tuple[DelegatedRights, ...] = ()
    """The delegations it shows, by which its writes are judged when they are decided."""

    @property
    def is_narrow(self) -> bool:
        """Whether its role is limited to some ids."""
        return EVERY_PREFIX not in self.rights.prefixes

    @property
    def may_read(self) -> MayRead:
        """`anything` itself for a caller that may read everything, so that the engine can skip the checks."""
        return self.rights.may_read if self.is_narrow or not self.rights.has("read") else anything


def check_reads(caller: Caller) -> None:
    """Reading of any kind, of any version, needs the role `read` at the head (ACL-2)."""
    if not caller.rights.has("read"):
        raise Forbidden(action="read", needs="read")


def reader_for(caller: Caller, context: RequestContext) -> Reader:
    """The space as the caller may see it; `Forbidden` if it may see nothing."""
    check_reads(caller)
    return Reader(context.space, may_read=caller.may_read)
