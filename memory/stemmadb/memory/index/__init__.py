"""The index of a space's memories: one SQLite file that can be dropped and built again, and the only SQL here.

`index_file` opens it, `rows` turns commits of the log into rows, `feeder` follows the log, `words` turns a query into
an FTS5 expression, `search` ranks. The index finds candidates; the store decides what they are.

Imports the rules and the public client.
"""
