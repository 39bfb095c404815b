"""The cache: the confirmed values of watches, so that an app that starts without a server shows them (CACHE-1..6).

`ledger.CacheLedger` decides what a step of the cache writes, `records` are the steps and the loaded state,
`contents.CacheContents` is the fold of steps, and `equality` says which queries are the same watch.

Pure: no I/O, no clock. Imports the nursery and the protocol; the journal writes the steps, the session drives it.
"""
