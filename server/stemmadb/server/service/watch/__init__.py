"""Watches, evaluated once for all sessions that share a query (WATCH-1, WATCH-2).

`Feed` keeps the last durable batches, `WatchGroup` holds one evaluation and its journal, `step` moves groups from
batch to batch, and `watch_index` finds the groups a change concerns.

Imports `service.base` and the engine's reads.
"""
