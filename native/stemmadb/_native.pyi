"""The C extension: the fast path of commits, and the WAL writer. Its sources are in native/src.

It is optional. Only the fast path of `stemmadb.protocol.model` and the WAL of the server import it (a contract of
import-linter); everyone else asks those two.
"""

from typing import Any, final

# The fast path: the signatures are those of `stemmadb.protocol.model.commit.native.FastPath`.
def bind(names: dict[str, object], /) -> None: ...
def read(*args: Any) -> Any: ...
def decide(*args: Any) -> Any: ...
def frame(*args: Any) -> Any: ...
def rows(*args: Any) -> Any: ...

@final
class WalWriter:
    """A thread that makes one block at a time durable without holding the interpreter lock."""

    def fileno(self) -> int:
        """Readable once the block is durable or has failed."""

    def write(self, file: int, direct: int, block: bytes, at: int, /) -> None:
        """Starts to write a block; `direct` is the same file opened with O_DIRECT and O_DSYNC, or -1."""

    def result(self) -> int | None:
        """0 if the block is durable, else an errno; None while it is being written."""

    def close(self) -> None:
        """Ends the thread, after the block it was given."""
