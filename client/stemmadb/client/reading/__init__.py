"""Requests to the server about the past and the structure: queries, history, branches, merges, undo, blobs, access.

`moment` is a branch at a version or a time, `entries` and `queries` are the results an app gets, `pages` fetches long
lists, and each kind of write that the server plans has a module of its own.

Imports `client.asking`, keys, the nursery and the protocol.
"""
