"""Exit codes: what a script learns without reading a word."""

from __future__ import annotations

from typing import Final

from stemmadb.protocol.errors import (
    BadInput,
    Compacted,
    DirectoryHeld,
    Erased,
    FutureVersion,
    JournalFailed,
    MergeConflict,
    NewerStorage,
    NotFound,
    StemmaError,
    UnknownBlob,
    UnknownBranch,
    UnknownSpace,
    UnknownTag,
    Unready,
)

DONE: Final = 0
NO: Final = 1
"""The answer is no: what was named is not there, verify found a break, a merge has conflicts."""
WRONG_USE: Final = 2
UNREACHABLE: Final = 3
"""It cannot be reached or opened."""
REFUSED: Final = 4
INTERNAL_ERROR: Final = 70
INTERRUPTED: Final = 130

NOT_THERE: Final = (NotFound, UnknownSpace, UnknownBranch, UnknownTag, UnknownBlob, FutureVersion, Compacted, Erased)


def code_of(error: StemmaError) -> int:
    """The exit code of a command that ended with this error."""
    if isinstance(error, (*NOT_THERE, MergeConflict)):
        return NO
    if isinstance(error, BadInput):
        return WRONG_USE
    if isinstance(error, Unready | DirectoryHeld | NewerStorage | JournalFailed):
        return UNREACHABLE
    return REFUSED
