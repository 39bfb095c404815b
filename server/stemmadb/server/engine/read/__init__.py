"""Reads at any moment: entities, lists, queries, history, the log, differences and blame.

`Reader` offers them all; each runs in an executor on one read view of the log. `batched_reads` answers waiting
questions together, and `past_states` caches states that cannot change any more.

Imports `engine.base`.
"""
