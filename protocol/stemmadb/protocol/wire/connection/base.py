"""What both ends of a connection share: its states, how it ends, and the frames of its one stream (SYNC-1).

The connection is sans-I/O: it is given the messages that arrived and gives those to send. Sockets, clocks and keys
are the caller's. What the peer does wrong becomes an event; what our own side does wrong fails an assertion.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from stemmadb.protocol.errors import Malformed, OutOfOrder, StemmaError
from stemmadb.protocol.model.values.ids import Hash, Version
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.messages.sync import Sync, joined
from stemmadb.protocol.wire.version import MSGPACK, Subprotocol

UNANSWERED_MAX: Final = 1_000
"""Requests of one connection that wait for an answer at the same time."""
FRAME_BYTES_MAX: Final = 1024 * 1024 * 1024
"""What the parts of one frame may add up to in a client's memory."""


class ConnectionState(Enum):
    """A connection goes through these in order, and may be closed from each."""

    NEW = "new"
    GREETED = "greeted"
    OPEN = "open"
    CLOSED = "closed"


class Closed(msgspec.Struct, frozen=True, kw_only=True):
    """The last event: why the connection is over, the WebSocket close code, and what is sent before it."""

    error: StemmaError
    close_code: int
    farewell: Data | None = None
    retry_after_ms: int | None = None


_CLOSE_CODES: Final = {
    "going_away": 1001,
    "malformed": 1002,
    "unknown_message": 1002,
    "out_of_order": 1002,
    "limit_exceeded": 1009,
    "unauthenticated": 1008,
    "forbidden": 1008,
    "invalid_did": 1008,
    "invalid_delegation": 1008,
    "unknown_space": 1008,
    "rate_limited": 1013,
    "unavailable": 1013,
    "storage_full": 1013,
    "merge_busy": 1013,
    "timed_out": 1013,
    "internal": 1011,
    "unsupported_protocol": 4000,
    "taken_over": 4001,
}


def close_code(error: StemmaError) -> int:
    """The WebSocket close code that goes with an error; 1002 (protocol error) for what has none of its own."""
    return _CLOSE_CODES.get(error.code, 1002)


def check_kind(data: Data, subprotocol: Subprotocol) -> None:
    """`Malformed` for text where messages are binary, and the other way round."""
    if isinstance(data, bytes) is not (subprotocol == MSGPACK):
        wanted = "binary" if subprotocol == MSGPACK else "text"
        raise Malformed(path="(message)", why=f"messages of {subprotocol} are {wanted}")


class FrameOrder:
    """The order of sync frames, as either end keeps it: no gap, no repeat, nothing going back (SYNC-1)."""

    def __init__(self) -> None:
        self.to = Version(0)
        self.hash: Hash | None = None
        self.carries_commits = True
        """Whether both ends know to share one history: a client that holds something waits for its first frame.

        That frame may say that the history is another one; a commit sent before would be judged by versions of a
        history that the client never saw (RESUME-4).
        """
        self._begun: tuple[object, ...] | None = None

    def start(self, to: Version, hash_: Hash | None) -> None:
        """The stream goes on from what the client holds; who holds nothing has no hash to agree on."""
        self.to, self.hash = to, hash_ if to else None
        self.carries_commits = not to

    def goes_on(self, from_: Version, to: Version, hash_: Hash) -> bool:
        """Whether a whole frame goes on from the last one, as nearly all do: then the stream has advanced."""
        if self._begun is not None or not from_ == self.to < to:
            return False
        self.carries_commits = True
        self.to, self.hash = to, hash_
        return True

    def advance(self, part: Sync) -> bool:
        """Whether this part completes its frame; `OutOfOrder` if it does not continue the stream."""
        if not part.more and part.reset is None and self.goes_on(part.from_, part.to, part.hash):
            return True
        if why := self._offence(part) if self._begun is None else self._stranger(part):
            raise OutOfOrder(type="sync", why=why)
        if part.more:
            self._begun = _head(part)
            return False
        self._begun, self.carries_commits = None, True
        self.to, self.hash = part.to, part.hash
        return True

    def _stranger(self, part: Sync) -> str | None:
        return None if _head(part) == self._begun else "it is not a part of the frame that was begun"

    def _offence(self, part: Sync) -> str | None:
        if part.to < part.from_:
            return f"it goes back from {part.from_} to {part.to}"
        if part.reset is not None:
            return None if part.from_ == 0 else "a frame that starts over begins at 0"
        if part.from_ != self.to:
            return f"it begins at {part.from_}, and the one before ended at {self.to}"
        if part.to == part.from_ and self.hash not in (None, part.hash):
            return f"it gives version {part.to} another hash"
        return None


def _head(part: Sync) -> tuple[object, ...]:
    """What all parts of a frame have alike."""
    return (part.from_, part.to, part.hash, part.reset)


class Frames(FrameOrder):
    """The stream with the parts of a frame put together, as a client needs it."""

    def __init__(self, bytes_max: int = FRAME_BYTES_MAX) -> None:
        super().__init__()
        self._parts: list[Sync] = []
        self._bytes = 0
        self._bytes_max = bytes_max

    def take(self, part: Sync, size: int = 0) -> Sync | None:
        """The whole frame once its last part is there."""
        self._bytes += size
        if self._bytes > self._bytes_max:
            raise OutOfOrder(type="sync", why=f"its parts have more than {self._bytes_max} bytes together")
        complete = self.advance(part)
        self._parts.append(part)
        if not complete:
            return None
        parts, self._parts, self._bytes = self._parts, [], 0
        return joined(parts)
