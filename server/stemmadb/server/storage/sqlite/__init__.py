"""The SQLite backend: a file for each space, one connection that writes it, read-only ones that read."""

from stemmadb.server.storage.sqlite.connection import sqlite_version
from stemmadb.server.storage.sqlite.log import SqliteLog
from stemmadb.server.storage.sqlite.storage import SqliteStorage

__all__ = ["SqliteLog", "SqliteStorage", "sqlite_version"]
