"""The commands that work on a data directory; the `stemmadb` command finds them by their entry points.

`serving` starts a server, `backups`, `verifying`, `streams` and `removing` run maintenance, and `shared` has the
options and the exit codes that they have in common.

Imports the process, maintenance, the engine and the storage.
"""
