"""Mistakes of ours in feeds and watches: reported to the loop, and told as `internal` with the same reference."""

from __future__ import annotations

import asyncio

from stemmadb.protocol.errors import Internal
from stemmadb.protocol.model.ids import Version


def internal(mistake: Exception, version: Version) -> Internal:
    """What is told where we made a mistake, which is reported."""
    reference = f"watch at version {version}"
    report(f"evaluating a watch failed ({reference})", mistake)
    return Internal(reference=reference)


def report(message: str, mistake: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": mistake})
