"""What happened in a run, in order: two runs with the same seed have the same hash."""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable
from typing import Final

from stemmadb.protocol.wire.codec.msgpack_codec import Data

LINES_MAX: Final = 200
"""The last lines, which are kept to be read; the hash is over all."""
DIGEST_BYTES: Final = 6


class EventTrace:
    """Notes with their moment. The hash says whether two runs were the same, the lines where they parted."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=LINES_MAX)
        self.count = 0
        self._hash = hashlib.sha256()
        self._now: Callable[[], float] = float

    def attach(self, now: Callable[[], float]) -> None:
        """The moments are read from this clock from now on."""
        self._now = now

    def note(self, *words: object) -> None:
        line = f"{self._now():.6f} {' '.join(str(word) for word in words)}"
        self.lines.append(line)
        self.count += 1
        self._hash.update(line.encode() + b"\n")

    def hash(self) -> str:
        """Of all that was noted so far."""
        return self._hash.hexdigest()

    def __str__(self) -> str:
        return "\n".join(self.lines)


def digest(data: Data) -> str:
    """A message, short enough for a line."""
    raw = data.encode() if isinstance(data, str) else data
    return f"{len(raw)}:{hashlib.blake2b(raw, digest_size=DIGEST_BYTES).hexdigest()}"
