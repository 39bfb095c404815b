"""The SQLite backend: a file for each space, one connection that writes it, read-only ones that read.

`storage` and `log` implement the port, `schema` has the tables, `append` and `fast_path_append` write batches,
`read` reads, and `wal` is the group WAL that makes batches of all spaces durable with one sync.

Imports the storage port and the protocol.
"""

from stemmadb.server.storage.sqlite.connection import sqlite_version
from stemmadb.server.storage.sqlite.log import SqliteLog
from stemmadb.server.storage.sqlite.storage import SqliteStorage

__all__ = ["SqliteLog", "SqliteStorage", "sqlite_version"]
