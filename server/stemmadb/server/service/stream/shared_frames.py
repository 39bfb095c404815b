"""Frames that are equal for many sessions, encoded once for all of them (WATCH-2)."""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from stemmadb.protocol.model.values.ids import Version
from stemmadb.protocol.wire.codec.msgpack_codec import Data
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import Subprotocol
from stemmadb.server.service.watch.watch_groups import WatchGroup

FRAMES_MAX: Final = 1_024
"""How many are kept of one batch; sessions that start from other versions each need their own."""
Key: TypeAlias = tuple[Subprotocol, Version, Version, WatchGroup]
"""What such a frame depends on: from where to where it goes, and which group has news."""


class EncodedFrame(NamedTuple):
    """A frame with its bytes; `watch` is the client's number for the watch if the frame names it, else 0."""

    frame: Sync
    data: Data
    watch: int


class SharedFrames:
    """Of one space; forgotten with the next batch."""

    def __init__(self) -> None:
        self.encoded: dict[Key, EncodedFrame] = {}
        """Those that name no watch, or that of the session that got it first."""
        self._named: dict[tuple[Key, int], EncodedFrame] = {}

    def find(self, key: Key, watch: int) -> EncodedFrame | None:
        """The frame for a session that gave this number to its watch."""
        found = self.encoded.get(key)
        if found is None or found.watch in (0, watch):
            return found
        return self._named.get((key, watch))

    def keep(self, key: Key, encoded: EncodedFrame) -> None:
        if key not in self.encoded and len(self.encoded) < FRAMES_MAX:
            self.encoded[key] = encoded
        elif len(self._named) < FRAMES_MAX:
            self._named[key, encoded.watch] = encoded

    def clear(self) -> None:
        self.encoded.clear()
        self._named.clear()
