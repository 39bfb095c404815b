"""What a node may conclude from the renewals of its row (STORE-8). Pure: times are those of its own monotonic clock.

      renewal sent          answered                 two thirds of a lease        row may end
           |--------------------|----------------------------|-------------------------|
           <------------- it may answer from memory -------->

By the database's clock the row ends later than that, because the database got the renewal after it was sent. So no
other node can have claimed a space whose owner still answers for it.
"""

from __future__ import annotations

from stemmadb.server.storage.postgres.connection import ServerMark


class Lease:
    """Of one node, over all its lives."""

    def __init__(self, lease_ms: int) -> None:
        self.lease_ms = lease_ms
        self.number = 0
        """Of this life."""
        self.mark = ServerMark("", "")
        """The server of the last renewal."""
        self.renewed_at = 0.0
        """When the last renewal that succeeded was sent."""
        self._mark_since = 0.0
        self._has_died = False

    def began(self, number: int, mark: ServerMark, sent: float, now: float) -> None:
        """A row was inserted."""
        self.number = number
        self._saw(mark, sent, now)

    def renewed(self, mark: ServerMark, sent: float, now: float) -> bool:
        """The row was there. Whether the node has to begin anew: another server may have lost what it remembers."""
        is_another = mark != self.mark
        if is_another:
            self._has_died = True
        self._saw(mark, sent, now)
        return is_another

    def ended(self) -> None:
        """A renewal found no row."""
        self._has_died = True

    def begins_anew(self) -> None:
        """Whatever was served before has ended."""
        self._has_died = False

    def is_alive(self, now: float) -> bool:
        """Whether the node may answer from memory: for two thirds of a lease."""
        return not self._has_died and now < self.renewed_at + self.lease_ms * 2 / 3_000

    def may_expire_others(self, now: float) -> bool:
        """Only after a lease with one server: no restart and no promoted server's clock ends a node early."""
        return self.is_alive(now) and now >= self._mark_since + self.lease_ms / 1_000

    def _saw(self, mark: ServerMark, sent: float, now: float) -> None:
        if mark != self.mark:
            self.mark, self._mark_since = mark, now
        self.renewed_at = sent
