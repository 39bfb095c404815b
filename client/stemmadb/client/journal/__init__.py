"""The journal: pending and rejected commits on disk, so that they survive a restart of the app (NURSERY-5).

`port` says what a journal promises, `disk` is the one on disk with `database` as its open file, `memory` has those
without a disk, `writer` is the thread that writes, and `problems` are the errors that an app sees.

Imports the nursery and the protocol.
"""
