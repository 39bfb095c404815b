"""Blobs: uploaded in chunks, stored once under their hash, verified when written and when read (BLOB-1, BLOB-2).

`Blobs` is the interface of a space, `uploads` holds what is not complete yet, `blob_files` stores the large ones.

Imports `engine.base` and the storage port.
"""
