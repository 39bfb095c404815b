"""The PostgreSQL backend: all spaces in one database, which several nodes share.

`storage` and `log` implement the port, `schema` has the tables, `appender` collects batches of all spaces for one
statement, `claims` and `node` say who owns a space, `read_view` and `reader` read.

Imports the storage port and the protocol. Needs psycopg: `pip install 'stemmadb[postgres]'`.
"""

from stemmadb.server.storage.postgres.log import PostgresLog
from stemmadb.server.storage.postgres.storage import PostgresStorage

__all__ = ["PostgresLog", "PostgresStorage"]
