"""How much of one peer is handled before others have their turn: a flood of tiny frames must delay nobody else."""

from __future__ import annotations

from typing import Final

READ_BYTES_MIN: Final = 256
"""A peer whose frames are tiny is read in pieces of this size: some 40 frames at most."""
READ_BYTES_MAX: Final = 64 * 1024
TINY_FRAME_BYTES: Final = 64
"""A read whose frames are smaller than this on average makes the next one as small as it can be."""
FEW_FRAMES: Final = 16
FRAMES_MAX: Final = 64
BYTES_MAX: Final = 256 * 1024
"""After so many frames, or bytes, the peer waits until the next turn of the event loop."""


class ReadShare:
    """Of one connection: how much to read at once, and when it has had enough for this turn."""

    __slots__ = ("_bytes", "_frames", "frames", "size")

    def __init__(self) -> None:
        self.size = READ_BYTES_MIN
        """How many bytes to read next."""
        self.frames = 0
        """Frames of this read so far; the connection counts them."""
        self._frames = self._bytes = 0

    def end_read(self, nbytes: int) -> bool:
        """The frames of a read were handled; True if the others come first now."""
        frames, self.frames = self.frames, 0
        if frames > FEW_FRAMES and frames * TINY_FRAME_BYTES > nbytes:
            self.size = READ_BYTES_MIN
        elif nbytes >= self.size:
            self.size = min(2 * self.size, READ_BYTES_MAX)
        self._frames += frames
        self._bytes += nbytes
        if self._frames < FRAMES_MAX and self._bytes < BYTES_MAX:
            return False
        self._frames = self._bytes = 0
        return True
