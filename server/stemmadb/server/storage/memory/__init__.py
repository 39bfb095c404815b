"""The reference backend: a log in memory, by obvious code on lists and dicts.

`storage` implements the port, `contents` holds the rows, and `reader` is a read view of them. Several stores can
share one log, as several nodes would.

Imports the storage port and the protocol.
"""

from stemmadb.server.storage.memory.storage import MemoryLog, MemoryStorage

__all__ = ["MemoryLog", "MemoryStorage"]
