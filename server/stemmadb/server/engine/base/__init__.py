"""What every part of the engine uses: settings, executors, the open log, moments, states and pages.

`executors` says where blocking work runs, `OpenLog` owns the log of a space, `moments` turns a branch and a version
or a time into spans of the log, `states` folds entities from them, and `head_cache` bounds what stays in memory.

Imports the storage port and the protocol.
"""
