"""What can be wrong with a journal, told so that a person knows what to do."""

from __future__ import annotations

from pathlib import Path

from stemmadb.protocol.errors import JournalFailed


def refused(file: Path, why: str) -> JournalFailed:
    """The disk, or SQLite, did not take a step."""
    return JournalFailed(path=str(file), why=why)


def unusable(file: Path, why: str) -> JournalFailed:
    """The file is there and is not what it should be; it stays as it is."""
    message = (
        f"The journal {str(file)!r} cannot be used: {why}. Nothing in it was changed. Put a good copy in its place, "
        "or move it away to begin with an empty journal."
    )
    return JournalFailed(message, path=str(file), why=why)


def reason(error: BaseException) -> str:
    """What an error of the system or of SQLite says, for the middle of a sentence."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error) or type(error).__name__
