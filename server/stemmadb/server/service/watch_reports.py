"""What goes wrong in feeds and watches: mistakes of ours are reported, failures of the storage tried again."""

from __future__ import annotations

import asyncio
from typing import Final

from stemmadb.protocol.errors import Internal
from stemmadb.protocol.model.ids import Version

AGAIN_SECONDS: Final = 0.2
"""How long after a failure of the storage it is tried again."""


def internal(mistake: Exception, version: Version) -> Internal:
    """What is told where we made a mistake, which is reported."""
    reference = f"watch at version {version}"
    report(f"evaluating a watch failed ({reference})", mistake)
    return Internal(reference=reference)


def report(message: str, mistake: Exception) -> None:
    asyncio.get_running_loop().call_exception_handler({"message": message, "exception": mistake})
