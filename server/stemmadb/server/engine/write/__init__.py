"""The single writer of a space: gathers what a batch needs, decides it, appends it, reports the outcome.

`Writer` runs the loop, `queue` holds what waits, `needs` and `gather` collect what memory lacks, `decider` calls
admission, `WriterState` is the state after the last decided batch, and `in_flight` the write that is under way.

Imports `engine.blobs` (to scrub) and `engine.base`.
"""
