"""Who asks, and what is asked: the rights at the time of asking, and an open space with what belongs to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from stemmadb.protocol.errors import Forbidden
from stemmadb.protocol.model.access import Rights
from stemmadb.protocol.model.delegation import Lent
from stemmadb.protocol.model.ids import Did, TimeMs
from stemmadb.server.engine.blobs import Blobs
from stemmadb.server.engine.merges import KnownMerges
from stemmadb.server.engine.paging import MayRead, anything
from stemmadb.server.engine.reader import Reader
from stemmadb.server.engine.space import Space

EVERY_PREFIX = ""


@dataclass(frozen=True, slots=True)
class Desk:
    """One for each open space, shared by its sessions; `merges` are those read so far."""

    space: Space
    blobs: Blobs
    merges: KnownMerges
    now: Callable[[], TimeMs]


class Asker(msgspec.Struct, frozen=True):
    """A principal in a session, with what it may do now: by the access list at the head, narrowed (ACL-2)."""

    principal: Did
    session: bytes
    rights: Rights
    lent: tuple[Lent, ...] = ()
    """The delegations it shows, by which its writes are judged when they are decided."""

    @property
    def is_narrow(self) -> bool:
        """Whether there are ids that its role does not hold for."""
        return EVERY_PREFIX not in self.rights.prefixes

    @property
    def may_read(self) -> MayRead:
        """`anything` itself for one who may read everything, by which the engine knows that nothing is cut."""
        return self.rights.may_read if self.is_narrow or not self.rights.has("read") else anything


def check_reads(asker: Asker) -> None:
    """Reading of any kind, of any version, needs the role `read` at the head (ACL-2)."""
    if not asker.rights.has("read"):
        raise Forbidden(action="read", needs="read")


def reader_for(asker: Asker, desk: Desk) -> Reader:
    """The space as the asker may see it; `Forbidden` for one who may see nothing."""
    check_reads(asker)
    return Reader(desk.space, may_read=asker.may_read)
