"""Commits on their way to the server: sent in order, each once on a connection, again where they were deferred."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from stemmadb.client.nursery.entities import CommitName
from stemmadb.client.nursery.pending import Pending
from stemmadb.protocol.errors import StemmaError
from stemmadb.protocol.wire.connection.client_side import ClientConnection
from stemmadb.protocol.wire.messages.commit import CommitMessage


class Outgoing:
    """The queue of one session. It holds only what the journal has, and sends while there is room (NURSERY-5)."""

    def __init__(
        self, *, find: Callable[[CommitName], Pending | None], refuse: Callable[[Pending, StemmaError], None]
    ) -> None:
        self._find = find
        """The commit of a name, while it is pending."""
        self._refuse = refuse
        self.ready: deque[Pending] = deque()
        """What waits to be sent."""
        self._deferred: dict[CommitName, Pending] = {}
        self.sent: dict[CommitName, Pending] = {}
        """What was sent on this connection and the server has not decided, even if it was rejected here meanwhile."""
        self.is_paused = False
        """While the server asked to wait, nothing is sent: later ones would only be deferred as well (COMMIT-10)."""
        self._is_full = False

    def add(self, pending: Pending) -> None:
        self.ready.append(pending)

    def start_over(self, every: Iterable[Pending]) -> None:
        """A connection has opened: all of these are sent again, in order (RESUME-2)."""
        self.ready = deque(every)
        self.sent.clear()
        self._deferred.clear()
        self.is_paused = self._is_full = False

    def drained(self) -> None:
        """What was handed to the connection is sent: there is room for more."""
        self._is_full = False

    def flush(self, connection: ClientConnection, send: Callable[[bytes | str], bool], *, session: bytes) -> None:
        """Sends what is ready until `send` says that there is no more room; then not before it is `drained`."""
        while self.ready and not self._is_full and not self.is_paused and connection.may_commit:
            pending = self.ready[0]
            name = pending.name
            if pending.depends_elsewhere.runs and self._waits(pending):
                return
            self.ready.popleft()
            if name not in self.sent and self._find(name) is None:
                continue  # rejected because of one before it
            older = None if name.session == session else name.session
            message = CommitMessage(local=name.local, nonce=pending.nonce, content=pending.content, session=older)
            try:
                data = connection.commit(message)
            except StemmaError as error:  # the server takes less than it did when this was made
                self._refuse(pending, error)
                continue
            self.sent[name] = pending
            self._is_full = not send(data)

    def _waits(self, pending: Pending) -> bool:
        """Whether it builds on an undecided commit of another session: were that one deferred, this one would be
        refused, since a server keeps the order only within a session (COMMIT-10)."""
        return any(self._find(below) is not None for below in pending.depends_elsewhere)

    def defer(self, name: CommitName) -> bool:
        """It was not decided now; whether it was sent on this connection and is to be sent again.

        One that was rejected here is sent again as well: until then the server takes none of the later ones.
        """
        pending = self.sent.get(name)
        if pending is None:
            return False
        self._deferred[name] = pending
        self.is_paused = True
        return True

    def resume(self) -> None:
        """The wait is over: what was deferred is sent again, in the order in which it was sent, before the rest."""
        again = [pending for name, pending in self.sent.items() if name in self._deferred]
        self.ready.extendleft(reversed(again))
        self._deferred.clear()
        self.is_paused = False

    def settled(self, names: Iterable[CommitName]) -> None:
        """They are decided, or were never sent."""
        for name in names:
            self.sent.pop(name, None)
            self._deferred.pop(name, None)

    def __len__(self) -> int:
        """How many wait to be sent."""
        return len(self.ready) + len(self._deferred)
