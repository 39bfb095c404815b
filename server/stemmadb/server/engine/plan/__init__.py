"""Writes the server plans itself: merges, undo, erasure, compaction, branches and tags.

Each is planned on a snapshot of the log, submitted like any other commit, and planned again if another commit
overtook it; `planned_write` is that loop. Open `merge` for the typical case.

Imports `engine.write`, `engine.blobs` and `engine.base`.
"""
