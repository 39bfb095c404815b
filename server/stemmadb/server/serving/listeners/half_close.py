"""Ends our direction of a connection after what was written."""

from __future__ import annotations

import asyncio


def half_close(transport: asyncio.Transport) -> None:
    """Ends our direction after what was written; TLS cannot, and ends both."""
    if transport.can_write_eof():
        transport.write_eof()
    else:
        transport.close()
