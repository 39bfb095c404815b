"""Errors in feeds and watches: internal errors are reported, failures of the storage are tried again."""

from __future__ import annotations

import asyncio
from typing import Final

from stemmadb.protocol.errors import Internal
from stemmadb.protocol.model.values.ids import Version

AGAIN_SECONDS: Final = 0.2
"""How long after a failure of the storage it is tried again."""


def internal(error: Exception, version: Version) -> Internal:
    """Reports an internal error; returns the error that clients get."""
    reference = f"watch at version {version}"
    report(f"evaluating a watch failed ({reference})", error)
    return Internal(reference=reference)


def report(message: str, error: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": error})
