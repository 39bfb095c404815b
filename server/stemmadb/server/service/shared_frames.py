"""Frames that many sessions get alike, encoded once for all of them (WATCH-2)."""

from __future__ import annotations

from typing import Final, NamedTuple

from stemmadb.protocol.model.ids import Version
from stemmadb.protocol.wire.codec import Data
from stemmadb.protocol.wire.messages.sync import Sync
from stemmadb.protocol.wire.version import Subprotocol

FRAMES_MAX: Final = 1_024
"""How many are kept of one batch; sessions that start from other versions each need their own."""


class Key(NamedTuple):
    """What such a frame depends on: which group has news; `watch` is the client's number if it is named, else 0."""

    subprotocol: Subprotocol
    from_: Version
    to: Version
    group: object
    watch: int


class Encoded(NamedTuple):
    frame: Sync
    data: Data


class SharedFrames:
    """Of one space; forgotten with the next batch."""

    def __init__(self) -> None:
        self._encoded: dict[Key, Encoded] = {}

    @property
    def is_empty(self) -> bool:
        return not self._encoded

    def find(self, key: Key) -> Encoded | None:
        return self._encoded.get(key)

    def keep(self, key: Key, encoded: Encoded) -> None:
        if len(self._encoded) < FRAMES_MAX:
            self._encoded[key] = encoded

    def clear(self) -> None:
        self._encoded.clear()
