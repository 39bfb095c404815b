"""The group WAL: one write-ahead log for all spaces of a data directory, so that one sync makes many batches durable.

`GroupWal` collects batches into blocks, `writer` writes and syncs a block off the event loop, `checkpointer` applies
what is durable to each space's own file, `segments` are the files, and `apply` also recovers what a killed process
left behind.

Imports the modules of `storage.sqlite` that write rows, and the C extension's WAL writer.
"""
