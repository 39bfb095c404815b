"""The engine: the writer and the readers of spaces, on any storage.

`store` opens and closes spaces, and `space` is everything that can be asked of one. Below them: `plan` (merges, undo,
erasure), `read`, `write` (the single writer), `blobs` and `base`.

Imports the storage port and the protocol; it knows no storage backend.
"""
