"""What an app can show its user: is it connected, is anything waiting, what was refused."""

from __future__ import annotations

from dataclasses import dataclass

from stemmadb.client.cache.records import AsOf
from stemmadb.client.notes import Note, read_note
from stemmadb.client.nursery.pending import Pending
from stemmadb.client.session.cache import CacheStatus
from stemmadb.client.session.handle import Handle
from stemmadb.client.session.link import LinkState
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.model.values.ids import BranchName, Version
from stemmadb.protocol.wire.codec.msgpack_codec import read_content


@dataclass(frozen=True, slots=True)
class SpaceStatus:
    """How a space stands now.

    status = space.status()
    print(status.connection, status.pending, status.oldest_pending_seconds)
    """

    connection: LinkState
    """`connecting`, `open`, `offline` (it tries again), `refused` (the server will not have us) or `closed`."""
    error: StemmaError | None
    """Why it is not open."""
    local_head: Version
    """Everything watched is true at this version."""
    server_head: Version
    """The highest version that the server has announced."""
    pending: int
    """Commits that are not decided."""
    pending_bytes: int
    oldest_pending_seconds: float | None
    """How long the oldest of them has waited."""
    rejected: int
    """Rejected commits that were neither retried nor dropped."""
    lost: int
    """Confirmed commits that a restored server no longer has."""
    cache: CacheStatus = "off"
    """`off`, `on`, or `full`: the disk had no room, and the cache is off until the app starts again."""
    as_of: AsOf | None = None
    """While it is not connected: the version that is shown, and when the client heard of it."""


class PendingCommit:
    """An own commit that is not decided yet."""

    def __init__(self, pending: Pending, handle: Handle, *, age_seconds: float) -> None:
        self._pending = pending
        self._handle = handle
        self.age_seconds = age_seconds
        """How long it has waited."""

    @property
    def branch(self) -> BranchName:
        return self._pending.branch

    @property
    def ids(self) -> tuple[str, ...]:
        """The entities it writes."""
        return tuple(self._pending.by_id)

    @property
    def is_journaled(self) -> bool:
        """Whether the journal has it."""
        return self._handle.is_journaled

    @property
    def applies(self) -> bool:
        """False while it is left out of the view: it does not apply to what has come from others (NURSERY-1)."""
        return self._pending.is_shown

    @property
    def note(self) -> Note:
        return read_note(read_content(self._pending.content).note)

    async def confirmed(self) -> Version:
        """Its version, once it is durable on the server; raises what it was refused with."""
        return await self._handle.confirmed()

    def __repr__(self) -> str:
        return f"PendingCommit({', '.join(self.ids)}, for {self.age_seconds:.1f} s)"
