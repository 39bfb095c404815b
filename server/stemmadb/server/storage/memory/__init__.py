"""The reference backend: a log in memory, by obvious code on lists and dicts."""

from stemmadb.server.storage.memory.storage import MemoryLog, MemoryStorage

__all__ = ["MemoryLog", "MemoryStorage"]
