"""The states of a session that watches, and what moves it from one to the next (SYNC-1, SYNC-6, WATCH-2).

    BEHIND   -> CURRENT   it was sent a frame without a verdict, all its watches are filled, and it waits for nothing
    CURRENT  -> BEHIND    it has something of its own to send: a verdict, an answer, a watch, a frame that is due
    CURRENT  -> STALLED   more than `DRAIN_BYTES` are unsent
    BEHIND   -> STALLED   more than `unsent_bytes_max` are unsent
    STALLED  -> BEHIND    its client has drained: one frame takes it from its version to now

What is true of one watch (joining, filling, filled, catching up) is in `session_watch`; what is true of the answer
that watches share (synced, behind, stalled, idle) is in `service.watch.step`.
"""

from __future__ import annotations

import enum


class WatcherState(enum.Enum):
    CURRENT = "its broadcast group sends it the frames of its watches; the group holds its version"
    BEHIND = "frames are built for it alone, until it has caught up"
    STALLED = "its client does not read, and nothing is built for it"
